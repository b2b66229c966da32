"""Where losses are kept: how the places are written, a list, an entry of a dict, and in which branches."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..nodes import Loop, method_call, path_of

if TYPE_CHECKING:
    from ..file_facts import FileFacts


def place_of(node: ast.AST | None) -> str | None:
    """As `path_of`, and for an entry whose key is a place: `out[self.metric]`."""
    path = path_of(node)
    if path is None and isinstance(node, ast.Subscript):
        of, key = place_of(node.value), path_of(node.slice)
        if isinstance(node.slice, ast.UnaryOp) and isinstance(node.slice.operand, ast.Constant):
            key = ast.unparse(node.slice)  # `log[-1]`
        return None if of is None or key is None else f"{of}[{key}]"
    return path


def list_of(node: ast.expr) -> str | None:
    """The place of a list: `losses`, and `losses[name]` of `losses.setdefault(name, [])`."""
    of = method_call(node, "setdefault")
    if of is not None and isinstance(node, ast.Call) and node.args:
        path = place_of(of)
        return None if path is None else f"{path}[{ast.unparse(node.args[0])}]"
    return place_of(node)


def is_of_before(node: ast.expr, place: str) -> bool:
    """Whether an expression is what a place held before: `total`, or `total.get(name, 0)` for `total[name]`."""
    of = method_call(node, "get")
    if of is not None and isinstance(node, ast.Call) and node.args:
        return f"{place_of(of)}[{ast.unparse(node.args[0])}]" == place
    return place_of(node) == place


def branches(facts: FileFacts, node: ast.AST, loop: Loop | None) -> list[tuple[ast.If, bool]]:
    """The branches that a node is in, up to a loop: of which `if`, and whether of its body."""
    found = []
    below = node
    for at in facts.above(node):
        if at is loop:
            break
        if isinstance(at, ast.If) and below is not at.test:
            found.append((at, below in at.body))
        below = at
    return found
