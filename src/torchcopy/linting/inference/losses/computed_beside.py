"""What hangs on a graph as a differentiated loss does, by what it is computed from: beside it, or as it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..nodes import is_true, keyword, path_of
from .loss_flow import Losses
from .loss_names import calls_loss, calls_model, is_summand_by_name, is_surely_loss
from .loss_sources import is_loss_of_torch
from .loss_terms import terms
from .loss_values import Value

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_NUMBERS = ("item(", "detach", "no_grad", "numpy", ".data", "float(", "inference_mode", "tolist")


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
    if not outputs or _is_graph_for_another(losses):
        return set()
    given = {
        each
        for each, of in losses.outputs.items()
        if of & outputs and each.source is not None and _has_loss_in_it(losses.facts, each.source)
    }
    named = {each for each in all_values(losses) if not each.part and is_summand_by_name(each.name)}
    if named:
        given |= named & _made_of(losses, outputs)
    return {
        each
        for each in given
        if isinstance(each.source, ast.BinOp | ast.Call) and not losses.facts.is_without_graph(each.source)
    }


def _has_loss_in_it(facts: FileFacts, source: ast.expr) -> bool:
    """Whether an expression has a loss in it: of PyTorch, or of a function here that detaches nothing."""
    return any(
        is_loss_of_torch(facts, each) or _is_loss_of_project(facts, each)
        for each in terms(source)
        if isinstance(each, ast.Call)
    )


def _is_loss_of_project(facts: FileFacts, call: ast.Call) -> bool:
    found = facts.definition(call.func) if calls_loss(call) else None
    if found is None or not found.scope.is_function or not found.scope.body:
        return False
    returned = [each.value for each in found.scope.nodes(ast.Return)]
    source = found.facts.source
    text = "".join(map(source.segment, [*getattr(found.scope.node, "decorator_list", ()), *found.scope.body]))
    is_number = any(word in text for word in _NUMBERS)
    return (
        bool(returned)
        and not is_number
        and all(isinstance(each, ast.BinOp | ast.Call | ast.UnaryOp) for each in returned)
    )


def _is_graph_for_another(losses: Losses) -> bool:
    """Whether a graph is kept for another `backward()`, here or in a caller: `loss.backward(retain_graph=True)`."""
    if not any(is_true(keyword(each, "retain_graph")) for each in losses.backward_calls):
        return False
    scope = losses.scope
    is_given_back = any(each.value is not None for each in scope.nodes(ast.Return)) or scope.has(ast.Yield)
    return len(losses.backward_calls) > 1 or is_given_back or bool(scope.self_name)


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
    trained = [each for each in losses.backwards if isinstance(each.source, ast.Call) and not each.part]
    ways = {way for each in trained for way in _ways(losses, each)}
    return {
        each
        for each in (all_values(losses) if ways else ())
        if isinstance(each.source, ast.Call)
        and not each.part
        and each not in losses.backwards
        and is_surely_loss(each.name)
        and calls_loss(each.source)
        and losses.facts.is_surely_with_graph(each.source)
        and ways & {*_ways(losses, each)}
    }


def _ways(losses: Losses, value: Value) -> Iterator[tuple[str, str]]:
    """How a loss is computed: by what is called, of what which model gives: `criterion` and `net`."""
    source = value.source
    path = path_of(source.func) if isinstance(source, ast.Call) else None
    if path is None or not isinstance(source, ast.Call):
        return
    models = [each.source for each in losses.outputs.get(value, ())]
    models += [each for each in source.args if isinstance(each, ast.Call) and calls_model(each)]
    for each in models:
        if isinstance(each, ast.Call) and losses.facts.is_surely_with_graph(each):
            yield path, path_of(each.func) or ""
