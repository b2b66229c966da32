"""TC105: losses that are listed or added up, round by round, with the graphs that hang on them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..findings import Finding, Fix
from ..inference.file_facts import FileFacts
from ..inference.losses.computed_beside import computed_alike, differentiated_outputs
from ..inference.losses.differentiated import may_differentiate_twice
from ..inference.losses.figures import figures, is_figure, returns_figure, whole_figure
from ..inference.losses.hot_losses import (
    called_function,
    holders,
    hot_values,
    may_differentiate,
    returns_hot,
)
from ..inference.losses.leaks import is_leak, is_leak_of_comprehension, is_leak_of_output
from ..inference.losses.lightning import TRAINING_STEP
from ..inference.losses.loss_flow import losses_of
from ..inference.losses.loss_keepers import kept_by_call
from ..inference.losses.loss_terms import terms
from ..inference.losses.loss_values import ANY, KeptValue, Part, Value
from ..inference.nodes import called_name, path_of
from ..inference.objects import class_of
from ..inference.scopes import Scope
from ..inference.summaries import matched_arguments

CODE = "TC105"
_SUMS = ("sum", "fsum")
_TAKE_ALL = (*_SUMS, "extend", "list", "tuple", "sorted", "stack", "tensor", "mean", "array")
_HARMLESS = ("min", "max", "len", "print", "plot", "enumerate")
NEEDS = ("backward(", "autograd.grad(", ".append(", "+=")


def check(facts: FileFacts) -> Iterator[Finding]:
    """Values on a graph that `backward()` went through, or nothing differentiates, kept for longer than a round."""
    text = facts.source.text
    is_trained_elsewhere = False
    if not any(word in text for word in ("backward(", "autograd.grad(")):
        if "torch" in text:
            yield from _never_differentiated(facts)
        if "loss" not in text:
            return
        is_trained_elsewhere = True  # by a function of another file that returns the loss
    for scope in facts.functions:
        yield from _kept_by_comprehensions(facts, scope)
        if not scope.body or not _keeps_anything(scope):
            continue
        if is_trained_elsewhere and scope.name != TRAINING_STEP and not _calls_in_rounds(facts, scope):
            continue
        losses = losses_of(facts, scope)
        if not (losses.kept or losses.given):
            continue
        hot = hot_values(losses)
        outputs = differentiated_outputs(losses)
        alike = computed_alike(losses)
        reported: set[ast.AST] = set()
        for kept in (*losses.kept.values(), *_kept_by_calls(facts, scope, hot)):
            is_hot = any(each in hot or _from_call(facts, each.source, each.part) for each in kept.values)
            if not is_hot and is_figure(losses, kept):
                is_hot, kept = True, whole_figure(facts, kept)
            is_output = not is_hot and kept.values <= outputs and is_leak_of_output(facts, scope, losses, kept)
            is_told = is_output or (is_hot and is_leak(facts, scope, losses, kept))
            place = kept.node if isinstance(kept.statement, ast.Call) else kept.statement  # each of its arguments
            if place not in reported and is_told:
                reported.add(place)
                may_go_on = bool(alike & {*kept.values, *losses.parts_of(kept.values)})
                is_whole = bool(holders(kept.values, hot)) or any(_has_entries(facts, each) for each in kept.values)
                is_whole = is_whole or _is_dict(facts, kept.node)
                is_sure = kept.values <= hot or (
                    len(kept.values) == 1 and not any(ANY in v.part for v in kept.values)
                )
                if isinstance(kept.node, ast.Name) and any(v.place.endswith("]") for v in kept.values):
                    is_sure = False  # any entry of a dict, in a loop over it: some may be numbers
                yield _finding(facts, kept, is_whole=is_whole, is_sure=is_sure, may_go_on=may_go_on)


def _kept_by_comprehensions(facts: FileFacts, scope: Scope) -> Iterator[Finding]:
    """What the function of a training step returns, listed or added up: `[step(batch) for batch in loader]`."""
    written: list[ast.ListComp | ast.GeneratorExp] = [*scope.nodes(ast.ListComp), *scope.nodes(ast.GeneratorExp)]
    for each in written:
        above = facts.parent(each)
        name = called_name(above) if isinstance(above, ast.Call) else ""
        if isinstance(each, ast.GeneratorExp) and name not in _TAKE_ALL:
            continue
        called = [(term, *_called(term, each.generators[0])) for term in terms(each.elt)]
        hot = [(term, call, part) for term, call, part in called if _from_call(facts, call, part)]
        if hot and is_leak_of_comprehension(facts, scope, each):
            for term, call, part in hot:
                values = frozenset({Value("", term, call, part)})
                yield _finding(facts, KeptValue(term, each, _list_of(facts, each), name in _SUMS, values))


def _called(node: ast.expr, loop: ast.comprehension) -> tuple[ast.expr, Part]:
    """Which part of which call an expression is: of `step(batch)["loss"]` that one, or what a generator yields."""
    match node:
        case ast.Name(id=name) if isinstance(loop.target, ast.Name) and loop.target.id == name:
            return loop.iter, (ANY,)
        case ast.Subscript(value=ast.Call() as call, slice=ast.Constant(value=int() | str() as key)):
            return call, (key,)
    return node, ()


def _list_of(facts: FileFacts, node: ast.expr) -> str:
    """What a list is called that is written there, if it has a name."""
    above = facts.parent(node)
    return (path_of(above.targets[0]) if isinstance(above, ast.Assign) else None) or "a list"


def _kept_by_calls(facts: FileFacts, scope: Scope, hot: set[Value]) -> Iterator[KeptValue]:
    """What is given to a meter or tracker of the project that adds it up or lists it."""
    for given in losses_of(facts, scope).given.values():
        is_followed = given.is_named or given.values & hot or given.values & figures(losses_of(facts, scope))
        found = kept_by_call(facts, given) if is_followed else None
        if found is None:
            continue
        taken, keeper = found
        place = path_of(given.call.func) or called_name(given.call)
        if keeper.bucket:  # what the caller has for it is kept as long as the caller keeps that
            matched = matched_arguments(given.call, taken.scope)
            into = next((value for each, value in matched if each.arg == keeper.bucket), None)
            kind = facts.kind_of(into)
            is_array = kind.name not in ("dict", "list") and (kind.is_known or keeper.is_slot)
            place = "" if is_array or _has_a_class(facts, into) else path_of(into) or ""
        if place:
            inside = keeper.statement if keeper.facts is facts else None
            is_made_before = isinstance(given.node, ast.Call) and given.node not in ast.walk(given.argument)
            node = given.argument if is_made_before else given.node  # of a dict, not where its entry is computed
            yield KeptValue(node, given.call, place, False, given.values, inside)


def _has_a_class(facts: FileFacts, node: ast.expr | None) -> bool:
    """Whether what losses are put into may do something else with them: an object, queues of the last few."""
    bound = facts.bindings(node) if isinstance(node, ast.Name) else []
    made = (one for each in bound if each.value is not None for one in ast.walk(each.value))
    is_short = any(isinstance(each, ast.Call) and called_name(each) == "deque" for each in made)
    return is_short or class_of(facts, node) is not None


def _never_differentiated(facts: FileFacts) -> Iterator[Finding]:
    """Losses of a script's own loop, listed for a plot: no `no_grad` can be around, and no backward frees them."""
    scope = facts.module
    if not (scope.has(ast.For, ast.While) and scope.has(ast.Call)):
        return
    losses = losses_of(facts, scope)
    for kept in losses.kept.values():
        kind = facts.kind_of(kept.node)
        if kept.is_sum or not (kind.is_tensor and kind.graph is True) or not isinstance(kept.node, ast.Name):
            continue
        if is_leak(facts, scope, losses, kept) and not _is_computed_with(facts, scope, kept.keeper):
            yield _finding(facts, kept)


