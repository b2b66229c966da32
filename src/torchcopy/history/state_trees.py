"""A state, as `state_dict()` gives it: its containers as a tree, its tensors beside it in one list.

What has to be copied is then one list of tensors, and everything else is small. A tree is taken once, when the
snapshot is; the state is built anew from it, with other tensors, whenever somebody asks.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, product
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from .._errors import CopyError, InputError
from ..copying.deep_copy import copy
from ..copying.walking.walk import IMMUTABLE
from .held_bytes import storages_of

_PLAIN: Final = frozenset({Tensor, torch.nn.Parameter})
_MANY: Final = 4  # dicts that may be a table
_DEEPEST: Final = 200  # containers inside each other: a state that holds itself has no end


@dataclasses.dataclass(frozen=True, slots=True)
class Slot:
    """A tensor: `number` is its place in the list."""

    number: int


@dataclasses.dataclass(frozen=True, slots=True)
class Slots:
    """A mapping from names to tensors, `first` being the place of the first one in the list."""

    kind: type
    names: tuple[Any, ...]
    first: int


@dataclasses.dataclass(frozen=True, slots=True)
class SlotTable:
    """A dict of dicts with the same names, each name a tensor: the state of an optimizer."""

    names: tuple[Any, ...]
    inner: tuple[Any, ...]
    first: int


@dataclasses.dataclass(frozen=True, slots=True)
class MappingNode:
    """Any other dict or OrderedDict. `attributes` are Python's, such as the `_metadata` of a state_dict."""

    kind: type
    names: tuple[Any, ...]
    children: tuple[Node, ...]
    attributes: Node | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class SequenceNode:
    """A list or a tuple."""

    kind: type
    children: tuple[Node, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Value:
    """Anything else. If it can be changed it is a copy, and is copied again for whoever asks.

    `nbytes` are those of the tensors and arrays in it: what is not among the tree's tensors and may still be large.
    """

    value: Any
    nbytes: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Values:
    """A list or a tuple of what cannot be changed: numbers, strings."""

    values: list[Any] | tuple[Any, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """A mapping from names to dicts of what cannot be changed, such as the versions of all modules."""

    kind: type
    names: tuple[Any, ...]
    settings: list[dict[Any, Any]]


Node = Slot | Slots | SlotTable | MappingNode | SequenceNode | Value | Values | Settings


def take_apart(state: Any, tensors: list[Tensor], path: str) -> Node:
    """The tree of `state`. Its tensors are appended to `tensors` as they are: nothing of them is copied.

    Raises:
        InputError: the state holds itself, a tensor that has no shape yet, or what cannot be copied.
    """
    return _node(state, tensors, path, 0)


def _node(x: Any, tensors: list[Tensor], path: str, depth: int) -> Node:
    cls = type(x)
    if cls in IMMUTABLE:
        return Value(x)
    if isinstance(x, Tensor):
        if isinstance(x, (UninitializedParameter, UninitializedBuffer)):
            raise InputError(f"{path} is uninitialized, and has no shape yet: run the module once before `take`")
        tensors.append(x)
        return Slot(len(tensors) - 1)
    if cls is dict or cls is OrderedDict:
        return _mapping(x, cls, tensors, path, depth)
    if cls is list or cls is tuple:
        if IMMUTABLE.issuperset(map(type, x)):
            return Values(x if cls is tuple else x.copy())
        _check_depth(depth, path)
        return SequenceNode(cls, tuple(_node(a, tensors, f"{path}[{k}]", depth + 1) for k, a in enumerate(x)))
    try:
        return _value(x)
    except CopyError as error:
        raise InputError(f"the state at {path}, a {cls.__name__}, cannot be copied, and so not be kept") from error


def _value(x: Any) -> Value:
    if type(x) is np.ndarray and x.dtype != object:
        return Value(x.copy(), x.nbytes)
    memo: dict[int, Any] = {}
    new = copy(x, memo=memo, on_escape="ignore")
    made = (new, *memo.values())
    tensors = storages_of(t for t in made if isinstance(t, Tensor))
    arrays = {id(a): a.nbytes for a in made if isinstance(a, np.ndarray)}
    return Value(new, sum(tensors.values()) + sum(arrays.values()))


def _copied(x: Any) -> Any:
    if type(x) is np.ndarray and x.dtype != object:
        return x.copy()
    return copy(x, on_escape="ignore")


def _mapping(x: dict[Any, Any], cls: type, tensors: list[Tensor], path: str, depth: int) -> Node:
    values = x.values()
    names = tuple(x)
    if names and _PLAIN.issuperset(map(type, values)):
        first = len(tensors)
        tensors.extend(values)
        slots = Slots(cls, names, first)
        if cls is dict or not x.__dict__:
            return slots
        return MappingNode(cls, (), (slots,), _node(x.__dict__, tensors, path, depth + 1))
    if _are_settings(values) and (cls is dict or not x.__dict__):
        return Settings(cls, names, list(map(dict.copy, values)))
    if cls is dict and (table := _table(names, values, tensors)) is not None:
        return table
    _check_depth(depth, path)
    children = tuple([_node(a, tensors, f"{path}[{k!r}]", depth + 1) for k, a in x.items()])
    attributes = None if cls is dict or not x.__dict__ else _node(x.__dict__, tensors, path, depth + 1)
    return MappingNode(cls, names, children, attributes)


def _table(names: tuple[Any, ...], rows: Collection[Any], tensors: list[Tensor]) -> SlotTable | None:
    if len(names) < _MANY or not {dict}.issuperset(map(type, rows)):
        return None
    inner = set(map(tuple, rows))
    found = list(chain.from_iterable(map(dict.values, rows)))
    if len(inner) != 1 or not found or not _PLAIN.issuperset(map(type, found)):
        return None
    first = len(tensors)
    tensors += found
    return SlotTable(names, inner.pop(), first)


def _are_settings(values: Iterable[Any]) -> bool:
    return {dict}.issuperset(map(type, values)) and IMMUTABLE.issuperset(
        map(type, chain.from_iterable(map(dict.values, values)))
    )


def _check_depth(depth: int, path: str) -> None:
    if depth > _DEEPEST:
        raise InputError(f"the state at {path[:80]}… holds itself, or {_DEEPEST} containers inside each other")


def put_together(node: Node, tensors: Sequence[Any]) -> Any:
    """The state that `node` is the tree of, with `tensors` in their places; containers and values are new."""
    match node:
        case Slot(number):
            return tensors[number]
        case Slots(kind, names, first):
            return kind(zip(names, tensors[first : first + len(names)], strict=True))
        case SlotTable(names, inner, first):
            return {
                name: dict(zip(inner, tensors[start : start + len(inner)], strict=True))
                for name, start in zip(
                    names, range(first, first + len(names) * len(inner), len(inner)), strict=True
                )
            }
        case Value(value):
            return value if type(value) in IMMUTABLE else _copied(value)
        case Values(values):
            return values.copy() if isinstance(values, list) else values
        case Settings(kind, names, settings):
            return kind(zip(names, map(dict.copy, settings), strict=True))
        case SequenceNode(kind, children):
            return kind(put_together(child, tensors) for child in children)
        case MappingNode(kind, names, children, attributes):
            if not names and children:  # tensors by name, with attributes
                built = put_together(children[0], tensors)
            else:
                built = kind(zip(names, (put_together(c, tensors) for c in children), strict=True))
            if attributes is not None:
                built.__dict__.update(put_together(attributes, tensors))
            return built


def paths(node: Node, at: str = "") -> Iterator[tuple[int, str]]:
    """Each tensor's place in the list, with its path in the state: `['state'][3]['exp_avg']`."""
    match node:
        case Slot(number):
            yield number, at
        case Slots(_, names, first):
            for k, name in enumerate(names):
                yield first + k, f"{at}[{name!r}]"
        case SlotTable(names, inner, first):
            for k, (name, key) in enumerate(product(names, inner)):
                yield first + k, f"{at}[{name!r}][{key!r}]"
        case SequenceNode(_, children):
            for k, child in enumerate(children):
                yield from paths(child, f"{at}[{k}]")
        case MappingNode(_, names, children, attributes):
            if not names and children:
                yield from paths(children[0], at)
            for name, child in zip(names, children, strict=False):
                yield from paths(child, f"{at}[{name!r}]")
            if attributes is not None:
                yield from paths(attributes, f"{at}.__dict__")
        case _:
            pass


def value_bytes(node: Node) -> int:
    """Bytes in the tree that are not among its tensors."""
    match node:
        case Value(_, nbytes):
            return nbytes
        case SequenceNode(_, children):
            return sum(map(value_bytes, children))
        case MappingNode(_, _, children, attributes):
            return sum(map(value_bytes, children)) + (0 if attributes is None else value_bytes(attributes))
        case _:
            return 0
