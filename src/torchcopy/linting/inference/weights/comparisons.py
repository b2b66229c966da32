"""Where two states of one model meet in an expression: they are compared, subtracted, mixed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..nodes import arguments, called_name, children, method_call, root_of
from ..values.elements import container_of
from .places import entry_path

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_COMPARES = re.compile(
    r"^(equal|allclose|isclose|eq|ne|sub|subtract|lerp|array_equal|array_almost_equal|mse_loss|l1_loss|dist)$|"
    r"compar|assert_?(\w*_)?(all_?)?(close|equal|almost)|(_|^)(same|differ|diff|delta|distance)(s|_|$)"
)
_READS_NO_VALUE = frozenset(
    "keys len set id type isinstance data_ptr size numel dim untyped_storage storage is_shared shape dtype device "
    "requires_grad stride ndim is_leaf".split()
)


def met(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The two sides that an expression or statement brings together, if it reads the values of both."""
    match node:
        case ast.Compare(left=left, comparators=others, ops=ops):
            for one, op, other in zip([left, *others], ops, others, strict=False):
                if isinstance(op, ast.Eq | ast.NotEq):
                    yield one, other
        case ast.BinOp(left=left, op=ast.Sub() | ast.Add(), right=right):
            yield left, right
        case ast.AugAssign(target=target, op=ast.Sub() | ast.Add(), value=value):
            yield target, value
        case ast.Call() if _COMPARES.search(called_name(node).lower()):
            given = arguments(node)
            if isinstance(node.func, ast.Attribute):
                given = [node.func.value, *given]
            for index, one in enumerate(given):
                for other in given[index + 1 :]:
                    yield one, other


def origins(facts: FileFacts, node: ast.expr) -> Iterator[ast.expr]:
    """The places and the states whose values an expression reads, also behind the name of a loop."""
    waiting: list[ast.AST] = [node]
    seen: set[ast.AST] = set()
    while waiting:
        at = waiting.pop()
        if at in seen or (isinstance(at, ast.Call) and called_name(at) in _READS_NO_VALUE):
            continue
        seen.add(at)
        if isinstance(at, ast.Attribute) and at.attr in _READS_NO_VALUE:
            continue
        if isinstance(at, ast.expr) and method_call(at, "state_dict", "parameters", "named_parameters") is not None:
            yield at
        elif isinstance(at, ast.Name | ast.Attribute | ast.Subscript) and entry_path(at) is not None:
            yield at
            root = root_of(at)
            container = container_of(facts, root) if isinstance(root, ast.Name) else None
            if container is not None:
                waiting.append(container)
        else:
            waiting += children(at)
