"""Which values had `backward()` called on them, by which binding of a name they came to be, and what keeps them.

A binding is followed, not a name: `loss = loss.item()` makes another value of the same name.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .flow import Flow
from .kinds import UNKNOWN, Kind
from .loss_terms import detaches, is_detached_itself, shown, terms
from .nodes import Loop, called_name, keyword, path_of, walk
from .scopes import Scope

if TYPE_CHECKING:
    from .file_facts import FileFacts

_BACKWARDS = ("backward", "manual_backward")
_DRIVERS = tuple("self accelerat engine fabric trainer amp strategy autograd optim booster".split())
_SCALES = ("scale", "scale_loss")
_KEEPERS = ("append", "extend", "add", "appendleft")
_LOSS_LIKE = re.compile(r"loss|penalt|reg|kl|nll|cost|energy|objective")
_DEEPEST = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Value:
    """What a place was bound to.

    Attributes:
        place: how it is written.
        node: the statement that bound it, or the parameter.
        source: the expression.
        index: which part of what `source` gives, or -1.
    """

    place: str
    node: ast.AST
    source: ast.expr | None = None
    index: int = -1


@dataclasses.dataclass(frozen=True, slots=True)
class KeptValue:
    """A statement that keeps a value for longer.

    Attributes:
        node: the expression that is kept.
        statement: the statement or call.
        keeper: the place that keeps it.
        is_sum: whether it is added up rather than listed.
        values: what `node` may be.
    """

    node: ast.expr
    statement: ast.AST
    keeper: str
    is_sum: bool
    values: frozenset[Value]


def place_of(node: ast.AST | None) -> str | None:
    """As `path_of`, and for an entry whose key is a place: `out[self.metric]`."""
    path = path_of(node)
    if path is None and isinstance(node, ast.Subscript):
        of, key = path_of(node.value), path_of(node.slice)
        return None if of is None or key is None else f"{of}[{key}]"
    return path


class Losses(Flow[Value]):
    """Follows the bindings of one function to `backward()` and to what keeps them."""

    def __init__(self, facts: FileFacts, scope: Scope) -> None:
        super().__init__()
        self.facts = facts
        self.scope = scope
        self.backwards: set[Value] = set()
        self.backward_places: set[str] = set()
        self._summed_elsewhere: set[Value] = set()  # differentiated behind the loop that made them
        self.needed: set[Value] = set()
        self.kept: dict[ast.expr, KeptValue] = {}
        self.returned: list[tuple[int, frozenset[Value]]] = []
        self._derived: dict[Value, set[Value]] = {}
        self._parts: dict[Value, set[Value]] = {}

    def visit(self, node: ast.AST, facts: frozenset[Value]) -> frozenset[Value]:
        """Notes what is differentiated, kept and returned, and follows what is bound."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom):
            return facts
        for each in walk(node):
            if isinstance(each, ast.Call):
                self._call(each, facts)
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    if isinstance(target, ast.Subscript) and self._is_slot_of_a_round(target):
                        self._keep(value, node, place_of(target.value) or "", False, facts)
                    facts = self._bound(target, value, node, facts)
            case ast.AnnAssign(target=target, value=value) if value is not None:
                facts = self._bound(target, value, node, facts)
            case ast.AugAssign(target=target, value=value, op=op):
                facts = self._augmented(target, value, op, node, facts)
            case ast.Return(value=value) if value is not None:
                parts = value.elts if isinstance(value, ast.Tuple) else [value]
                for index, part in enumerate(parts):
                    whole = -1 if not isinstance(value, ast.Tuple) else index
                    self.returned.append((whole, self._values(part, facts)))
            case ast.withitem(context_expr=ast.Call() as scaled, optional_vars=ast.Name() as target) if (
                called_name(scaled) in _SCALES and scaled.args
            ):
                facts = self._bound(target, scaled.args[0], node, facts)
            case ast.Name() | ast.Tuple() | ast.withitem():
                inside = node.optional_vars if isinstance(node, ast.withitem) else node
                for name in ast.walk(inside) if inside is not None else ():
                    if isinstance(name, ast.Name) and type(name.ctx) is ast.Store:
                        facts = self._rebound(name.id, None, facts)
        return facts

    def _call(self, call: ast.Call, facts: frozenset[Value]) -> None:
        name = called_name(call)
        if name in _BACKWARDS:
            self._backward(call, facts)
        elif name == "grad" and self.facts.resolve(call.func) == "torch.autograd.grad" and call.args:
            if keyword(call, "create_graph") is None and place_of(call.args[0]) is not None:
                self.backwards |= self._values(call.args[0], facts)
        elif name in _KEEPERS and len(call.args) == 1 and isinstance(call.func, ast.Attribute):
            keeper = place_of(call.func.value)
            if keeper is not None:
                for kept in shown(call.args[0]):
                    self._keep(kept, call, keeper, False, facts)

    def _backward(self, call: ast.Call, facts: frozenset[Value]) -> None:
        of = call.func.value if isinstance(call.func, ast.Attribute) else None
        driver = (path_of(of) or "").lower().rpartition(".")[2]
        if called_name(call) == "manual_backward" or any(each in driver for each in _DRIVERS):
            of = call.args[0] if call.args else None
        while isinstance(of, ast.Call) and called_name(of) in _SCALES:
            of = of.args[0] if of.args else None
        if of is None:
            return
        for each in ast.walk(of):
            if (path := path_of(each)) is not None:
                self.backward_places.add(path)
        if place_of(of) is not None:
            values = self._values(of, facts)
            self.backwards |= values
            loop = self.facts.loops(call)[:1]
            self._summed_elsewhere |= {
                each for each in values if each.source is not None and self.facts.loops(each.node)[:1] != loop
            }
        else:
            made = Value("", call, of)
            self.backwards.add(made)
            self._relate(made, of, facts)
            places = [each for each in terms(of) if place_of(each) is not None]
            if len(places) == 1 or (places and isinstance(of, ast.BinOp) and isinstance(of.op, ast.Div | ast.Mult)):
                self.backwards |= self._values(places[0], facts)

    def _keep(self, node: ast.expr, at: ast.AST, keeper: str, is_sum: bool, facts: frozenset[Value]) -> None:
        values = self._values(node, facts)
        if values:
            before = self.kept.get(node)
            self.kept[node] = KeptValue(
                node, at, keeper, is_sum, values | (before.values if before else frozenset())
            )

    def _bound(self, target: ast.expr, value: ast.expr, at: ast.AST, facts: frozenset[Value]) -> frozenset[Value]:
        if isinstance(target, ast.Tuple | ast.List):
            given = value.elts if isinstance(value, ast.Tuple | ast.List) else None
            for index, each in enumerate(target.elts):
                if given is not None and index < len(given):
                    facts = self._bound(each, given[index], at, facts)
                else:
                    facts = self._rebound(place_of(each), Value(place_of(each) or "", at, value, index), facts)
            return facts
        place = place_of(target)
        if place is None:
            return facts
        for term in terms(value):
            if place_of(term) == place and term is not value:
                for other in terms(value):
                    if place_of(other) != place:
                        self._keep(other, at, place, True, facts)
        made = Value(place, at, value)
        self._relate(made, value, facts)
        return self._rebound(place, made, facts)

    def _is_slot_of_a_round(self, target: ast.Subscript) -> bool:
        """Whether each round of a loop writes another slot: `losses[step] = loss`."""
        key, loops = target.slice, self.facts.loops(target)
        if not isinstance(key, ast.Name) or not loops or not isinstance(loops[0], ast.For):
            return False
        counters = {each.id for each in ast.walk(loops[0].target) if isinstance(each, ast.Name)}
        return key.id in counters and place_of(target.value) is not None

    def _augmented(
        self, target: ast.expr, value: ast.expr, op: ast.operator, at: ast.AST, facts: frozenset[Value]
    ) -> frozenset[Value]:
        place = place_of(target)
        if place is None:
            return facts
        if isinstance(op, ast.Add | ast.Sub):
            if isinstance(value, ast.List):
                for each in value.elts:
                    self._keep(each, at, place, False, facts)
            else:
                for term in terms(value):
                    self._keep(term, at, place, True, facts)
        made = Value(place, at)
        before = {each for each in facts if each.place == place and each != made}
        self._derived.setdefault(made, set()).update(before)
        self._parts.setdefault(made, set()).update(before)
        self._relate(made, value, facts)
        return self._rebound(place, made, facts)

    def _rebound(self, place: str | None, made: Value | None, facts: frozenset[Value]) -> frozenset[Value]:
        if place is None:
            return facts
        left = frozenset(
            each for each in facts if each.place != place and not each.place.startswith((f"{place}[", f"{place}."))
        )
        return left if made is None else left | {made}

    def _relate(self, made: Value, value: ast.expr, facts: frozenset[Value]) -> None:
        """What a value was computed from by arithmetic: it is on its graph, and the other way round."""
        for term in terms(value):
            values = self._values(term, facts)
            self._derived.setdefault(made, set()).update(values)
            self._parts.setdefault(made, set()).update(values)

    def _values(self, node: ast.expr, facts: frozenset[Value]) -> frozenset[Value]:
        """What an expression may be, if it is a place, or a call whose result is told by its definition."""
        found: set[Value] = set()
        for term in terms(node):
            place = place_of(term)
            if place is not None:
                found |= {each for each in facts if each.place == place}
                if isinstance(term, ast.Subscript) and not found:
                    found.add(Value(place, self.scope.node))
            elif isinstance(term, ast.Call):
                found.add(Value("", term, term))
        return frozenset(found)

    def hot(self, depth: int = 0) -> set[Value]:
        """The values that `backward()` was called on, what was computed from them, and what they were made of."""
        hot = {each for each in self.backwards if not self.is_detached(each)}
        if depth < _DEEPEST:
            for each in self._all_values():
                if isinstance(each.source, ast.Call) and returns_hot(
                    self.facts, each.source, each.index, depth + 1
                ):
                    hot.add(each)
            hot |= self._made_beside(hot, depth + 1)
        while True:
            self.needed |= {part for each in self.needed | self.backwards for part in self._parts.get(each, ())}
            whole = hot - self._summed_elsewhere
            more = {part for each in whole for part in self._parts.get(each, ()) if self.may_hang(part)}
            more |= {
                each for each, of in self._derived.items() if of & hot and not self.is_detached(each, derived=True)
            }
            if more <= hot:
                return hot
            hot |= more

    def _made_beside(self, hot: set[Value], depth: int) -> set[Value]:
        """The other losses that one call of a function of the project gave: they share a graph."""
        calls = {each.source for each in hot if each.index >= 0}
        return {
            each
            for each in self._all_values()
            if each.index >= 0
            and isinstance(each.source, ast.Call)
            and each.source in calls
            and _LOSS_LIKE.search(each.place.lower())
            and returns_loss(self.facts, each.source, each.index, depth)
        }

    def _all_values(self) -> Iterator[Value]:
        for kept in self.kept.values():
            yield from kept.values
        for _, values in self.returned:
            yield from values

    def is_detached(self, value: Value, *, derived: bool = False) -> bool:
        """Whether a value hangs on no graph for sure; a `derived` one may be on the graph of what it is made of."""
        if value.source is None:
            return False
        kind = self._kind(value)
        if derived and value in self.backwards:
            return is_detached_itself(value.source)  # a number it begins with has no `backward`
        if derived and detaches(value.source):
            return True
        return kind.name in ("number", "ndarray", "text") or (derived and kind.is_tensor and kind.graph is False)

    def _kind(self, value: Value) -> Kind:
        """What a value is; of a part of what a call gives, what the call's definition tells."""
        if value.index < 0:
            return self.facts.kind_of(value.source)
        found = self.facts.definition(value.source.func) if isinstance(value.source, ast.Call) else None
        parts = self.facts.summary(found).parts if found is not None and found.scope.is_function else ()
        return parts[value.index] if value.index < len(parts) else UNKNOWN

    def may_hang(self, part: Value, depth: int = 0) -> bool:
        """Whether a summand of a loss hangs on the graph: a weight or a target does not."""
        if part.source is None and depth < _DEEPEST:  # `loss /= n`: as what it was before
            return any(self.may_hang(each, depth + 1) for each in self._parts.get(part, ()))
        if not isinstance(part.source, ast.Call | ast.BinOp) or not _LOSS_LIKE.search(part.place.lower()):
            kind = self.facts.kind_of(part.source)
            return kind.is_tensor and kind.graph is True
        kind = self._kind(part)
        return not detaches(part.source) and (not kind.is_known or (kind.is_tensor and kind.graph is not False))


