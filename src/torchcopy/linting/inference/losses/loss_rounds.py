"""In which loops a keeper of losses outlives a round: not in those that begin it anew, or go through one step."""

from __future__ import annotations

import ast
import dataclasses
import re
from typing import TYPE_CHECKING

from ..nodes import Loop, called_name, gone_through, method_call, names_in, path_of, root_name
from ..scopes import Scope
from ..summaries import is_optimizer_step, matched_arguments
from ..values.elements import container_of
from .callers import calls_of
from .loss_names import mentions_loss
from .loss_places import branches
from .loss_sources import BACKWARDS, may_differentiate_twice
from .loss_values import ANY, KeptValue
from .read_as_numbers import is_only_shown

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_DEEPEST = 3  # calls of calls
_LOADERS = re.compile(r"loader|dataset|batches$|(^|_)(dl|train_data|trainset|data_iter|train_iter)$")
_FUNCTIONS = re.compile(r"loss|crit|func|(^|_)(fn|f)$")  # what a loop tries, one after the other
_PARTS = ("model", "net", "optimizer", "task", "task_name", "domain", "modality", "device")


def repeats(
    facts: FileFacts, scope: Scope, kept: KeptValue, differentiating: frozenset[Loop] = frozenset()
) -> bool:
    """Whether a keeper outlives one round: some loop around does not begin it anew, or it is an attribute.

    Where `differentiating` loops are given, those with a `backward()`, others only go through the parts of a loss.
    """
    root = kept.keeper.partition("[")[0]
    root = behind(scope, root)
    if scope.owns(root):
        begins = _begun_with_each_call(facts, scope, {root, kept.keeper}, kept.statement)
        if begins:
            return _outlives_a_round(facts, kept, begins, differentiating)
        return not _is_begun_with_each_backward(facts, scope, root)
    is_by_call = isinstance(kept.statement, ast.Call) and path_of(kept.statement.func) == kept.keeper
    if is_by_call:
        root = _container(facts, kept.statement) or root  # of `callback.on_step(loss)` all callbacks
        if scope.owns(root):
            return True
    name = root_name(root)
    if is_of_outside(facts, scope, name) and not facts.loops(kept.statement):
        return not _is_differentiated_somewhere(facts, root)
    if [each.how for each in scope.bindings.get(name, [])] == ["parameter"]:
        if is_by_call:
            return True  # a meter that the caller has, for many calls
        if not facts.loops(kept.statement):
            return _outlives_in_a_caller(facts, scope, kept, name)
    if (stepping := _stepping_with(scope, name)) is not None:
        scope, at = stepping
        kept = dataclasses.replace(kept, statement=at)
        differentiating = frozenset()
    begins = [
        each.node
        for each in scope.bindings.get(name, [])
        if each.how in ("value", "part", "element", "entered") and not _reads(each.value, name)
    ]
    begins += [call for call in scope.nodes(ast.Call) if path_of(method_call(call, "clear")) == name]
    return _outlives_a_round(facts, kept, begins, differentiating)


def _outlives_in_a_caller(facts: FileFacts, scope: Scope, kept: KeptValue, name: str) -> bool:
    """Whether a caller has a list for a parameter over many rounds, in each of which it calls the function.

    Where the function differentiates nothing, it does so with what the function returns.
    """
    own = facts.losses.get(scope)
    if may_differentiate_twice(facts):
        return False
    for losses, call in calls_of(facts, scope):
        caller = losses.scope
        given = next((value for each, value in matched_arguments(call, scope) if each.arg == name), None)
        if not isinstance(given, ast.Name) or losses.facts.is_without_graph(call):
            continue
        if own is not None and own.is_for_caller:
            differentiated = losses.backwards | losses.parts_of(losses.backwards)
            if not any(each.source is call for each in differentiated):
                continue
            differentiating = frozenset(losses.backward_loops)
        else:
            loops = losses.facts.loops(call)
            differentiating = frozenset(each for each in loops if is_over_batches(each) or _is_over_many(each))
        if not differentiating:
            continue
        bound = caller.bindings.get(given.id, [])
        is_begun = bool(bound) and all(each.how == "value" and _is_empty(each.value) for each in bound)
        there = dataclasses.replace(kept, statement=call)
        if (
            is_begun
            and _outlives_a_round(losses.facts, there, [each.node for each in bound], differentiating)
            and is_only_shown(losses.facts, caller, given.id, call)
        ):
            return True
    return False


