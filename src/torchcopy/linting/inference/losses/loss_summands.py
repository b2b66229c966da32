"""What a loss is made of: whether a summand hangs on its graph, is detached, or is most likely a number."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ..nodes import arguments, called_name, names_in, path_of
from ..values.kinds import UNKNOWN, Kind
from .loss_flow import Losses
from .loss_names import calls_loss, calls_model, is_loss_like, is_summand_by_name, is_surely_loss
from .loss_terms import detaches, is_detached_itself, may_be_tensor, shown, summands, terms
from .loss_values import Value
from .model_outputs import hangs_on_model

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_DEEPEST = 3  # calls of calls
_SUMS = ("sum", "stack", "fsum")
_ROUND = re.compile(r"(^|_)(i|t|k|it|iter|iters|iteration|steps?|epochs?|rounds?|progress|global_step)(_|$)|^i_")
_REDUCES = frozenset(
    "mean sum norm pow square abs exp log sqrt std var max min logsumexp log_prob entropy clamp relu softplus "
    "sigmoid tanh neg mul div add sub dist prod amax amin diff trace".split()
)
_DETACHED = re.compile(r"(^|[._])detached")
_MOST_PARTS = 100  # of a value: what has more is no loss
_COUNTS = re.compile(r"(^|_)(n|num|count|size|len|eps|margin|target|mask|lr|temperature|weight|coef|scale)s?(_|$)")


def is_detached(losses: Losses, value: Value, *, derived: bool = False) -> bool:
    """Whether a value hangs on no graph for sure; a `derived` one may be on the graph of what it is made of."""
    if value.source is None:
        return False
    kind = _kind(losses, value)
    if derived and value in losses.backwards:
        return is_detached_itself(value.source)  # a number it begins with has no `backward`
    if derived and _has_no_graph(losses.facts, value.source):
        return True
    return kind.name in ("number", "ndarray", "text") or (derived and kind.is_tensor and kind.graph is False)


def _kind(losses: Losses, value: Value) -> Kind:
    """What a value is; of a part of what a call gives, what the call's definition tells."""
    if not value.part:
        return losses.facts.kind_of(value.source)
    index = value.part[0] if len(value.part) == 1 else None
    if not isinstance(index, int):
        return UNKNOWN
    found = losses.facts.definition(value.source.func) if isinstance(value.source, ast.Call) else None
    parts = losses.facts.returned_by(found).parts if found is not None and found.scope.is_function else ()
    return parts[index] if index < len(parts) else UNKNOWN


def may_hang(losses: Losses, part: Value, depth: int = 0) -> bool:
    """Whether a summand of a loss hangs on the graph: a weight or a target does not."""
    made_of = losses.parts.get(part, ())
    if isinstance(part.node, ast.AugAssign):
        kind = losses.facts.kind_of(part.node.value)
        if kind.is_tensor and kind.graph is True:  # `penalty += p.norm()`
            return True
    is_renamed = part.source is None or (made_of and path_of(part.source) is not None)
    is_renamed = is_renamed or _is_mean_of_sum(part, made_of)
    if is_renamed and depth < _DEEPEST:  # `loss /= n`, `loss = nll`, `loss = total / n`: as what it was before
        return any(may_hang(losses, each, depth + 1) for each in made_of)
    source = part.source
    if _DETACHED.search(part.place.lower()) or (source is not None and losses.facts.is_without_graph(source)):
        return False
    if isinstance(source, ast.IfExp):  # `f(x) if x is not None else 0`
        source = source.body
    made_by = [each for each in terms(source) if isinstance(each, ast.Call)] if source is not None else []
    is_named = is_loss_like(part.place) or losses.is_summed(part) or any(map(calls_loss, made_by))
    if not (is_named and is_surely_loss(part.place)) and not _shows_tensors(losses, part):
        return False  # the penalty or advantage that an environment gives, say
    is_named = is_named or is_summand_by_name(part.name)
    if not isinstance(source, ast.Call | ast.BinOp | ast.UnaryOp) or not is_named:
        kind = losses.facts.kind_of(part.source)
        return kind.is_tensor and kind.graph is True
    kind = _kind(losses, part)
    if losses.is_summed(part) and kind.name == "dict":
        return True
    return not _has_no_graph(losses.facts, source) and (
        not kind.is_known or (kind.is_tensor and kind.graph is not False)
    )


def _has_no_graph(facts: FileFacts, source: ast.expr) -> bool:
    """Whether what is detached in an expression leaves no graph: not in `log_prob * advantage.detach()`."""
    return detaches(source) and not _weighs_by_number(facts, source)


def _weighs_by_number(facts: FileFacts, node: ast.expr, depth: int = 0) -> bool:
    """Whether an expression is a product, or the mean of one, with a factor that is not detached."""
    match node:
        case ast.UnaryOp(operand=inside):
            return _weighs_by_number(facts, inside, depth)
        case ast.BinOp(left=left, op=ast.Mult() | ast.Div(), right=right):
            return any(
                hangs_on_model(facts, each) or (depth < _DEEPEST and _weighs_by_number(facts, each, depth + 1))
                for each in (left, right)
            )
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="mean" | "sum"), args=[inside, *_]):
            return _weighs_by_number(facts, inside, depth)
        case ast.Call(func=ast.Attribute(value=inside, attr="mean" | "sum")):
            return _weighs_by_number(facts, inside, depth)
    return False


