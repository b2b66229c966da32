"""What a copy has to be like: the same shape of objects, and memory of its own. Asserted by writing."""

import collections
import copy
import types
from unittest import mock

import numpy as np
import torch
from copying_classes import Annotated, Color, Scale, element_bytes
from torch import Tensor, nn

from torchcopy import _torch_private
from torchcopy._tensors import span_bytes
from torchcopy.copying.tensors.strides import is_dense

_ATOMS = (
    int,
    float,
    complex,
    str,
    bytes,
    range,
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    type(None),
    torch.dtype,
    torch.Size,
    torch.device,
    Color,
)


class SplitReferenceError(AssertionError):
    """One object has become two."""


# --- objects --------------------------------------------------------------------------------------------------


def deepcopied(tree, share=()):
    """What `copy.deepcopy` makes of a tree, were tensors of all kinds copied with what hangs on them."""
    memo = {id(each): each for each in share}
    rules = dict.fromkeys((Tensor, nn.Parameter, Annotated, Scale), _deepcopied_tensor)
    rules[np.ndarray] = _deepcopied_array
    for each in filter(lambda each: isinstance(each, type), share):
        rules |= {
            kind: lambda x, memo: x for kind in (each, *each.__subclasses__(), *rules) if issubclass(kind, each)
        }
    with mock.patch.dict(copy._deepcopy_dispatch, rules):
        return copy.deepcopy(tree, memo)


def _deepcopied_tensor(t, memo):
    # It keeps itself in the memo before what hangs on it is looked at, as every `__deepcopy__` should.
    new = memo[id(t)] = t.detach().as_subclass(Tensor).clone()
    new.__class__ = type(t)
    new.requires_grad_(t.requires_grad and t.is_leaf)
    new.__dict__ = copy.deepcopy(t.__dict__, memo)
    if t.is_leaf and t.grad is not None:
        new.grad = copy.deepcopy(t.grad, memo)
    return new


def _deepcopied_array(array, memo):
    # Of an array of objects that leads to itself, NumPy's own copy does not end.
    new = memo[id(array)] = array.copy(order="K")
    for index in np.ndindex(array.shape) if array.dtype.hasobject else ():
        new[index] = copy.deepcopy(array[index], memo)
    return new


def matched_tensors(a, b, *, one_to_one=True, attributes=True, gradients=False, shared=(), in_graph=False):
    """The tensors of `a`, each with the one in its place in `b`; the same for NumPy's arrays.

    Asserts on the way that the two are made of objects of the same types, held together in the same way.

    Args:
        a: a tree.
        b: one like it.
        one_to_one: whether what is one object here has to be one object there. It is between a copy and what
            `copy.deepcopy` makes; of an object that leads to itself through arguments of its constructor both make
            two. Tensors are one to one in any case.
        attributes: whether those of tensors are looked at.
        gradients: whether those of tensors are looked at.
        shared: objects and types that have to be in both.
        in_graph: whether `b` is in the graph of `a`: there are no parameters, which are leaves.
    """
    there, back, tensors, arrays = {}, {}, [], []
    types_shared = tuple(each for each in shared if isinstance(each, type))
    todo = [(a, b, "obj")]
    while todo:
        x, y, path = todo.pop()
        if any(x is one for one in shared) or isinstance(x, types_shared):
            assert x is y, f"{path}: is not in both"
            continue
        assert type(x) is type(y) or (in_graph and _left_its_class(x, y)), f"{path}: {type(x)} has become {type(y)}"
        if isinstance(x, _ATOMS):
            assert x is y or x == y, f"{path}: {x} has become {y}"
            continue
        if (id(x), id(y)) in there:
            continue
        if one_to_one or isinstance(x, (Tensor, np.ndarray)):
            if id(x) in there:
                raise SplitReferenceError(f"{path}: one object has become two")
            assert id(y) not in back, f"{path}: two objects have become one"
        there[id(x)], back[id(y)], there[id(x), id(y)] = y, x, True
        if not isinstance(x, (tuple, frozenset)):
            assert x is not y, f"{path}: is in both"
        if isinstance(x, Tensor):
            tensors.append((x, y))
        elif isinstance(x, np.ndarray) and not x.dtype.hasobject:
            arrays.append((x, y))
        ours, theirs = (list(_children(each, attributes, gradients)) for each in (x, y))
        steps, others = ([step for step, _ in each] for each in (ours, theirs))
        assert steps == others, f"{path}: {steps} have become {others}"
        todo += [(one, other, path + step) for (step, one), (_, other) in zip(ours, theirs, strict=True)]
    return tensors, arrays


