"""The kind that an annotation promises."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from .kinds import DICT, LIST, MODULE, NDARRAY, NUMBER, OTHER, PARAMETER, TENSOR, TEXT, UNKNOWN, Kind
from .torch_names import OPTIMIZERS

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_TENSORS = {"torch.Tensor", "torch.FloatTensor", "torch.LongTensor", "torch.BoolTensor", "torch.IntTensor"}
_PLAIN: dict[str, Kind] = {
    "int": NUMBER,
    "float": NUMBER,
    "bool": NUMBER,
    "str": TEXT,
    "bytes": OTHER,
    "list": LIST,
    "tuple": LIST,
    "List": LIST,
    "Tuple": LIST,
    "Sequence": LIST,
    "Iterable": Kind("iterator"),
    "Iterator": Kind("iterator"),
    "dict": DICT,
    "Dict": DICT,
    "Mapping": DICT,
    "OrderedDict": DICT,
}


def kind_of(facts: FileFacts, node: ast.expr | None) -> Kind:
    """What an annotation says; `Optional[Tensor]` and `Tensor | None` are tensors."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return _written(node.value)
    match node:
        case ast.BinOp(op=ast.BitOr(), left=left, right=right):
            sides = [each for each in (left, right) if not (isinstance(each, ast.Constant) and each.value is None)]
            return kind_of(facts, sides[0]) if len(sides) == 1 else UNKNOWN
        case ast.Subscript(value=value, slice=inside):
            last = value.attr if isinstance(value, ast.Attribute) else getattr(value, "id", "")
            if last == "Optional":
                return kind_of(facts, inside)
            outer = _PLAIN.get(last, UNKNOWN)
            if outer.name in ("list", "iterator") and not isinstance(inside, ast.Tuple):
                return Kind(outer.name, element=kind_of(facts, inside))
            if outer.name == "list" and isinstance(inside, ast.Tuple) and len(inside.elts) == 2:
                return LIST
            if outer.name == "dict" and isinstance(inside, ast.Tuple) and len(inside.elts) == 2:
                return Kind("dict", element=kind_of(facts, inside.elts[1]))
            return outer
        case ast.Name() | ast.Attribute():
            return _named(facts, node)
    return UNKNOWN


def _named(facts: FileFacts, node: ast.Name | ast.Attribute) -> Kind:
    name = facts.resolve(node)
    if not name:
        if isinstance(node, ast.Name) and node.id in _PLAIN:
            return _PLAIN[node.id]
        return Kind("module", of=node.id) if isinstance(node, ast.Name) and facts.is_module_class(node) else UNKNOWN
    last = name.rpartition(".")[2]
    if name in _TENSORS or last == "Tensor":
        return TENSOR
    if last == "Parameter" and name.startswith("torch"):
        return PARAMETER
    if name == "numpy.ndarray" or last == "NDArray":
        return NDARRAY
    if name == "torch.optim.Optimizer" or last in OPTIMIZERS:
        return Kind("optimizer", of=name)
    if name.startswith("torch.optim.lr_scheduler."):
        return Kind("scheduler", of=name)
    if last in _PLAIN:
        return _PLAIN[last]
    return Kind("module", of=name) if facts.is_module_class(node) else UNKNOWN


def _written(text: str) -> Kind:
    """Of an annotation in quotes: only the simplest are read."""
    last = text.strip().rpartition(".")[2]
    if last == "Tensor":
        return TENSOR
    if last == "Module":
        return MODULE
    if last == "ndarray":
        return NDARRAY
    return _PLAIN.get(last, UNKNOWN)
