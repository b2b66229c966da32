"""What a file itself shows to be tensors, where nothing else tells: some line asks for the number of one.

`kl_loss` of `loss, kl_loss = step(x)` is one where `kl_loss.item()` stands in another function, of what a call that
is written alike gives; so is what is put into a list of whose elements it is asked. Entries of dicts and attributes
are no such parts: they are made for reports, and mostly detached. Who asks in the same function may know it.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from ..nodes import method_call, path_of
from ..scopes import Scope
from ..values.elements import container_of
from .loss_names import is_surely_loss
from .loss_values import Part, Value

if TYPE_CHECKING:
    from ..file_facts import FileFacts
    from .loss_flow import Losses

_NO_LOSS = re.compile(
    r"item|log|dict|stat|count|num|(^|_)n_|mask|weight|token|type|ratio|name|idx|index|len|scale|coef"
)
_ASKS = ("item", "detach")
_MOST_BINDINGS = 20  # of a name that is asked

AskedPart = tuple[Scope | None, str, Part]
"""A part of what a call gives: of the function as it is written, in methods together with the class."""
Asked = dict[AskedPart, set[Scope]]
"""In which functions parts are asked for their number."""


def is_shown(losses: Losses, value: Value) -> bool:
    """Whether a value is named as a loss and one that some line of the file asks for its number, or its list is."""
    call = value.source
    if not is_surely_loss(value.name) or _NO_LOSS.search(value.name.lower()) or not isinstance(value.part[-1], int):
        return False
    if isinstance(call, ast.Call):
        asked_in = asked_parts(losses.facts).get(_asked_part(losses.scope, call, value.part), set())
        if asked_in and losses.scope not in asked_in:
            return True
    return value in _in_asked_lists(losses)


def asked_parts(facts: FileFacts) -> Asked:
    """The parts of what calls give that are asked for their number, or detached, and where."""
    if facts.asked_parts is None:
        found: Asked = {}
        for scope in facts.scopes:
            for asks in scope.nodes(ast.Call):
                of = method_call(asks, *_ASKS)
                for call, part in _calls_behind(facts, of) if of is not None else ():
                    found.setdefault(_asked_part(scope, call, part), set()).add(scope)
        facts.asked_parts = found
    return facts.asked_parts


def _asked_part(scope: Scope, call: ast.Call, part: Part) -> AskedPart:
    path = path_of(call.func) or ""
    is_own = bool(scope.self_name) and path.startswith(f"{scope.self_name}.")
    return scope.owner if is_own else None, path, part


def _calls_behind(facts: FileFacts, of: ast.expr) -> list[tuple[ast.Call, Part]]:
    """The calls that give what a name is a part of: `step(x)`, and which, of `loss, recon = step(x)`."""
    bound = facts.bindings(of) if isinstance(of, ast.Name) else []
    return [
        (each.value, (each.index,))
        for each in (bound if len(bound) <= _MOST_BINDINGS else ())
        if each.how == "part" and isinstance(each.value, ast.Call) and path_of(each.value.func)
    ]


def _in_asked_lists(losses: Losses) -> frozenset[Value]:
    """What is in lists of a function of whose elements the numbers are asked for."""
    if losses.shown is None:
        asked = set()
        for call in losses.scope.nodes(ast.Call):
            of = method_call(call, *_ASKS)
            if isinstance(of, ast.Name):
                asked.add(path_of(container_of(losses.facts, of)))
        kept = (each.values for each in losses.kept.values() if not each.is_sum and each.keeper in asked)
        losses.shown = frozenset(value for values in kept for value in values)
    return losses.shown
