"""What a loss is made of, as it is written: the operands that keep their graph, and what leaves it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ..nodes import called_name, method_call, path_of
from .loss_names import is_loss_like, is_surely_loss

_LIKE_ITSELF = frozenset(
    "mean sum clone to cpu cuda float double half view reshape squeeze unsqueeze abs sqrt log exp div mul add sub "
    "contiguous flatten clamp max min amax amin median neg square pow".split()
)
_LINEAR = frozenset(
    "mean sum to cpu cuda float double half view reshape squeeze unsqueeze clone contiguous flatten".split()
)
"""Of a sum, these give the sum of what they give of its terms: of a squared difference, one may be a target."""
_OF_TENSORS = frozenset("mean sum clamp abs add sub mul div sqrt log exp".split())
_LEAVES_IT_ONE = (
    "squeeze",
    "unsqueeze",
    "view",
    "reshape",
    "flatten",
    "float",
    "transpose",
    "permute",
    "double",
    "cpu",
    "to",
)
_WEIGHT = re.compile(
    r"^(w|lam|lmbda|c|k|mu|nu|tau|eta|eps|n|lr)\d*$|weight|coef|alpha|beta|gamma|lambda|scale|factor|^w_|_w$|^lam_"
)
_SORTS = ("topk", "sort", "max", "min", "kthvalue")
_JOINS = ("stack", "cat")
LEAVES_GRAPH = ("detach", "item", "data", "numpy", "tolist")
_MOST_TERMS = 50  # nested operators: what has more is no loss


def terms(node: ast.expr, depth: int = 0) -> Iterator[ast.expr]:
    """The operands of arithmetic that keep their graph: `a` and `b` of `a + 0.5 * b.mean()`."""
    if depth > _MOST_TERMS:
        return
    depth += 1
    match node:
        case ast.BinOp(left=left, op=ast.Mult() | ast.Div(), right=right) if _counts(right):
            yield from terms(left, depth)
        case ast.BinOp(left=left, op=ast.Mult() | ast.Div(), right=right) if detaches(left) or detaches(right):
            return  # a number with a weight
        case ast.BinOp(left=left, right=right):
            yield from terms(left, depth)
            yield from terms(right, depth)
        case ast.UnaryOp(operand=operand):
            yield from terms(operand, depth)
        case ast.IfExp(body=body, orelse=orelse) if detaches(body) or detaches(orelse):
            return  # `loss.item() if torch.is_tensor(loss) else loss`
        case ast.IfExp(body=body, orelse=orelse):
            yield from terms(body, depth)
            yield from terms(orelse, depth)
        case ast.Call(func=ast.Attribute(value=of, attr=name), args=given) if name in _LIKE_ITSELF:
            if isinstance(of, ast.Name) and of.id in ("torch", "F", "np", "numpy", "math"):
                if of.id in ("torch", "F") and name in _OF_TENSORS and given:
                    for each in given[:2] if name in ("add", "sub") else given[:1]:
                        yield from terms(each, depth)
                return
            yield from terms(of, depth)
        case ast.Attribute(value=ast.Call(func=ast.Attribute(value=of, attr=name)), attr="values") if (
            name in _SORTS
        ):
            yield from terms(of, depth)
        case ast.Subscript(value=of, slice=ast.Constant(value=None)):  # `loss[None]`
            yield from terms(of, depth)
        case ast.Subscript(value=ast.Call() as of) if called_name(of) in _JOINS:  # `torch.stack((a, b))[chosen]`
            yield from terms(of, depth)
        case ast.Call(args=[ast.Tuple(elts=joined) | ast.List(elts=joined), *_]) if called_name(node) in _JOINS:
            for each in [one for one in joined if not detaches(one)] or joined:
                yield from terms(each, depth)
        case ast.Call(args=[ast.Name() as joined_list, *_]) if called_name(node) in _JOINS:
            yield joined_list
        case ast.Constant():
            return
        case _:
            yield node


def summands(node: ast.expr, depth: int = 0) -> Iterator[ast.expr]:
    """What is added up to a loss, without its weights: `a` and `b` of `a - 0.5 * b.mean()`."""
    depth += 1
    match node:
        case _ if depth > _MOST_TERMS:
            return
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
            yield from summands(left, depth)
            yield from summands(right, depth)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            is_weight = [_is_weight(left, right), _is_weight(right, left)]
            if is_weight[0] != is_weight[1]:  # else nothing tells which of both is the loss
                yield from summands(right if is_weight[0] else left, depth)
        case ast.BinOp(left=left, op=ast.Div()):
            yield from summands(left, depth)
        case ast.UnaryOp(operand=operand):
            yield from summands(operand, depth)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="add"), args=[left, right]):
            yield from summands(left, depth)
            yield from summands(right, depth)
        case ast.Call(func=ast.Attribute(value=ast.BinOp() as of, attr=name)) if name in _LINEAR:
            yield from summands(of, depth)
        case _:
            yield node


def _is_weight(node: ast.expr, other: ast.expr) -> bool:
    """Whether one side of a product is the weight, and not the loss: a number, an option, a name beside a call."""
    if isinstance(node, ast.Constant | ast.Attribute | ast.Subscript):
        return True
    if not isinstance(node, ast.Name):
        return isinstance(node, ast.BinOp) and all(
            map(_is_weight, (node.left, node.right), (node.right, node.left))
        )
    return _WEIGHT.search(node.id.lower()) is not None or isinstance(other, ast.Call | ast.BinOp | ast.UnaryOp)


def reshaped(node: ast.expr | None) -> ast.expr | None:
    """What is only indexed, reshaped or converted: `model(x)` of `model(x)[:, 0].squeeze()`."""
    while True:
        match node:
            case ast.Subscript(value=inside):
                node = inside
            case ast.Call(func=ast.Attribute(value=inside, attr=name)) if name in _LEAVES_IT_ONE:
                node = inside
            case _:
                return node


def takes_log(node: ast.expr) -> bool:
    """Whether a call gives log-probabilities, of which a loss that is written out is made."""
    return isinstance(node, ast.Call) and called_name(node) in ("log_softmax", "logsigmoid")


def may_be_tensor(node: ast.expr | None) -> bool:
    """Whether a value is what a call gives, or computed from such, and is not detached."""
    while isinstance(node, ast.UnaryOp):
        node = node.operand
    return isinstance(node, ast.Call | ast.BinOp) and not detaches(node)


def _counts(node: ast.expr) -> bool:
    """Whether an expression is a number that no loss is in: `int(batch.size(1))`."""
    is_number = isinstance(node, ast.Call) and called_name(node) in ("int", "float", "len")
    return is_number and not any("loss" in each.lower() for each in _words(node))


def _words(node: ast.expr) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Name | ast.Attribute):
            yield each.id if isinstance(each, ast.Name) else each.attr


def detaches(node: ast.expr) -> bool:
    """Whether a value is detached, or made of something that is, so that it most likely has no graph."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div) and _counts(node.right):
        return detaches(node.left)
    return any(isinstance(each, ast.Attribute) and each.attr in LEAVES_GRAPH for each in _without_keys(node)) or (
        isinstance(node, ast.Call) and called_name(node) in ("float", "int", "np", "to_numpy", "tensor")
    )


