"""What models gave that are trained for sure, as the loss shows.

It is all that `backward()` can go through, or what a loss function is given as its input. Of models that are given
what other models gave only the last one counts: the others may be frozen.
"""

from __future__ import annotations

import ast
import dataclasses

from ..nodes import arguments, called_name
from .computed_beside import is_graph_for_another
from .graph_steps import HANDS_ON, NOTHING, Origins, Output, graph_steps, inside_of, is_model_call
from .hot_losses import called_function
from .loss_flow import Losses
from .loss_names import calls_loss, mentions_loss
from .loss_places import place_of
from .loss_terms import LEAVES_GRAPH
from .loss_values import Value

_STEPS = ("log_prob", "rsample", "entropy", "scale", "sum", "kl_divergence", "binary_cross_entropy", "zip", "list")


def trained_outputs(losses: Losses) -> Origins:
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
            if isinstance(each, ast.Attribute) and each.attr in LEAVES_GRAPH:
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
