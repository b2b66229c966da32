"""Random trees of Python objects and tensors, for tests that copy them."""

import collections

import numpy as np
import torch
from copying_classes import (
    Annotated,
    Block,
    ByItsOwn,
    Color,
    DictWithName,
    FrozenRecord,
    ListWithName,
    Node,
    Point,
    Rebuilt,
    Record,
    Scale,
    Slots,
    SlottedRecord,
    WithArguments,
    WithState,
    Witness,
    a_function,
)
from hypothesis import strategies as st
from torch import nn

# --- tensors --------------------------------------------------------------------------------------------------

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.complex64)
DTYPES = (*FLOATS, torch.int64, torch.uint8, torch.bool)
_SMALL, _LARGE = 24, 24 * 350  # elements; so many are copied in another way
_SIZES = (_SMALL, _SMALL, _SMALL, _SMALL, _LARGE)
_OTHER_VIEW = {torch.float32: torch.int32, torch.float64: torch.float32, torch.int64: torch.int16}

_VIEWS = {
    "whole": lambda b: b.view(-1),
    "head": lambda b: b[:6],
    "most": lambda b: b[: len(b) // 3 * 2],
    "middle": lambda b: b[7:13],
    "tail": lambda b: b[-5:],
    "with steps": lambda b: b[1::3],
    "matrix": lambda b: b.view(4, -1),
    "transposed": lambda b: b.view(4, -1).t(),
    "block": lambda b: b.view(4, -1)[1:3, 2:5],
    "permuted": lambda b: b.view(2, 3, -1).permute(2, 0, 1),
    "expanded": lambda b: b[3:5, None].expand(2, 3),
    "one element many times": lambda b: b[5].expand(4),
    "rows many times": lambda b: b.view(4, -1)[::2, None].expand(2, 2, -1),
    "windows": lambda b: b.unfold(0, 4, 2),
    "scalar": lambda b: b[2],
    "empty": lambda b: b[4:4],
    "as another dtype": lambda b: b.view(_OTHER_VIEW.get(b.dtype, b.dtype)),
    "a part as another dtype": lambda b: b[8:12].view(_OTHER_VIEW.get(b.dtype, b.dtype)),
    "conjugated": lambda b: b.view(4, -1).conj(),
    "negated": lambda b: b.conj().imag if b.is_complex() else b,
}


def _new_storage(number, dtype, size, *, borrowed):
    """Values that few other storages of the tree have, exact in every dtype. Borrowed memory is NumPy's."""
    values = torch.arange(size) % _SMALL
    values = values % (number + 2) == 0 if dtype is torch.bool else (values + (1 + number * _SMALL)).to(dtype)
    return torch.from_numpy(values.numpy().copy()) if borrowed and dtype is not torch.bfloat16 else values


def _as_role(view, role):
    """A tensor on `view`'s storage that plays `role`; the view itself where its dtype cannot."""
    if role == "subclass":
        return view.as_subclass(Annotated)
    if not (view.is_floating_point() or view.is_complex()):
        return view
    match role:
        case "leaf":
            return view.detach().requires_grad_()
        case "parameter":
            return nn.Parameter(view.detach())
        case "frozen parameter":
            return nn.Parameter(view.detach(), requires_grad=False)
        case "own parameter":
            return Scale(view.detach())
        case "non-leaf view":
            leaf = view.detach().requires_grad_()
            return leaf.view(leaf.shape)
        case "result":
            return view.detach().requires_grad_() * 1
        case "result of a subclass":
            return (view.detach().requires_grad_() * 1).as_subclass(Annotated)
    return view


DEEPCOPY_ROLES = ("plain", "plain", "leaf", "parameter", "frozen parameter", "own parameter")
"""What `copy.deepcopy` copies: all leaves, of classes that make new tensors of their own class."""

ROLES = (*DEEPCOPY_ROLES, "subclass", "non-leaf view", "result", "result of a subclass")


# --- trees ----------------------------------------------------------------------------------------------------

_ATOMS = (
    None,
    True,
    7,
    2.5,
    "text",
    b"bytes",
    torch.float16,
    torch.Size([2]),
    Color.RED,
    a_function,
    Node,
    range(3),
)
_HOLDERS = (list, dict, Node, Slots, Witness, Rebuilt, WithState, Record, Block, collections.deque)


@st.composite
def trees(draw, *, roles=ROLES, modules=True, attributes=True):
    """A tree with tensors in it: shared storages, shared references and cycles.

    `roles` are those of tensors; `attributes` says whether tensors may have some.
    """
    return _Grower(draw, roles, modules=modules, attributes=attributes).tree()


class _Grower:
    """Draws one tree. Everything made before can be met again, from anywhere."""

    def __init__(self, draw, roles, *, modules, attributes):
        self.draw, self.roles = draw, roles
        self.kinds = _KINDS if modules else _KINDS[:-2]
        self.made = []
        self.left = draw(st.integers(1, 14))
        self.storages = [
            _new_storage(
                number,
                draw(st.sampled_from(DTYPES)),
                draw(st.sampled_from(_SIZES)),
                borrowed=draw(st.integers(0, 5)) == 5,
            )
            for number in range(draw(st.integers(1, 4)))
        ]
        views = st.tuples(st.sampled_from(self.storages), st.sampled_from(sorted(_VIEWS)))
        self.tensors = [
            _as_role(_VIEWS[view](storage), draw(st.sampled_from(roles)))
            for storage, view in draw(st.lists(views, min_size=1, max_size=7))
        ]
        self.holders = list(self.tensors) if attributes else []
        self.give_gradients(draw(st.sampled_from(["none", "apart", "in one buffer"])))

    def give_gradients(self, how):
        """Gives leaves a gradient: of its own, or a view of one flat buffer a dtype."""
        leaves = [t for t in self.tensors if t.requires_grad and t.is_leaf] if how != "none" else []
        for dtype in {t.dtype for t in leaves}:
            some = [t for t in leaves if t.dtype == dtype]
            buffer = torch.arange(sum(t.numel() for t in some)).remainder(90).to(dtype)
            for t, flat in zip(some, buffer.split([t.numel() for t in some]), strict=True):
                t.grad = flat.view(t.shape) if how == "in one buffer" else flat.view(t.shape).clone()

    def tree(self):
        root = self.node()
        for holder in self.draw(st.lists(st.sampled_from(self.holders), max_size=4)) if self.holders else ():
            self.hang(holder, self.draw(st.sampled_from([root, *self.made, *self.tensors])))
        return root

    def node(self):
        self.left -= 1
        if self.left < 0:
            return self.draw(st.sampled_from([*self.tensors, *_ATOMS]))
        kind = self.draw(st.sampled_from(self.kinds))
        made = kind(self)
        if kind is not _Grower.leaf and type(made) is not tuple:
            self.made.append(made)
        if isinstance(made, _HOLDERS):
            self.holders.append(made)
        return made

    def nodes(self, most=4):
        return [self.node() for _ in range(self.draw(st.integers(0, most)))]

    def leaf(self):
        return self.draw(st.sampled_from([*self.tensors, *self.made, *_ATOMS]))

    def tensor(self):
        return self.draw(st.sampled_from(self.tensors))

    def members(self):
        """What a set can hold, and its copy can be matched with: at most one of a kind."""
        choice = [1, "two", Color.RED, self.tensor(), Node(), (self.tensor(), 3)]
        return self.draw(st.lists(st.sampled_from(choice), max_size=3, unique_by=id))

    def keyed(self):
        keys = self.draw(st.lists(st.sampled_from(["a", "b", 3, (4, 5), self.tensor()]), max_size=3, unique_by=id))
        return [(key, self.node()) for key in keys]

    def many(self):
        """A mapping as long as a state dict: new tensors, new views of known storages, one that is known."""
        new = {f"new.{k}": torch.full((3,), k + 1.0) for k in range(8)}
        views = {f"view.{k}": _VIEWS["middle"](storage) for k, storage in enumerate(self.storages)}
        known = {"known": self.tensor()} if self.draw(st.booleans()) else {}
        return new | views | known

    def slots(self):
        made = Slots()
        made.child, made.extra = self.node(), self.node()
        return made

    def array(self):
        """Numbers, in one order or another."""
        numbers = np.arange(6).reshape(2, 3).astype(self.draw(st.sampled_from(["f4", "i8", "c16"])))
        return self.draw(st.sampled_from([numbers, numbers.T, numbers[:, ::2]]))

    def array_of_objects(self):
        array = np.empty(2, dtype=object)
        array[0], array[1] = self.tensor(), self.draw(st.sampled_from([*self.tensors, *_ATOMS]))
        return array

    def hang(self, holder, target):
        """Makes `holder` refer to `target`, whatever it is: here cycles come from."""
        if isinstance(holder, (list, collections.deque)):
            holder.append(target)
        elif isinstance(holder, dict):
            holder["hung"] = target
        elif isinstance(holder, nn.Module):
            holder.__dict__["hung"] = target  # `setattr` would register a parameter
        elif isinstance(holder, (Slots, Witness, WithState, Rebuilt)):
            holder.child = target
        else:
            holder.hung = target


_KINDS = (
    _Grower.leaf,
    _Grower.tensor,
    _Grower.tensor,
    _Grower.tensor,
    _Grower.nodes,
    _Grower.nodes,
    lambda g: tuple(g.nodes()),
    lambda g: dict(g.keyed()),
    _Grower.many,
    lambda g: set(g.members()),
    lambda g: frozenset(g.members()),
    lambda g: collections.OrderedDict(g.keyed()),
    lambda g: collections.deque(g.nodes(), maxlen=20),
    lambda g: collections.defaultdict(list, g.keyed()),
    lambda g: Point(g.node(), g.node()),
    lambda g: Record(g.node(), g.node()),
    lambda g: FrozenRecord(g.node(), g.node()),
    lambda g: SlottedRecord(g.node(), g.node()),
    lambda g: Node(*g.nodes()),
    _Grower.slots,
    lambda g: ListWithName(g.nodes()),
    lambda g: DictWithName(g.keyed()),
    lambda g: Witness(g.tensor(), g.node()),
    lambda g: Rebuilt(g.tensor(), child=g.node()),
    lambda g: ByItsOwn(g.tensor(), *g.nodes(2)),
    lambda g: WithState(g.node()),
    lambda g: WithArguments(g.tensor(), child=g.node()),
    _Grower.array,
    _Grower.array_of_objects,
    lambda g: nn.ParameterList([t for t in g.tensors if isinstance(t, nn.Parameter)][:2]),
    lambda g: Block(g.tensors[:4], g.node()),
)
