"""Whether a module is on a GPU for sure, so that a move to the CPU copies its state."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..nodes import path_of
from ..scopes import Scope

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_MOVES = ("cuda", "to")
_AT_TIMES = (ast.If, ast.IfExp, ast.Try, ast.ExceptHandler)


def is_on_gpu(facts: FileFacts, scope: Scope, module: str) -> bool:
    """Whether the program puts a module on a GPU, whatever machine it is: `net = Net().cuda()`, or `net.cuda()`."""
    bound = facts.bindings_of_path(scope, module)
    made = [each.value for each in bound if each.value is not None]
    if made and all(_is_put_on_gpu(facts, each) for each in made):
        return True
    calls = [each for each in made if isinstance(each, ast.Call)]  # `net = net.cuda()`, after it was made
    calls += [
        each
        for name in _MOVES
        for each in facts.calls_by_name.get(name, ())
        if isinstance(facts.parent(each), ast.Expr) and _is_of(facts, scope, each)
    ]
    return any(
        isinstance(each.func, ast.Attribute)
        and path_of(each.func.value) == module
        and _is_put_on_gpu(facts, each)
        and not any(isinstance(at, _AT_TIMES) for at in facts.above(each))
        for each in calls
    )


def _is_of(facts: FileFacts, scope: Scope, node: ast.AST) -> bool:
    """Whether a node is in a function, or in a method of the same class."""
    at = facts.scope_of(node)
    return at is scope or (scope.owner is not None and at.owner is scope.owner)


def _is_put_on_gpu(facts: FileFacts, value: ast.expr) -> bool:
    """Whether a value is moved to a GPU: `.cuda()`, `.to("cuda")`, `.to(device)`."""
    match value:
        case ast.Call(func=ast.Attribute(attr="cuda")):
            return True
        case ast.Call(func=ast.Attribute(attr="to"), args=[device, *_]):
            bound = facts.bindings(device) if isinstance(device, ast.Name) else []
            written = [each.value for each in bound] or [device]
            texts = [one.args[0] if isinstance(one, ast.Call) and one.args else one for one in written]
            return all(isinstance(one, ast.Constant) and str(one.value).startswith("cuda") for one in texts)
    return False
