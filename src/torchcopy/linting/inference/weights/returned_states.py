"""States that functions and properties of the project return, as those that call or read them write them."""

from __future__ import annotations

import ast
import dataclasses
import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..nodes import called_name, path_of, walk
from ..objects import property_read
from ..scopes import Scope
from ..summaries import (
    Definition,
    is_decorated_to,
    matched_arguments,
)
from .module_paths import module_path
from .places import copied_entry, entry_path
from .things import without_wrapper

if TYPE_CHECKING:
    from ..file_facts import FileFacts

from .kept import DEEPEST, Kept

_MAY_HOLD_STATES = (ast.Call, ast.Dict, ast.DictComp, ast.ListComp, ast.Name, ast.Tuple)
_WRITTEN_STATES = (ast.Call, ast.Dict, ast.DictComp, ast.ListComp)
_MOVES = re.compile(r"^_*(move_)?(to|cpu|to_cpu|to_device|move)(_recursive(ly)?)?$")
_MOST_VALUES = 10  # of a name that a function returns


def of_property(facts: FileFacts, node: ast.Attribute, depth: int) -> list[Kept]:
    """The state that a property gives: of `self.model.weights`, which returns `self.state_dict()`."""
    found, of = property_read(facts, node), module_path(node.value)
    if found is None or of is None or type(node.ctx) is not ast.Load or is_decorated_to(found, "deepcopy", "clone"):
        return []
    own = found.scope.self_name
    return [
        dataclasses.replace(
            told_by(facts, found.facts, each, node), module=f"{of}{each.module[len(own) :]}", is_returned=True
        )
        for each in _returned_by(found, depth)
        if not each.alias and (each.module == own or each.module.startswith(f"{own}."))
    ]


def of_call(facts: FileFacts, call: ast.Call, depth: int) -> list[Kept]:
    """What a function of the project returns: the state of an attribute of its object, or of what it is given."""
    from .kept_states import kept_in  # which itself asks this file

    found = facts.definition(call.func)
    if found is None or not found.scope.is_function or found.scope.node is facts.scope_of(call).node:
        return []
    if is_decorated_to(found, "deepcopy", "clone"):
        return []
    given = dict(matched_arguments(call, found.scope))
    copies = _makes_copies(found.scope)
    written = {parameter.arg: each for parameter, each in given.items() if isinstance(each, _WRITTEN_STATES)}
    places = {
        parameter.arg: place
        for parameter, each in given.items()
        if parameter.arg not in written and (place := module_path(each))
    }
    held = {parameter.arg: place for parameter, each in given.items() if (place := entry_path(each))}
    states: list[Kept] = []
    for each in _returned_by(found, depth):
        if each.alias and copies:
            continue
        if each.alias in held:  # it may give back what it got
            moved = each.copied_on_gpu or _MOVES.search(found.scope.name) is not None
            states.append(dataclasses.replace(each, alias=held[each.alias], call=call, copied_on_gpu=moved))
            continue
        if each.alias in written:  # what is written there: `to_cpu(model.state_dict())`
            moved = each.copied_on_gpu or _MOVES.search(found.scope.name) is not None
            states += [
                dataclasses.replace(
                    one, suffix=each.suffix + one.suffix, call=call, copied_on_gpu=moved or one.copied_on_gpu
                )
                for one in kept_in(facts, written[each.alias], depth + 1)
            ]
            continue
        first, dot, rest = without_wrapper(found.scope, each.module).partition(".")
        if _is_of_function_around(facts, call, found, first):
            states.append(dataclasses.replace(told_by(facts, facts, each, call), is_returned=True))
        elif first in places and (dot or first != found.scope.self_name):
            module = f"{places[first]}{dot}{rest}"
            states.append(
                dataclasses.replace(told_by(facts, found.facts, each, call), module=module, is_returned=True)
            )
    return states


def _is_of_function_around(facts: FileFacts, call: ast.Call, found: Definition, name: str) -> bool:
    """Whether a function reads a name of the function around it, which is the one that calls it."""
    around = found.scope.parent
    return (
        around is not None
        and around.is_function
        and around is facts.scope_of(call)
        and name in around.bindings
        and name not in found.scope.bindings
        and name != found.scope.self_name
    )


def told_by(facts: FileFacts, of: FileFacts, kept: Kept, call: ast.expr) -> Kept:
    """A state that a function takes, in this file or another one, as a call of it gives or leaves it."""
    if of is facts:
        return dataclasses.replace(kept, call=call, taken=kept.taken or kept.call)
    where = f"{os.path.basename(of.source.path)}:{(kept.taken or kept.call).lineno}"
    return dataclasses.replace(kept, call=call, taken=None, taken_elsewhere=kept.taken_elsewhere or where)


