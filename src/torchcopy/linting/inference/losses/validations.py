"""Losses of a validation that runs with gradients: nothing differentiates them, and their graphs are kept too."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from ..nodes import called_name, path_of
from ..scopes import Scope
from ..summaries import is_optimizer_step
from .callers import calls_of, differentiated_parts
from .leaks import is_leak
from .loss_flow import Losses
from .loss_names import calls_loss, is_surely_loss
from .loss_values import KeptValue, Value

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_EVALUATES = re.compile(r"(^|_)(eval|evaluate|evaluation|val|valid|validate|validation|test|infer)(_|$)")


def is_kept_by_validation(facts: FileFacts, losses: Losses, kept: KeptValue) -> bool:
    """Whether a function that evaluates keeps a loss of each round, and one that trains calls it as it is."""
    scope = losses.scope
    if not kept.values or not all(_is_computed_loss(losses, each) for each in kept.values):
        return False
    return _evaluates(scope) and _runs_with_gradients(facts, scope) and is_leak(facts, scope, losses, kept)


def _is_computed_loss(losses: Losses, value: Value) -> bool:
    """Whether a value is a loss, as what is called tells, of what a model gave there with its graph."""
    source = value.source
    if not isinstance(source, ast.Call) or value.part or not (calls_loss(source) and is_surely_loss(value.name)):
        return False
    return bool(losses.outputs.get(value)) and not losses.facts.is_without_graph(source)


def _evaluates(scope: Scope) -> bool:
    """Whether a function is there to evaluate, by its name or by what it asks of a model, and trains nothing."""
    if isinstance(scope.node, ast.FunctionDef) and scope.node.decorator_list:
        return False
    asks = scope.is_function and any(
        called_name(each) == "eval" and not each.args for each in scope.nodes(ast.Call)
    )
    return asks or _EVALUATES.search(scope.name.lower()) is not None


def _runs_with_gradients(facts: FileFacts, scope: Scope) -> bool:
    """Whether a function that trains calls another one for a figure, and neither switches gradients off."""
    if facts.may_switch_graphs(scope) or "set_grad_enabled(" in facts.source.text:
        return False
    if differentiated_parts(facts, scope):
        return False
    return any(
        not losses.facts.is_without_graph(call) and _trains(losses) for losses, call in calls_of(facts, scope)
    )


def _trains(losses: Losses) -> bool:
    """Whether a function differentiates, takes steps or calls one of the project that does: gradients are on."""
    facts = losses.facts
    if losses.backward_calls:
        return True
    for call in losses.scope.nodes(ast.Call):
        if is_optimizer_step(facts, call):
            return True
        found = facts.definition(call.func) if path_of(call.func) is not None else None
        if found is not None and found.scope.is_function and facts.done_by(found).steps:
            return True
    return False
