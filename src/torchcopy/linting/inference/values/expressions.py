"""The kind of an expression: from annotations, constructors, functions, methods, and what names are bound to."""

from __future__ import annotations

import ast
import dataclasses
from typing import TYPE_CHECKING

from ..scopes import Binding
from . import annotated, calls
from .kinds import (
    DETACHED,
    NDARRAY,
    NUMBER,
    OTHER,
    PARAMETER,
    TEXT,
    UNKNOWN,
    Kind,
    joined,
)

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_PARTS_OF_MODULES = {"weight": PARAMETER, "bias": PARAMETER}
_MANY = 40  # bindings of one name: more are not read
_DEEPEST = 60


def kind_of(facts: FileFacts, node: ast.AST | None, known: dict[ast.AST, Kind]) -> Kind:
    """The kind of `node`; what leads back to itself is unknown."""
    if node is None:
        return UNKNOWN
    if node in known:
        return known[node]
    if len(facts.depth) > _DEEPEST:
        return UNKNOWN
    known[node] = UNKNOWN
    facts.depth.append(node)
    kind = _kind(facts, node)
    facts.depth.pop()
    makes = isinstance(node, ast.Call | ast.BinOp)
    if makes and kind.is_tensor and kind.graph is not False and facts.is_without_graph(node):
        kind = dataclasses.replace(kind, graph=False)
    known[node] = kind
    return kind


def _kind(facts: FileFacts, node: ast.AST) -> Kind:
    match node:
        case ast.Constant(value=value):
            return TEXT if isinstance(value, str) else NUMBER if isinstance(value, int | float) else OTHER
        case ast.Name():
            return _of_name(facts, node)
        case ast.Attribute():
            return _of_attribute(facts, node)
        case ast.Call():
            return calls.kind_of_call(facts, node)
        case ast.BinOp(left=ast.List() as listed, op=ast.Mult()):  # as often as a number or a tensor of one says
            return facts.kind_of(listed)
        case ast.BinOp(left=left, right=right):
            return _of_both(facts.kind_of(left), facts.kind_of(right))
        case ast.UnaryOp(op=ast.Not()) | ast.BoolOp(values=[]):
            return OTHER
        case ast.UnaryOp(operand=operand):
            return facts.kind_of(operand)
        case ast.IfExp(body=body, orelse=orelse):
            return joined([facts.kind_of(body), facts.kind_of(orelse)])
        case ast.List() | ast.Tuple() | ast.Set():
            return Kind("list", element=joined([facts.kind_of(each) for each in node.elts[:4]]))
        case ast.ListComp(elt=element) | ast.GeneratorExp(elt=element) | ast.SetComp(elt=element):
            return Kind("list", element=facts.kind_of(element))
        case ast.Dict():
            return Kind("dict", element=joined([facts.kind_of(each) for each in node.values[:4]]))
        case ast.DictComp(value=value):
            return Kind("dict", element=facts.kind_of(value))
        case ast.JoinedStr():
            return TEXT
        case ast.Subscript(value=value):
            return _of_item(facts.kind_of(value), node)
        case ast.Compare(left=left):
            kind = facts.kind_of(left)
            return DETACHED if kind.is_tensor else NDARRAY if kind.name == "ndarray" else OTHER
        case ast.NamedExpr(value=value) | ast.Await(value=value) | ast.Starred(value=value):
            return facts.kind_of(value)
    return UNKNOWN


def _of_both(left: Kind, right: Kind) -> Kind:
    """Of the result of an operator."""
    if left.is_tensor or right.is_tensor:
        graphs = {each.graph if each.name != "parameter" else True for each in (left, right) if each.is_tensor}
        if not (left.is_tensor and right.is_tensor) and UNKNOWN in (left, right):
            graphs.add(None)
        graph = True if True in graphs else None if None in graphs else False
        return Kind("tensor", graph=graph)
    if left.name == right.name and left.name in ("number", "ndarray", "text", "list"):
        return left
    if {left.name, right.name} == {"ndarray", "number"}:
        return NDARRAY
    if left.name == "text":
        return TEXT
    return UNKNOWN


