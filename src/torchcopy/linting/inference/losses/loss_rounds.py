"""In which loops a keeper of losses outlives a round: not in those that begin it anew, or go through one step."""

from __future__ import annotations

import ast
import dataclasses
from typing import TYPE_CHECKING

from ..nodes import Loop, called_name, gone_through, method_call, path_of, root_name
from ..scopes import Scope
from ..summaries import matched_arguments
from ..values.elements import container_of
from .callers import calls_of
from .differentiated import BACKWARDS, may_differentiate_twice
from .loops import (
    is_left_in_its_first_round,
    is_over_batches,
    is_over_few,
    is_over_losses,
    is_over_many,
    is_over_models,
    takes_steps,
)
from .loss_begins import (
    begins_each_round,
    begun_with_each_call,
    is_begun_with_each_backward,
    is_empty,
    reads,
)
from .loss_names import mentions_loss
from .loss_values import KeptValue
from .read_as_numbers import is_only_shown

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_DEEPEST = 3  # calls of calls


def repeats(
    facts: FileFacts, scope: Scope, kept: KeptValue, differentiating: frozenset[Loop] = frozenset()
) -> bool:
    """Whether a keeper outlives one round: some loop around does not begin it anew, or it is an attribute.

    Where `differentiating` loops are given, those with a `backward()`, others only go through the parts of a loss.
    """
    root = kept.keeper.partition("[")[0]
    root = behind(scope, root)
    if scope.owns(root):
        begins = begun_with_each_call(facts, scope, {root, kept.keeper}, kept.statement)
        if begins:
            return _outlives_a_round(facts, kept, begins, differentiating)
        return not is_begun_with_each_backward(facts, scope, root)
    is_by_call = isinstance(kept.statement, ast.Call) and path_of(kept.statement.func) == kept.keeper
    if is_by_call:
        root = _container(facts, kept.statement) or root  # of `callback.on_step(loss)` all callbacks
        if scope.owns(root):
            return True
    name = root_name(root)
    if is_of_outside(facts, scope, name) and not facts.loops(kept.statement):
        return not _is_differentiated_somewhere(facts, root)
    if [each.how for each in scope.bindings.get(name, [])] == ["parameter"]:
        if is_by_call:
            return True  # a meter that the caller has, for many calls
        if not facts.loops(kept.statement):
            return _outlives_in_a_caller(facts, scope, kept, name)
    if (stepping := _stepping_with(scope, name)) is not None:
        scope, at = stepping
        kept = dataclasses.replace(kept, statement=at)
        differentiating = frozenset()
    begins = [
        each.node
        for each in scope.bindings.get(name, [])
        if each.how in ("value", "part", "element", "entered") and not reads(each.value, name)
    ]
    begins += [call for call in scope.nodes(ast.Call) if path_of(method_call(call, "clear")) == name]
    return _outlives_a_round(facts, kept, begins, differentiating)


def _outlives_in_a_caller(facts: FileFacts, scope: Scope, kept: KeptValue, name: str) -> bool:
    """Whether a caller has a list for a parameter over many rounds, in each of which it calls the function.

    Where the function differentiates nothing, it does so with what the function returns.
    """
    own = facts.losses.get(scope)
    if may_differentiate_twice(facts):
        return False
    for losses, call in calls_of(facts, scope):
        caller = losses.scope
        given = next((value for each, value in matched_arguments(call, scope) if each.arg == name), None)
        if not isinstance(given, ast.Name) or losses.facts.is_without_graph(call):
            continue
        if own is not None and own.is_for_caller:
            differentiated = losses.backwards | losses.parts_of(losses.backwards)
            if not any(each.source is call for each in differentiated):
                continue
            differentiating = frozenset(losses.backward_loops)
        else:
            loops = losses.facts.loops(call)
            differentiating = frozenset(each for each in loops if is_over_batches(each) or is_over_many(each))
        if not differentiating:
            continue
        bound = caller.bindings.get(given.id, [])
        is_begun = bool(bound) and all(each.how == "value" and is_empty(each.value) for each in bound)
        there = dataclasses.replace(kept, statement=call)
        if (
            is_begun
            and _outlives_a_round(losses.facts, there, [each.node for each in bound], differentiating)
            and is_only_shown(losses.facts, caller, given.id, call)
        ):
            return True
    return False


