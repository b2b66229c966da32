"""Figures that are computed from what a model gave that is trained for sure: they hang on its graph.

They are told by how they are computed, whatever they are called: each step from what the model gave must be one
that hands gradients on, see `graph_steps.py`. That it is trained shows the loss, see `trained_outputs.py`.
"""

from __future__ import annotations

import ast
import dataclasses
from typing import TYPE_CHECKING

from ..gradients import may_be_without_graph, may_freeze
from ..nodes import LEAVES, called_name, path_of
from .computed_beside import all_values
from .graph_steps import Origins, Output, graph_steps, is_model_call
from .hot_losses import called_function, may_differentiate
from .loss_begins import is_begun_empty
from .loss_flow import Losses, losses_of
from .loss_places import branches, place_of
from .loss_terms import reshaped
from .loss_values import KeptValue, Part, Value
from .read_as_numbers import is_only_shown
from .trained_outputs import trained_outputs

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_WITH_PARAMETERS = (
    "Bilinear Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d Embedding GRU GRUCell LSTM "
    "LSTMCell Linear MultiheadAttention RNN Sequential TransformerDecoder TransformerEncoder"
).split()


def figures(losses: Losses) -> frozenset[Value]:
    """Which of the values that a function keeps or gives to others are such figures."""
    if losses.figures is None:
        trained = trained_outputs(losses)
        steps = graph_steps(losses)
        losses.figures = frozenset(
            each
            for each in (all_values(losses) if trained else ())
            if each.source is not None
            and not _is_plain_output(losses, each)
            and _is_trained(losses, steps.of_value(each), trained)
        )
    return losses.figures


def is_figure(losses: Losses, kept: KeptValue) -> bool:
    """Whether what is kept is such a figure, and not in turn what the loss is computed from."""
    trained = trained_outputs(losses)
    at = kept.statement
    root = kept.keeper.partition("[")[0]
    if not trained or root in losses.read_by_losses or may_be_without_graph(losses.facts, at):
        return False
    if not _is_in_each_backward(losses, at):
        return False
    made = Value(kept.keeper, at) if isinstance(at, ast.AugAssign) else Value("", kept.node, kept.node)
    written = at.value if isinstance(at, ast.AugAssign) else kept.node
    if path_of(written) is None:
        steps, reads = graph_steps(losses), losses.reads.get(made, frozenset())
        is_one = _is_trained(losses, steps.of_node(kept.node, reads), trained) and bool(
            steps.of_node(written, reads)
        )
    else:
        is_one = bool(kept.values) and kept.values <= figures(losses)
    if not is_one or not is_begun_empty(losses, root):
        return False
    return not any(map(_may_keep_graph, losses.backward_calls)) or is_only_shown(losses.facts, losses.scope, root)


def whole_figure(facts: FileFacts, kept: KeptValue) -> KeptValue:
    """All that is added up, where a figure is a part of it: of `total += p * p.log()` no factor alone."""
    node = kept.node
    while isinstance(above := facts.parent(node), ast.expr):
        is_sum = isinstance(above, ast.BinOp) and isinstance(above.op, ast.Add | ast.Sub)
        is_total = is_sum and any(place_of(each) == kept.keeper for each in ast.walk(above))
        if is_total or not kept.is_sum:
            break
        node = above
    return dataclasses.replace(kept, node=node)


def returns_figure(facts: FileFacts, call: ast.Call, part: Part) -> bool:
    """Whether a function that differentiates returns such a figure, as that part of its result."""
    found = called_function(facts, call)
    if found is None or not isinstance(found.scope.node, ast.FunctionDef) or found.scope.node.decorator_list:
        return False
    if not may_differentiate(found) or facts.is_without_graph(call):
        return False
    losses = losses_of(found.facts, found.scope)
    trained = trained_outputs(losses)
    steps = graph_steps(losses)
    values = [each for one, each in losses.returned if one == part and each]
    ways = [each for one, each in losses.returned_expressions if one == part]
    return (
        bool(trained and ways)
        and all(_is_trained(losses, steps.of_returned(each), trained) for each in ways)
        and all(_is_in_each_backward(losses, each.node if isinstance(each, Value) else each) for each in ways)
        and not any(all(_is_plain_output(losses, one) for one in each) for each in values)
    )


