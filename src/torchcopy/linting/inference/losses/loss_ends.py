"""What ends the graphs of losses that are kept: lists that are cut, sums that are detached, other methods."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..nodes import called_name, keyword, path_of
from ..scopes import Scope
from .differentiated import may_differentiate_twice
from .loss_begins import is_begun_by
from .loss_flow import Losses
from .loss_places import branches, place_of
from .loss_values import KeptValue
from .read_as_numbers import is_asked_for, is_only_shown

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_FEW = 20  # graphs that are kept at a time
_DEEPEST = 2  # names of names
_READS = ("len", "print", "plot", "save", "dump", "str", "repr", "enumerate")


def is_bounded(facts: FileFacts, losses: Losses, root: str) -> bool:
    """Whether the keeper is a `deque` of the last few, or a list from which the oldest are taken."""
    scope = losses.scope
    bound = scope.bindings.get(root) or facts.module.bindings.get(root, [])
    if root.startswith(f"{scope.self_name}.") and scope.owner is not None:
        bound = facts.class_attributes(scope.owner).get(root.partition(".")[2], [])
    for each in bound:
        if isinstance(each.value, ast.Call) and called_name(each.value) == "deque":
            longest = each.value.args[1] if len(each.value.args) > 1 else keyword(each.value, "maxlen")
            return _is_short(facts, scope, longest)
        value = each.value.body if isinstance(each.value, ast.IfExp) else each.value
        if isinstance(value, ast.Subscript) and path_of(value.value) == root:
            match value.slice:
                case ast.Slice(lower=ast.UnaryOp(op=ast.USub(), operand=longest)):  # `losses = losses[-20:]`
                    return _is_short(facts, scope, longest)
                case ast.Slice(lower=ast.BinOp(left=ast.Call(), op=ast.Sub(), right=longest), upper=None):
                    return _is_short(facts, scope, longest)  # `losses = losses[len(losses) - 20:]`
            return True
    for call in scope.nodes(ast.Call):
        tests = [each.test for each in facts.above(call) if isinstance(each, ast.If)]
        if any(path_of(one) == root for each in tests for one in ast.walk(each)) and is_begun_by(
            facts, call, {root}
        ):
            return True  # `if len(self.losses) > 16: self.flush()`
    return root in losses.cut or is_cut(facts, scope, root)


def is_cut(facts: FileFacts, scope: Scope, place: str) -> bool:
    """Whether a list is cut to the last few: `del losses[:-20]`, `losses[:] = losses[-20:]`."""
    for each in scope.nodes(ast.Subscript):
        if type(each.ctx) is ast.Load or not isinstance(each.slice, ast.Slice) or path_of(each.value) != place:
            continue
        stored = scope.binding(each).value if type(each.ctx) is ast.Store else None
        cut = stored.slice if isinstance(stored, ast.Subscript) else each.slice
        if any(_is_short(facts, scope, one) for one in ast.walk(cut) if isinstance(one, ast.Constant)):
            return True
    return False


def _is_short(facts: FileFacts, scope: Scope, length: ast.expr | None, depth: int = 0) -> bool:
    """Whether a number is known to be small: written there, a constant of the file, or what a parameter is else."""
    if depth > _DEEPEST:
        return False
    bound = facts.bindings(length) if isinstance(length, ast.Name) else []
    if isinstance(length, ast.Attribute) and scope.owns(path_of(length) or "") and scope.owner is not None:
        bound = facts.class_attributes(scope.owner).get(length.attr, [])
    if bound:
        made = (_default(each.node, facts) if each.how == "parameter" else each.value for each in bound)
        return all(_is_short(facts, scope, each, depth + 1) for each in made)
    return isinstance(length, ast.Constant) and isinstance(length.value, int) and length.value <= _FEW


def _default(parameter: ast.AST, facts: FileFacts) -> ast.expr | None:
    """What a parameter is where nothing is given for it."""
    given = facts.parent(parameter)
    if not isinstance(given, ast.arguments):
        return None
    by_place = [*given.posonlyargs, *given.args][len(given.posonlyargs) + len(given.args) - len(given.defaults) :]
    known = [*zip(by_place, given.defaults, strict=True), *zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    return next((value for each, value in known if each is parameter), None)


def is_detached_there(losses: Losses, kept: KeptValue) -> bool:
    """Whether what is kept is detached in each round, right after: `total += loss`, `total = total.detach()`."""
    places = [kept.keeper] if kept.is_sum else [f"{kept.keeper}[-1]", place_of(kept.node) or "?"]
    if not any(each in losses.detachings for each in places):
        return False
    around = losses.facts.loops(kept.statement)[:1]
    return any(
        at.lineno >= getattr(kept.statement, "lineno", 0)
        and (kept.is_sum or place.endswith("[-1]") or isinstance(at, ast.Expr))
        and losses.facts.loops(at)[:1] == around
        and not branches(losses.facts, at, around[0] if around else None)
        for place in places
        for at in losses.detachings.get(place, ())
    )


def _reads(scope: Scope, name: str) -> bool:
    return any(each.id == name and type(each.ctx) is ast.Load for each in scope.nodes(ast.Name))


def is_used_up(facts: FileFacts, scope: Scope, root: str) -> bool:
    """Whether other functions empty the attribute, or list of the file, that keeps losses, or compute with it."""
    if not scope.owns(root):
        used = [each for each in facts.scopes if each is not scope and _reads(each, root)]
        if not any(is_asked_for(facts, each, root) for each in used) or may_differentiate_twice(facts):
            return True  # by another file, it seems
        begins = any(root in each.names for other in facts.scopes for each in other.nodes(ast.Global))
        return begins or not all(is_only_shown(facts, each, root) for each in used)
    name = root.partition(".")[2]
    methods = [each for each in (scope.owner.inner if scope.owner is not None else ()) if each.self_name]
    for method in methods:
        place = f"{method.self_name}.{name}"
        for node in method.nodes(ast.Attribute):
            above = facts.parent(node)
            if path_of(node) != place or (method is scope and isinstance(above, ast.Attribute)):
                continue
            if type(node.ctx) is ast.Store and method.name != "__init__":
                return True
            is_computed = isinstance(above, ast.Call) and called_name(above) not in _READS
            is_emptied = isinstance(above, ast.Attribute) and above.attr in ("clear", "pop", "popleft")
            if is_computed or is_emptied or isinstance(above, ast.For | ast.comprehension | ast.Delete):
                return True
            if isinstance(above, ast.Subscript) and type(above.ctx) is ast.Del:
                return True
    return False
