"""Which module a call that trains may concern: the one that it is given, or that its object has."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from ..nodes import (
    arguments,
    called_name,
    method_call,
    path_of,
    root_name,
)
from ..scopes import Scope
from .model_copies import is_copy_of, trains_its_own_copy
from .places import entry_path
from .training_names import TRAINERS

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_OF_A_MODEL = re.compile(r"model|net(work)?$|(^|_)state(_dict)?$")


def may_concern(facts: FileFacts, call: ast.Call, module: str) -> bool:
    """Whether a call that trains trains this module: given it or an optimizer, or given no module at all."""
    given = places_given(call)
    if trains_its_own_copy(facts, call, module):
        return False
    if isinstance(call.func, ast.Attribute):
        receiver = entry_path(call.func.value)
        if isinstance(call.func.value, ast.Call):  # `Trainer(model).fit(batches)`, `self.trainer().fit(batches)`
            maker = call.func.value
            by_name = (called_name(maker), path_of(maker.func) or "")
            return module in places_given(maker) or any(TRAINERS.search(each.lower()) for each in by_name)
        if receiver is None or module == receiver or module.startswith(f"{receiver}."):
            return True
        if module not in given and any(is_copy_of(facts, each, module) for each in arguments(call)):
            return False  # it is the copy that is trained
        if receiver == "self" or TRAINERS.search(receiver.lower()):
            return True
        if facts.kind_of(call.func.value).name == "module" or _is_loaded_into(facts, call.func.value):
            return False
    if any(
        module == each or module.startswith((f"{each}.", f"{each}[")) or each.startswith(f"{module}.")
        for each in given
    ):
        return True
    if any("opt" in each.lower() for each in given):
        return True
    if isinstance(call.func, ast.Attribute) and _is_made_without_models(facts, call.func.value):
        return False  # `scaler.fit(features)`
    found = facts.definition(call.func)
    if found is not None and found.scope.is_function and not found.scope.self_name:
        is_trainer = any(TRAINERS.search(each.lower()) for each in given)
        return is_trainer or (found.facts is facts and _reads_from_outside(found.scope, module))
    others = [each for each in arguments(call) if facts.kind_of(each).name == "module"]
    return not others and not any(_OF_A_MODEL.search(each.lower()) for each in given)


def _is_made_without_models(facts: FileFacts, node: ast.expr) -> bool:
    """Whether a name is bound to what constructors give that are given no model: `scaler = StandardScaler()`."""
    bound = facts.bindings(node) if isinstance(node, ast.Name) else []
    made = [each.value for each in bound if isinstance(each.value, ast.Call)]
    return (
        bool(made)
        and len(made) == len(bound)
        and all(
            called_name(each)[:1].isupper()
            and not any(isinstance(one, ast.Name | ast.Attribute | ast.Starred) for one in arguments(each))
            for each in made
        )
    )


def _reads_from_outside(scope: Scope, module: str) -> bool:
    """Whether a function reads a module that is no parameter of it, and not made by it."""
    root = root_name(module)
    return root not in scope.bindings and any(each.id == root for each in scope.nodes(ast.Name))


def _is_loaded_into(facts: FileFacts, node: ast.expr) -> bool:
    """Whether a function loads a state into what is written there: that is a model of its own."""
    path = path_of(node)
    calls = facts.scope_of(node).nodes(ast.Call)
    return any(path_of(method_call(each, "load_state_dict")) == path for each in calls if path is not None)


def places_given(call: ast.Call) -> list[str]:
    """The places that a call is given."""
    return [path for each in arguments(call) if (path := entry_path(each)) is not None]
