"""The tree of a state as JSON: containers and values in it, tensors as numbers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, Final

from ..parts.part import Kind
from ..state_trees import MappingNode, Node, SequenceNode, Settings, Slot, Slots, SlotTable, Value, Values
from .faults import Fault, shown
from .values import DEEPEST, Refusals, ValueDecoder, ValueEncoder, check_attributes, tag_of, unfit_attribute

_MODULE_KEYS: Final = {"state_dict", "non_persistent", "absent"}


class TreeEncoder:
    """Turns trees into JSON. `number_of` gives a slot's tensor its number."""

    def __init__(self, refusals: Refusals, values: ValueEncoder, number_of: Callable[[int], int]) -> None:
        self._refusals, self._values, self._number_of = refusals, values, number_of

    def encode(self, node: Node, path: str, depth: int = 0) -> Any:
        """The tree below `node`."""
        if depth > DEEPEST:
            self._refusals.refuse(f"{path[:80]}…", f"more than {DEEPEST} containers inside each other")
            return None
        match node:
            case Slot(number):
                return {"tensor": self._number_of(number)}
            case Slots(kind, names, first):
                numbers = [{"tensor": self._number_of(first + k)} for k in range(len(names))]
                return self._values.mapping(kind.__name__, names, numbers, path)
            case SlotTable(names, inner, first):
                rows = [
                    self.encode(Slots(dict, inner, first + k * len(inner)), f"{path}[{name!r}]", depth + 1)
                    for k, name in enumerate(names)
                ]
                return self._values.mapping("dict", names, rows, path)
            case Value(value) | Values(value):
                return self._values.encode(value, path, depth)
            case Settings(kind, names, settings):
                encoded = [
                    self._values.encode(s, f"{path}[{k!r}]", depth + 1)
                    for k, s in zip(names, settings, strict=True)
                ]
                return self._values.mapping(kind.__name__, names, encoded, path)
            case SequenceNode(kind, children):
                items = [self.encode(c, f"{path}[{k}]", depth + 1) for k, c in enumerate(children)]
                return items if kind is list else {"tuple": items}
            case MappingNode(kind, names, children, attributes):
                return self._mapping(kind, names, children, attributes, path, depth)

    def _mapping(
        self,
        kind: type,
        names: tuple[Any, ...],
        children: tuple[Node, ...],
        attributes: Node | None,
        path: str,
        depth: int,
    ) -> Any:
        if not names and children:  # tensors by name, with attributes
            encoded = self.encode(children[0], path, depth)
        else:
            items = [self.encode(c, f"{path}[{k!r}]", depth + 1) for k, c in zip(names, children, strict=True)]
            encoded = self._values.mapping(kind.__name__, names, items, path)
        if attributes is not None:
            for name in _names_of(attributes):
                if unfit_attribute(name):
                    self._refusals.refuse(path, f"its attribute {name!r} hides what an OrderedDict does")
            encoded["attributes"] = self.encode(attributes, f"{path}.__dict__", depth + 1)
        return encoded


def _names_of(node: Node) -> tuple[Any, ...]:
    return node.names if isinstance(node, (Slots, SlotTable, Settings, MappingNode)) else ()


# --- back ------------------------------------------------------------------------------------------------------


class TreeDecoder:
    """Turns JSON into trees. `count` is the number of tensors that slots may name."""

    def __init__(self, values: ValueDecoder, count: int) -> None:
        self._values, self._count = values, count

    def decode(self, x: Any) -> Node:
        """The tree.

        Raises:
            Fault: there is no such tree.
        """
        if type(x) is list:
            return SequenceNode(list, tuple(map(self.decode, x)))
        if type(x) is not dict:
            return Value(self._values.decode(x))
        name = tag_of(x)
        content = x[name]
        if name == "tensor":
            if type(content) is not int or not 0 <= content < self._count:
                raise Fault(f"there is no tensor {shown(content)}")
            return Slot(content)
        if name == "tuple" and type(content) is list:
            return SequenceNode(tuple, tuple(map(self.decode, content)))
        if name in ("dict", "OrderedDict"):
            return self._mapping(dict if name == "dict" else OrderedDict, content, x)
        return Value(self._values.decode(x))

    def _mapping(self, kind: type, content: Any, x: dict[str, Any]) -> Node:
        keys, values = self._values.keys_and_values(content)
        attributes = None
        if kind is OrderedDict and "attributes" in x:
            attributes = self.decode(x["attributes"])
            if not isinstance(attributes, MappingNode) or attributes.kind is not dict:
                raise Fault(f"{shown(x['attributes'])} are no attributes of an OrderedDict")
            check_attributes(dict.fromkeys(attributes.names))
        return MappingNode(kind, tuple(keys), tuple(map(self.decode, values)), attributes)


def check_kind(kind: Kind, node: Node) -> None:
    """Sees to it that the state of a part is what such a part reads.

    Raises:
        Fault: it is not.
    """
    entries = dict(zip(_names_of(node), _children_of(node), strict=False))
    if kind == "module":
        mappings = [entries[key] for key in ("state_dict", "non_persistent") if key in entries]
        absent = entries.get("absent", SequenceNode(list, ()))
        if (
            "state_dict" not in entries
            or not entries.keys() <= _MODULE_KEYS
            or not all(isinstance(m, MappingNode) for m in mappings)
            or not all(isinstance(name, str) for m in mappings for name in _names_of(m))
            or not all(isinstance(child, Slot) for m in mappings[1:] for child in _children_of(m))
            or not isinstance(absent, SequenceNode)
            or not all(isinstance(child, Value) and isinstance(child.value, str) for child in absent.children)
        ):
            raise Fault("its state is not that of a module")
    elif kind == "optimizer":
        groups = entries.get("param_groups")
        listed = isinstance(groups, SequenceNode) and all(map(_is_group, groups.children))
        if not listed or not isinstance(entries.get("state"), (MappingNode, Settings, SlotTable)):
            raise Fault("its state is not that of an optimizer")


def _is_group(node: Node) -> bool:
    parameters = dict(zip(_names_of(node), _children_of(node), strict=False)).get("params")
    return isinstance(parameters, SequenceNode) or (
        isinstance(parameters, Values) and type(parameters.values) is list
    )


def _children_of(node: Node) -> Iterator[Node]:
    match node:
        case Slots(_, names, first):
            yield from (Slot(first + k) for k in range(len(names)))
        case MappingNode(_, names, children, _):
            yield from children if names else ()
        case Settings(_, names, settings):
            yield from map(Value, settings)
        case SlotTable(names, inner, first):
            yield from (Slots(dict, inner, first + k * len(inner)) for k in range(len(names)))
        case _:
            pass


def slots(node: Node, keys: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], int]]:
    """Each slot's number, with the keys that lead to it."""
    match node:
        case Slot(number):
            yield keys, number
        case Slots(_, names, first):
            for k, name in enumerate(names):
                yield (*keys, name), first + k
        case SlotTable():
            for name, row in zip(node.names, _children_of(node), strict=True):
                yield from slots(row, (*keys, name))
        case SequenceNode(_, children):
            for k, child in enumerate(children):
                yield from slots(child, (*keys, k))
        case MappingNode(_, names, children, attributes):
            if not names and children:
                yield from slots(children[0], keys)
            for name, child in zip(names, children, strict=False):
                yield from slots(child, (*keys, name))
            if attributes is not None:
                yield from slots(attributes, (*keys, "__dict__"))
        case _:
            pass
