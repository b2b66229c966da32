"""Where what losses are kept in is begun anew: a list, a sum, an attribute, with each call, round or step."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from ..nodes import Loop, called_name, keyword, method_call, path_of
from ..scopes import Binding, Scope
from .differentiated import BACKWARDS
from .loss_places import branches

if TYPE_CHECKING:
    from ..file_facts import FileFacts
    from .loss_flow import Losses

_BEGINS = re.compile(r"init|epoch|setup|build")


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
        if _is_always(method, begin_statements(method, {f"{method.self_name}.{attribute}"})):
            return True
    return False


def is_begun_by(facts: FileFacts, call: ast.Call, places: set[str]) -> bool:
    """Whether a method always begins an attribute of its object anew: `self.parts` in `self.reset()`."""
    of = path_of(call.func.value) if isinstance(call.func, ast.Attribute) else None
    found = facts.definition(call.func) if any(each.startswith(f"{of}.") for each in places) else None
    if of is None or found is None or not found.scope.is_function:
        return False
    own = {f"{found.scope.self_name}{each[len(of) :]}" for each in places}
    return _is_always(found.scope, begin_statements(found.scope, own))


def _is_always(scope: Scope, begins: list[ast.AST]) -> bool:
    """Whether one of some statements and calls stands in no branch or loop of a function."""
    return any(each in begins or (isinstance(each, ast.Expr) and each.value in begins) for each in scope.body)


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


def is_begun_empty(losses: Losses, root: str) -> bool:
    """Whether what keeps something is a list, dict or number that is begun there, and emptied in no round.

    An attribute is begun where the object is made, or for each epoch.
    """
    scope, facts = losses.scope, losses.facts
    bound = scope.bindings.get(root, [])
    if scope.owns(root) and scope.owner is not None:
        bound = facts.class_attributes(scope.owner).get(root.partition(".")[2], [])
        methods = [facts.scope_of(each.node) for each in bound]
        if not all(_BEGINS.search(each.name) or each is scope for each in methods):
            return False
    again = [each for each in bound if _mentions(each.value, root)]
    if not all(isinstance(each.value, ast.BinOp | ast.Call | ast.List | ast.Tuple) for each in again):
        return False  # `losses = [each.detach() for each in losses]`
    bound = [each for each in bound if each not in again]
    begins = [each for each in bound if each.how != "augmented" and not _is_first_value(facts, each, root)]
    rounds = {facts.loops(each)[0] for each in losses.backward_calls if facts.loops(each)}
    if not begins or not all(_is_literal(each.value) for each in begins):
        return False
    if any(rounds.intersection(facts.loops(each.node)[:1]) for each in begins):
        return False  # at times
    return not any(
        losses.backward_loops.intersection(facts.loops(each)) and _may_empty(facts, each, root)
        for each in (*scope.nodes(ast.Delete), *scope.nodes(ast.Subscript), *scope.nodes(ast.Call))
    ) and not (scope.owns(root) and _is_emptied_by_methods(scope, root))


def _mentions(node: ast.AST | None, place: str) -> bool:
    return node is not None and any(path_of(inside) == place for inside in ast.walk(node))


def _is_first_value(facts: FileFacts, bound: Binding, root: str) -> bool:
    """Whether a binding is the first value of an average: under `if self.mean is None`."""
    tests = [each.test for each in facts.above(bound.node) if isinstance(each, ast.If)]
    return not is_empty(bound.value) and any(_mentions(test, root) for test in tests)


def _may_empty(facts: FileFacts, node: ast.AST, root: str) -> bool:
    """Whether something may be taken from a list: `del`, `losses[:] = []`, `clear()`, or by a called function."""
    match node:
        case ast.Delete():
            return _mentions(node, root)
        case ast.Subscript(value=of, slice=ast.Slice(), ctx=ast.Store()):
            return path_of(of) == root
        case ast.Call(func=called, args=given):
            is_taken_from = path_of(method_call(node, "clear", "pop", "popleft")) == root
            is_given = any(path_of(each) == root for each in given)
            return is_taken_from or (is_given and facts.definition(called) is not None)
    return False


def _is_emptied_by_methods(scope: Scope, root: str) -> bool:
    """Whether a method that is not there for each epoch takes from an attribute: `self.losses.clear()`."""
    name = root.partition(".")[2]
    return any(
        path_of(method_call(call, "clear", "pop", "popleft")) == f"{method.self_name}.{name}"
        for method in (scope.owner.inner if scope.owner is not None else ())
        if not _BEGINS.search(method.name)
        for call in method.nodes(ast.Call)
    )


def _is_literal(value: ast.expr | None) -> bool:
    """Whether something begins as a number, nothing, or a list or dict of such, or an array of objects."""
    if isinstance(value, ast.Constant | ast.Tuple) or is_empty(value):
        return True
    if isinstance(value, ast.BinOp):  # `[None] * steps`
        return _is_literal(value.left)
    return isinstance(value, ast.Call) and keyword(value, "dtype") is not None


def is_empty(value: ast.expr | None) -> bool:
    """Whether an expression makes a list or dict that is filled later, or a dict of such."""
    if isinstance(value, ast.Call):
        return called_name(value) in ("list", "dict", "defaultdict") and not value.keywords
    return isinstance(value, ast.List | ast.Dict | ast.DictComp)


def reads(node: ast.expr | None, name: str) -> bool:
    """Whether an expression reads a name: what is begun by itself goes on."""
    return node is not None and any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(node))