def returns_hot(facts: FileFacts, call: ast.Call, index: int, depth: int = 1) -> bool:
    """Whether a function of the project returns, as its `index`-th part, what it called `backward()` on."""
    found = facts.definition(call.func)
    if found is None or not found.scope.is_function or not found.scope.body or depth > _DEEPEST:
        return False
    if not any(called_name(each) in _BACKWARDS for each in found.scope.nodes(ast.Call)):
        return False
    losses = losses_of(found.facts, found.scope)
    hot = losses.hot(depth)
    given = [values for part, values in losses.returned if part == index and values]
    if any(all(losses.is_detached(each, derived=True) for each in values) for values in given):
        return False  # a number on the common way, a loss on another one
    return any(values & hot for values in given)


def returns_loss(facts: FileFacts, call: ast.Call, index: int, depth: int) -> bool:
    """Whether a function of the project returns, as its `index`-th part, a loss with its graph."""
    found = facts.definition(call.func)
    if found is None or not found.scope.is_function or not found.scope.body or depth > _DEEPEST:
        return False
    losses = losses_of(found.facts, found.scope)
    parts = [values for part, values in losses.returned if part == index]
    return bool(parts) and all(
        values and all(each.source is not None and losses.may_hang(each) for each in values) for values in parts
    )


def losses_of(facts: FileFacts, scope: Scope) -> Losses:
    """The losses of a function, worked out once."""
    known = facts.losses
    if scope not in known:
        known[scope] = Losses(facts, scope)
        known[scope].run(scope.body)
    return known[scope]