def _left_its_class(x, y):
    return isinstance(x, nn.Parameter) and type(y) is Tensor


def _kind(x):
    return "Tensor" if isinstance(x, Tensor) else type(x).__name__


def _children(x, attributes, gradients):
    if isinstance(x, collections.abc.Mapping):
        for k, (key, value) in enumerate(x.items()):
            yield f".key({k})", key
            yield f"[{key!r}]" if isinstance(key, (str, int)) else f".value({k})", value
    elif isinstance(x, collections.abc.Set):
        for member in sorted(x, key=_kind):
            yield f".member({_kind(member)})", member
    elif isinstance(x, (list, tuple, collections.deque)):
        for k, item in enumerate(x):
            yield f"[{k}]", item
    elif isinstance(x, np.ndarray) and x.dtype.hasobject:
        for k, item in enumerate(x.flat):
            yield f".flat[{k}]", item
    if isinstance(x, collections.deque):
        yield ".maxlen", x.maxlen
    if isinstance(x, collections.defaultdict):
        yield ".default_factory", x.default_factory
    if isinstance(x, Tensor) and gradients and x.is_leaf and x.grad is not None:
        yield ".grad", x.grad
    if isinstance(x, Tensor) and not attributes:
        return
    for name in sorted(getattr(x, "__dict__", {})):
        yield f".{name}", x.__dict__[name]
    for cls in type(x).__mro__ if not isinstance(x, Tensor) else ():
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name != "__dict__" and hasattr(x, name):
                yield f".{name}", getattr(x, name)


# --- tensors --------------------------------------------------------------------------------------------------


def same_values(a, b):
    """Whether two tensors have the same elements, bit by bit; `a` is first converted to the dtype of `b`."""
    return a.shape == b.shape and bool(torch.equal(element_bytes(a.detach().to(b.dtype)), element_bytes(b)))


def assert_alike(source, copied, *, dtype=None):
    """Asserts that the copy of a strided tensor is what its source is. `dtype` is what floating ones became."""
    assert copied is not source
    assert copied.dtype == (dtype if dtype is not None and source.is_floating_point() else source.dtype)
    assert same_values(source, copied)
    if is_dense(source):
        assert _strides(copied) == _strides(source)
    else:  # gaps may be left out
        assert [step == 0 for step in _strides(copied)] == [step == 0 for step in _strides(source)]


def assert_outside_the_graph(pairs):
    """Asserts that the copies are leaves, and require grad where their sources are leaves that do."""
    for source, copied in pairs:
        assert copied.is_leaf
        assert copied.requires_grad == (source.requires_grad and source.is_leaf)


def _strides(t):
    return [stride for stride, size in zip(t.stride(), t.shape, strict=True) if size > 1 and t.numel()]


def by_storage(pairs):
    """The pairs in groups: those whose sources share a storage."""
    groups = collections.defaultdict(list)
    for source, copied in pairs:
        groups[_torch_private.storage_id(source)].append((source, copied))
    return list(groups.values())


def _must_part(group, dtype):
    """Whether copies cannot share a storage: views of several dtypes, some of which are converted."""
    dtypes = {source.dtype for source, _ in group}
    return dtype is not None and len(dtypes) > 1 and any(d.is_floating_point and d != dtype for d in dtypes)


