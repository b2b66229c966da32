"""States that are handed to another thread, which saves them while the training goes on."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..nodes import called_name, keyword, path_of, root_of
from ..scopes import Scope
from ..summaries import matched_arguments
from .kept_states import kept_in

if TYPE_CHECKING:
    from ..file_facts import FileFacts

SAVES = ("save", "dump", "save_file", "save_checkpoint", "save_model", "log_state_dict")
_SAVER = re.compile(r"save|dump|persist|upload|(^|_)write|checkpoint|ckpt")
_GIVES = re.compile(r"save|submit|write|put|enqueue|push|add|schedule|store|request")
_ENDS = re.compile(r"close|stop|shut|finish|end|exit|del|clean|finali[sz]e|destroy")
_WAITS = ("join", "result", "shutdown", "wait", "as_completed")


def handed_to_saver(facts: FileFacts, scope: Scope, call: ast.Call) -> Iterator[ast.expr]:
    """What a call gives to a thread that saves it, by a pool or a queue too, if it is not waited for."""
    function: ast.expr | None = None
    given: list[ast.expr] = []
    if _GIVES.search(called_name(call)) and facts.definition(call.func) is not None:
        yield from _given_to_writer(facts, call)
        return
    match called_name(call), call.args:
        case "Thread", _:
            function, args = keyword(call, "target"), keyword(call, "args")
            given = list(args.elts) if isinstance(args, ast.Tuple | ast.List) else []
        case "submit", [function, *given]:
            given += [each.value for each in call.keywords]
        case "run_in_executor", [_, function, *given]:
            pass
        case "put" | "put_nowait", [value, *_] if _is_saved_by_thread(facts, scope, call.func):
            yield value
            return
    if function is None or _is_waited_for(facts, scope, call):
        return
    if isinstance(function, ast.Lambda):
        if isinstance(function.body, ast.Call) and called_name(function.body) in SAVES:
            yield from function.body.args
    elif _is_saver(facts, function):
        yield from given
        yield from _seen_from_inside(facts, scope, function)


def _is_saver(facts: FileFacts, function: ast.expr) -> bool:
    """Whether a function saves what it is given: by what it calls, or as far as its name tells."""
    found = facts.definition(function)
    if found is not None and found.scope.is_function:
        return _saves(found.facts, found.scope)
    return _SAVER.search((path_of(function) or "").rpartition(".")[2].lower()) is not None


def _seen_from_inside(facts: FileFacts, scope: Scope, function: ast.expr) -> Iterator[ast.expr]:
    """What a function that stands inside of this one saves of the names around it."""
    found = facts.definition(function)
    if found is None or found.scope.parent is not scope:
        return
    for call in found.scope.nodes(ast.Call):
        is_save = called_name(call) in SAVES or _SAVER.search(called_name(call).lower())
        for each in call.args[:1] if is_save else ():
            root = root_of(each)
            if isinstance(root, ast.Name) and root.id not in found.scope.bindings:
                yield each


def _given_to_writer(facts: FileFacts, call: ast.Call) -> Iterator[ast.expr]:
    """What a method of an object of the project is given and puts on a queue, of which a thread saves."""
    found = facts.definition(call.func)
    if found is None or not found.scope.self_name:
        return
    given = {
        parameter.arg: value
        for parameter, value in matched_arguments(call, found.scope)
        if len(found.scope.bindings[parameter.arg]) == 1
    }
    for put in found.scope.nodes(ast.Call):
        if called_name(put) in ("put", "put_nowait") and _is_saved_by_thread(found.facts, found.scope, put.func):
            kept = (each for one in put.args for each in kept_in(found.facts, one))
            yield from (given[each.alias] for each in kept if each.alias in given)


def _is_saved_by_thread(facts: FileFacts, scope: Scope, put: ast.expr) -> bool:
    """Whether a queue is one whose entries a thread of the same class saves."""
    if scope.owner is None or not isinstance(put, ast.Attribute) or path_of(put.value) is None:
        return False
    known = facts.saver_classes
    if scope.owner not in known:
        known[scope.owner] = _has_saver_thread(facts, scope.owner)
    return known[scope.owner]


def _has_saver_thread(facts: FileFacts, owner: Scope) -> bool:
    """Whether a class is a thread that saves, or starts one."""
    bases = getattr(owner.node, "bases", ())
    methods = owner.inner
    if any((path_of(each) or "").rpartition(".")[2] == "Thread" for each in bases):
        return any(each.name == "run" and _saves(facts, each) for each in methods)
    makers = [each for method in methods for each in method.nodes(ast.Call) if called_name(each) == "Thread"]
    return any((target := keyword(each, "target")) is not None and _is_saver(facts, target) for each in makers)


def _saves(facts: FileFacts, function: Scope, depth: int = 0) -> bool:
    """Whether a function saves something, or calls one that does."""
    for call in function.nodes(ast.Call):
        if called_name(call) in SAVES:
            return True
        found = facts.definition(call.func) if depth == 0 else None
        if found is not None and found.scope.is_function and _saves(found.facts, found.scope, depth + 1):
            return True
    return False


def _is_waited_for(facts: FileFacts, scope: Scope, call: ast.Call) -> bool:
    """Whether a function waits for a thread that it has started: later, or at the end of the `with` of its pool."""
    pool = root_of(call.func)
    for at in facts.above(call):
        if isinstance(at, ast.Await | ast.Return):
            return True  # or the caller does
        if isinstance(at, ast.With) and isinstance(pool, ast.Name):
            names = [each.optional_vars for each in at.items]
            if any(isinstance(each, ast.Name) and each.id == pool.id for each in names):
                return True
    return call.lineno <= _last_wait(facts, scope) or _is_waited_for_elsewhere(facts, scope, call)


def _last_wait(facts: FileFacts, scope: Scope) -> int:
    known = facts.last_waits
    if scope not in known:
        lines = (each.lineno for each in scope.nodes(ast.Call) if called_name(each) in _WAITS)
        known[scope] = max(lines, default=0)
    return known[scope]


def _is_waited_for_elsewhere(facts: FileFacts, scope: Scope, call: ast.Call) -> bool:
    """Whether another method waits for the thread that an attribute keeps, and not only at the end of all."""
    at = facts.statement_of(call)
    target = at.targets[0] if isinstance(at, ast.Assign) else None
    if scope.owner is None or not isinstance(target, ast.Attribute):
        return False
    return any(
        called_name(each) in _WAITS
        and isinstance(each.func, ast.Attribute)
        and isinstance(each.func.value, ast.Attribute)
        and each.func.value.attr == target.attr
        for method in scope.owner.inner
        if method is not scope and not _ENDS.search(method.name)
        for each in method.nodes(ast.Call)
    )