def _is_computed_with(facts: FileFacts, scope: Scope, name: str) -> bool:
    """Whether a list is made into another tensor, or given away: it may be differentiated after all."""
    for node in scope.nodes(ast.Name):
        if node.id == name and type(node.ctx) is ast.Load:
            above = facts.parent(node)
            if isinstance(above, ast.Attribute) and above.attr == "append":
                continue
            if not (isinstance(above, ast.Call) and called_name(above) in _HARMLESS):
                return True
    return False


def _keeps_anything(scope: Scope) -> bool:
    return scope.has(ast.AugAssign) or scope.has(ast.Call) or scope.has(ast.Assign)


def _calls_in_rounds(facts: FileFacts, scope: Scope) -> bool:
    """Whether a function has a loop, and calls a function of the project that may differentiate something."""
    called = (
        (called_function(facts, each) for each in scope.nodes(ast.Call)) if scope.has(ast.For, ast.While) else ()
    )
    return any(found is not None and found.scope.is_function and may_differentiate(found) for found in called)


def _from_call(facts: FileFacts, source: ast.expr | None, part: Part) -> bool:
    return isinstance(source, ast.Call) and (
        returns_hot(facts, source, part) or returns_figure(facts, source, part)
    )


def _may_be_number(facts: FileFacts, kept: KeptValue) -> bool:
    """Whether a loss begins with a number, or is one on another way out of the function that returns it."""
    for each in kept.values:
        source = each.source
        branches = [source.body, source.orelse] if isinstance(source, ast.IfExp) else [source]
        branches = source.values if isinstance(source, ast.BoolOp) else branches
        if any(isinstance(one, ast.Constant) for one in branches):
            return True
        if isinstance(each.source, ast.Call):
            found = facts.definition(each.source.func)
            if found is None:
                if each.part and each not in losses_of(facts, facts.scope_of(kept.node)).backwards:
                    return True  # a part of what an unknown function gives
                continue
            if not found.scope.is_function or not found.scope.body:
                continue
            parts = losses_of(found.facts, found.scope).returned
            if any(not values for part, values in parts if part in (each.part, ())):
                return True
    return False