def assert_same_sharing(pairs, *, dtype=None):
    """Asserts that copies share storages as their sources do, at the same distances."""
    seen = set()
    for group in by_storage(pairs):
        storages = {_torch_private.storage_id(copied) for _, copied in group}
        assert len(storages) == 1 or _must_part(group, dtype), "views of one storage do not share one in the copy"
        assert seen.isdisjoint(storages), "unrelated tensors share a storage in the copy"
        seen |= storages
        if len({(s.storage_offset(), s.shape, s.stride(), s.dtype) for s, _ in group}) > 1 and len(storages) == 1:
            assert all(_strides(copied) == _strides(source) for source, copied in group)


def assert_only_what_is_viewed(pairs, *, lazy=False):
    """Asserts that the copies hold no more of each storage than their sources view.

    With `lazy`, a storage of which half or more is viewed is shared as a whole, until one side is written.
    """
    for group in by_storage(pairs):
        source, copied = group[0]
        stored, held = source.untyped_storage().nbytes(), copied.untyped_storage().nbytes()
        viewed = viewed_bytes([source for source, _ in group])
        # A view may begin anywhere, and a packed stretch begins at a multiple of 16 bytes.
        nearly_all = viewed >= (0.5 if lazy else 0.98) * stored
        assert nearly_all or held <= viewed + 32 * len(group), f"{held} bytes are held, {viewed} are viewed"
        # What conjugates or negates, or belongs to NumPy, cannot be shared lazily.
        plain = not any(t.is_conj() or t.is_neg() for t, _ in group)
        if lazy and nearly_all and viewed and plain and source.untyped_storage().resizable():
            assert _torch_private.storage_address(source) == _torch_private.storage_address(copied), "was copied"


def viewed_bytes(tensors):
    """How much of their storage these views reach together, gaps inside a view included."""
    reached, end = 0, 0
    for start, size in sorted((t.storage_offset() * t.element_size(), span_bytes(t)) for t in tensors):
        reached += max(0, start + size - max(start, end))
        end = max(end, start + size)
    return reached


# --- writing --------------------------------------------------------------------------------------------------


def write(t, number):
    """Writes to every element of `t` what was not there before."""
    flat = t.detach().as_subclass(Tensor)
    if t.numel():
        flat.fill_(not bool(flat.reshape(-1)[0]) if t.dtype is torch.bool else 150 + number % 50)


def _unchanged(tensors, before):
    return all(torch.equal(element_bytes(t), was) for t, was in zip(tensors, before, strict=True))


def assert_apart(pairs, *, dtype=None):
    """Asserts, by writing to each side of every pair, that no write is seen on the other side.

    And that in the copy other tensors change with the one that is written, as they do in the source.
    """
    sources, copies = [s for s, _ in pairs], [c for _, c in pairs]
    parted = {id(c) for group in by_storage(pairs) if _must_part(group, dtype) for _, c in group}
    for number, (source, copied) in enumerate(pairs):
        before = list(map(element_bytes, copies))
        write(source, number)
        assert _unchanged(copies, before), f"a write to tensor {number} of the source is seen in the copy"
        before = list(map(element_bytes, sources))
        write(copied, number)
        assert _unchanged(sources, before), f"a write to tensor {number} of the copy is seen in the source"
        for s, c in pairs:
            assert id(c) in parted or same_values(s, c), (
                f"after both sides of tensor {number} were written, others differ"
            )


def assert_shared(pairs):
    """Asserts, by writing, that both sides of every pair are the same memory."""
    for number, (source, copied) in enumerate(pairs):
        assert _torch_private.storage_id(source) == _torch_private.storage_id(copied)
        for written in (source, copied):
            before = element_bytes(source)
            write(written, 2 * number + (written is copied))
            assert not source.numel() or not torch.equal(element_bytes(source), before)
            assert all(same_values(s, c) for s, c in pairs)


def assert_arrays_apart(pairs):
    """Asserts that arrays are equal, and by writing to each side that they have memory of their own."""
    for source, copied in pairs:
        assert source.dtype == copied.dtype
        assert np.array_equal(source, copied)
        before = copied.copy()
        source += 1
        assert np.array_equal(copied, before)
        before = source.copy()
        copied += 2
        assert np.array_equal(source, before)
