"""What a statement replaces or takes away of the dicts and objects that losses are in."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ..nodes import LOOPS, called_name, gone_through, path_of
from .loss_terms import entries_of

_LETS_GO = re.compile(
    r"^(forget|free|release|drop|detach)_(the_)?(graphs?|all|losses|tensors)$|^to_(numbers|floats)$"
)
_CONVERTS = re.compile(r"detach|item|float|number|scalar|numpy")


def replaced_in(node: ast.AST, above: ast.AST | None) -> Iterator[tuple[str, str | int | None]]:
    """Each dict or object of which a node replaces an entry, with its key, or nothing where it may be any.

    The iterable of a loop stands for what the loop does to all entries of it: `for k in logs: logs[k] = 0`.
    """
    match node:
        case ast.Delete(targets=targets) | ast.Assign(targets=targets):
            for target in targets:
                yield from _entry(target)
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            yield from _entry(target)
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=of, attr="pop"), args=[ast.Constant(value=key), *_])):
            yield path_of(of) or "", key if isinstance(key, str | int) else None
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=of, attr="detach_"))):
            yield from _entry(of)
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=of, attr=name), args=[])) if _LETS_GO.search(name):
            yield path_of(of) or "", None
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=of, attr="clear"))):
            yield path_of(of) or "", None
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=of, attr="update")) as call):
            yield from ((path_of(of) or "", each.arg) for each in call.keywords)
            for each in call.args:
                if isinstance(each, ast.Dict):
                    yield from ((path_of(of) or "", key) for key, _ in entries_of(each))
                else:
                    yield path_of(of) or "", None
        case ast.Expr(value=ast.Call(args=[of, *_]) as call) if _CONVERTS.search(called_name(call).lower()):
            yield path_of(of) or "", None
    if isinstance(above, LOOPS) and not isinstance(above, ast.While) and above.iter is node:
        place = path_of(gone_through(above.iter))
        written = (target for each in ast.walk(above) if isinstance(each, ast.Assign) for target in each.targets)
        if place and any(isinstance(each, ast.Subscript) and path_of(each.value) == place for each in written):
            yield place, None


def _entry(target: ast.expr) -> Iterator[tuple[str, str | int | None]]:
    match target:
        case ast.Attribute(value=of, attr=key):
            yield path_of(of) or "", key
        case ast.Subscript(value=of, slice=ast.Constant(value=str() | int() as key)):
            yield path_of(of) or "", key