def _without_keys(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all inside of it, but what something is indexed by: `x[chosen.tolist()]` has the graph of `x`."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        yield each
        waiting += [each.value] if isinstance(each, ast.Subscript) else ast.iter_child_nodes(each)


def is_detached_itself(node: ast.expr) -> bool:
    """Whether a value is a detached one, and not only made of some: `loss.detach()`, not `f(x.detach())`."""
    for term in terms(node):
        at = term
        while isinstance(at, ast.Attribute | ast.Call | ast.Subscript):
            if isinstance(at, ast.Attribute) and at.attr in LEAVES_GRAPH:
                return True
            at = at.func if isinstance(at, ast.Call) else at.value
    return False


def shown(node: ast.expr) -> list[ast.expr]:
    """What is kept of what is appended: the entries of a tuple or dict that is written there."""
    match node:
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            inside = (shown(each) if isinstance(each, ast.Tuple | ast.List) else [each] for each in elements)
            return [one for each in inside for one in each]
        case ast.Dict(values=values):
            return values
        case ast.Call(func=ast.Name(id="dict"), args=[], keywords=given):
            return [each.value for each in given]
        case ast.BinOp() | ast.Call():  # also `[loss, penalty] + [v for v in values]`
            return [one for term in terms(node) for one in (shown(term) if isinstance(term, ast.List) else [term])]
    return [node]


def summed_dict(node: ast.expr) -> ast.expr | None:
    """The dict whose values are added up: of `sum(losses.values())`, `sum(v for v in losses.values())`."""
    match node:
        case ast.Call(args=[given, *_]) if called_name(node) in ("sum", "fsum", "stack"):
            if isinstance(given, ast.Call) and called_name(given) in ("list", "tuple") and given.args:
                given = given.args[0]
            if isinstance(given, ast.GeneratorExp | ast.ListComp) and len(given.generators) == 1:
                loop, added = given.generators[0], given.elt
                if isinstance(added, ast.Subscript) and isinstance(added.slice, ast.Name):
                    return added.value  # `sum(losses[name] for name in names)`
                if isinstance(added, ast.Name) and isinstance(loop.target, ast.Name):
                    given = loop.iter if added.id == loop.target.id else given
                if isinstance(added, ast.BinOp) and (weighed := _weighed_entry(added, loop)) is not None:
                    return weighed
                weighed = method_call(loop.iter, "items")  # `sum(weights[k] * v for k, v in losses.items())`
                if weighed is not None and isinstance(loop.target, ast.Tuple):
                    last = loop.target.elts[-1]
                    inside = [each.id for each in summands(added) if isinstance(each, ast.Name)]
                    if isinstance(last, ast.Name) and last.id in inside:
                        return weighed
            return method_call(given, "values")
    return None


def summed_names(node: ast.expr, summed: str) -> ast.expr | None:
    """The names by which entries of a dict are added up, if not all: of `sum(losses[k] for k in names)`."""
    given = node.args[0] if isinstance(node, ast.Call) and node.args else None
    while isinstance(given, ast.Call) and called_name(given) in ("list", "tuple") and given.args:
        given = given.args[0]
    through = given.generators[0].iter if isinstance(given, ast.GeneratorExp | ast.ListComp) else None
    inside = method_call(through, "keys", "values", "items") or through
    return None if through is None or path_of(inside) == summed else through


def _weighed_entry(added: ast.BinOp, loop: ast.comprehension) -> ast.expr | None:
    """The dict that a loop goes through, each entry with its weight: `weights[k] * losses[k] for k in losses`."""
    through = path_of(method_call(loop.iter, "keys") or loop.iter)
    named = []
    for each in (added.left, added.right) if isinstance(added.op, ast.Mult) else ():
        match each:
            case ast.Subscript(value=of, slice=ast.Name(id=key)):
                if isinstance(loop.target, ast.Name) and loop.target.id == key:
                    if path_of(of) == through is not None:
                        return of
                    named += [of] if is_surely_loss(path_of(of) or "") and is_loss_like(path_of(of) or "") else []
    return named[0] if len(named) == 1 else None  # `sum(weights[k] * losses[k] for k in names)`


def entries_of(value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """The entries of a dict that is written there, and what is given to a constructor, by their names."""
    match value:
        case ast.Dict(keys=keys, values=values):
            for key, each in zip(keys, values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.value, each
        case ast.Call(keywords=given) if called_name(value)[:1].isupper() or called_name(value) == "dict":
            for word in given:
                if word.arg is not None:
                    yield word.arg, word.value