def _of_item(kind: Kind, node: ast.Subscript) -> Kind:
    if kind.is_tensor:
        return Kind("tensor", graph=True if kind.name == "parameter" else kind.graph, device=kind.device)
    if kind.name == "ndarray":
        return UNKNOWN if isinstance(node.slice, ast.Constant) else NDARRAY
    if kind.name == "list" and isinstance(node.slice, ast.Slice):
        return kind
    if kind.name in ("list", "dict", "state_dict") and kind.element is not None:
        return kind.element
    return UNKNOWN


def _of_name(facts: FileFacts, node: ast.Name) -> Kind:
    bound = facts.bindings(node)
    if not bound or len(bound) > _MANY:
        return UNKNOWN
    if any(each.how == "augmented" for each in bound) and any(each.how != "augmented" for each in bound):
        return _augmented(facts, bound)
    if len(bound) > 1 and (latest := _latest(facts, bound, node)) is not None:
        bound = [latest]
    return joined([_of_binding(facts, each) for each in bound])


def _augmented(facts: FileFacts, bound: list[Binding]) -> Kind:
    """Of a name with `+=`: the kind stays, and a tensor may come onto a graph."""
    plain = [each for each in bound if each.how != "augmented"]
    kind = joined([_of_binding(facts, each) for each in plain])
    added = [facts.kind_of(each.value) for each in bound if each.how == "augmented"]
    if kind.is_tensor and not all(each.name == "number" or each.graph is False for each in added):
        return dataclasses.replace(kind, graph=None)
    if kind.name == "number" and not all(each.name == "number" for each in added):
        return UNKNOWN
    return kind


def _latest(facts: FileFacts, bound: list[Binding], node: ast.Name) -> Binding | None:
    """The one binding that holds at `node` for sure: before it in its block or one around, in no loop of both."""
    before: dict[ast.AST, ast.stmt] = {}
    loops = facts.loops(node)
    statement = facts.statement_of(node)
    at: ast.AST | None = statement
    scope = facts.scope_of(node)
    while isinstance(at, ast.stmt) and at is not scope.node:
        above = facts.parent(at)
        for field in ("body", "orelse", "finalbody"):
            block = getattr(above, field, None)
            if isinstance(block, list) and at in block:
                before.update(dict.fromkeys(block[: block.index(at)]))
        at = above if isinstance(above, ast.stmt) else facts.parent(above) if above is not None else None
        if above is scope.node:
            break
    place = (node.lineno, node.col_offset)
    candidates = []
    for each in bound:
        where = facts.statement_of(each.node) if not isinstance(each.node, ast.arg) else None
        line = getattr(each.node, "lineno", 0)
        if each.how == "parameter":
            candidates.append((0, 0, each, True))
        elif where is not None:
            certain = where in before or (
                each.how in ("element", "entered")
                and statement is not where
                and where in facts.above_statements(node)
            )
            candidates.append((line, each.node.col_offset, each, certain))  # type: ignore[attr-defined]
    own = {
        id(each) for each in candidates if facts.statement_of(each[2].node) is statement and each[2].how == "value"
    }
    earlier = [each for each in candidates if each[:2] < place and id(each) not in own]
    sure = [each for each in earlier if each[3]]
    if not sure:
        return None
    best = max(sure, key=lambda each: each[:2])
    if any(each[:2] > best[:2] and each[2].how != "augmented" for each in earlier):
        return None  # one that may hold instead
    loops_of_best = facts.loops(best[2].node) if not isinstance(best[2].node, ast.arg) else []
    outer = [each for each in loops if each not in loops_of_best]
    late = [each for each in candidates if each[:2] >= place or id(each) in own]
    if any(set(facts.loops(each[2].node)) & set(outer) for each in late):
        return None  # a later one comes round again
    return best[2]


