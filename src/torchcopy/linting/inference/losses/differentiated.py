"""Where a file calls `backward()`: on which attributes of an object, and whether it may do so twice."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from ..nodes import method_call, path_of
from ..scopes import Scope

if TYPE_CHECKING:
    from ..file_facts import FileFacts

BACKWARDS = ("backward", "manual_backward")
_KEEPS_GRAPHS = re.compile(r"retain_graph|create_graph")


def may_differentiate_twice(facts: FileFacts) -> bool:
    """Whether a file keeps graphs for another `backward()`, or differentiates gradients."""
    return _KEEPS_GRAPHS.search(facts.source.text) is not None


def differentiated_attributes(facts: FileFacts, scope: Scope) -> frozenset[str]:
    """The attributes, as a method writes them, that some method of its class calls `backward()` on."""
    owner = scope.owner
    if owner is None or not scope.self_name:
        return frozenset()
    known = facts.differentiated
    if owner not in known:
        places = (
            (method.self_name, path_of(method_call(call, *BACKWARDS)) or "")
            for method in owner.inner
            for call in method.nodes(ast.Call)
        )
        known[owner] = frozenset(
            place[len(name) + 1 :] for name, place in places if name and place.startswith(f"{name}.")
        )
    return frozenset(f"{scope.self_name}.{each}" for each in known[owner])
