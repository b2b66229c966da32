"""Where what losses are kept in is begun anew: a list, a sum, an attribute, with each call, round or step."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..nodes import Loop, called_name, method_call, path_of
from ..scopes import Scope
from .differentiated import BACKWARDS
from .loss_places import branches

if TYPE_CHECKING:
    from ..file_facts import FileFacts


def begun_with_each_call(facts: FileFacts, scope: Scope, places: set[str], keeps: ast.AST) -> list[ast.AST]:
    """Where a method begins an attribute, or an entry of one, anew, if each call that keeps something does."""
    begins = begin_statements(scope, places)
    begins += [call for call in scope.nodes(ast.Call) if is_begun_by(facts, call, places)]
    around = {*facts.loops(keeps)}
    first = getattr(keeps, "lineno", 0)
    sure = [
        each
        for each in begins
        if around.issuperset(facts.loops(each))
        and not any(isinstance(at, ast.ExceptHandler | ast.match_case) for at in facts.above(each))
        and not any(first < leaves.lineno < getattr(each, "lineno", 0) for leaves in scope.nodes(ast.Return))
    ]
    return sure if begins_each_round(facts, sure, keeps, None) else []


def begins_each_round(facts: FileFacts, begins: list[ast.AST], keeps: ast.AST, loop: Loop | None) -> bool:
    """Whether each round of a loop, or without one each call, begins a keeper anew: not only in one branch."""
    around = branches(facts, keeps, loop)
    ways = [branches(facts, each, loop) for each in begins if loop is None or loop in facts.loops(each)]
    taken = {branch for way in ways for branch in way}
    return any(
        all(
            (at, is_body) in around or ((at, not is_body) in taken and (at, not is_body) not in around)
            for at, is_body in way
        )
        for way in ways
    )


def is_begun_with_each_backward(facts: FileFacts, scope: Scope, root: str) -> bool:
    """Whether another method, which calls `backward()` once, begins an attribute anew: it lives for one step."""
    attribute = root.partition(".")[2]
    for method in scope.owner.inner if scope.owner is not None else ():
        calls = [each for each in method.nodes(ast.Call) if called_name(each) in BACKWARDS]
        if method is scope or not calls or any(facts.loops(each) for each in calls):
            continue
        if any(each in method.body for each in begin_statements(method, {f"{method.self_name}.{attribute}"})):
            return True
    return False


def is_begun_by(facts: FileFacts, call: ast.Call, places: set[str]) -> bool:
    """Whether a method always begins an attribute of its object anew: `self.parts` in `self.reset()`."""
    of = path_of(call.func.value) if isinstance(call.func, ast.Attribute) else None
    found = facts.definition(call.func) if any(each.startswith(f"{of}.") for each in places) else None
    if of is None or found is None or not found.scope.is_function:
        return False
    own = {f"{found.scope.self_name}{each[len(of) :]}" for each in places}
    return any(each in found.scope.body for each in begin_statements(found.scope, own))


def begin_statements(scope: Scope, places: set[str]) -> list[ast.AST]:
    """The statements and calls of a function that begin one of some attributes or entries anew."""
    assigned: list[tuple[ast.AST, ast.expr, ast.expr | None]] = [
        (each, target, each.value) for each in scope.nodes(ast.Assign) for target in each.targets
    ]
    assigned += [(each, each.target, each.value) for each in scope.nodes(ast.AnnAssign)]
    found = [
        at
        for at, target, value in assigned
        if value is not None
        and any(path_of(one) in places for one in (target.elts if isinstance(target, ast.Tuple) else [target]))
        and not any(path_of(inner) in places for inner in ast.walk(value))
    ]
    return found + [call for call in scope.nodes(ast.Call) if path_of(method_call(call, "clear")) in places]


def is_empty(value: ast.expr | None) -> bool:
    """Whether an expression makes a list or dict that is filled later, or a dict of such."""
    if isinstance(value, ast.Call):
        return called_name(value) in ("list", "dict", "defaultdict") and not value.keywords
    return isinstance(value, ast.List | ast.Dict | ast.DictComp)


def reads(node: ast.expr | None, name: str) -> bool:
    """Whether an expression reads a name: what is begun by itself goes on."""
    return node is not None and any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(node))
