"""Whose parameters the optimizer of a step holds."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..nodes import (
    arguments,
    called_name,
    is_in_place,
    path_of,
    root_name,
    strip_calls,
    walk,
)
from ..scopes import Scope
from ..summaries import GIVES_ITSELF, matched_arguments
from .model_copies import are_copies
from .module_paths import module_path

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_READS = ("eval", "train", "to", "forward")
_GIVES_TENSORS = ("parameters", "named_parameters", "state_dict")
_WRITES_NO_WEIGHTS = {"clip_grad_norm_", "clip_grad_value_", "requires_grad_", "unscale_", "zero_"}


def may_train(facts: FileFacts, call: ast.Call, module: str) -> bool:
    """Whether the optimizer of a step may hold the parameters of this module: not if it holds another's."""
    optimizer = call.func.value if isinstance(call.func, ast.Attribute) else None
    owners = _owners_of(facts, optimizer)
    if optimizer is None or not owners or _is_one_of(owners, module):
        return True
    last = module.rpartition(".")[2]
    if any(each.rpartition(".")[2] == last for each in owners):
        return True
    scope = facts.scope_of(optimizer)
    if all(are_copies(facts.bindings_of_path(scope, each), module) for each in owners):
        return False
    return not all(_are_apart(facts, optimizer, each, module) for each in owners)


def is_stepped_for_another(facts: FileFacts, call: ast.Call, module: str) -> bool:
    """Whether a call is given an optimizer, the module that this holds, and beside it another one, only to read it.

    Such as the global model of a federated round, which a client asks: `train(client, server, optimizer)`.
    """
    found = facts.definition(call.func)
    if found is None or not found.scope.is_function:
        return False
    given = {path: each.arg for each, value in matched_arguments(call, found.scope) if (path := path_of(value))}
    owners = {one for value in arguments(call) for one in _owners_of(facts, value)}
    if module not in given or not owners or not owners <= given.keys() or _is_one_of(owners, module):
        return False
    reads = [each for each in found.scope.nodes(ast.Name) if each.id == given[module]]
    is_written = _writes_tensors(found.scope)
    return bool(reads) and all(_only_reads(found.facts, each, is_written=is_written) for each in reads)


def _only_reads(facts: FileFacts, name: ast.Name, *, is_written: bool) -> bool:
    """Whether a module is only called there, set to evaluate, or asked for its parameters where none is written."""
    above = facts.parent(name)
    if isinstance(above, ast.Attribute):
        return above.attr in _READS or (above.attr in _GIVES_TENSORS and not is_written)
    return isinstance(above, ast.Call) and above.func is name


def _writes_tensors(function: Scope) -> bool:
    """Whether a function writes tensors in place, as averages of weights do."""
    names = {called_name(each) for each in function.nodes(ast.Call)} - _WRITES_NO_WEIGHTS
    stored = (each for each in function.nodes(ast.Attribute) if type(each.ctx) is ast.Store)
    return any(map(is_in_place, names)) or any(each.attr == "data" for each in stored)


def _owners_of(facts: FileFacts, optimizer: ast.expr | None) -> set[str]:
    """The modules whose parameters an optimizer was made with; none if one of its bindings does not tell."""
    if isinstance(optimizer, ast.Name):
        bound = facts.bindings(optimizer)
    elif isinstance(optimizer, ast.Attribute):
        bound = facts.attribute_bindings(optimizer)
    else:
        return set()
    found = [_parameter_owners(each.value) if isinstance(each.value, ast.Call) else set() for each in bound]
    return set[str]().union(*found) if all(found) else set()


def _is_one_of(owners: set[str], module: str) -> bool:
    return any(each == module or _is_within(each, module) or _is_within(module, each) for each in owners)


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
