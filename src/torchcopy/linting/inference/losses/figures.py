"""Figures that are computed from what a model gave that is trained for sure: they hang on its graph.

They are told by how they are computed, whatever they are called: each step from what the model gave must be one
that hands gradients on. That it is trained shows the loss: it is all that `backward()` can go through, or what a
loss function is given as its input.
"""

from __future__ import annotations

import ast
import dataclasses
from typing import TYPE_CHECKING

from ..gradients import may_be_without_graph, may_freeze
from ..nodes import LEAVES, arguments, called_name, path_of
from .computed_beside import all_values, is_graph_for_another
from .graph_steps import HANDS_ON, NOTHING, Origins, Output, graph_steps, inside_of, is_model_call
from .hot_losses import called_function, may_differentiate
from .loss_begins import is_begun_empty
from .loss_flow import Losses, losses_of
from .loss_names import calls_loss, mentions_loss
from .loss_places import branches, place_of
from .loss_terms import reshaped
from .loss_values import KeptValue, Part, Value
from .read_as_numbers import is_only_shown

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_DETACHES = ("detach", "data", "item", "numpy", "tolist")
_STEPS = ("log_prob", "rsample", "entropy", "scale", "sum", "kl_divergence", "binary_cross_entropy", "zip", "list")
_WITH_PARAMETERS = (
    "Bilinear Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d Embedding GRU GRUCell LSTM "
    "LSTMCell Linear MultiheadAttention RNN Sequential TransformerDecoder TransformerEncoder"
).split()


def figures(losses: Losses) -> frozenset[Value]:
    """Which of the values that a function keeps or gives to others are such figures."""
    if losses.figures is None:
        trained = _trained_outputs(losses)
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
    trained = _trained_outputs(losses)
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
    trained = _trained_outputs(losses)
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


def _trained_outputs(losses: Losses) -> Origins:
    """What models gave whose parameters `backward()` goes to for sure, by the losses of a function."""
    if losses.trained_outputs is None:
        losses.trained_outputs = NOTHING  # where a function calls itself
        losses.read_by_losses = frozenset()
        if losses.backwards and not is_graph_for_another(losses) and not losses.detaches_in_place:
            reading = _Reading(losses)
            found: Origins = NOTHING
            for each in losses.backwards:
                outputs = reading.of_value(each)
                found |= outputs if len(outputs) == 1 else NOTHING
            losses.trained_outputs = found | reading.given_to_losses
            losses.read_by_losses = frozenset(reading.places)
    return losses.trained_outputs


