"""In which rounds of a loop something runs: in the last one alone."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..file_facts import FileFacts


def is_in_last_round(facts: FileFacts, node: ast.AST) -> bool:
    """Whether a node runs in the last round of its loop alone: under `if epoch == epochs - 1`."""
    tests: list[ast.expr] = []
    below = node
    for at in facts.above(node):
        if isinstance(at, ast.For):
            counters = {each.id for each in ast.walk(at.target) if isinstance(each, ast.Name)}
            return any(_is_of_last_round(test, counters) for test in tests)
        if isinstance(at, ast.If) and below in at.body:
            tests.append(at.test)
        below = at
    return False


def _is_of_last_round(test: ast.expr, counters: set[str]) -> bool:
    match test:
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
            for counter, last in ((left, right), (right, left)):
                match last:
                    case ast.BinOp(op=ast.Sub(), right=ast.Constant(value=1)):
                        return isinstance(counter, ast.Name) and counter.id in counters
    return False
