"""In which rounds of a loop something runs: in the last one alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .file_facts import FileFacts


def is_in_last_round(facts: FileFacts, node: ast.AST) -> bool:
    """Whether a node runs in the last round of its loop alone: under `if epoch == epochs - 1`."""
    for at in facts.above(node):
        match at:
            case ast.For(target=target):
                names = {each.id for each in ast.walk(target) if isinstance(each, ast.Name)}
                return any(
                    isinstance(side, ast.Name) and side.id in names
                    for test in _last_round_tests(facts, node)
                    for side in (test.left, *test.comparators)
                )
    return False


def _last_round_tests(facts: FileFacts, node: ast.AST) -> Iterator[ast.Compare]:
    below = node
    for at in facts.above(node):
        if isinstance(at, ast.If) and below in at.body and isinstance(test := at.test, ast.Compare):
            sides = (test.left, *test.comparators)
            is_last = any(
                isinstance(each, ast.BinOp)
                and isinstance(each.op, ast.Sub)
                and isinstance(each.right, ast.Constant)
                and each.right.value == 1
                for each in sides
            )
            if is_last and isinstance(test.ops[0], ast.Eq):
                yield test
        below = at