def _is_trained(losses: Losses, origins: Origins, trained: Origins) -> bool:
    """Whether something is computed from outputs that are trained, or of layers of a model of which others are."""
    if origins & trained:
        return True
    calls = {each.outside for each in trained if isinstance(each, Output) and each.outside is not None}
    return any(
        isinstance(each, Output) and each.outside in calls and _is_of_layer(losses, each) for each in origins
    )


def _is_of_layer(losses: Losses, output: Output) -> bool:
    """Whether an output is of a layer with parameters that a class of the project makes, and freezes nowhere."""
    found = called_function(losses.facts, output.outside) if output.outside is not None else None
    layer = output.call.func
    if found is None or not isinstance(layer, ast.Attribute) or may_freeze(found.facts) or may_freeze(losses.facts):
        return False
    bound = found.facts.attribute_bindings(layer)
    made = [each.value for each in bound]
    return bool(made) and all(isinstance(each, ast.Call) and called_name(each) in _WITH_PARAMETERS for each in made)


def _is_plain_output(losses: Losses, value: Value) -> bool:
    """Whether a value is what a model gave, as it is, or a part of it that nothing tells more of."""
    source = reshaped(value.source)
    if value.part and isinstance(source, ast.Call) and called_function(losses.facts, source) is not None:
        return False
    if isinstance(source, ast.Attribute):
        return True
    return isinstance(source, ast.Call) and is_model_call(losses.facts, source)


def _is_in_each_backward(losses: Losses, at: ast.AST) -> bool:
    """Whether a node runs in no round in which `backward()` does not: not in a branch for a validation."""
    loops = losses.facts.loops(at)
    if loops and isinstance(loops[0], ast.For) and any(map(_is_chunking, ast.walk(loops[0].iter))):
        return False  # the parts of one batch
    loop = next((each for each in loops if each in losses.backward_loops), None)
    if loops and loop is None:
        return False
    around = {*branches(losses.facts, at, loop)}
    calls = [each for each in losses.backward_calls if loop is None or loop in losses.facts.loops(each)]
    ways = [{*branches(losses.facts, each, loop)} for each in calls]
    if not ways:
        return losses.is_for_caller  # which differentiates what is returned
    if _is_behind_one_that_leaves(ways, around, at):
        return False
    return any(all(way in around or _is_in_both(way, ways) for way in each) for each in ways)


def _may_keep_graph(backward: ast.Call) -> bool:
    """Whether a `backward()` may keep the graph for another one, by whatever it is given."""
    words = [each for each in backward.keywords if each.arg not in ("loss", "gradient")]
    return len(backward.args) > 1 or any(
        each.arg is None or not (isinstance(each.value, ast.Constant) and not each.value.value) for each in words
    )


def _is_in_both(way: tuple[ast.If, bool], ways: list[set[tuple[ast.If, bool]]]) -> bool:
    """Whether `backward()` is called in the other branch of an `if` too."""
    return any((way[0], not way[1]) in each for each in ways)


def _is_chunking(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and called_name(node) in ("chunk", "split", "array_split", "tensor_split")


def _is_behind_one_that_leaves(
    ways: list[set[tuple[ast.If, bool]]], around: set[tuple[ast.If, bool]], at: ast.AST
) -> bool:
    """Whether a branch with a `backward()` before ends the round: `continue`."""
    return any(
        isinstance((test.body if is_body else test.orelse)[-1], LEAVES)
        for each in ways
        for test, is_body in each
        if (test, is_body) not in around and test.lineno < getattr(at, "lineno", 0)
    )