def _is_over_many(loop: Loop) -> bool:
    """Whether a loop counts to a number that is given: `range(epochs)`, and not a few tries."""
    through = loop.iter if isinstance(loop, ast.For) else None
    is_range = isinstance(through, ast.Call) and called_name(through) in ("range", "trange")
    return is_range and any(isinstance(each, ast.Name | ast.Attribute) for each in through.args)  # type: ignore[union-attr]


def _is_empty(value: ast.expr | None) -> bool:
    """Whether an expression makes a list or dict that is filled later, or a dict of such."""
    if isinstance(value, ast.Call):
        return called_name(value) in ("list", "dict", "defaultdict") and not value.keywords
    return isinstance(value, ast.List | ast.Dict | ast.DictComp)


def _begun_with_each_call(facts: FileFacts, scope: Scope, places: set[str], keeps: ast.AST) -> list[ast.AST]:
    """Where a method begins an attribute, or an entry of one, anew, if each call that keeps something does."""
    begins = _begins(scope, places)
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
    return sure if _begins_each_round(facts, sure, keeps, None) else []


def is_begun_by(facts: FileFacts, call: ast.Call, places: set[str]) -> bool:
    """Whether a method always begins an attribute of its object anew: `self.parts` in `self.reset()`."""
    of = path_of(call.func.value) if isinstance(call.func, ast.Attribute) else None
    found = facts.definition(call.func) if any(each.startswith(f"{of}.") for each in places) else None
    if of is None or found is None or not found.scope.is_function:
        return False
    own = {f"{found.scope.self_name}{each[len(of) :]}" for each in places}
    return any(each in found.scope.body for each in _begins(found.scope, own))


def _begins(scope: Scope, places: set[str]) -> list[ast.AST]:
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


def _outlives_a_round(
    facts: FileFacts, kept: KeptValue, begins: list[ast.AST], differentiating: frozenset[Loop]
) -> bool:
    """Whether some loop around where a value is kept does not begin its keeper anew in each round."""
    is_loss = mentions_loss(path_of(kept.node))
    loops = [
        loop
        for loop in facts.loops(kept.statement)
        if not _is_left_in_its_first_round(facts, loop, kept.statement)
        and not is_over_models(loop)
        and not _is_over_losses(loop, kept)
        and (not differentiating or loop in differentiating)
        and not _is_over_few(loop, only_constants=is_loss)
        and not _is_within_a_batch(facts, begins, kept.statement, loop)
    ]
    return any(not _begins_each_round(facts, begins, kept.statement, loop) for loop in loops)


def _container(facts: FileFacts, call: ast.AST) -> str | None:
    """What a loop goes through, of each object of which a method is called."""
    of = call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
    through = container_of(facts, of) if isinstance(of, ast.Name) else None
    return path_of(gone_through(through)) if through is not None else None


def behind(scope: Scope, place: str) -> str:
    """What a name is an entry of: `history` for `row`, where `row = history[epoch]` or `history.setdefault(…)`."""
    for _ in range(_DEEPEST):
        bound = scope.bindings.get(place, [])
        value = bound[0].value if len(bound) == 1 and bound[0].how == "value" else None
        of = method_call(value, "setdefault", "get")
        of = value.value if isinstance(value, ast.Subscript) else of
        path = path_of(of)
        if path is None:
            return place
        place = path.partition("[")[0]
    return place


def is_of_outside(facts: FileFacts, scope: Scope, name: str) -> bool:
    """Whether a function keeps something in a list or number of its file, or of the function around it."""
    if not scope.is_function or (name in scope.bindings and not _is_declared_outside(scope, name)):
        return False
    at = scope.parent
    while at is not None and (isinstance(at.node, ast.ClassDef) or name not in at.bindings):
        at = at.parent
    bound = at.bindings[name] if at is not None else []
    return bool(bound) and all(
        each.how in ("value", "augmented", "definition") and not (at is not facts.module and facts.loops(each.node))
        for each in bound
    )


def _is_declared_outside(scope: Scope, name: str) -> bool:
    """Whether a function adds to a name of the file, or of the function around, and does not begin it anew."""
    declared: list[ast.Global | ast.Nonlocal] = [*scope.nodes(ast.Global), *scope.nodes(ast.Nonlocal)]
    if not any(name in each.names for each in declared):
        return False
    return all(each.how == "augmented" or _reads(each.value, name) for each in scope.bindings[name])


def _is_differentiated_somewhere(facts: FileFacts, place: str) -> bool:
    """Whether some function of the file calls `backward()` on what is kept in a place."""
    calls = (call for name in BACKWARDS for call in facts.calls_by_name.get(name, ()))
    return any(path_of(each) == place for call in calls for each in ast.walk(call))


