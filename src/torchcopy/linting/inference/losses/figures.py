"""Figures that are computed from what a model gave, on whose graph the differentiated loss hangs as well.

They are told by how they are computed, whatever they are called: each step from what the model gave must be one
that hands gradients on. The loss may be computed in any way: what counts is that it reads the same call of the
model.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from ..nodes import arguments, called_name, is_true, keyword, path_of
from ..summaries import matched_arguments
from .computed_beside import all_values, is_graph_for_another
from .hot_losses import called_function, may_differentiate
from .loss_flow import Losses, losses_of
from .loss_names import calls_model, mentions_loss
from .loss_places import place_of
from .loss_terms import reshaped
from .loss_values import KeptValue, Part, Value
from .model_outputs import is_no_output, is_of_another
from .read_as_numbers import is_only_shown
from .torch_losses import is_loss_of_torch

if TYPE_CHECKING:
    from ..file_facts import FileFacts

Token: TypeAlias = ast.Call | ast.arg | tuple[ast.Call, ast.AST]
"""A call of a model; a parameter; or a call of a model inside of a function of the project, with its own call."""
Tokens: TypeAlias = frozenset[Token]

_NONE: Tokens = frozenset()
_DEEPEST = 3  # functions that call functions
_MOST_STEPS = 30  # from a figure to what the model gave
_MOST_NODES = 200  # within each other
_MOST_LEFT_OUT = 500
_HANDS_ON = frozenset(
    "abs add addmm amax amin asin atan atan2 baddbmm bmm cat cdist chunk clamp clamp_max clamp_min clip clone "
    "concat contiguous cos cosh cosine_similarity cpu cross cross_entropy cuda cumprod cumsum diag diagonal "
    "diff dist div divide dot double einsum elu entropy erf exp exp2 expand expm1 flatten flip float gather "
    "gelu half index_select interpolate kl_divergence leaky_relu log log10 log1p log2 log_prob log_softmax "
    "logsigmoid logsumexp masked_fill masked_select matmul max maximum mean median min minimum mish mm "
    "movedim mul multiply narrow neg norm normalize outer pairwise_distance permute pow prod reciprocal relu "
    "repeat reshape roll rsample rsqrt selu sigmoid silu sin sinh softmax softmin softplus split sqrt square "
    "squeeze stack std sub subtract sum t tan tanh to trace transpose triu tril type_as unbind unfold "
    "unsqueeze var vector_norm view view_as where".split()
)
_DISTRIBUTIONS = frozenset(
    "Bernoulli Beta Categorical Dirichlet Independent Laplace LogNormal MultivariateNormal Normal "
    "OneHotCategorical StudentT".split()
)
_OF_DISTRIBUTIONS = ("mean", "variance", "stddev", "loc", "scale", "logits", "probs")
_INDICES_BESIDE = ("max", "min", "topk", "sort", "kthvalue", "median", "mode", "cummax", "cummin")
_DETACHES = ("detach", "data", "item", "numpy", "tolist")
_SAME = ("values", "T", "mT", "real", "imag")


def figures(losses: Losses) -> frozenset[Value]:
    """Which of the values that a function keeps or gives to others are such figures."""
    if losses.figures is None:
        known = figures_in(losses)
        read = _read_by_losses(losses)
        losses.figures = frozenset(
            each
            for each in (all_values(losses) if read.calls else ())
            if each.source is not None and not _is_plain_output(losses, each) and known.of_value(each) & read.calls
        )
    return losses.figures


def is_figure(losses: Losses, kept: KeptValue) -> bool:
    """Whether what is kept is such a figure, and not in turn what the loss is computed from."""
    read = _read_by_losses(losses)
    loops = losses.facts.loops(kept.statement)
    root = kept.keeper.partition("[")[0]
    if not read.calls or root in read.places or (loops and losses.backward_loops.isdisjoint(loops)):
        return False
    at = kept.statement
    made = Value(kept.keeper, at) if isinstance(at, ast.AugAssign) else Value("", kept.node, kept.node)
    written = at.value if isinstance(at, ast.AugAssign) else kept.node
    if path_of(written) is None:
        is_one = bool(figures_in(losses).of_node(kept.node, losses.reads.get(made, frozenset())) & read.calls)
        is_one = is_one and bool(figures_in(losses).of_node(written, losses.reads.get(made, frozenset())))
    else:
        is_one = bool(kept.values) and kept.values <= figures(losses)
    keeps_graph = any(is_true(keyword(each, "retain_graph")) for each in losses.backward_calls)
    return is_one and (not keeps_graph or is_only_shown(losses.facts, losses.scope, root))


def returns_figure(facts: FileFacts, call: ast.Call, part: Part) -> bool:
    """Whether a function that differentiates returns such a figure, as that part of its result."""
    found = called_function(facts, call)
    if found is None or not isinstance(found.scope.node, ast.FunctionDef) or found.scope.node.decorator_list:
        return False
    if not may_differentiate(found) or facts.is_without_graph(call):
        return False
    losses = losses_of(found.facts, found.scope)
    read = _read_by_losses(losses)
    known = figures_in(losses)
    values = [each for one, each in losses.returned if one == part and each]
    ways = [each for one, each in losses.returned_expressions if one == part]
    return (
        bool(read.calls and ways)
        and all(known.of_returned(each) & read.calls for each in ways)
        and not any(all(_is_plain_output(losses, one) for one in each) for each in values)
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Read:
    """What the differentiated losses of a function read, in whatever way.

    Attributes:
        calls: of models.
        places: names, attributes and entries.
    """

    calls: Tokens
    places: frozenset[str]


def _read_by_losses(losses: Losses) -> Read:
    if losses.read_by_losses is None:
        is_for_another = is_graph_for_another(losses)
        losses.read_by_losses = Read(_NONE, frozenset()) if is_for_another else read_by(losses, losses.backwards)
    return losses.read_by_losses


def _is_plain_output(losses: Losses, value: Value) -> bool:
    """Whether a value is what a model gave, as it is, or a part of it that nothing tells more of."""
    source = reshaped(value.source)
    if value.part and isinstance(source, ast.Call) and called_function(losses.facts, source) is not None:
        return False
    if isinstance(source, ast.Attribute):
        return True
    return isinstance(source, ast.Call) and is_model_call(losses.facts, source)


class Figures:
    """Works out what expressions of one function are computed from by steps that hand gradients on."""

    def __init__(self, losses: Losses, depth: int = 0) -> None:
        self.losses = losses
        self.facts: FileFacts = losses.facts
        self.depth = depth
        self._known: dict[Value, Tokens] = {}
        self._busy: set[Value] = set()
        self._left_out = 0  # values that were busy, or too deep
        self._nodes = 0  # that are looked into at a time

    def of_value(self, value: Value) -> Tokens:
        """What a value is computed from, if every step hands gradients on."""
        if value in self._known:
            return self._known[value]
        if len(self._busy) > _MOST_STEPS or self._left_out > _MOST_LEFT_OUT:
            self._left_out += 1
            return _NONE
        before = self._left_out
        self._busy.add(value)
        found = self._of_value(value)
        self._busy.discard(value)
        if not self._busy or self._left_out == before:  # else it hangs on who asked
            self._known[value] = found
        if not self._busy:
            self._left_out = 0
        return found

    def _of_value(self, value: Value) -> Tokens:
        reads = self.losses.reads.get(value, frozenset())
        if isinstance(value.node, ast.arg) and value.source is None:
            return frozenset({value.node})
        if isinstance(value.node, ast.AugAssign) and value.source is None:
            added = self.of_node(value.node.value, reads)
            return added | self.of_all(each for each in reads if each.place == value.place)
        if value.source is None or self.facts.is_without_graph(value.node):
            return _NONE
        if not value.part:
            return self.of_node(value.source, reads)
        if is_no_output(value.name):
            return _NONE
        if not isinstance(value.source, ast.Call):
            return self.of_node(value.source, reads) if place_of(value.source) is not None else _NONE
        if called_name(value.source) in _INDICES_BESIDE:
            return self.of_node(value.source, reads) if value.part == (0,) else _NONE
        return self._of_call(value.source, reads, value.part)

    def of_all(self, values: Iterable[Value]) -> Tokens:
        """What a name is computed from that may be one of some values: each of them, or a number it begins with."""
        found: Tokens = _NONE
        for each in values:
            if each in self._busy:
                self._left_out += 1
                continue
            if isinstance(each.source, ast.Constant) and not each.part:
                continue
            tokens = self.of_value(each)
            if not tokens:
                return _NONE
            found |= tokens
        return found

    def of_returned(self, returned: ast.expr | Value) -> Tokens:
        """What a function computes from which parameters and models to return it."""
        if isinstance(returned, Value):
            return self.of_value(returned)
        if self.facts.is_without_graph(returned):
            return _NONE
        return self.of_node(returned, self.losses.reads.get(Value("", returned, returned), frozenset()))

    def of_node(self, node: ast.expr, reads: Iterable[Value]) -> Tokens:
        """What an expression is computed from, where its names may be these values."""
        self._nodes += 1
        found = self._of_node(node, reads) if self._nodes < _MOST_NODES else _NONE
        self._nodes -= 1
        return found

    def _of_node(self, node: ast.expr, reads: Iterable[Value]) -> Tokens:
        place = place_of(node)
        if place is not None:
            named = [each for each in reads if each.place == place]
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
                return frozenset().union(*ways) if all(ways) else _NONE
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                return frozenset().union(*(self.of_node(each, reads) for each in elements))
            case ast.Subscript(value=ast.Call() as call, slice=ast.Constant(value=int() as index)) if (
                called_name(call) in _INDICES_BESIDE and index
            ):
                return _NONE
            case ast.Subscript(value=of, slice=key):
                is_named_otherwise = isinstance(key, ast.Constant) and is_no_output(str(key.value))
                return _NONE if is_named_otherwise else self.of_node(of, reads)
            case ast.Attribute(value=of, attr=name):
                is_same = name in _SAME or name in _OF_DISTRIBUTIONS
                return self.of_node(of, reads) if is_same or self._is_output(of, name, reads) else _NONE
            case ast.Call():
                return self._of_call(node, reads)
        return _NONE

    def _is_output(self, of: ast.expr, name: str, reads: Iterable[Value]) -> bool:
        """Whether an attribute is a part of what a model gave: `out.logits`."""
        if is_no_output(name) or name in ("data", "grad", "shape", "dtype", "device", "requires_grad"):
            return False
        place = place_of(of)
        sources = [each.source for each in reads if each.place == place] if place is not None else [of]
        return bool(sources) and all(
            isinstance(each, ast.Call) and is_model_call(self.facts, each) for each in sources
        )

    def _of_call(self, call: ast.Call, reads: Iterable[Value], part: Part = ()) -> Tokens:
        if self.facts.is_without_graph(call):
            return _NONE
        found = called_function(self.facts, call)
        if found is not None and found.scope.is_function:
            inside = self._of_function(call, reads, part)
            return inside | self._of_model(call, reads) if not part and is_model_call(self.facts, call) else inside
        if is_model_call(self.facts, call):
            return self._of_model(call, reads)
        if part and called_name(call) not in ("chunk", "split", "unbind", *_INDICES_BESIDE):
            return _NONE
        name, of = called_name(call), getattr(call.func, "value", None)
        resolved = self.facts.resolve(call.func)
        given = [each for each in arguments(call) if not isinstance(each, ast.Starred)]
        if (
            is_loss_of_torch(self.facts, call)
            or name in _DISTRIBUTIONS
            or resolved.startswith("torch.nn.functional.")
        ):
            return frozenset().union(*(self.of_node(each, reads) for each in given))
        if name not in _HANDS_ON or resolved.startswith(("numpy", "math", "scipy", "sklearn")):
            return _NONE
        is_of_torch = isinstance(of, ast.Name) and (of.id in ("torch", "F") or bool(resolved))
        if of is None and not resolved.startswith("torch"):
            return _NONE  # `sum`, `max` and so on of Python, or of an unknown file
        if isinstance(of, ast.expr) and not is_of_torch:
            given.append(of)
        return frozenset().union(*(self.of_node(each, reads) for each in given))

    def _of_model(self, call: ast.Call, reads: Iterable[Value]) -> Tokens:
        """What a model gives, and with it what it is given."""
        return frozenset({call}).union(*(self.of_node(each, reads) for each in arguments(call)))

    def _of_function(self, call: ast.Call, reads: Iterable[Value], part: Part) -> Tokens:
        """What a function of the project hands on: of its arguments, and of models that it calls itself."""
        inner = inside_of(self.losses, call, self.depth)
        if inner is None:
            return _NONE
        tokens = [inner.of_returned(each) for one, each in inner.losses.returned_expressions if one == part]
        if not all(tokens):
            return _NONE
        matched = dict(matched_arguments(call, inner.losses.scope))
        found: set[Token] = set()
        for each in frozenset().union(*tokens):
            if isinstance(each, ast.arg):
                given = matched.get(each)
                found |= self.of_node(given, reads) if given is not None else _NONE
            else:
                found.add((call, each[1] if isinstance(each, tuple) else each))
        return frozenset(found)


def figures_in(losses: Losses, depth: int = 0) -> Figures:
    """What is known of a function, when so many calls were followed to it."""
    if depth not in losses.figures_in:
        losses.figures_in[depth] = Figures(losses, depth)
    return losses.figures_in[depth]


def inside_of(losses: Losses, call: ast.Call, depth: int) -> Figures | None:
    """The function of the project that is called, if its result is what it returns."""
    found = called_function(losses.facts, call)
    if found is None or depth >= _DEEPEST or not isinstance(found.scope.node, ast.FunctionDef):
        return None
    if any(path_of(each) != "staticmethod" for each in found.scope.node.decorator_list) or found.scope.has(
        ast.Yield
    ):
        return None
    return figures_in(losses_of(found.facts, found.scope), depth + 1)


def is_model_call(facts: FileFacts, call: ast.Call) -> bool:
    """Whether a call gives what a model that is trained computes, with its graph."""
    path = path_of(call.func) or ""
    if not path or is_of_another(path) or facts.is_without_graph(call) or is_loss_of_torch(facts, call):
        return False
    return calls_model(call) or facts.kind_of(call.func).name == "module"


def read_by(losses: Losses, values: Iterable[Value], depth: int = 0) -> Read:
    """What values of a function read, in whatever way; not the models that give a loss themselves."""
    found: set[Token] = set()
    giving_losses: set[Token] = set()
    places: set[str] = set()
    seen: set[Value] = set()
    waiting = [*values]
    while waiting:
        value = waiting.pop()
        source = value.node.value if isinstance(value.node, ast.AugAssign) else value.source
        if value in seen or source is None or losses.facts.is_without_graph(value.node):
            continue
        seen.add(value)
        called = _called_in(losses, source, value.part, depth)
        reads = losses.reads.get(value, frozenset())
        is_part = bool(value.part) or isinstance(source, ast.Attribute | ast.Subscript)
        if is_part and mentions_loss(value.place):
            of = {each.source for each in reads} | {source}
            giving_losses |= {each for each in of if isinstance(each, ast.Call)}
        found |= called
        waiting += reads
        places |= {value.place, *losses.read_places(source)}
    return Read(frozenset(found - giving_losses), frozenset(places))


def _called_in(losses: Losses, source: ast.expr, part: Part, depth: int) -> set[Token]:
    """The calls of models in an expression, or inside of functions of the project that it calls."""
    found: set[Token] = set()
    for call in _with_graph(source):
        if not isinstance(call, ast.Call):
            continue
        if is_model_call(losses.facts, call):
            found.add(call)
        if (inner := inside_of(losses, call, depth)) is not None:
            returned = inner.losses.returned
            given = {each for one, values in returned if one == part or call is not source for each in values}
            read = read_by(inner.losses, given, depth + 1)
            found |= {(call, each[1] if isinstance(each, tuple) else each) for each in read.calls}
    return found


def _with_graph(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of an expression without those that are detached in it."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if not (isinstance(each, ast.Attribute) and each.attr in _DETACHES):
            yield each
            waiting += ast.iter_child_nodes(each)