def _has_entries(facts: FileFacts, value: Value) -> bool:
    """Whether a value is a dict, a tuple or another object, in which a function of the project returns a loss."""
    if not isinstance(value.source, ast.Call):
        return isinstance(value.source, ast.Dict | ast.List | ast.ListComp) and not value.part
    found = facts.definition(value.source.func)
    if found is None or not found.scope.is_function or not found.scope.body:
        return False
    returned = losses_of(found.facts, found.scope).returned
    return any(part and part[:-1] == value.part for part, _ in returned)


def _is_dict(facts: FileFacts, node: ast.expr) -> bool:
    """Whether what is kept is a dict that was written in the function, with a loss as an entry."""
    bound = facts.bindings(node) if isinstance(node, ast.Name) else []
    return any(isinstance(each.value, ast.Dict) for each in bound)


def _finding(
    facts: FileFacts, kept: KeptValue, *, is_whole: bool = False, is_sure: bool = True, may_go_on: bool = False
) -> Finding:
    """The finding: of a whole dict or object with a loss in it, or of what surely is a tensor, or may be one.

    Where nothing here has differentiated it, a caller may be to do that: `may_go_on`.
    """
    source = facts.source
    text = source.segment(kept.node)
    also = [("kept here", getattr(kept.inside, "lineno", 0))] if kept.inside is not None else []
    is_by_call = isinstance(kept.statement, ast.Call) and path_of(kept.statement.func) == kept.keeper
    what = "is added up in" if kept.is_sum else "is kept by" if is_by_call else "is kept in"
    fix = None
    if is_whole:
        message = (
            f"`{text}` {what} `{kept.keeper}` with a loss in it, and so the graph of each round: detach the loss"
        )
        return source.finding(CODE, message, kept.node, also=also)
    if isinstance(kept.node, ast.Name | ast.Attribute | ast.Subscript) and not may_differentiate_twice(facts):
        note = "where it is a number, which has no `detach`" if not is_sure or _may_be_number(facts, kept) else ""
        note = note or ("where a caller has it differentiated" if may_go_on else "")
        note = note or ("where the method has it differentiated too" if is_by_call else "")
        fix = Fix((source.replace(kept.node, f"{text}.detach()"),), safe=not note, note=note)
    written = f"({text})" if isinstance(kept.node, ast.BinOp | ast.UnaryOp | ast.IfExp) else text
    message = f"`{text}` {what} `{kept.keeper}` with the graph of each round: keep `{written}.detach()`"
    return source.finding(CODE, message, kept.node, fix=fix, also=also)
