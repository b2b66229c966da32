"""Which list, dict or the like of a program keeps some tensors, by its name, and the line that fills it."""

from __future__ import annotations

import ast
import gc
import linecache
import sys
from collections import deque
from collections.abc import Iterator
from types import FrameType, ModuleType
from typing import Any

from torch import Tensor

from ..naming.program_frames import values_in
from ..naming.sites import Sites, shown_path
from ..records import SourceLine

_CONTAINERS = (list, dict, tuple, set, deque)


def where_kept(tensor: Tensor, frame: FrameType | None, sites: Sites) -> tuple[str, SourceLine | None]:
    """The name of the list or dict that has the tensor, and the line that fills it."""
    containers = _containers_of(tensor)
    frame = frame or sys._getframe()
    while frame is not None and containers:
        if sites.is_program_code(frame.f_code):
            for scope in (values_in(frame), frame.f_globals):
                for name, value in list(scope.items()):
                    for found in _names_in(name, value, containers, 3):
                        line = _line_that_fills(found, frame.f_code.co_filename)
                        if line is not None:
                            return found, line
        frame = frame.f_back
    return "", None


def _containers_of(tensor: Tensor) -> set[int]:
    """The lists, dicts and the like that have a tensor, and those that have them: by identity."""
    found: set[int] = set()
    level: list[Any] = [tensor]
    for _ in range(3):
        level = [each for each in gc.get_referrers(*level) if isinstance(each, _CONTAINERS) and each is not level][
            :64
        ]
        found.update(map(id, level))
        if not level:
            break
    return found


def _names_in(name: str, value: Any, containers: set[int], depth: int) -> Iterator[str]:
    """The expressions for the containers that can be reached from a name."""
    if id(value) in containers and not isinstance(value, tuple):
        yield name
    if not depth:
        return
    if isinstance(value, dict):
        inner = [
            (f"{name}[{key!r}]", each) for key, each in list(value.items())[:100] if isinstance(key, (str, int))
        ]
    elif isinstance(value, (type, Tensor, ModuleType)) or not hasattr(value, "__dict__"):
        return
    else:
        inner = [(f"{name}.{key}", each) for key, each in list(vars(value).items())[:100]]
    for path, each in inner:
        yield from _names_in(path, each, containers, depth - 1)


def _line_that_fills(name: str, path: str) -> SourceLine | None:
    """The line with `name.append(…)`, `name += …` or `name[…] = …`."""
    lines = linecache.getlines(path)
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError):
        return None
    own = f"self.{name.partition('.')[2]}"
    for node in ast.walk(tree):
        target: ast.expr | None = None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in ("append", "extend", "add", "insert", "appendleft", "setdefault"):
                target = node.func.value
        elif isinstance(node, ast.AugAssign):
            target = node.target
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            target = node.targets[0].value
        if target is not None and ast.unparse(target) in (name, own):
            assert isinstance(node, (ast.Call, ast.AugAssign, ast.Assign))
            text = lines[node.lineno - 1].rstrip("\n")
            end = node.end_col_offset if node.end_lineno == node.lineno else None
            return SourceLine(
                path=shown_path(path),
                line=node.lineno,
                column=node.col_offset + 1,
                end_column=None if end is None else end + 1,
                text=text,
            )
    return None