def _is_mean_of_sum(part: Value, made_of: Iterable[Value]) -> bool:
    """Whether a value is what was added up, divided: `total / n`."""
    is_mean = isinstance(part.source, ast.BinOp) and isinstance(part.source.op, ast.Div)
    begun = [each for each in made_of if not isinstance(each.source, ast.Constant)]
    return is_mean and bool(begun) and all(isinstance(each.node, ast.AugAssign) for each in begun)


def is_summand(losses: Losses, part: Value, of: Value) -> bool:
    """Whether a value is added up to another one, and is itself computed from tensors, whatever it is called."""
    if part.source is None or losses.facts.is_without_graph(part.source):
        return False
    if isinstance(part.source, ast.ListComp | ast.List):
        return of.source is not None and is_list_of_tensors(losses, part) and _joins(of.source, part.place)
    if not may_be_tensor(part.source) or not _shows_tensors(losses, part):
        return False
    if of.source is None or _COUNTS.search(part.place.lower()):
        return False
    kind = _kind(losses, part)
    if _is_compared(losses, part) or _is_scheduled(part.source):
        return False
    added = [path_of(each) for each in summands(of.source)]
    added += [path_of(each) for each in _listed_in(of.source)]
    return (not kind.is_known or (kind.is_tensor and kind.graph is not False)) and part.place in added


def _listed_in(source: ast.expr) -> Iterator[ast.expr]:
    """What is in a list that a function is given to be added up: of `combine([(1.0, fit), (0.1, smooth)])`."""
    for term in terms(source):
        for given in term.args if isinstance(term, ast.Call) else ():
            if isinstance(given, ast.List | ast.Tuple):
                yield from shown(given)


def _shows_tensors(losses: Losses, part: Value) -> bool:
    """Whether something tells that a value is computed from tensors: what nothing tells of may be a number."""
    if part.source is not None and _has_tensors(losses.facts, part.source):
        return True
    made_of = [each.source for each in losses.parts_of([part]) if each.source is not None]
    return len(made_of) <= _MOST_PARTS and any(_has_tensors(losses.facts, each) for each in made_of)


def _has_tensors(facts: FileFacts, node: ast.AST, depth: int = 0) -> bool:
    """Whether an expression or function calls PyTorch, a module, or a method that reduces a tensor."""
    known, key = facts.has_tensors, (node, depth)
    if key not in known:
        known[key] = any(_gives_tensor(facts, each, depth) for each in ast.walk(node) if isinstance(each, ast.Call))
    return known[key]


def _gives_tensor(facts: FileFacts, call: ast.Call, depth: int) -> bool:
    """Whether a call is one of PyTorch, of a module or of a method that reduces a tensor."""
    is_of_math = facts.resolve(call.func).partition(".")[0] in ("math", "numpy", "np")
    if isinstance(call.func, ast.Attribute) and call.func.attr in _REDUCES and not is_of_math:
        return True
    if facts.resolve(call.func).startswith("torch"):
        return True
    kind = facts.kind_of(call)
    if kind.is_tensor or facts.kind_of(call.func).name == "module":
        return not kind.is_known or kind.is_tensor
    found = facts.definition(call.func)
    if found is not None and found.scope.is_function:
        return depth < _DEEPEST and _has_tensors(found.facts, found.scope.node, depth + 1)
    if calls_model(call) or calls_loss(call):
        return True
    hows = {each.how for each in facts.bindings(call.func)} if isinstance(call.func, ast.Name) else set()
    return bool(hows) and hows <= {"parameter", "value", "part", "element"} and not _is_scheduled(call)


def _is_scheduled(source: ast.expr) -> bool:
    """Whether a value is computed from the number of the round alone: `ramp = anneal(step)`."""
    calls = [each for each in terms(source) if isinstance(each, ast.Call)]
    read = [one.id.lower() for each in calls for given in arguments(each) for one in names_in(given)]
    return bool(read) and all(map(_ROUND.search, read))


def _is_compared(losses: Losses, part: Value) -> bool:
    """Whether a test compares what a value is computed from: it is a number, as nothing else tells."""
    names = {each.place for each in (part, *losses.parts_of([part]))}
    tests = (each.test for each in losses.scope.nodes(ast.If))
    sides = (one for each in tests if isinstance(each, ast.Compare) for one in (each.left, *each.comparators))
    return any(path_of(each) in names for each in sides)


def is_list_of_tensors(losses: Losses, value: Value) -> bool:
    """Whether a value is a list, written or filled in the function, of what is computed from tensors."""
    match value.source:
        case ast.ListComp(elt=element):
            return may_be_tensor(element)
        case ast.List(elts=elements) if elements:
            return any(map(may_be_tensor, elements))
        case ast.List():
            return any(
                kept.keeper == value.place and not kept.is_sum and any(may_be_tensor(v.source) for v in kept.values)
                for kept in losses.kept.values()
            )
    return False


def _joins(source: ast.expr, place: str) -> bool:
    """Whether a loss is a list as a whole, added up: `torch.stack(terms).mean()`, `sum(terms) / len(terms)`."""
    added = [*terms(source)]
    if len(added) != 1:
        return False
    inside = added[0]
    if isinstance(inside, ast.Call) and called_name(inside) in _SUMS and inside.args:
        inside = inside.args[0]
    return path_of(inside) == place
