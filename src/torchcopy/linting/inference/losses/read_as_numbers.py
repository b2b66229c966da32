"""Arguments of which a function of the project reads the numbers alone, as weights by the losses before."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..nodes import called_name
from ..scopes import Scope
from ..summaries import matched_arguments
from .loss_terms import detaches

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_DEEPEST = 3  # calls of calls
_GIVES_NUMBERS = ("len", "float", "int", "print", "tensor")
_OF_NUMBERS = ("numpy", "np", "math", "statistics")
_SHOWS = ("plot", "save", "dump", "str", "repr", "savez", "to_csv", "DataFrame", "pformat")
_PUTS_IN = ("append", "extend", "insert")


def is_read_as_numbers(facts: FileFacts, call: ast.Call, argument: ast.expr, depth: int = 0) -> bool:
    """Whether the function that is called reads the numbers of an argument, and puts no graph of it into a result.

    So is a list of former losses, by which `weigh(losses, history=history)` chooses the weights of the next ones.
    """
    found = facts.definition(call.func)
    if found is None or not found.scope.is_function or not found.scope.body or depth > _DEEPEST:
        return False
    name = next((each.arg for each, given in matched_arguments(call, found.scope) if given is argument), None)
    if name is None:
        return False
    known, key = found.facts.read_as_numbers, (found.scope, name, depth)
    if key not in known:
        known[key] = _reads_numbers(found.facts, found.scope, name, depth)
    return known[key]


def is_only_shown(facts: FileFacts, scope: Scope, name: str, given_to: ast.Call | None = None) -> bool:
    """Whether a function only reads the numbers of a list, shows, saves or returns it, and gives it to one call."""
    if any(_mentions(each, name) for each in scope.inner):
        return False
    reads = [each for each in scope.nodes(ast.Name) if each.id == name and type(each.ctx) is ast.Load]
    return all(_is_number(facts, each, 0) or _is_shown(facts, each, given_to) for each in reads)


def is_asked_for(facts: FileFacts, scope: Scope, name: str) -> bool:
    """Whether a function reads what is in a list, and does not only put something into it."""
    reads = (each for each in scope.nodes(ast.Name) if each.id == name and type(each.ctx) is ast.Load)
    return any(getattr(facts.parent(each), "attr", "") not in _PUTS_IN for each in reads)


def _is_shown(facts: FileFacts, read: ast.Name, given_to: ast.Call | None) -> bool:
    for at in facts.above(read):
        if at is given_to or isinstance(at, ast.Return):
            return True
        if isinstance(at, ast.Call):
            return called_name(at) in _SHOWS
        if not isinstance(at, ast.Tuple | ast.List | ast.Dict | ast.Subscript | ast.keyword):
            return False
    return False


def _reads_numbers(facts: FileFacts, scope: Scope, name: str, depth: int) -> bool:
    if any(_mentions(each, name) for each in scope.inner):
        return False
    reads = [each for each in scope.nodes(ast.Name) if each.id == name and type(each.ctx) is ast.Load]
    return bool(reads) and all(_is_number(facts, each, depth) for each in reads)


def _mentions(scope: Scope, name: str) -> bool:
    return any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(scope.node))


def _is_number(facts: FileFacts, read: ast.Name, depth: int) -> bool:
    """Whether one use of a name gives a number, or puts something into what the name stands for."""
    below: ast.AST = read
    for at in facts.above(read):
        if isinstance(at, ast.Attribute) and at.attr in _PUTS_IN:
            return isinstance(facts.parent(facts.parent(at) or at), ast.Expr)
        if isinstance(at, ast.Call) and below is not at.func:
            is_of_numbers = facts.resolve(at.func).partition(".")[0] in _OF_NUMBERS
            if called_name(at) in _GIVES_NUMBERS or is_of_numbers:
                return True
            return isinstance(below, ast.expr) and is_read_as_numbers(facts, at, below, depth + 1)
        if isinstance(at, ast.Call | ast.Attribute) and detaches(at):
            return True
        if isinstance(at, ast.comprehension):  # `[each.item() for each in history]`
            around = facts.parent(at)
            return isinstance(around, ast.ListComp | ast.GeneratorExp) and detaches(around.elt)
        if isinstance(at, ast.stmt) and not isinstance(at, ast.Expr):
            return False
        below = at
    return False