def _makes_copies(function: Scope) -> bool:
    """Whether a function is there to copy or convert what it is given, though it gives the rest back as it is.

    So does one that calls itself, for the parts, unless it is there to move them.
    """
    copying = ("clone", "deepcopy") if _MOVES.search(function.name) else ("clone", "deepcopy", function.name)
    return "copy" in function.name or any(called_name(each) in copying for each in function.nodes(ast.Call))


def _returned_by(function: Definition, depth: int) -> list[Kept]:
    """The live states that a function returns, as it writes them; worked out once, however many call it."""
    known = function.facts.returned_states
    key = function.scope, depth
    if key not in known:
        found: dict[tuple[str, str, str], Kept] = {}  # each of them once: many ways may lead to one
        for each in function.scope.nodes(ast.Return):
            if isinstance(each.value, _MAY_HOLD_STATES):
                for state in _told(function.facts, each.value, depth + 1):
                    found.setdefault((state.suffix, state.module, state.alias), state)
        known[key] = [*found.values()]
    return known[key]


def _told(facts: FileFacts, value: ast.expr, depth: int) -> Iterator[Kept]:
    """The live states that a value holds; for a name in it those of what it is bound to."""
    from .kept_states import kept_in  # which itself asks this file

    for each in kept_in(facts, value, depth):
        name = _name_in(each)
        if name is None:
            yield each
            continue
        if any(one.how == "parameter" for one in facts.bindings(name)):
            yield each
        for one in _told_of_name(facts, name, depth) if depth < DEEPEST else ():
            yield dataclasses.replace(
                one,
                suffix=f"{each.suffix}{one.suffix}",
                copied_on_gpu=each.copied_on_gpu or one.copied_on_gpu,
            )
        if each.call is name:
            for key, entry in _entries_put_in(facts, name):
                for one in kept_in(facts, entry, depth):
                    yield dataclasses.replace(one, suffix=f"{each.suffix}{key}{one.suffix}")


def _told_of_name(facts: FileFacts, name: ast.Name, depth: int) -> list[Kept]:
    """The live states of what a name is bound to: each once, and worked out once for all names of names."""
    bound = _bound_to(facts, name)
    known, key = facts.states_of_values, (depth, *bound)
    if key not in known:
        found: dict[tuple[str, str, str], Kept] = {}
        for value in bound:
            for one in _told(facts, value, depth + 1):
                found.setdefault((one.suffix, one.module, one.alias), one)
        known[key] = [*found.values()]
    return known[key]


def _name_in(kept: Kept) -> ast.Name | None:
    """The name that an expression has its state from: `state` of `{k: v.cpu() for k, v in state.items()}`."""
    if not kept.alias.isidentifier():
        return None
    names = (each for each in walk(kept.call) if isinstance(each, ast.Name) and type(each.ctx) is ast.Load)
    return next((each for each in names if each.id == kept.alias), None)


def _entries_put_in(facts: FileFacts, name: ast.Name) -> Iterator[tuple[str, ast.expr]]:
    """What a function puts into the dict of a name: `['model']` and `x` of `best["model"] = x`."""
    for at in facts.scope_of(name).nodes(ast.Assign):
        for target in at.targets:
            is_entry = isinstance(target, ast.Subscript) and path_of(target.value) == name.id
            if is_entry and isinstance(target.slice, ast.Constant):  # type: ignore[attr-defined]
                yield f"[{target.slice.value!r}]", at.value  # type: ignore[attr-defined]
            elif is_entry and (whole := copied_entry(facts, target, at.value)) is not None:
                yield "", whole  # in a loop over it


def _bound_to(facts: FileFacts, name: ast.Name) -> list[ast.expr]:
    """What a name was bound to right before, or what it may be bound to, if none of that is a copy."""
    last = facts.last_value(name)
    if last is not None:
        return [last]
    bound = [each.value for each in facts.bindings(name) if each.how == "value" and each.value is not None]
    return [] if any(is_copy(each) for each in bound) or len(bound) > _MOST_VALUES else bound


def is_copy(value: ast.expr) -> bool:
    """Whether a value is made by copying: with `deepcopy`, or entry by entry with `clone`."""
    return any(isinstance(each, ast.Call) and called_name(each) in ("deepcopy", "clone") for each in walk(value))
