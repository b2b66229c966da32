"""What ends the graphs of losses that are kept: lists that are cut, sums that are detached, other methods."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..nodes import called_name, keyword, path_of
from ..scopes import Scope
from .loss_flow import Losses
from .loss_places import branches, place_of
from .loss_values import KeptValue
from .read_as_numbers import is_only_shown

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_FEW = 20  # graphs that are kept at a time
_READS = ("len", "print", "plot", "save", "dump", "str", "repr", "enumerate")


def is_bounded(facts: FileFacts, losses: Losses, root: str) -> bool:
    """Whether the keeper is a `deque` of the last few, or a list from which the oldest are taken."""
    scope = losses.scope
    bound = scope.bindings.get(root, [])
    if root.startswith(f"{scope.self_name}.") and scope.owner is not None:
        bound = facts.class_attributes(scope.owner).get(root.partition(".")[2], [])
    for each in bound:
        if isinstance(each.value, ast.Call) and called_name(each.value) == "deque":
            longest = each.value.args[1] if len(each.value.args) > 1 else keyword(each.value, "maxlen")
            return _is_short(longest)
        if isinstance(each.value, ast.Subscript) and path_of(each.value.value) == root:
            match each.value.slice:
                case ast.Slice(lower=ast.UnaryOp(op=ast.USub(), operand=longest)):  # `losses = losses[-20:]`
                    return _is_short(longest)
                case ast.Slice(lower=ast.BinOp(left=ast.Call(), op=ast.Sub(), right=longest), upper=None):
                    return _is_short(longest)  # `losses = losses[len(losses) - 20:]`
            return True
    return root in losses.cut or is_cut(scope, root)


def is_cut(scope: Scope, place: str) -> bool:
    """Whether a list is cut to the last few: `del losses[:-20]`, `losses[:] = losses[-20:]`."""
    for each in scope.nodes(ast.Subscript):
        if type(each.ctx) is ast.Load or not isinstance(each.slice, ast.Slice) or path_of(each.value) != place:
            continue
        stored = scope.binding(each).value if type(each.ctx) is ast.Store else None
        cut = stored.slice if isinstance(stored, ast.Subscript) else each.slice
        if any(_is_short(one) for one in ast.walk(cut) if isinstance(one, ast.Constant)):
            return True
    return False


def _is_short(length: ast.expr | None) -> bool:
    return isinstance(length, ast.Constant) and isinstance(length.value, int) and length.value <= _FEW


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


def _has(scope: Scope, name: str) -> bool:
    return any(each.id == name for each in scope.nodes(ast.Name))


def is_used_up(facts: FileFacts, scope: Scope, root: str) -> bool:
    """Whether other functions empty the attribute, or list of the file, that keeps losses, or compute with it."""
    if not scope.owns(root):
        used = [each for each in facts.scopes if each is not scope and _has(each, root)]
        return not all(is_only_shown(facts, each, root) for each in used)
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
