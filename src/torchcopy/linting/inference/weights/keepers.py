"""Objects of the project that keep a state which they are given: by a method, or when they are made."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..nodes import called_name, path_of, root_name, root_of, walk
from ..scopes import Scope
from ..summaries import Definition, matched_arguments, object_of
from .places import entry_path

if TYPE_CHECKING:
    from ..file_facts import FileFacts

CONTAINERS = ("append", "add", "appendleft", "put")
_EMPTIES = ("pop", "popleft", "popitem", "clear")
_MOST_KEPT = 12  # parameters that a method keeps
_HEAPS = ("heappush", "heapreplace", "heappushpop")


@dataclasses.dataclass(frozen=True, slots=True)
class Keeping:
    """What a method keeps of what it is given.

    Attributes:
        place: where, as the caller writes it: `stopper.best`.
        value: what the caller gives for it.
        is_sure: it is kept whenever the method is called, instead of what was there.
    """

    place: str
    value: ast.expr
    is_sure: bool


@dataclasses.dataclass(frozen=True, slots=True)
class KeptParameter:
    """What a method does with a parameter: it keeps it in an attribute, as it is.

    Attributes:
        attribute: `.best`, `.states[*]`, `.best['model']`.
        name: of the parameter.
        is_sure: it is kept in each call, instead of what was there.
    """

    attribute: str
    name: str
    is_sure: bool


def kept_by_method(facts: FileFacts, call: ast.Call) -> Iterator[Keeping]:
    """What a method of an object of the project keeps, if it is given a state."""
    if not (call.args or call.keywords):
        return
    found = facts.definition(call.func)
    if found is None or not found.scope.is_function or not found.scope.self_name:
        return
    receiver = path_of(object_of(call, found.scope))
    if receiver is None:
        return
    given = {parameter.arg: value for parameter, value in matched_arguments(call, found.scope)}
    for each in kept_parameters(found):
        if each.name in given:
            yield Keeping(f"{receiver}{each.attribute}", given[each.name], each.is_sure)


def kept_parameters(found: Definition) -> list[KeptParameter]:
    """The parameters that a method keeps in attributes, and does not copy, empty or replace there at once."""
    known = found.facts.kept_parameters
    if found.scope not in known:
        known[found.scope] = [*_kept_parameters(found)][:_MOST_KEPT]
    return known[found.scope]


def _kept_parameters(found: Definition) -> Iterator[KeptParameter]:
    from .kept_states import kept_in  # which itself asks what a constructor keeps

    scope = found.scope
    names = {each.arg for each in scope.parameters if len(scope.bindings[each.arg]) == 1} - {scope.self_name}
    stored = [*_stored(scope)]
    changed = _changed_by_others(found)
    for place, value, at in stored:
        root = root_of(at)
        if not isinstance(root, ast.Name) or root.id != scope.self_name:
            continue
        attribute = place[len(scope.self_name) + 1 :]
        again = sum(other in (place, f"{place}[*]") for other, _, _ in stored) > 1 and "[*]" not in place
        if again or root_name(attribute) in changed:
            continue
        for kept in kept_in(found.facts, value):
            if kept.alias in names:
                is_sure = "[*]" not in place and always_runs(scope, found.facts.statement_of(at))
                yield KeptParameter(f".{attribute}{kept.suffix}", kept.alias, is_sure)


def _changed_by_others(found: Definition) -> set[str]:
    """Attributes that a method empties, makes anew, or gives to another one that does; and properties."""
    scope, owner = found.scope, found.scope.owner
    own = {each.name: each for each in owner.inner} if owner is not None else {}
    changed = {name for name, each in own.items() if getattr(each.node, "decorator_list", ())}
    for call in scope.nodes(ast.Call):
        of = call.func.value if isinstance(call.func, ast.Attribute) else None
        if isinstance(of, ast.Attribute) and called_name(call) in _EMPTIES:
            changed.add(of.attr)
        other = own.get(called_name(call))
        if other is not None and other is not scope and path_of(of) == scope.self_name:
            changed |= {each.attr for each in other.nodes(ast.Attribute) if path_of(each.value) == other.self_name}
    changed |= {
        target.attr
        for at in scope.nodes(ast.Assign)
        for target in at.targets
        if isinstance(target, ast.Attribute) and isinstance(at.value, ast.List | ast.Dict | ast.Constant)
    }
    return changed


def always_runs(scope: Scope, at: ast.stmt | None) -> bool:
    """Whether a statement of a function runs in each call: no branch, and none that returns before."""
    if at not in scope.body:
        return False
    before = scope.body[: scope.body.index(at)]
    return not any(isinstance(each, ast.Return | ast.Raise) for one in before for each in walk(one))


def _stored(scope: Scope) -> Iterator[tuple[str, ast.expr, ast.expr]]:
    """Each place that a function stores to, with what it stores there."""
    targets: list[ast.Attribute | ast.Subscript] = [*scope.nodes(ast.Attribute), *scope.nodes(ast.Subscript)]
    for target in targets:
        if type(target.ctx) is not ast.Store:
            continue
        bound, place = scope.binding(target), entry_path(target)
        if place is not None and bound.how == "value" and bound.value is not None:
            yield place, bound.value, target
    for call in scope.nodes(ast.Call):
        for of, value in put_in(call):
            if (place := path_of(of)) is not None:
                yield f"{place}[*]", value, of


def put_in(call: ast.Call) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The list, heap or dict that a call puts something into under no fixed key, and what."""
    match call:
        case ast.Call(func=ast.Attribute(attr="update", value=of), args=[ast.Dict(keys=keys, values=values)]):
            yield from ((of, each) for key, each in zip(keys, values, strict=True) if isinstance(key, ast.Name))
        case ast.Call(args=[of, value]) if called_name(call) in _HEAPS:
            yield of, value
        case ast.Call(func=ast.Attribute(attr="setdefault", value=of), args=[ast.Name(), value]):
            yield of, value
        case ast.Call(func=ast.Attribute(attr=name, value=of), args=[value]) if name in CONTAINERS:
            yield of, value
