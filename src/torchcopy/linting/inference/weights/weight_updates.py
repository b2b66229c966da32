"""What a statement does to one tensor of two: copies the other into it, or moves it towards the other."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from typing import Literal

from ..nodes import called_name, walk

Deed = Literal["copy", "average", "scale", "add", ""]

_TRANSPARENT = frozenset(
    "data detach clone to cpu cuda float double half type_as contiguous detach_ view_as requires_grad_ type".split()
)
_AVERAGES = re.compile(r"average|ema|moving|polyak|interpolat|lerp|blend|mix|soft_?update|momentum", re.I)


@dataclasses.dataclass(slots=True)
class Places:
    """The tensors that a loop goes over, as they are written in its body.

    Attributes:
        names: loop variables, each with a number for what it runs over.
        key: the loop variable that is a key of dicts.
        named: what a local name stands for: an expression with the tensors in it.
    """

    names: dict[str, int]
    key: str = ""
    named: dict[str, ast.expr] = dataclasses.field(default_factory=dict)

    def of(self, node: ast.expr) -> str:
        """Which tensor an expression is, conversions of it included: a name for it, or nothing."""
        seen: set[str] = set()
        while True:
            match node:
                case ast.Call(func=ast.Attribute(attr=name, value=below)) if name in _TRANSPARENT:
                    node = below
                case ast.Attribute(attr=name, value=below) if name in _TRANSPARENT:
                    node = below
                case ast.Subscript(value=below, slice=inside) if _is_all(inside):
                    node = below
                case ast.Name(id=name) if name in self.names:
                    return name
                case ast.Name(id=name) if name in self.named and name not in seen:
                    seen.add(name)  # `x = x.float()` names itself
                    node = self.named[name]
                case ast.Subscript(value=below, slice=ast.Name(id=key)) if self.key and key == self.key:
                    return ast.unparse(below)
                case _:
                    return ""

    def deed(self, statement: ast.stmt) -> tuple[str, Deed, str]:
        """What a statement does: to which tensor, what, and from which other."""
        match statement:
            case ast.Expr(value=ast.Call() as call):
                return self._of_call(call)
            case ast.Assign(targets=[ast.Attribute(attr="data", value=place)], value=value):
                return self._assigned(place, value, copies=_makes_a_copy(self._meant_once(value)))
            case ast.Assign(targets=[ast.Subscript() as place], value=value):
                return self._assigned(place, value, copies=not isinstance(place.slice, ast.Name))
            case ast.AugAssign(target=place, op=op, value=value):
                name = self.of(place)
                if not name:
                    return "", "", ""
                if isinstance(op, ast.Mult):
                    return name, "scale" if not self.inside(value) else "", ""
                if isinstance(op, ast.Add | ast.Sub):
                    return self._added(name, value)
        return "", "", ""

    def _of_call(self, call: ast.Call) -> tuple[str, Deed, str]:
        if not isinstance(call.func, ast.Attribute) or not call.args:
            return "", "", ""
        method, receiver, given = call.func.attr, call.func.value, call.args[0]
        scaled = isinstance(receiver, ast.Call) and called_name(receiver) in ("mul_", "mul")
        inner = receiver.func.value if scaled and isinstance(receiver, ast.Call) else receiver  # type: ignore[attr-defined]
        name = self.of(inner)
        if not name:
            return "", "", ""
        if method == "copy_" and not scaled:
            return self._assigned(inner, given, copies=True)
        if method == "lerp_" and (other := self.of(given)) and other != name:
            return name, "average", other
        if method == "mul_" and not self.inside(given):
            return name, "scale", ""
        if method in ("add_", "sub_"):
            others = self.inside(call) - {name}
            if scaled and len(others) == 1 and all(self._is_weighted(each) for each in call.args):
                return name, "average", others.pop()
            values = [each for each in call.args if self.inside(each)]
            return self._added(name, values[0]) if len(values) == 1 else ("", "", "")
        return "", "", ""

    def _added(self, name: str, value: ast.expr) -> tuple[str, Deed, str]:
        """`a += w * (b - a)` is an average, `a += w * b` a part of one."""
        found = self.inside(value)
        others = found - {name}
        if len(others) != 1 or not self._is_weighted(value):
            return "", "", ""
        if name in found:
            return name, "average" if _has_difference(self, value) else "", others.pop()
        return name, "add", others.pop()

    def _assigned(self, place: ast.expr, value: ast.expr, *, copies: bool) -> tuple[str, Deed, str]:
        name = self.of(place)
        if not name:
            return "", "", ""
        other = self.of(value)
        if other and other != name:
            return name, "copy" if copies else "", other
        value = self._meant(value)
        found = self.inside(value)
        others = found - {name}
        if name in found and len(others) == 1:
            if isinstance(value, ast.Call) and not self.of(value):
                apart = {self.of(each) for each in value.args}
                is_average = bool(_AVERAGES.search(called_name(value))) and {name, *others} <= apart
                return name, "average" if is_average else "", others.pop()
            if self._is_weighted(value) and self._keeps_a_share(value, name):
                return name, "average", others.pop()
        return "", "", ""

    def _meant_once(self, value: ast.expr) -> ast.expr:
        return self.named.get(value.id, value) if isinstance(value, ast.Name) else value

    def _meant(self, value: ast.expr) -> ast.expr:
        """The expression behind local names and conversions."""
        for _ in range(4):
            match value:
                case ast.Name(id=name) if name in self.named:
                    value = self.named[name]
                case ast.Call(func=ast.Attribute(attr=name, value=below)) if name in _TRANSPARENT:
                    value = below
                case _:
                    break
        return value

    def inside(self, node: ast.AST) -> set[str]:
        """The tensors that are somewhere in an expression."""
        return {name for each in walk(node) if isinstance(each, ast.expr) and (name := self.of(each))}

    def _is_weighted(self, value: ast.expr) -> bool:
        """Whether an expression is a sum of tensors times numbers: what else is done with them is no average."""
        value = self._meant(value) if not self.of(value) else value
        if self.of(value) or not self.inside(value):
            return True
        match value:
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div(), right=right):
                if isinstance(value.op, ast.Mult | ast.Div) and self.inside(left) and self.inside(right):
                    return False
                return self._is_weighted(left) and self._is_weighted(right)
            case ast.UnaryOp(operand=operand):
                return self._is_weighted(operand)
            case ast.Call(func=ast.Attribute(attr="mul" | "add" | "sub" | "mul_" | "add_", value=below)):
                return self._is_weighted(below) and all(map(self._is_weighted, value.args))
        return False

    def _keeps_a_share(self, value: ast.expr, name: str) -> bool:
        """Whether `name` is multiplied, or the difference to the other is."""
        if _has_difference(self, value):
            return True
        for each in walk(value):
            is_product = isinstance(each, ast.BinOp) and isinstance(each.op, ast.Mult | ast.Div)
            is_product |= isinstance(each, ast.Call) and called_name(each) in ("mul", "mul_")
            if is_product and name in self.inside(each):
                return True
        return False


def _is_all(inside: ast.expr) -> bool:
    """Whether an index is `:` or `...`."""
    if isinstance(inside, ast.Slice):
        return inside.lower is None and inside.upper is None
    return isinstance(inside, ast.Constant) and inside.value is Ellipsis


def _makes_a_copy(value: ast.expr) -> bool:
    return any(isinstance(each, ast.Call) and called_name(each) in ("clone", "deepcopy") for each in walk(value))


def _has_difference(places: Places, value: ast.expr) -> bool:
    """Whether one tensor is subtracted from the other."""
    for each in walk(value):
        if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Sub):
            left, right = places.inside(each.left), places.inside(each.right)
            if left and right and left != right:
                return True
    return False


def simple_statements(body: list[ast.stmt]) -> Iterator[ast.stmt | None]:
    """The statements of a loop's body, inside of guards; `None` for one that does more than write weights."""
    for statement in body:
        match statement:
            case ast.With(items=items, body=inner) if all(
                "grad" in ast.unparse(each) or "inference" in ast.unparse(each) for each in items
            ):
                yield from simple_statements(inner)
            case ast.If(test=test, body=inner, orelse=other):
                if not is_harmless_guard(test):
                    yield None
                yield from simple_statements(inner)
                yield from simple_statements(other)
            case ast.Pass() | ast.Continue() | ast.Assert() | ast.Expr(value=ast.Constant()):
                continue
            case _:
                yield statement


def is_harmless_guard(test: ast.expr) -> bool:
    """Whether a test asks what a tensor is, not which one it is."""
    text = ast.unparse(test)
    asks = ("requires_grad", "is_floating_point", "dtype", "is not None", "is None", "is_complex")
    return any(each in text for each in asks) and " in " not in text and "shape" not in text