def _of_binding(facts: FileFacts, bound: Binding) -> Kind:
    if bound.annotation is not None:
        kind = annotated.kind_of(facts, bound.annotation)
        if kind.is_known:
            return kind
    match bound.how:
        case "value":
            return facts.kind_of(bound.value)
        case "augmented":
            kind = facts.kind_of(bound.value)
            return kind if kind.is_tensor else UNKNOWN
        case "element":
            return _of_element(facts, bound)
        case "part":
            whole = facts.kind_of(bound.value)
            if whole.is_tensor:
                return Kind("tensor", graph=whole.graph)
            if whole.name == "list" and whole.element is not None:
                return whole.element
            if isinstance(bound.value, ast.Call) and (found := facts.definition(bound.value.func)) is not None:
                parts = facts.returned_by(found).parts
                return parts[bound.index] if bound.index < len(parts) else UNKNOWN
    return UNKNOWN


def _of_element(facts: FileFacts, bound: Binding) -> Kind:
    iterable, index = bound.value, bound.index
    if isinstance(iterable, ast.Call) and isinstance(iterable.func, ast.Name):
        given = iterable.args
        if iterable.func.id == "enumerate" and given:
            return NUMBER if index == 0 else facts.kind_of(given[0]).element or UNKNOWN if index == 1 else UNKNOWN
        if iterable.func.id == "zip" and 0 <= index < len(given):
            return facts.kind_of(given[index]).element or UNKNOWN
        if iterable.func.id == "range":
            return NUMBER
        if iterable.func.id in ("list", "tuple", "reversed", "sorted", "tqdm") and given:
            iterable = given[0]
    kind = facts.kind_of(iterable)
    if kind.pairs:
        return TEXT if index == 0 else kind.element or UNKNOWN if index == 1 else UNKNOWN
    if kind.is_tensor:
        return Kind("tensor", graph=kind.graph)
    if kind.name in ("list", "iterator") and index < 0:
        return kind.element or UNKNOWN
    return UNKNOWN


def _of_attribute(facts: FileFacts, node: ast.Attribute) -> Kind:
    if facts.resolve(node):
        return UNKNOWN
    bound = facts.attribute_bindings(node)
    if bound and len(bound) <= _MANY:
        kinds = [_of_binding(facts, each) for each in bound if not _is_none(each)]
        if (kind := joined(kinds)).is_known:
            return kind
    of = facts.kind_of(node.value)
    if of.is_tensor:
        if node.attr in ("T", "mT", "H", "mH", "real", "imag"):
            return Kind("tensor", graph=of.graph)
        if node.attr in ("data", "grad"):
            return Kind("tensor", graph=False, device=of.device)
        return UNKNOWN
    if of.name == "module" and of.of.startswith("torch.nn.") and node.attr in _PARTS_OF_MODULES:
        return PARAMETER
    return UNKNOWN


def _is_none(bound: Binding) -> bool:
    return isinstance(bound.value, ast.Constant) and bound.value.value is None


def is_module_class(facts: FileFacts, node: ast.AST | None, depth: int = 0) -> bool:
    """Whether an expression names a class that derives from `torch.nn.Module`."""
    if node is None or depth > 8:
        return False
    name = facts.resolve(node)
    last = name.rpartition(".")[2]
    if name in ("torch.nn.Module", "torch.nn.modules.module.Module") or last in (
        "LightningModule",
        "PreTrainedModel",
    ):
        return True
    if name.startswith("torch.nn.") and last[:1].isupper():
        return last not in ("Parameter", "ParameterList", "ParameterDict")
    found = facts.definition(node)
    if found is None or not isinstance(found.scope.node, ast.ClassDef):
        return False
    if found.scope.node is node:
        return False
    return any(is_module_class(found.facts, base, depth + 1) for base in found.scope.node.bases)
