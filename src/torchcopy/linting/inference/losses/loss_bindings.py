"""Follows what a function binds to its places, and what it adds up or lists there."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..nodes import Loop, called_name, method_call, names_in
from ..objects import class_of, is_property
from ..scopes import Scope
from .loss_objects import entries_in
from .loss_places import is_of_before, place_of
from .loss_sources import LossSources
from .loss_terms import shown, terms
from .loss_values import KeptValue, Part, Value

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_TO_TEXT = ("str", "repr", "format", "zfill")  # of the number of a round
_CONCATENATES = ("cat", "concat", "concatenate", "hstack", "vstack", "stack")


class LossBindings(LossSources):
    """Follows bindings, and notes in `kept` what statements keep for longer."""

    def __init__(self, facts: FileFacts, scope: Scope) -> None:
        super().__init__(facts, scope)
        self.kept: dict[ast.expr, KeptValue] = {}

    def keep(self, node: ast.expr, at: ast.AST, keeper: str, is_sum: bool, facts: frozenset[Value]) -> None:
        """Notes that statement or call `at` keeps an expression in the place `keeper`."""
        values = self.values(node, facts)
        self.note_reads(Value("", node, node), node, facts)
        for each in terms(node) if values else ():
            self.note_outputs(Value("", each, each), each, facts)  # as `values` has a call that no name is bound to
        if values and not self._is_callable(at):
            before = self.kept.get(node)
            self.kept[node] = KeptValue(
                node, at, keeper, is_sum, values | (before.values if before else frozenset())
            )

    def is_object(self, node: ast.expr | None) -> bool:
        """Whether a place may hold an object of a class of the project, whose `+=` or `[…] =` is its own."""
        bound = self.facts.bindings(node) if isinstance(node, ast.Name) else []
        made = (each.value for each in bound if each.how == "value")
        return class_of(self.facts, node) is not None or any(
            class_of(self.facts, each) is not None for each in made
        )

    def _is_callable(self, node: ast.AST) -> bool:
        """Whether a node runs where something was found to be callable, and so no tensor: `if callable(loss)`."""
        tests = [at.test for at in self.facts.above(node) if isinstance(at, ast.If)]
        return any(isinstance(each, ast.Call) and called_name(each) == "callable" for each in tests)

    def bind(
        self, target: ast.expr, value: ast.expr, at: ast.AST, facts: frozenset[Value], part: Part = ()
    ) -> frozenset[Value]:
        """What is known after a target was bound to a value, or to a part of what it gives."""
        if isinstance(target, ast.Tuple | ast.List):
            given = value.elts if isinstance(value, ast.Tuple | ast.List) and not part else []
            for index, each in enumerate(target.elts):
                if index < len(given):
                    facts = self.bind(each, given[index], at, facts)
                else:
                    facts = self.bind(each, value, at, facts, (*part, index))
            return facts
        place = place_of(target)
        if place is None:
            return facts
        if isinstance(target, ast.Attribute) and is_property(self.facts, target):
            return self.rebind(place, None, facts)
        if part:
            made = Value(place, at, value, part)
            self.note_reads(made, value, facts)
            self.note_outputs(made, value, facts)
            return self.rebind(place, made, facts)
        for way in (value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,):
            self._added(target, place, way, at, facts)
        made = self.part_of_call(place, at, value, facts) or Value(place, at, value)
        if not (isinstance(value, ast.BinOp | ast.Call) and self.facts.is_without_graph(at)):
            self.relate(made, value, facts)
        bound = self.rebind(place, made, facts)
        is_object = isinstance(value, ast.Call) and called_name(value) != "dict"
        for key, entry in entries_in(self.facts, value):
            if not (is_object and isinstance(entry, ast.Constant)):
                inside = Value(f"{place}.{key}" if is_object else f"{place}[{key!r}]", at, entry)
                self.relate(inside, entry, facts)
                bound |= {inside}
        return bound

    def _added(self, target: ast.expr, place: str, value: ast.expr, at: ast.AST, facts: frozenset[Value]) -> None:
        """Notes what `total = total + loss` keeps, `losses = losses + [loss]`, and what is joined to a tensor."""
        for term in terms(value):
            if is_of_before(term, place) and term is not value and not self.is_object(target):
                for other in terms(value):
                    if isinstance(other, ast.List | ast.Tuple):
                        for each in other.elts:
                            self.keep(each, at, place, False, facts)
                    elif not is_of_before(other, place):
                        self.keep(other, at, place, True, facts)
        joined = _joined(value)
        if any(is_of_before(each, place) for each in joined) and not self.facts.is_without_graph(at):
            others = frozenset(one for one in facts if one.place != place)
            for each in joined:
                self.keep(each, at, place, isinstance(value, ast.Call) and called_name(value) == "sum", others)
        if isinstance(value, ast.DictComp):  # `totals = {k: totals[k] + v for k, v in losses.items()}`
            entry = f"{place}[{ast.unparse(value.key)}]"
            for term in terms(value.value):
                if any(is_of_before(each, entry) for each in terms(value.value)) and not is_of_before(term, entry):
                    self.keep(term, at, place, True, facts)

    def is_slot_of_a_round(self, target: ast.Subscript) -> bool:
        """Whether each round of a loop writes another slot: `losses[step] = loss`."""
        return self.is_of_a_round(target.slice) and place_of(target.value) is not None

    def is_of_a_round(self, key: ast.expr) -> bool:
        """Whether a key is another one in each round of a loop."""
        loops = self.facts.loops(key)
        if not isinstance(key, ast.Name | ast.BinOp | ast.Tuple) or not loops:
            return False
        if isinstance(key, ast.BinOp) and isinstance(key.op, ast.Mod):
            return False  # of the last few
        if (
            isinstance(loops[0], ast.For) and method_call(loops[0].iter, "items", "keys") is not None
        ) or _is_a_name(key):
            return False  # an entry for each loss, not for each round
        return any(each.id in _counters(loops) for each in names_in(key))

    def augment(
        self, target: ast.expr, value: ast.expr, op: ast.operator, at: ast.AST, facts: frozenset[Value]
    ) -> frozenset[Value]:
        """What is known after `target += value` or the like."""
        place = place_of(target)
        if place is None:
            return facts
        if isinstance(op, ast.Add | ast.Sub) and not isinstance(value, ast.Constant) and not self.is_object(target):
            if isinstance(value, ast.List | ast.Tuple):
                for each in shown(value):
                    self.keep(each, at, place, False, facts)
            else:
                for term in terms(value):
                    if place_of(term) != place:
                        self.keep(term, at, place, True, facts)
        made = Value(place, at)
        before = {each for each in facts if each.place == place and each != made}
        self.derived.setdefault(made, set()).update(before)
        self.parts.setdefault(made, set()).update(before)
        if not self.facts.is_without_graph(at):
            self.relate(made, value, facts)
            self.reads[made] |= before
        return self.rebind(place, made, facts)

    def rebind(self, place: str | None, made: Value | None, facts: frozenset[Value]) -> frozenset[Value]:
        """What is known after a place, with all that is inside of it, holds another value, or one of no account."""
        if place is None:
            return facts
        left = frozenset(
            each for each in facts if each.place != place and not each.place.startswith((f"{place}[", f"{place}."))
        )
        return left if made is None else left | {made}


def _counters(loops: list[Loop]) -> set[str]:
    """The names that loops count by: those that they bind, or add to in each round of a `while`."""
    found = {
        each.id
        for loop in loops
        if isinstance(loop, ast.For) and not isinstance(loop.iter, ast.Tuple | ast.List)  # a few
        for each in names_in(loop.target)
    }
    for loop in loops:
        for at in loop.body if isinstance(loop, ast.While) else ():
            if (
                isinstance(at, ast.AugAssign)
                and isinstance(at.value, ast.Constant)
                and isinstance(at.target, ast.Name)
            ):
                found.add(at.target.id)
    return found


def _is_a_name(key: ast.expr) -> bool:
    """Whether a key is put together as a name is: `"loss_" + mode`."""
    parts = [*ast.walk(key)]
    is_text = any(isinstance(each, ast.Constant) and isinstance(each.value, str) for each in parts)
    return is_text and not any(isinstance(each, ast.Call) and called_name(each) in _TO_TEXT for each in parts)


def _joined(value: ast.expr) -> list[ast.expr]:
    """What is joined to one: of `torch.cat([losses, loss.view(1)])`, `sum([total, loss])`, `[*losses, loss]`."""
    if isinstance(value, ast.Call) and called_name(value) in _CONCATENATES and value.args:
        return shown(value.args[0])
    match value:
        case ast.Call(func=ast.Name(id="sum"), args=[ast.List(elts=joined) | ast.Tuple(elts=joined)]):
            return joined
        case ast.List(elts=joined) | ast.Tuple(elts=joined) if any(isinstance(e, ast.Starred) for e in joined):
            return [each.value if isinstance(each, ast.Starred) else each for each in joined]
    return []