def _is_begun_with_each_backward(facts: FileFacts, scope: Scope, root: str) -> bool:
    """Whether another method, which calls `backward()` once, begins an attribute anew: it lives for one step."""
    attribute = root.partition(".")[2]
    for method in scope.owner.inner if scope.owner is not None else ():
        calls = [each for each in method.nodes(ast.Call) if called_name(each) in BACKWARDS]
        if method is scope or not calls or any(facts.loops(each) for each in calls):
            continue
        if any(each in method.body for each in _begins(method, {f"{method.self_name}.{attribute}"})):
            return True
    return False


def _is_left_in_its_first_round(facts: FileFacts, loop: Loop, keeps: ast.AST) -> bool:
    """Whether a loop ends with a `break` or `return`, for the one round in which it comes to what keeps a loss."""
    if not isinstance(loop.body[-1], ast.Break | ast.Return):
        return False
    return not any(
        isinstance(each, ast.Continue)
        and each.lineno > getattr(keeps, "lineno", 0)
        and facts.loops(each)[:1] == [loop]
        and not any(isinstance(at, ast.ExceptHandler) for at in facts.above(each))  # once more, after a failure
        for each in ast.walk(loop)
    )


def _stepping_with(scope: Scope, name: str) -> tuple[Scope, ast.Call] | None:
    """The function around a closure, of which a name is, and where it gives the closure to `optimizer.step`."""
    around = scope.parent
    is_own = name in scope.bindings and not any(name in each.names for each in scope.nodes(ast.Nonlocal))
    if around is None or is_own or name not in around.bindings:
        return None
    for call in around.nodes(ast.Call):
        given = [*call.args[:1], *(each.value for each in call.keywords)] if called_name(call) == "step" else []
        if any(isinstance(each, ast.Name) and each.id == scope.name for each in given):
            return around, call
    return None


def _is_over_losses(loop: Loop, kept: KeptValue) -> bool:
    """Whether a loop goes through losses, of which what is kept is one: `for loss in losses: total += loss`.

    One over a generator of the project, which trains, is a loop of its own.
    """
    names = {each.id for each in names_in(loop.target)} if isinstance(loop, ast.For) else set()
    inside = [*ast.walk(loop.iter)] if isinstance(loop, ast.For) else []
    is_yielded = any(each.part[:1] == (ANY,) and each.source in inside for each in kept.values)
    return isinstance(kept.node, ast.Name) and kept.node.id in names and not is_yielded


def _is_over_few(loop: Loop, *, only_constants: bool) -> bool:
    """Whether a loop goes over what is written there one by one: no training."""
    if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Tuple | ast.List):
        return False
    if isinstance(loop.target, ast.Name) and _FUNCTIONS.search(loop.target.id.lower()):
        return True
    return not only_constants or all(isinstance(each, ast.Constant) for each in loop.iter.elts)


def _is_within_a_batch(facts: FileFacts, begins: list[ast.AST], keeps: ast.AST, loop: Loop) -> bool:
    """Whether a loop goes through the parts of one step, which one around it takes, and begins a keeper anew."""
    if is_over_batches(loop) or _steps(facts, loop):
        return False
    around = (each for each in facts.loops(loop) if _steps(facts, each))
    return any(_begins_each_round(facts, begins, keeps, each) for each in around)


def _steps(facts: FileFacts, loop: Loop) -> bool:
    """Whether an optimizer takes a step in a loop."""
    known = facts.takes_steps
    if loop not in known:
        calls = (each for each in ast.walk(loop) if isinstance(each, ast.Call))
        known[loop] = any(is_optimizer_step(facts, each) for each in calls)
    return known[loop]


def is_over_batches(loop: Loop | ast.comprehension) -> bool:
    """Whether a loop goes through a data loader, as its name tells."""
    if not isinstance(loop, ast.For | ast.comprehension):
        return False
    named = (each for each in ast.walk(loop.iter) if isinstance(each, ast.Name | ast.Attribute))
    return any(_LOADERS.search((each.id if isinstance(each, ast.Name) else each.attr).lower()) for each in named)


def is_over_models(loop: Loop | ast.comprehension) -> bool:
    """Whether a loop goes over models, tasks or devices, each with one step or a part of one."""
    if not isinstance(loop, ast.For | ast.comprehension):
        return False
    names = [each.id for each in names_in(loop.target)]
    if any(each in _PARTS for each in names):
        return True
    return (path_of(loop.iter) or "").endswith(("_names", "tasks", "domains", "modalities"))


def _begins_each_round(facts: FileFacts, begins: list[ast.AST], keeps: ast.AST, loop: Loop | None) -> bool:
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


def _reads(node: ast.expr | None, name: str) -> bool:
    return node is not None and any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(node))
