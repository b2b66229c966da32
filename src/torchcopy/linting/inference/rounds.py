"""In which rounds of a loop something runs: in the last one alone, or in the first one for sure."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .nodes import LOOPS, path_of
from .scopes import Scope

if TYPE_CHECKING:
    from .file_facts import FileFacts

_INFINITE = ("inf", "infty", "Infinity", "PINF", "NINF")


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


def is_replaced_in_first_round(facts: FileFacts, scope: Scope, place: str, value: ast.AST) -> bool:
    """Whether what is bound before a loop is a default that the loop's first round replaces.

    A loop binds the place again where something is less, or more, than a name that began as infinity.
    """
    if facts.loops(value):
        return False
    for node in scope.nodes(ast.Assign):
        if any(path_of(target) == place for target in node.targets) and facts.loops(node):
            for at in facts.above(node):
                if isinstance(at, LOOPS):
                    break
                if isinstance(at, ast.If) and isinstance(at.test, ast.Compare):
                    sides = (at.test.left, *at.test.comparators)
                    if any(_began_as_infinity(facts, scope, each) for each in sides):
                        return True
    return False


def _began_as_infinity(facts: FileFacts, scope: Scope, node: ast.expr) -> bool:
    path = path_of(node)
    if path is None:
        return False
    return any(
        _is_infinity(each.value) for each in facts.bindings_of_path(scope, path) if not facts.loops(each.node)
    )


def _is_infinity(node: ast.expr | None) -> bool:
    match node:
        case ast.UnaryOp(operand=operand):
            return _is_infinity(operand)
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=str() as text)]):
            return "inf" in text.lower()
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name in _INFINITE
    return False
