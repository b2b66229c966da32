"""What a file itself shows to be tensors, where nothing else tells: some line asks for the number of one.

`recon` of `loss, recon = step(x)` is one where `recon.item()` stands anywhere, of what a call that is written alike
gives; so are the terms of a sum, and what is put into a list, whose number is asked for.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..nodes import method_call, path_of
from ..scopes import Scope
from ..values.elements import container_of
from .loss_values import Part, Value

if TYPE_CHECKING:
    from ..file_facts import FileFacts
    from .loss_flow import Losses

_ASKS = ("item", "detach")
_MOST_BINDINGS = 20  # of a name that is asked

Given = tuple[Scope | None, str, Part]
"""A part of what a call gives: of the function as it is written, in methods together with the class."""


def is_shown(losses: Losses, value: Value) -> bool:
    """Whether a value is one that some line of the file asks for its number, or its sum or list is."""
    call = value.source
    if isinstance(call, ast.Call) and _given(losses.scope, call, value.part) in given_tensors(losses.facts):
        return True
    asked = _asked_keepers(losses)
    return any(value in kept.values and (kept.keeper, kept.is_sum) in asked for kept in losses.kept.values())


def given_tensors(facts: FileFacts) -> frozenset[Given]:
    """The parts of what calls give that are asked for their number, or detached, somewhere in the file."""
    if facts.given_tensors is None:
        asked = (
            (scope, of)
            for scope in facts.scopes
            for call in scope.nodes(ast.Call)
            if (of := method_call(call, *_ASKS)) is not None
        )
        facts.given_tensors = frozenset(
            _given(scope, call, part) for scope, of in asked for call, part in _calls_behind(facts, of)
        )
    return facts.given_tensors


def _given(scope: Scope, call: ast.Call, part: Part) -> Given:
    path = path_of(call.func) or ""
    is_own = bool(scope.self_name) and path.startswith(f"{scope.self_name}.")
    return scope.owner if is_own else None, path, part


def _calls_behind(facts: FileFacts, of: ast.expr) -> list[tuple[ast.Call, Part]]:
    """The calls that give what an expression is a part of: of `recon`, `out["recon"]` and `out.recon`."""
    key: Part = ()
    match of:
        case ast.Subscript(value=ast.Name() as whole, slice=ast.Constant(value=str() | int() as index)):
            of, key = whole, (index,)
        case ast.Attribute(value=ast.Name() as whole, attr=name):
            of, key = whole, (name,)
    bound = facts.bindings(of) if isinstance(of, ast.Name) else []
    found: list[tuple[ast.Call, Part]] = []
    for each in bound if len(bound) <= _MOST_BINDINGS else ():
        if not isinstance(each.value, ast.Call) or not path_of(each.value.func):
            continue
        if each.how == "part" and not key:
            found.append((each.value, (each.index,)))
        elif each.how == "value" and key:
            found.append((each.value, key))
    return found


def _asked_keepers(losses: Losses) -> frozenset[tuple[str, bool]]:
    """The sums of a function that are asked for their number, and the lists whose elements are."""
    if losses.asked_keepers is None:
        found: set[tuple[str, bool]] = set()
        for call in losses.scope.nodes(ast.Call):
            of = method_call(call, *_ASKS)
            place = path_of(of)
            if place is not None:
                found.add((place, True))
            listed = path_of(container_of(losses.facts, of)) if isinstance(of, ast.Name) else None
            if listed is not None:
                found.add((listed, False))
        losses.asked_keepers = frozenset(found)
    return losses.asked_keepers
