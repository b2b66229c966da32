"""What a loss is made of, as it is written: the operands that keep their graph, and what leaves it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..nodes import called_name, method_call

_LIKE_ITSELF = frozenset(
    "mean sum clone to cpu cuda float double half view reshape squeeze unsqueeze abs sqrt log exp div mul add sub "
    "contiguous flatten clamp".split()
)
_OF_TENSORS = frozenset("mean sum clamp abs add sub mul div sqrt log exp".split())
_JOINS = ("stack", "cat")
_LEAVES_GRAPH = ("detach", "item", "data", "numpy", "tolist")
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
        case ast.Subscript(value=of, slice=ast.Constant(value=None)):  # `loss[None]`
            yield from terms(of, depth)
        case ast.Subscript(value=ast.Call() as of) if called_name(of) in _JOINS:  # `torch.stack((a, b))[chosen]`
            yield from terms(of, depth)
        case ast.Call(args=[ast.Tuple(elts=joined) | ast.List(elts=joined), *_]) if called_name(node) in _JOINS:
            for each in [one for one in joined if not detaches(one)] or joined:
                yield from terms(each, depth)
        case ast.Constant():
            return
        case _:
            yield node


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
    return any(isinstance(each, ast.Attribute) and each.attr in _LEAVES_GRAPH for each in ast.walk(node)) or (
        isinstance(node, ast.Call) and called_name(node) in ("float", "int", "np", "to_numpy", "tensor")
    )


def is_detached_itself(node: ast.expr) -> bool:
    """Whether a value is a detached one, and not only made of some: `loss.detach()`, not `f(x.detach())`."""
    for term in terms(node):
        at = term
        while isinstance(at, ast.Attribute | ast.Call | ast.Subscript):
            if isinstance(at, ast.Attribute) and at.attr in _LEAVES_GRAPH:
                return True
            at = at.func if isinstance(at, ast.Call) else at.value
    return False


def shown(node: ast.expr) -> list[ast.expr]:
    """What is kept of what is appended: the entries of a tuple or dict that is written there."""
    match node:
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return elements
        case ast.Dict(values=values):
            return values
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
                loop = given.generators[0]
                if isinstance(given.elt, ast.Subscript) and isinstance(given.elt.slice, ast.Name):
                    return given.elt.value  # `sum(losses[name] for name in names)`
                if isinstance(given.elt, ast.Name) and isinstance(loop.target, ast.Name):
                    given = loop.iter if given.elt.id == loop.target.id else given
            return method_call(given, "values")
    return None


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