def repeats(facts: FileFacts, scope: Scope, kept: KeptValue) -> bool:
    """Whether a keeper outlives one round: some loop around does not begin it anew, or it is an attribute."""
    root = kept.keeper.partition("[")[0]
    if root.startswith(f"{scope.self_name}.") and scope.self_name:
        return True
    name = root.partition(".")[0]
    begins = [
        each.node
        for each in scope.bindings.get(name, [])
        if each.how in ("value", "part", "element", "entered") and not _reads(each.value, name)
    ]
    return any(not _begins_each_round(facts, begins, kept.statement, loop) for loop in facts.loops(kept.statement))


def _begins_each_round(facts: FileFacts, begins: list[ast.AST], keeps: ast.AST, loop: Loop) -> bool:
    """Whether each round of a loop begins a keeper anew: not only in one branch of an `if`."""
    around = _branches(facts, keeps, loop)
    ways = [_branches(facts, each, loop) for each in begins if loop in facts.loops(each)]
    taken = {branch for way in ways for branch in way}
    return any(
        all(
            (at, is_body) in around or ((at, not is_body) in taken and (at, not is_body) not in around)
            for at, is_body in way
        )
        for way in ways
    )


def _branches(facts: FileFacts, node: ast.AST, loop: Loop) -> list[tuple[ast.If, bool]]:
    """The branches that a node is in, up to a loop: of which `if`, and whether of its body."""
    found = []
    below = node
    for at in facts.above(node):
        if at is loop:
            break
        if isinstance(at, ast.If) and below is not at.test:
            found.append((at, below in at.body))
        below = at
    return found


def _reads(node: ast.expr | None, name: str) -> bool:
    return node is not None and any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(node))
