"""Whose parameters the optimizer of a step holds."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..nodes import (
    path_of,
    root_name,
    strip_calls,
    walk,
)
from ..scopes import Scope
from ..summaries import GIVES_ITSELF
from .model_copies import are_copies
from .module_paths import module_path

if TYPE_CHECKING:
    from ..file_facts import FileFacts


def may_train(facts: FileFacts, call: ast.Call, module: str) -> bool:
    """Whether the optimizer of a step may hold the parameters of this module: not if it holds another's."""
    optimizer = call.func.value if isinstance(call.func, ast.Attribute) else None
    if isinstance(optimizer, ast.Name):
        bound = facts.bindings(optimizer)
    elif isinstance(optimizer, ast.Attribute):
        bound = facts.attribute_bindings(optimizer)
    else:
        return True
    owners: set[str] = set()
    for each in bound:
        if not isinstance(each.value, ast.Call):
            return True
        found = _parameter_owners(each.value)
        if not found:
            return True
        owners |= found
    if not owners or any(each == module or _is_within(each, module) or _is_within(module, each) for each in owners):
        return True
    last = module.rpartition(".")[2]
    if any(each.rpartition(".")[2] == last for each in owners):
        return True
    scope = facts.scope_of(optimizer)
    if all(are_copies(facts.bindings_of_path(scope, each), module) for each in owners):
        return False
    return not all(_are_apart(facts, optimizer, each, module) for each in owners)


def _are_apart(facts: FileFacts, near: ast.AST, one: str, other: str) -> bool:
    """Whether two places were each made by one constructor, neither given the other, or are two parameters."""
    scope = facts.scope_of(near)
    if all([each.how for each in facts.bindings_of_path(scope, path)] == ["parameter"] for path in (one, other)):
        return True
    given = [_given_as(facts, scope, path) for path in (one, other)]
    if all(given) and given[0] != given[1]:
        return True
    for path, second in ((one, other), (other, one)):
        bound = facts.bindings_of_path(scope, path)
        if not bound and [each.how for each in facts.bindings_of_path(scope, root_name(path))] == ["parameter"]:
            continue  # of an object that the function is given
        if len(bound) != 1 or not isinstance(bound[0].value, ast.Call):
            return False
        if any(path_of(each) in (second, root_name(second)) for each in walk(bound[0].value)):
            return False
    return True


def _given_as(facts: FileFacts, scope: Scope, path: str) -> str:
    """The parameter that an attribute is bound to, moved or frozen: `backbone` for `self.backbone`."""
    bound = facts.bindings_of_path(scope, path)
    if len(bound) != 1 or bound[0].value is None:
        return ""
    value, _ = strip_calls(bound[0].value, *GIVES_ITSELF)
    hows = [each.how for each in facts.bindings(value)] if isinstance(value, ast.Name) else []
    return value.id if isinstance(value, ast.Name) and hows == ["parameter"] else ""


def _is_within(inner: str, outer: str) -> bool:
    return inner.startswith((f"{outer}.", f"{outer}["))


def _parameter_owners(call: ast.Call) -> set[str]:
    """The modules whose `parameters()` a constructor of an optimizer is given."""
    owners: set[str] = set()
    for node in walk(call, into_functions=True):
        if isinstance(node, ast.Attribute) and node.attr in ("parameters", "named_parameters"):
            path = module_path(node.value)
            if path is None:
                return set()
            owners.add(path)
    return owners