class _Reading:
    """What the losses of a function read, in whatever way; of what models gave the last ones alone."""

    def __init__(self, losses: Losses, depth: int = 0) -> None:
        self.losses = losses
        self.depth = depth
        self.steps = graph_steps(losses, depth)
        self.places: set[str] = set()
        self.given_to_losses: Origins = NOTHING
        self._known: dict[Value, Origins] = {}

    def of_value(self, value: Value) -> Origins:
        """The outputs of models that a value is computed from."""
        if value not in self._known:
            self._known[value] = NOTHING  # where it is computed from itself
            self.places.add(value.place)
            source = value.node.value if isinstance(value.node, ast.AugAssign) else value.source
            reads = self.losses.reads.get(value, frozenset())
            found = self.steps.of_value(value) if value.part or _is_call_of_model(self.losses, source) else NOTHING
            if value.part and not found and isinstance(source, ast.Call):
                found = self._of_parts(source, reads)
            elif source is not None and not found:
                found = self.of_node(source, reads)
                if isinstance(value.node, ast.AugAssign):
                    found = found.union(*(self.of_value(each) for each in reads if each.place == value.place))
            self._known[value] = frozenset(each for each in found if isinstance(each, Output))
        return self._known[value]

    def of_node(self, node: ast.expr, reads: frozenset[Value]) -> Origins:
        """Of an expression, wherever in it."""
        found: Origins = NOTHING
        waiting: list[ast.AST] = [node]
        while waiting:
            each = waiting.pop()
            if isinstance(each, ast.Attribute) and each.attr in _DETACHES:
                continue
            place = place_of(each) if isinstance(each, ast.Name | ast.Attribute | ast.Subscript) else None
            if place is not None:
                self.places.add(place)
            named = [one for one in reads if one.place == place] if place is not None else []
            if named:
                found = found.union(*map(self.of_value, named))
                continue
            is_output = isinstance(each, ast.Attribute | ast.Subscript) or _is_call_of_model(self.losses, each)
            if is_output and isinstance(each, ast.expr):
                outputs = self.steps.of_node(each, reads)
                outputs = frozenset(one for one in outputs if isinstance(one, Output))
                if outputs:
                    found |= outputs
                    self.places |= {one.id for one in ast.walk(each) if isinstance(one, ast.Name)}
                    continue
            if isinstance(each, ast.Call):
                self._note_input(each, reads)
                inner = inside_of(self.losses, each, self.depth)
                if inner is not None and self.depth == 0:
                    found |= self._of_function(each, inner.losses)
                if inner is None and not _may_be_step(each):
                    found |= {Output(each)}  # of a model or not: what it is given is not the last
                    self.places |= {one.id for one in ast.walk(each) if isinstance(one, ast.Name)}
                    continue
                func = [each.func.value] if isinstance(each.func, ast.Attribute) else []
                waiting += [*func, *arguments(each)]
            else:
                waiting += ast.iter_child_nodes(each)
        return found

    def _of_parts(self, call: ast.Call, reads: frozenset[Value]) -> Origins:
        """Of what an unknown call gives beside other things: data, where it is given nothing of a model."""
        found = self.of_node(call, reads)
        of_models = found - {Output(call)}
        given = [each for one in arguments(call) for each in self.of_node(one, reads)]
        return found if of_models or given else NOTHING

    def _note_input(self, call: ast.Call, reads: frozenset[Value]) -> None:
        """Notes what a loss function is given first: what is trained, and not what it is compared with."""
        if calls_loss(call) and call.args and not isinstance(call.args[0], ast.Starred):
            outputs = self.of_node(call.args[0], reads)
            self.given_to_losses |= outputs if len(outputs) == 1 else NOTHING

    def _of_function(self, call: ast.Call, losses: Losses) -> Origins:
        """The outputs that a function of the project reads to compute what it returns."""
        if losses.outputs_for_callers is None:
            losses.outputs_for_callers = NOTHING, NOTHING  # where it calls itself
            inner = _Reading(losses, self.depth + 1)
            found: Origins = NOTHING
            for _, returned in losses.returned_expressions:
                if isinstance(returned, Value):
                    found |= inner.of_value(returned)
                else:
                    reads = losses.reads.get(Value("", returned, returned), frozenset())
                    found |= inner.of_node(returned, reads)
            losses.outputs_for_callers = found, inner.given_to_losses
        found, inputs = losses.outputs_for_callers
        self.given_to_losses |= _seen_from(call, inputs)
        return _seen_from(call, found)


def _seen_from(call: ast.Call, outputs: Origins) -> Origins:
    """Outputs inside of a function as the caller sees them."""
    return frozenset(dataclasses.replace(each, outside=call) for each in outputs if isinstance(each, Output))


def _may_be_step(call: ast.Call) -> bool:
    """Whether a call is a step from outputs to a loss, by its name: of torch, of Python, or a loss."""
    name = called_name(call)
    return name in HANDS_ON or name in _STEPS or name[:1].isupper() or mentions_loss(name) or calls_loss(call)


def _is_call_of_model(losses: Losses, node: ast.AST | None) -> bool:
    return isinstance(node, ast.Call) and (
        is_model_call(losses.facts, node) or called_function(losses.facts, node) is not None
    )
