"""What those that call a function differentiate of its result: in the same file, or as methods of a base class."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..nodes import path_of
from ..scopes import Scope
from ..summaries import bases_of

if TYPE_CHECKING:
    from ..file_facts import FileFacts
    from .loss_flow import Losses
    from .loss_values import Part

_MOST_CALLS = 10


def differentiated_parts(facts: FileFacts, scope: Scope) -> set[Part]:
    """Which parts of what a function returns have `backward()` called on them by a caller."""
    found: set[Part] = set()
    for losses, call in calls_of(facts, scope):
        found |= {each.part for each in losses.backwards | losses.parts_of(losses.backwards) if each.source is call}
    return found


def calls_of(facts: FileFacts, scope: Scope) -> Iterator[tuple[Losses, ast.Call]]:
    """The calls of a function, each with the losses of the function that calls: the first few."""
    return itertools.islice(_calls(facts, scope), _MOST_CALLS)


def _calls(facts: FileFacts, scope: Scope) -> Iterator[tuple[Losses, ast.Call]]:
    from .loss_flow import losses_of  # which itself asks for callers

    owner = scope.owner if scope.self_name and scope.parent is scope.owner else None
    files = {id(facts): facts}
    kin = {owner}
    for base_facts, base in bases_of(facts, owner) if owner is not None else ():
        files[id(base_facts)] = base_facts
        kin.add(base)
    for each in files.values():
        for call in each.calls_by_name.get(scope.name, ()):
            caller = each.scope_of(call)
            if owner is not None:
                is_it = caller.owner in kin and path_of(call.func) == f"{caller.self_name}.{scope.name}"
            else:
                found = facts.definition(call.func) if each is facts else None
                is_it = found is not None and found.scope is scope
            if is_it and caller is not scope and caller.body:
                yield losses_of(each, caller), call
