"""States that a generator yields in the midst of a training, and a caller keeps."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..nodes import called_name, names_in, walk
from ..scopes import Scope
from .keepers import put_in
from .kept import Kept
from .state_flow import KeptStates

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_TAKES_ALL = ("list", "tuple", "sorted", "min", "max", "nlargest", "nsmallest", "extend")


def kept_by_callers(facts: FileFacts, flows: dict[Scope, KeptStates]) -> Iterator[tuple[Kept, ast.Call]]:
    """The states that a generator yields in the midst of a training, where one of its callers keeps them all."""
    for maker, flow in flows.items():
        for kept, part in flow.yielded.values():
            for call in facts.calls_by_name.get(maker.name, ()):
                found = facts.definition(call.func)
                if found is not None and found.scope is maker and _keeps_all(facts, call, part):
                    yield kept, call
                    break


def _keeps_all(facts: FileFacts, call: ast.Call, part: str) -> bool:
    """Whether all that a generator yields is kept: in a list, as the best of them, round by round in a loop."""
    above = facts.parent(call)
    match above:
        case ast.Call() if called_name(above) in _TAKES_ALL:
            return True
        case ast.comprehension(target=target):
            inside = facts.parent(above)
            shown = inside.elt if isinstance(inside, ast.ListComp) else None
            return shown is not None and ast.unparse(shown) == ast.unparse(target)
        case ast.For(target=target, iter=iterated) if iterated is call:
            at = re.match(r"\[(\d+)\]", part)
            if isinstance(target, ast.Tuple) and at is not None and int(at[1]) < len(target.elts):
                target = target.elts[int(at[1])]
            names = {each.id for each in names_in(target)}
            return any(
                isinstance(one, ast.Name) and one.id in names
                for each in walk(above)
                for _, value in (put_in(each) if isinstance(each, ast.Call) else ())
                for one in (value.elts if isinstance(value, ast.Tuple) else [value])
            )
    return False