def _outlives_a_round(
    facts: FileFacts, kept: KeptValue, begins: list[ast.AST], differentiating: frozenset[Loop]
) -> bool:
    """Whether some loop around where a value is kept does not begin its keeper anew in each round."""
    is_loss = mentions_loss(path_of(kept.node))
    loops = [
        loop
        for loop in facts.loops(kept.statement)
        if not is_left_in_its_first_round(facts, loop, kept.statement)
        and not is_over_models(loop)
        and not is_over_losses(loop, kept)
        and (not differentiating or loop in differentiating)
        and not is_over_few(loop, only_constants=is_loss)
        and not _is_within_a_batch(facts, begins, kept.statement, loop)
    ]
    return any(not begins_each_round(facts, begins, kept.statement, loop) for loop in loops)


def _container(facts: FileFacts, call: ast.AST) -> str | None:
    """What a loop goes through, of each object of which a method is called."""
    of = call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
    through = container_of(facts, of) if isinstance(of, ast.Name) else None
    return path_of(gone_through(through)) if through is not None else None


def behind(scope: Scope, place: str) -> str:
    """What a name is an entry of: `history` for `row`, where `row = history[epoch]` or `history.setdefault(…)`."""
    for _ in range(_DEEPEST):
        bound = scope.bindings.get(place, [])
        value = bound[0].value if len(bound) == 1 and bound[0].how == "value" else None
        of = method_call(value, "setdefault", "get")
        of = value.value if isinstance(value, ast.Subscript) else of
        path = path_of(of)
        if path is None:
            return place
        place = path.partition("[")[0]
    return place


def is_of_outside(facts: FileFacts, scope: Scope, name: str) -> bool:
    """Whether a function keeps something in a list or number of its file, or of the function around it."""
    if not scope.is_function or (name in scope.bindings and not _is_declared_outside(scope, name)):
        return False
    at = scope.parent
    while at is not None and (isinstance(at.node, ast.ClassDef) or name not in at.bindings):
        at = at.parent
    bound = at.bindings[name] if at is not None else []
    return bool(bound) and all(
        each.how in ("value", "augmented", "definition") and not (at is not facts.module and facts.loops(each.node))
        for each in bound
    )


def _is_declared_outside(scope: Scope, name: str) -> bool:
    """Whether a function adds to a name of the file, or of the function around, and does not begin it anew."""
    declared: list[ast.Global | ast.Nonlocal] = [*scope.nodes(ast.Global), *scope.nodes(ast.Nonlocal)]
    if not any(name in each.names for each in declared):
        return False
    return all(each.how == "augmented" or reads(each.value, name) for each in scope.bindings[name])


def _is_differentiated_somewhere(facts: FileFacts, place: str) -> bool:
    """Whether some function of the file calls `backward()` on what is kept in a place."""
    calls = (call for name in BACKWARDS for call in facts.calls_by_name.get(name, ()))
    return any(path_of(each) == place for call in calls for each in ast.walk(call))


def _stepping_with(scope: Scope, name: str) -> tuple[Scope, ast.Call] | None:
    """The function around a closure, of which a name is, and where it gives the closure to `optimizer.step`."""
    around = scope.parent
    is_own = name in scope.bindings and not any(name in each.names for each in scope.nodes(ast.Nonlocal))
    if around is None or is_own or name not in around.bindings:
        return None
    for call in around.nodes(ast.Call):
        given = [*call.args[:1], *(each.value for each in call.keywords)] if called_name(call) == "step" else []
        if any(isinstance(each, ast.Name) and each.id == scope.name for each in given):
            return around, call
    return None


def _is_within_a_batch(facts: FileFacts, begins: list[ast.AST], keeps: ast.AST, loop: Loop) -> bool:
    """Whether a loop goes through the parts of one step, which one around it takes, and begins a keeper anew."""
    if is_over_batches(loop) or takes_steps(facts, loop):
        return False
    around = (each for each in facts.loops(loop) if takes_steps(facts, each))
    return any(begins_each_round(facts, begins, keeps, each) for each in around)
