"""The expression of the program that an operation was called by, read from its source."""

from __future__ import annotations

import ast
import linecache
from types import CodeType


def call_at(code: CodeType | None, instruction: int) -> ast.Call | None:
    """The call that an instruction of a code object makes; None where there is no source, or it is no call."""
    if code is None:
        return None
    first, last, column, end_column = list(code.co_positions())[instruction // 2]
    if first is None or last is None or column is None or end_column is None:
        return None
    lines = [line.encode("utf-8") for line in linecache.getlines(code.co_filename)[first - 1 : last]]
    if len(lines) < last - first + 1:
        return None
    lines[-1] = lines[-1][:end_column]
    lines[0] = lines[0][column:]
    try:
        tree = ast.parse(b"(" + b"".join(lines) + b"\n)", mode="eval")
    except (SyntaxError, ValueError):
        return None
    return tree.body if isinstance(tree.body, ast.Call) else None


def called_name(call: ast.Call | None) -> str:
    """The last name of what is called: `clone` for `x.y.clone()`; empty where that is no name."""
    if call is None:
        return ""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def is_clone_detach(call: ast.Call | None) -> bool:
    """Whether it is `….clone().detach()`."""
    return (
        call is not None
        and called_name(call) in ("detach", "detach_")
        and isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Call)
        and called_name(call.func.value) == "clone"
    )
