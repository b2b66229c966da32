"""Deep copies of a module: what trains or holds one leaves the module as it was."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..nodes import (
    arguments,
    called_name,
    path_of,
)
from ..scopes import Binding, Scope
from ..summaries import matched_arguments
from .module_paths import module_path

if TYPE_CHECKING:
    from ..file_facts import FileFacts


def trains_its_own_copy(facts: FileFacts, call: ast.Call, module: str) -> bool:
    """Whether a function of the project makes a deep copy of the module that it is given, and reads it no more."""
    found = facts.definition(call.func)
    if found is None or not found.scope.is_function:
        return False
    if _copies_own_module(call, found.scope, module):
        return True
    names = [each.arg for each, value in matched_arguments(call, found.scope) if module_path(value) == module]
    read = [each for each in found.scope.nodes(ast.Name) if each.id in names and type(each.ctx) is ast.Load]
    copied = [each for each in read if _is_deep_copied(found.facts, each)]
    is_rebound = any(
        isinstance(each.value, ast.Call) and any(one in copied for one in each.value.args)
        for name in names
        for each in found.scope.bindings[name]
    )
    has_optimizer = any("opt" in (path_of(each) or "").lower() for each in arguments(call))
    return bool(copied) and (is_rebound or (copied == read and not has_optimizer))


def _copies_own_module(call: ast.Call, method: Scope, module: str) -> bool:
    """Whether a method reads the module of its object for a deep copy alone: `copy.deepcopy(self.model)`."""
    receiver = path_of(call.func.value) if isinstance(call.func, ast.Attribute) else None
    if receiver is None or not method.self_name or not module.startswith(f"{receiver}."):
        return False
    own = f"{method.self_name}{module[len(receiver) :]}"
    read = [each for each in method.nodes(ast.Attribute) if path_of(each) == own and type(each.ctx) is ast.Load]
    above = [method.parents.get(each) for each in read]
    return bool(read) and all(isinstance(each, ast.Call) and called_name(each) == "deepcopy" for each in above)


def _is_deep_copied(facts: FileFacts, node: ast.expr) -> bool:
    above = facts.parent(node)
    return isinstance(above, ast.Call) and called_name(above) == "deepcopy"


def is_copy_of(facts: FileFacts, node: ast.expr, module: str) -> bool:
    """Whether a value is a deep copy of a module, or a name bound to such alone: `local = copy.deepcopy(model)`."""
    bound = facts.bindings(node) if isinstance(node, ast.Name) else []
    return _copies_module(node, module) or are_copies(bound, module)


def are_copies(bound: list[Binding], module: str) -> bool:
    """Whether all that is bound are deep copies of a module."""
    return bool(bound) and all(_copies_module(each.value, module) for each in bound)


def _copies_module(value: ast.expr | None, module: str) -> bool:
    is_copy = isinstance(value, ast.Call) and called_name(value) == "deepcopy"
    return is_copy and any(module_path(one) == module for one in value.args)  # type: ignore[union-attr]
