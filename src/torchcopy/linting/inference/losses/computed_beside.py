"""What hangs on a graph as a differentiated loss does, by what it is computed from: beside it, or as it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..nodes import called_name, is_true, keyword, path_of
from .loss_flow import Losses
from .loss_names import calls_loss, calls_model, is_summand_by_name, is_surely_loss
from .loss_terms import reshaped, takes_log, terms
from .loss_values import Value
from .read_as_numbers import is_only_shown
from .torch_losses import is_loss_of_torch

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_MAY_LEAVE_GRAPH = (ast.Compare, ast.With, ast.Try, ast.For, ast.While, ast.Lambda, ast.FunctionDef, ast.If)
_DIFFERENTIABLE = frozenset(
    "mean sum abs pow sqrt exp log log_softmax softmax sigmoid logsigmoid relu square norm view reshape flatten "
    "squeeze unsqueeze clamp sub add mul div transpose permute neg softplus tanh".split()
)


def all_values(losses: Losses) -> Iterator[Value]:
    """The values that a function keeps, returns and gives to others."""
    for kept in losses.kept.values():
        yield from kept.values
    for _, values in losses.returned:
        yield from values
    for given in losses.given.values():
        yield from given.values


def differentiated_outputs(losses: Losses) -> set[Value]:
    """What models gave, from which a loss was computed that `backward()` was called on."""
    if not losses.outputs:
        return set()
    return {
        each for one in losses.backwards | losses.parts_of(losses.backwards) for each in losses.outputs.get(one, ())
    }


def computed_beside(losses: Losses) -> set[Value]:
    """Losses of PyTorch, and errors, that are computed beside the differentiated one from what the same model gave.

    An error is what is called one and computed by arithmetic: `mae = (out - y).abs().mean()`.
    """
    outputs = differentiated_outputs(losses)
    if not outputs or is_graph_for_another(losses):
        return set()
    keeps_graph = any(is_true(keyword(each, "retain_graph")) for each in losses.backward_calls)
    beside = [(each, each.source) for each, of in losses.outputs.items() if of & outputs]
    given = {each for each, source in beside if source is not None and _has_loss_in_it(losses.facts, source)}
    named = {each for each in all_values(losses) if not each.part and is_summand_by_name(each.name)}
    if named:
        written_out = {each for each, source in beside if source is not None and any(map(takes_log, terms(source)))}
        given |= named & (written_out | _made_of(losses, outputs))
    return {
        each
        for each in given
        if isinstance(each.source, ast.BinOp | ast.Call)
        and not losses.facts.is_without_graph(each.source)
        and (not keeps_graph or _is_kept_to_be_shown(losses, each))
    }


def _has_loss_in_it(facts: FileFacts, source: ast.expr) -> bool:
    """Whether an expression has a loss in it: of PyTorch, or of a function here that detaches nothing."""
    return any(
        is_loss_of_torch(facts, each) or _is_loss_of_project(facts, each)
        for each in terms(source)
        if isinstance(each, ast.Call)
    )


def _is_loss_of_project(facts: FileFacts, call: ast.Call) -> bool:
    """Whether a function of the project gives a loss, which all that it does leaves on the graph."""
    found = facts.definition(call.func) if calls_loss(call) else None
    if found is None or not isinstance(found.scope.node, ast.FunctionDef) or found.scope.node.decorator_list:
        return False
    inside = [each for at in found.scope.body for each in ast.walk(at)]
    if any(isinstance(each, _MAY_LEAVE_GRAPH) or getattr(each, "attr", "") == "data" for each in inside):
        return False
    calls = [each for each in inside if isinstance(each, ast.Call)]
    return bool(calls) and all(_is_differentiable(found.facts, each) for each in calls)


def _is_differentiable(facts: FileFacts, call: ast.Call) -> bool:
    """Whether what is called is known to hand gradients on: a loss of PyTorch, a mean, a power."""
    if is_loss_of_torch(facts, call) or called_name(call) in ("log_prob", "log_p"):
        return True
    return called_name(call) in _DIFFERENTIABLE and (
        isinstance(call.func, ast.Attribute) and not facts.resolve(call.func).startswith(("math", "numpy"))
    )


def is_graph_for_another(losses: Losses) -> bool:
    """Whether a graph is kept for another `backward()`, here or in a caller: `loss.backward(retain_graph=True)`."""
    if not any(is_true(keyword(each, "retain_graph")) for each in losses.backward_calls):
        return False
    scope = losses.scope
    is_given_back = any(each.value is not None for each in scope.nodes(ast.Return)) or scope.has(ast.Yield)
    return len(losses.backward_calls) > 1 or is_given_back or bool(scope.self_name)


def _is_kept_to_be_shown(losses: Losses, value: Value) -> bool:
    """Whether what a value is kept in is read for its numbers alone."""
    keepers = {each.keeper.partition("[")[0] for each in losses.kept.values() if value in each.values}
    return all(is_only_shown(losses.facts, losses.scope, each) for each in keepers)


def _made_of(losses: Losses, values: set[Value]) -> set[Value]:
    """All that some values are parts of, directly or not."""
    users: dict[Value, list[Value]] = {}
    for made, parts in losses.parts.items():
        for each in parts:
            users.setdefault(each, []).append(made)
    found: set[Value] = set()
    waiting = [*values]
    while waiting:
        more = {*users.get(waiting.pop(), ())} - found
        found |= more
        waiting += more
    return found


def computed_alike(losses: Losses) -> set[Value]:
    """Losses of a validation in the function that also trains, with gradients on for sure.

    They are computed as those are that it differentiates, of what the same model gives, and so have a graph too.
    """
    trained = [each for each in losses.backwards if not each.part]
    ways = {way for each in trained for way in _ways(losses, each)}
    return {
        each
        for each in (all_values(losses) if ways else ())
        if isinstance(source := reshaped(each.source), ast.Call)
        and not each.part
        and each not in losses.backwards
        and is_surely_loss(each.name)
        and calls_loss(source)
        and losses.facts.is_surely_with_graph(source)
        and ways & {*_ways(losses, each)}
    }


def _ways(losses: Losses, value: Value) -> Iterator[tuple[str, str]]:
    """How a loss is computed: by what is called, of what which model gives: `criterion` and `net`."""
    source = reshaped(value.source)
    path = path_of(source.func) if isinstance(source, ast.Call) else None
    if path is None or not isinstance(source, ast.Call):
        return
    models = [reshaped(each.source) for each in losses.outputs.get(value, ())]
    given = (reshaped(each) for each in source.args)
    models += [each for each in given if isinstance(each, ast.Call) and calls_model(each)]
    for each in models:
        if isinstance(each, ast.Call) and losses.facts.is_surely_with_graph(each):
            yield path, path_of(each.func) or ""
