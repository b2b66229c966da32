"""What an expression is computed from by steps that each hand gradients on: outputs of models, parameters."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

from ..gradients import may_be_without_graph
from ..nodes import arguments, called_name, keyword, path_of
from ..summaries import matched_arguments
from .hot_losses import called_function
from .loss_flow import Losses, losses_of
from .loss_places import place_of
from .loss_values import Part, Value
from .model_outputs import calls_module, is_no_output, is_of_another
from .torch_losses import is_loss_of_torch

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_DEEPEST = 3  # functions that call functions
_MOST_STEPS = 30  # from a figure to what the model gave
_MOST_NODES = 200  # within each other
_MOST_LEFT_OUT = 500
HANDS_ON = frozenset(
    "abs add addmm amax amin asin atan atan2 baddbmm bmm cat cdist chunk clamp clamp_max clamp_min clip clone "
    "concat contiguous cos cosh cosine_similarity cpu cross cross_entropy cuda cumprod cumsum diag diagonal "
    "diff dist div divide dot double einsum elu erf exp exp2 expand expm1 flatten flip float gather gelu half "
    "index_select interpolate kthvalue leaky_relu log log10 log1p log2 log_softmax logsigmoid logsumexp "
    "masked_fill masked_select matmul max maximum mean median min minimum mish mm movedim mul multiply narrow "
    "neg norm normalize outer pairwise_distance permute pow prod reciprocal relu repeat reshape roll rsqrt "
    "selu sigmoid silu sin sinh softmax softmin softplus sort split sqrt square squeeze stack std sub "
    "subtract sum t tan tanh to topk trace transpose tril triu unbind unfold unsqueeze var vector_norm view "
    "view_as where".split()
)
_OF_LOGITS = ("Bernoulli", "Categorical", "OneHotCategorical")
"""Distributions of one parameter, on which all that they give hangs."""
_DISTRIBUTIONS = (*_OF_LOGITS, "Beta", "Independent", "Laplace", "LogNormal", "MultivariateNormal", "Normal")
_OF_DISTRIBUTIONS = ("log_prob", "rsample")
_TAKES_INDICES = ("max", "min", "topk", "sort", "kthvalue", "median")
_GIVES_MANY = ("chunk", "split", "unbind", *_TAKES_INDICES)
_SAME = ("values", "T", "mT", "real", "imag")
_NO_PARTS = ("data", "grad", "grad_fn", "shape", "dtype", "device", "requires_grad", "ndim", "is_leaf", "indices")


@dataclasses.dataclass(frozen=True, slots=True)
class Output:
    """What a model gives, or a part of it.

    Attributes:
        call: of the model.
        part: keys, places and attributes; () for all of it.
        outside: the call of the function of the project in which that is, if it is not in this one.
    """

    call: ast.Call
    part: Part = ()
    outside: ast.Call | None = None


Origins: TypeAlias = frozenset[Output | ast.arg]
NOTHING: Origins = frozenset()


class GraphSteps:
    """Works out what the expressions of one function are computed from."""

    def __init__(self, losses: Losses, depth: int) -> None:
        self.losses = losses
        self.facts: FileFacts = losses.facts
        self.depth = depth
        self._known: dict[Value, Origins] = {}
        self._returned: dict[Part, Origins] = {}
        self._busy: set[Value] = set()
        self._left_out = 0  # values that were busy, or too deep
        self._nodes = 0  # that are looked into at a time

    def of_value(self, value: Value) -> Origins:
        """What a value is computed from, if every step hands gradients on."""
        if value in self._known:
            return self._known[value]
        if len(self._busy) > _MOST_STEPS or self._left_out > _MOST_LEFT_OUT:
            self._left_out += 1
            return NOTHING
        before = self._left_out
        self._busy.add(value)
        found = self._of_value(value)
        self._busy.discard(value)
        if not self._busy or self._left_out == before:  # else it hangs on who asked
            self._known[value] = found
        if not self._busy:
            self._left_out = 0
        return found

    def _of_value(self, value: Value) -> Origins:
        reads = self.losses.reads.get(value, frozenset())
        if isinstance(value.node, ast.arg) and value.source is None:
            return frozenset({value.node})
        if may_be_without_graph(self.facts, value.node) or value.place in self.losses.detached_entries:
            return NOTHING
        if isinstance(value.node, ast.AugAssign) and value.source is None:
            added = self.of_node(value.node.value, reads)
            return added | self.of_all(each for each in reads if each.place == value.place)
        if value.source is None:
            return NOTHING
        if not value.part:
            return self.of_node(value.source, reads)
        if isinstance(value.source, ast.Call):
            return self._of_call(value.source, reads, value.part)
        return self._parts(self.of_node(value.source, reads), value.part)

    def of_all(self, values: Iterable[Value]) -> Origins:
        """What a name is computed from that may be one of some values: each of them, or a number it begins with."""
        found: Origins = NOTHING
        for each in values:
            if each in self._busy:
                self._left_out += 1
                continue
            if isinstance(each.source, ast.Constant) and not each.part:
                continue
            origins = self.of_value(each)
            if not origins:
                return NOTHING
            found |= origins
        return found

    def returned(self, part: Part) -> Origins:
        """What a part of all that a function returns is computed from; nothing where one way says otherwise."""
        if part not in self._returned:
            self._returned[part] = NOTHING  # where it calls itself
            ways = [self.of_returned(each) for one, each in self.losses.returned_expressions if one == part]
            self._returned[part] = NOTHING.union(*ways) if all(ways) else NOTHING
        return self._returned[part]

    def of_returned(self, returned: ast.expr | Value) -> Origins:
        """What a function computes from which parameters and models to return it."""
        if isinstance(returned, Value):
            return self.of_value(returned)
        if may_be_without_graph(self.facts, returned):
            return NOTHING
        return self.of_node(returned, self.losses.reads.get(Value("", returned, returned), frozenset()))

    def of_node(self, node: ast.expr, reads: Iterable[Value]) -> Origins:
        """What an expression is computed from, where its names may be these values."""
        self._nodes += 1
        if self._nodes < _MOST_NODES:
            found = self._of_node(node, reads)
        else:
            found = NOTHING
            self._left_out += 1
        self._nodes -= 1
        return found

    def _of_node(self, node: ast.expr, reads: Iterable[Value]) -> Origins:
        place = place_of(node)
        named = [each for each in reads if each.place == place] if place is not None else []
        if named:
            return self.of_all(named)
        match node:
            case ast.BinOp(
                left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div() | ast.Pow() | ast.MatMult()
            ):
                return self.of_node(left, reads) | self.of_node(node.right, reads)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=of):
                return self.of_node(of, reads)
            case ast.IfExp(body=body, orelse=orelse):
                branches = [each for each in (body, orelse) if not isinstance(each, ast.Constant)]
                ways = [self.of_node(each, reads) for each in branches]
                return NOTHING.union(*ways) if all(ways) else NOTHING
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                return NOTHING.union(*(self.of_node(each, reads) for each in elements))
            case ast.Subscript(value=ast.Call() as call, slice=ast.Constant(value=int() as index)) if (
                called_name(call) in _TAKES_INDICES
            ):
                return self.of_node(call, reads) if index == 0 else NOTHING
            case ast.Subscript(value=of, slice=ast.Constant(value=int() | str() as key)):
                return self._parts(self.of_node(of, reads), (key,))
            case ast.Subscript(value=of):
                return self.of_node(of, reads)
            case ast.Attribute(value=of, attr=name):
                return self.of_node(of, reads) if name in _SAME else self._parts(self.of_node(of, reads), (name,))
            case ast.Call():
                return self._of_call(node, reads)
        return NOTHING

    def _parts(self, origins: Origins, part: Part) -> Origins:
        """The parts of what models gave: `out.logits`, `out["mean"]`; not of what was computed from it."""
        if any(is_no_output(str(each)) or each in _NO_PARTS for each in part):
            return NOTHING
        if any(isinstance(each, ast.arg) or each.outside is not None for each in origins) or len(origins) != 1:
            return NOTHING if isinstance(part[-1], str) else origins
        return frozenset(
            dataclasses.replace(each, part=(*each.part, *part)) for each in origins if isinstance(each, Output)
        )

    def _of_call(self, call: ast.Call, reads: Iterable[Value], part: Part = ()) -> Origins:
        if may_be_without_graph(self.facts, call) or any(is_no_output(str(each)) for each in part):
            return NOTHING
        found = called_function(self.facts, call)
        if found is not None:
            inside = self._of_function(call, reads, part) if found.scope.is_function else NOTHING
            return inside or (
                frozenset({Output(call)}) if not part and is_model_call(self.facts, call) else NOTHING
            )
        if is_model_call(self.facts, call):
            return frozenset({Output(call, part)})
        name, of = called_name(call), getattr(call.func, "value", None)
        if (part and name not in _GIVES_MANY) or (name in _TAKES_INDICES and part and part != (0,)):
            return NOTHING
        resolved = self.facts.resolve(call.func)
        given = [each for each in arguments(call) if not isinstance(each, ast.Starred)]
        if is_loss_of_torch(self.facts, call) or name in _OF_LOGITS:
            return NOTHING.union(*(self.of_node(each, reads) for each in given))
        if name in (*_OF_DISTRIBUTIONS, "entropy") and isinstance(of, ast.expr):
            return self._of_distribution(name, of, reads)
        if name not in HANDS_ON:
            return NOTHING
        if name == "to" and (keyword(call, "dtype") is not None or not all(map(_is_device, call.args))):
            return NOTHING
        is_of_torch = resolved.startswith("torch.") or (isinstance(of, ast.Name) and of.id in ("torch", "F"))
        if isinstance(of, ast.expr) and not is_of_torch:
            receiver = self.of_node(of, reads)  # else the object may give numbers
            if not any(isinstance(each, Output) for each in receiver):
                return receiver
            return receiver.union(*(self.of_node(each, reads) for each in given))
        return NOTHING.union(*(self.of_node(each, reads) for each in given)) if is_of_torch else NOTHING

    def _of_distribution(self, name: str, of: ast.expr, reads: Iterable[Value]) -> Origins:
        """What a density, a sample or an entropy hangs on; that of a normal one hangs on its scale alone."""
        place = place_of(of)
        known = [each for each in reads if each.place == place] if place is not None else []
        made: list[tuple[ast.expr | None, Iterable[Value]]] = [
            (each.source, self.losses.reads.get(each, frozenset())) for each in known
        ] or [(of, reads)]
        known_ones = _OF_LOGITS if name == "entropy" else _DISTRIBUTIONS
        ways = []
        for source, inside in made:
            if not isinstance(source, ast.Call) or called_name(source) not in known_ones:
                return NOTHING
            ways.append(NOTHING.union(*(self.of_node(each, inside) for each in arguments(source))))
        return NOTHING.union(*ways) if all(ways) else NOTHING

    def _of_function(self, call: ast.Call, reads: Iterable[Value], part: Part) -> Origins:
        """What a function of the project hands on: of its arguments, and of models that it calls itself."""
        inner = inside_of(self.losses, call, self.depth)
        if inner is None:
            return NOTHING
        returned = inner.returned(part)
        matched = dict(matched_arguments(call, inner.losses.scope)) if returned else {}
        found: Origins = NOTHING
        for each in returned:
            if isinstance(each, ast.arg):
                given = matched.get(each)
                found |= self.of_node(given, reads) if given is not None else NOTHING
            else:
                found |= {dataclasses.replace(each, outside=call)}
        return found


def graph_steps(losses: Losses, depth: int = 0) -> GraphSteps:
    """What is known of a function, when so many calls were followed to it."""
    if depth not in losses.graph_steps:
        steps = losses.graph_steps[depth] = GraphSteps(losses, depth)
        for value in sorted(losses.reads, key=_line):  # those before first: what is known hangs on nobody who asks
            steps.of_value(value)
    return losses.graph_steps[depth]


def _line(value: Value) -> tuple[int, int, str]:
    return getattr(value.node, "lineno", 0), getattr(value.node, "col_offset", 0), value.place


def inside_of(losses: Losses, call: ast.Call, depth: int) -> GraphSteps | None:
    """The function of the project that is called, if its result is what it returns."""
    found = called_function(losses.facts, call)
    if found is None or depth >= _DEEPEST or not isinstance(found.scope.node, ast.FunctionDef):
        return None
    if any(path_of(each) != "staticmethod" for each in found.scope.node.decorator_list) or found.scope.has(
        ast.Yield
    ):
        return None
    return graph_steps(losses_of(found.facts, found.scope), depth + 1)


def is_model_call(facts: FileFacts, call: ast.Call) -> bool:
    """Whether a call gives what a model that is trained computes."""
    path = path_of(call.func) or ""
    if not path or path.rpartition(".")[2][:1].isupper() or is_of_another(path) or is_loss_of_torch(facts, call):
        return False
    return calls_module(facts, call)


def _is_device(node: ast.expr) -> bool:
    """Whether what `to` is given is a device, and no dtype, as far as its name tells."""
    name = (path_of(node) or "").lower()
    return isinstance(node, ast.Constant) or "dev" in name or "rank" in name or "gpu" in name
