"""What a called function of the project does to states: which it leaves kept, replaces, and compares."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..nodes import called_name, gone_through, path_of, strip_calls, walk
from ..scopes import Scope
from ..summaries import Definition
from .comparisons import TAKES_VALUES
from .keepers import always_runs
from .places import as_the_caller_writes, given_places, is_in, is_same_object
from .returned_states import is_copy, told_by

if TYPE_CHECKING:
    from ..file_facts import FileFacts
    from .state_flow import KeptStates
    from .states import State

_MOST_STATES = 24  # of one function: what leaves more is no stopper


def left_by(facts: FileFacts, scope: Scope, call: ast.Call) -> Iterator[tuple[State, bool]]:
    """The states that a function leaves in what it is given, as the caller writes them; and whether always."""
    found = facts.definition(call.func)
    if found is None or not found.scope.is_function or found.scope is scope or not _takes_a_state(found.scope):
        return
    given = given_places(call, found.scope)
    kept = [each for each in _flow_of(found).at_exit if each.place]
    for state in kept if len(kept) <= _MOST_STATES else ():
        place, module = as_the_caller_writes(given, state.place), as_the_caller_writes(given, state.kept.module)
        if place is None or module is None or place == path_of(call.func):
            continue
        stores = [at for at in found.scope.nodes(ast.Assign) for one in at.targets if _is_around(one, state.place)]
        told = dataclasses.replace(told_by(facts, found.facts, state.kept, call), module=module, is_left=True)
        yield dataclasses.replace(state, place=place, kept=told), any(always_runs(found.scope, at) for at in stores)


def replaced_by(facts: FileFacts, call: ast.Call) -> Iterator[str]:
    """The places of the caller that a function binds to something else, empties, or puts clones into."""
    found = facts.definition(call.func)
    if found is None or not found.scope.is_function or not found.scope.body:
        return
    known = found.facts.replaced
    if found.scope not in known:
        known[found.scope] = [*dict.fromkeys(_replaced_in(found.scope))]
    given = given_places(call, found.scope) if known[found.scope] else {}
    for place in known[found.scope]:
        replaced = as_the_caller_writes(given, place)
        if replaced is not None:
            yield replaced


def _replaced_in(function: Scope) -> Iterator[str]:
    """What a function replaces in each call, as it writes it: `self.model`, `ctx.kept`, `state`."""
    for at in function.body:
        place = None
        match at:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    path = path_of(target) if isinstance(target, ast.Attribute) else None
                    is_read = any(path_of(each) == path for each in walk(value))
                    is_itself = is_same_object(target, value) or (is_read and not is_copy(value))
                    if path is not None and not is_itself:
                        yield path
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=of, attr="clear"))):
                place = path_of(of)
            case ast.Expr(
                value=ast.Call(func=ast.Attribute(value=of, attr="update"), args=[ast.DictComp() as made])
            ):
                place = path_of(of) if _goes_through(made.generators[0].iter, of) and _clones(made.value) else None
            case ast.For():
                place = cloned_in(at)
        if place is not None:
            yield place
        if any(isinstance(each, ast.Return | ast.Raise) for each in walk(at)):
            return  # the rest does not always run


def cloned_in(loop: ast.For) -> str | None:
    """The dict whose values a loop over it replaces by clones: `for k in state: state[k] = state[k].clone()`."""
    for each in walk(loop):
        match each:
            case ast.Assign(targets=[ast.Subscript(value=of)], value=value):
                if _goes_through(loop.iter, of) and _clones(value):
                    return path_of(of)
    return None


def _goes_through(iterable: ast.expr, of: ast.expr) -> bool:
    match iterable:
        case ast.Call(func=ast.Name(id="range"), args=[ast.Call(func=ast.Name(id="len"), args=[listed])]):
            iterable = listed
    return path_of(gone_through(iterable)) == path_of(of) is not None


def _clones(value: ast.expr) -> bool:
    """Whether a value is a new tensor: a clone, or computed by some function; not a view, nor what was there."""
    inner, _ = strip_calls(value, "detach", "data", "view", "to", "cpu", "pop", "get")
    return inner is value and isinstance(value, ast.Call | ast.BinOp)


def compared_by(facts: FileFacts, call: ast.Call) -> Iterator[tuple[str, str]]:
    """The places of the caller that a function is given and compares with a module, which it is given too."""
    found = facts.definition(call.func)
    if found is None or not found.scope.is_function or not _takes_a_state(found.scope):
        return
    given = given_places(call, found.scope)
    for use in _flow_of(found).unknown_uses:
        place, module = as_the_caller_writes(given, use.place), as_the_caller_writes(given, use.module)
        if use.role == "compared" and place is not None and module is not None:
            yield place, module


def _is_around(target: ast.expr, place: str) -> bool:
    """Whether a store to `target` puts something into a place, or around it."""
    path = path_of(target)
    return path is not None and is_in(place, path)


def _flow_of(found: Definition) -> KeptStates:
    """The states of a function alone, followed once: without what it calls, so that all orders give the same."""
    from .state_flow import KeptStates  # which itself asks for effects

    known = found.facts.flows_without_calls
    if found.scope not in known:
        known[found.scope] = flow = KeptStates(found.facts, found.scope, into_calls=False)
        flow.run(found.scope.body)
    return known[found.scope]


def _takes_a_state(function: Scope) -> bool:
    return any(called_name(each) in TAKES_VALUES for each in function.nodes(ast.Call))
