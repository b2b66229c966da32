"""The weights that users hold, as a snapshot, a module or a state_dict: their tensors by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from ... import _torch_private
from ..._errors import InputError
from ..._tensors import describe, has_storage
from ..snapshot import Snapshot
from ..state_trees import MappingNode, Node, SequenceNode, Slot, Slots, take_apart

Weights: TypeAlias = Snapshot | nn.Module | Mapping[str, Any]
"""What holds weights: a snapshot, a module, or a mapping such as its `state_dict()`."""

ACCEPTED = "a Snapshot, a module, or a mapping of tensors such as `model.state_dict()`"
_COMPILED = "_orig_mod."  # what `torch.compile` puts before the names of a module
_EXTRA_STATE = "_extra_state"  # what `get_extra_state` gave: no weights, even where it is a tensor


@dataclasses.dataclass(frozen=True)
class NamedState:
    """A state, and the tensors in it.

    Attributes:
        said: what it was read from, in a few words.
        tree: the state, with places for its tensors.
        tensors: by dotted name: `0.weight`, or `state.3.exp_avg` in an optimizer's. To be read, never written.
        places: where each is in the tree.
        buffers: which names are of buffers; None where the state does not say.
        lasting: whether nobody will ever write these tensor objects, as in a lazy snapshot.
    """

    said: str
    tree: Node
    tensors: dict[str, Tensor]
    places: dict[str, int]
    buffers: frozenset[str] | None
    lasting: bool


def read_state(weights: Any, part: str | None, where: str) -> NamedState:
    """The state of `weights`; of a snapshot, that of one part.

    Args:
        weights: a snapshot, a module or a mapping. Not changed.
        part: which part of a snapshot; None for its only module, else its only part with tensors.
        where: how errors call it: `a`, `snapshots[3]`.

    Raises:
        InputError: it is nothing of these, or has no such part, or two tensors of one name.
    """
    lasting = False
    if isinstance(weights, Snapshot):
        name = _part_of(weights, part, where)
        state = weights._own_state_dict(name)
        lasting = weights.mode == "lazy"
        said = " ".join([f"snapshot {weights.number}", *(f"{k}={_short(v)}" for k, v in weights.labels.items())])
        target = getattr(weights._parts.get(name), "target", None)
        buffers = _buffers_of(target) if isinstance(target, nn.Module) else None
    elif isinstance(weights, nn.Module):
        own = type(weights).state_dict is nn.Module.state_dict
        state = weights.state_dict(keep_vars=True) if own else weights.state_dict()
        said, buffers = type(weights).__name__, _buffers_of(weights)
    elif isinstance(weights, Mapping):
        state = weights if isinstance(weights, dict) else dict(weights.items())
        said, buffers = f"{type(weights).__name__} of {len(weights)}", None
        if any(isinstance(t, nn.Parameter) for t in state.values()):  # `state_dict(keep_vars=True)`
            others = (n for n, t in state.items() if isinstance(t, Tensor) and not isinstance(t, nn.Parameter))
            buffers = frozenset(_dotted(name) for name in others)
    else:
        raise InputError(f"`{where}` must be {ACCEPTED}; got {_named_type(weights)}")
    found: list[Tensor] = []
    tree = take_apart(state, found, where)
    places: dict[str, int] = {}
    for place, name in _names(tree):
        if places.setdefault(name, place) != place:
            raise InputError(f"`{where}` has two tensors named {name!r}: give a mapping of names to tensors")
    return NamedState(said, tree, {n: found[k] for n, k in places.items()}, places, buffers, lasting)


def check_part(part: Any, any_snapshot: bool) -> None:
    """Whether `part` can name a part.

    Raises:
        InputError: it is no name, or there is no snapshot that has parts.
    """
    if part is None:
        return
    if not isinstance(part, str):
        raise InputError(f"`part` must be the name of a part, or None; got {part!r}")
    if not any_snapshot:
        raise InputError(f"`part` names a part of snapshots; none was given to look for {part!r} in")


def is_extra_state(name: str) -> bool:
    """Whether a name is that of what `get_extra_state` gave."""
    return name.endswith(_EXTRA_STATE)


def same_memory(t: Tensor) -> object:
    """What two tensors have in common exactly when they have the same bytes and see them alike."""
    if type(t) in (Tensor, nn.Parameter) and t.layout is torch.strided and not t.is_quantized and not t.is_nested:
        address = _torch_private.storage_address(t) if has_storage(t) else 0
        if address:
            view = (t.storage_offset(), t.shape, t.stride(), t.dtype, t.is_conj(), t.is_neg())
            return (t.device, address, *view)
    return id(t)


def described_tensor(t: Tensor) -> str:
    """A tensor in a few characters, also where it has no shape yet."""
    try:
        return describe(t)
    except RuntimeError:
        return type(t).__name__


def _part_of(snapshot: Snapshot, part: str | None, where: str) -> str:
    if part is not None:
        if part not in snapshot.parts:
            there = ", ".join(snapshot.parts) or "none"
            raise InputError(f"`{where}` has no part {part!r}: it has {there}")
        return part
    modules = [name for name, saved in snapshot._saved.items() if saved.kind == "module"]
    if len(modules) == 1:
        return modules[0]
    names = modules or [
        name for name in snapshot.parts if name != "rng" and next(snapshot._named_tensors(name), None) is not None
    ]
    if len(names) == 1:
        return names[0]
    listed = ", ".join(map(repr, names or snapshot.parts))
    raise InputError(f"`{where}` has {len(names)} parts that could be meant: say part=, one of {listed}")


def _buffers_of(module: nn.Module) -> frozenset[str]:
    return frozenset(_dotted(name) for name, _ in module.named_buffers(remove_duplicate=False))


def _dotted(name: object) -> str:
    return str(name).replace(_COMPILED, "")


def _names(node: Node, at: str = "") -> Iterator[tuple[int, str]]:
    """Each tensor's place, with its dotted name."""
    match node:
        case Slot(number):
            yield number, at
        case Slots(_, names, first):
            for k, name in enumerate(names):
                yield first + k, _below(at, name)
        case SequenceNode(_, children):
            for k, child in enumerate(children):
                yield from _names(child, _below(at, k))
        case MappingNode(_, names, children, attributes):
            if not names and children:  # tensors by name, with attributes
                yield from _names(children[0], at)
            for name, child in zip(names, children, strict=False):
                yield from _names(child, _below(at, name))
            if attributes is not None:
                yield from _names(attributes, _below(at, "__dict__"))
        case _:
            pass


def _below(at: str, name: object) -> str:
    return f"{at}.{_dotted(name)}" if at else _dotted(name)


def _named_type(x: object) -> str:
    if isinstance(x, Tensor):
        return f"a tensor, {described_tensor(x)}"
    if isinstance(x, type):
        return f"the class {x.__name__}"
    return f"{type(x).__name__}: {x!r}"[:90]


def _short(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float) else value
