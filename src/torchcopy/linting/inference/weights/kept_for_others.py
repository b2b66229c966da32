"""Best states that a method leaves in an attribute which nothing in its file reads."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..nodes import path_of, root_name
from ..scopes import Scope
from ..summaries import matched_arguments
from .rounds import is_of_a_round
from .state_flow import KeptStates
from .states import State

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_OF_A_ROUND = re.compile(r"^on_\w*(epoch|valid\w*|eval\w*)_end$|^after_(epoch|valid\w*|eval\w*)$")
_BEST_STATE = re.compile(r"best$|best_?(model|net)?_?(state|weight|param|wts|sd|dict|model|ckpt|checkpoint)")
_SEARCHES = re.compile(
    r"search|tun|select|grid|fold|trial|candidate|sweep|optuna|generation|population|evol|leader|cross|split|restart|seed"
)


def kept_for_others(facts: FileFacts, flows: dict[Scope, KeptStates]) -> Iterator[State]:
    """Each state that is left, when there is a better one, in an attribute that is named as the best, for others.

    Nothing in the file reads that attribute, but tests whether there is one.
    """
    for keeper, flow in flows.items():
        is_of_round = is_of_a_round(keeper) or _OF_A_ROUND.search(keeper.name) is not None
        for state in flow.at_exit:
            attribute = state.place.partition("[")[0].rpartition(".")[2]
            if "." not in state.place or not _BEST_STATE.search(attribute.lower()):
                continue
            if state.kept.is_returned:
                continue
            if not (state.is_trained or is_of_round or _is_of_a_better_round(facts, keeper, state)):
                continue
            stored = [
                each
                for each in keeper.nodes(ast.Attribute)
                if each.attr == attribute and type(each.ctx) is ast.Store
            ]
            is_at_times = all(any(isinstance(one, ast.If) for one in facts.above(each)) for each in stored)
            if stored and is_at_times and not _is_read(facts, attribute):
                yield state


def _is_of_a_better_round(facts: FileFacts, keeper: Scope, state: State) -> bool:
    """Whether a method keeps the state of a module that it is given when a number is better than the one it has.

    In a search, each state may be of another module.
    """
    given = {each.arg for each in keeper.parameters[1:]}
    names = f"{keeper.name} {keeper.owner.name if keeper.owner is not None else ''}".lower()
    root = root_name(state.kept.module)
    if root not in given or len(keeper.bindings[root]) > 1 or _SEARCHES.search(names):
        return False
    if any(_is_made_in_a_loop(facts, call, keeper, root) for call in facts.calls_by_name.get(keeper.name, ())):
        return False
    for around in facts.above(state.kept.call):
        if isinstance(around, ast.If) and isinstance(around.test, ast.Compare):
            sides = {path_of(around.test.left), *map(path_of, around.test.comparators)} - {None}
            stored = {path_of(one) for at in around.body if isinstance(at, ast.Assign) for one in at.targets}
            if any("best" in (each or "").lower() for each in sides & stored):
                return True
    return False


def _is_made_in_a_loop(facts: FileFacts, call: ast.Call, function: Scope, parameter: str) -> bool:
    """Whether a call gives, for a parameter, what each round of a loop makes anew."""
    given = next((value for each, value in matched_arguments(call, function) if each.arg == parameter), None)
    bound = facts.bindings(given) if isinstance(given, ast.Name) else []
    return any(isinstance(each.value, ast.Call) and facts.loops(each.node) for each in bound)


def _is_read(facts: FileFacts, attribute: str) -> bool:
    """Whether an attribute of this name is read anywhere in the file, other than to see whether it is there."""
    named = (each for scope in facts.scopes for each in scope.nodes(ast.Attribute) if each.attr == attribute)
    texts = (each.value for scope in facts.scopes for each in scope.nodes(ast.Constant))
    return attribute in texts or any(
        type(each.ctx) is ast.Load and not isinstance(facts.parent(each), ast.Compare) for each in named
    )
