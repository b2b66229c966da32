"""Functions of the project that keep the losses which they are given: in an object, or in what the caller has."""

from __future__ import annotations

import ast
import dataclasses
from typing import TYPE_CHECKING

from ..nodes import method_call, path_of, root_name
from ..scopes import Scope
from .hot_losses import Taken, takers
from .loss_flow import Losses, losses_of
from .loss_places import branches
from .loss_values import Given, KeptValue

if TYPE_CHECKING:
    from ..file_facts import FileFacts
from .leaks import is_leak, keeps_graphs
from .loss_ends import is_cut
from .loss_rounds import behind, is_of_outside

_DEEPEST = 3  # calls of calls


@dataclasses.dataclass(frozen=True, slots=True)
class Keeper:
    """Where a function of the project keeps what it is given.

    Attributes:
        facts: of its file.
        statement: what keeps it.
        bucket: the parameter that it puts it into, if it is no attribute or list of its own.
        is_slot: it writes to an entry of that, which may be an array.
    """

    facts: FileFacts
    statement: ast.AST
    bucket: str = ""
    is_slot: bool = False


def kept_by_call(facts: FileFacts, given: Given, depth: int = 0) -> tuple[Taken, Keeper] | None:
    """Which function of the project that is given a loss keeps it, or a sum of them, for longer, and where."""
    if depth >= _DEEPEST or facts.is_without_graph(given.call):
        return None
    for taken in takers(facts, given.call, given.argument):
        losses = losses_of(taken.facts, taken.scope)
        known, key = losses.keeps, (taken.value, depth, given.key)
        if key not in known:
            known[key] = _keeps(taken, losses, depth, given.key)
        keeper = known[key]
        if keeper is not None:
            return taken, keeper
    return None


def _keeps(taken: Taken, losses: Losses, depth: int, key: str | int | None) -> Keeper | None:
    """Where a function keeps a parameter: in an attribute, a list of its file, what it is given, or by a call."""
    facts, scope, owns = taken.facts, taken.scope, taken.scope.owns
    for each in losses.kept.values():
        if taken.value not in each.values or _is_an_option(facts, each.statement):
            continue
        if key is not None and _is_another_entry(each.node, taken.value.place, key):
            continue
        root = root_name(each.keeper)
        if owns(behind(scope, each.keeper)) or is_of_outside(facts, scope, root):
            if is_leak(facts, scope, losses, each, given=taken.value):
                return Keeper(facts, each.statement)
        elif root != taken.value.place and [one.how for one in scope.bindings.get(root, ())] == ["parameter"]:
            if _is_emptied(facts, scope, root, each):
                continue
            is_entry = each.keeper != root or not each.is_sum  # a number that is added to stays what it was
            is_slot = not isinstance(each.statement, ast.Call)
            if is_entry and keeps_graphs(facts, scope, losses, each, given=taken.value, is_slot_known=is_slot):
                return Keeper(facts, each.statement, root, is_slot and not _is_asked_by_key(each.statement, root))
    for given in losses.given.values():
        if taken.value in given.values and owns(_receiver(given.call)):
            found = kept_by_call(facts, given, depth + 1)
            if found is not None and not found[1].bucket:
                return found[1]
    return None


def _is_another_entry(node: ast.expr, place: str, key: str | int) -> bool:
    """Whether what is kept of a dict is another entry of it: `state["step"]`, not `state["loss"]`."""
    read = set()
    for each in ast.walk(node):
        match each:
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=one)) if name == place:
                read.add(one)
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=name), attr="get"), args=[ast.Constant(value=one), *_]
            ):
                read |= {one} if name == place else set()
    return bool(read) and key not in read


def _is_asked_by_key(statement: ast.AST, name: str) -> bool:
    """Whether a statement asks a dict for an entry that may be missing: `sums[key] = sums.get(key, 0) + loss`."""
    calls = (each for each in ast.walk(statement) if isinstance(each, ast.Call))
    return any(path_of(method_call(each, "get")) == name for each in calls)


def _receiver(call: ast.Call) -> str:
    """How a method is written, or `self.meters` of `self.meters.setdefault(name, Meter()).update`."""
    of = call.func.value if isinstance(call.func, ast.Attribute) else None
    return path_of(call.func) or path_of(method_call(of, "setdefault")) or ""


def _is_emptied(facts: FileFacts, scope: Scope, name: str, kept: KeptValue) -> bool:
    """Whether a function also empties or cuts what it is given to keep losses in, or changes what it has put in."""
    calls = (method_call(each, "clear", "pop", "popleft", "popitem") for each in scope.nodes(ast.Call))
    if is_cut(facts, scope, name) or any(path_of(each) == name for each in calls):
        return True
    own = getattr(kept.statement, "targets", ())
    return not kept.is_sum and any(
        type(each.ctx) is ast.Store and path_of(each.value) == name and each not in own
        for each in scope.nodes(ast.Subscript)
    )


def _is_an_option(facts: FileFacts, node: ast.AST) -> bool:
    """Whether a method does something only where its object was told to: under `if self.show_loss`."""
    scope = facts.scope_of(node)
    for at, is_body in branches(facts, node, None):
        if is_body and isinstance(at.test, ast.Attribute) and at.test.attr != "training":
            return True
        bound = scope.bindings.get(at.test.id, []) if is_body and isinstance(at.test, ast.Name) else []
        if bound and all(each.how == "parameter" for each in bound):
            return True
    return False
