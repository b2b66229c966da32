"""Which of the values that `loss_flow.py` follows hang on a graph that `backward()` went through, also by calls.

Such a value is called hot: one that was differentiated, a summand of it, and what was computed from it.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ..nodes import called_name, method_call, path_of
from ..objects import class_of, methods_of_each
from ..scopes import Scope
from ..summaries import Definition, bases_of, find_method, is_decorated_to, matched_arguments
from .computed_beside import all_values, computed_alike, computed_beside
from .differentiated import BACKWARDS
from .lightning import TRAINING_STEP
from .loss_flow import Losses, losses_of
from .loss_names import is_loss_of_part, is_one_loss, is_residual, mentions_loss
from .loss_places import place_of
from .loss_summands import is_detached, is_summand, may_hang
from .loss_values import ANY, Part, Value
from .model_outputs import calls_module, hangs_on_model
from .shown_tensors import is_shown

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_DIFFERENTIATES = ("backward(", "grad(")
_DEEPEST = 3  # calls of calls
_SUMS = ("sum", "stack", "fsum")
_DETACHING = ("float", "item", "detach", "tolist", "numpy")  # what a decorator does to a result


def hot_values(losses: Losses, depth: int = 0) -> set[Value]:
    """The values that `backward()` was called on, what was computed from them, and what they were made of."""
    if depth not in losses.hot:
        losses.hot[depth] = _work_out(losses, depth)
    return losses.hot[depth]


def needed_values(losses: Losses) -> set[Value]:
    """What the values that are differentiated were made of, and those that a called function differentiates."""
    if losses.needed is None:
        elsewhere = {*_differentiated_elsewhere(losses, 1)}
        losses.needed = elsewhere | losses.parts_of(losses.backwards | elsewhere)
    return losses.needed


def _work_out(losses: Losses, depth: int) -> set[Value]:
    hot = {each for each in losses.backwards if not is_detached(losses, each)}
    if depth < _DEEPEST:
        hot |= {each for each in _differentiated_elsewhere(losses, depth + 1) if not is_detached(losses, each)}
        for each in all_values(losses):
            if isinstance(each.source, ast.Call) and returns_hot(losses.facts, each.source, each.part, depth + 1):
                hot.add(each)
        hot |= _differentiated_by_methods(losses, depth + 1)
    hot |= computed_beside(losses) | computed_alike(losses)
    values = {*all_values(losses)}
    made_from: dict[Value, list[Value]] = {}
    for made, of in losses.derived.items():
        for each in of:
            made_from.setdefault(each, []).append(made)
    sums = [(each, listed) for each in values if (listed := _summed_list(each)) is not None]
    fresh = hot
    while fresh:
        more = {each for each, listed in sums if _has_hot(losses, listed, hot)} | holders(values, fresh)
        for each in fresh:
            parts = losses.parts.get(each, set())
            if each not in losses.summed_elsewhere:
                more |= {part for part in parts - hot if may_hang(losses, part) or is_summand(losses, part, each)}
            of_its_name = (one for one in parts if one.place and place_of(each.source) == one.place)
            more |= {one for one in of_its_name if not is_detached(losses, one)}
            more |= {one for one in made_from.get(each, ()) if not is_detached(losses, one, derived=True)}
        if depth < _DEEPEST:
            more |= _made_beside(losses, values, hot, fresh, depth + 1)
        fresh = more - hot
        hot = hot | fresh
    return hot


def _differentiated_by_methods(losses: Losses, depth: int) -> set[Value]:
    """The attributes that another method called `backward()` on, and left with their graph."""
    found = set()
    for each in all_values(losses):
        if each.node is losses.scope.node and each.source is None and losses.is_differentiated(each.place):
            name = each.place.partition(".")[2]
            if any(_leaves_hot(losses.facts, method, name, depth) for method in _other_methods(losses.scope)):
                found.add(each)
    return found


def _differentiated_elsewhere(losses: Losses, depth: int) -> Iterator[Value]:
    """What is given to a function of the project that calls `backward()` on it."""
    for given in losses.given.values():
        taken = taken_by(losses.facts, given.call, given.argument) if given.is_named else None
        if taken is not None and taken.value in hot_values(losses_of(taken.facts, taken.scope), depth):
            yield from given.values


def holders(values: Iterable[Value], hot: set[Value]) -> set[Value]:
    """Which of some values are a dict or object of which an entry is hot: `out`, if `out.loss` is."""
    inside = {(each.source, each.part[:-1]) for each in hot if each.part and isinstance(each.part[-1], str)}
    return {
        each
        for each in values
        if isinstance(each.source, ast.Call) and not each.is_changed and (each.source, each.part) in inside
    }


def _summed_list(value: Value) -> str | None:
    """The list that a value is the sum of: `losses` for `sum(losses)`, `torch.stack(losses)`."""
    match value.source:
        case ast.Call(args=[given, *_]) as call if called_name(call) in _SUMS and not value.part:
            return place_of(given)
    return None


def _has_hot(losses: Losses, listed: str, hot: set[Value]) -> bool:
    """Whether hot values were put into a list."""
    return any(kept.keeper == listed and not kept.is_sum and kept.values & hot for kept in losses.kept.values())


def _made_beside(losses: Losses, values: set[Value], hot: set[Value], fresh: set[Value], depth: int) -> set[Value]:
    """The other losses that one call of a function of the project gave: they share a graph."""
    calls = {each.source for each in fresh if each.part}
    differentiated: dict[ast.Call, set[Part]] = {}
    for each in hot if calls else ():
        if each.part and isinstance(each.source, ast.Call):
            differentiated.setdefault(each.source, set()).add(each.part)
    return {
        each
        for each in values - hot
        if each.part
        and each.source in calls
        and isinstance(each.source, ast.Call)
        and (parts := differentiated.get(each.source))
        and (
            (mentions_loss(each.name) and returns_loss(losses.facts, each.source, each.part, depth))
            or _is_of_forward(losses.facts, each)
            or _returns_summand(losses.facts, each.source, each.part, parts, depth)
            or (_giving(losses.facts, each.source) is None and is_shown(losses, each))
        )
    }


def _returns_summand(facts: FileFacts, call: ast.Call, part: Part, of: set[Part], depth: int) -> bool:
    """Whether a function of the project returns, as one part of its result, a summand of the other parts."""
    found = _giving(facts, call)
    if found is None or depth > _DEEPEST:
        return False
    losses = losses_of(found.facts, found.scope)
    differentiated = {each for one, values in losses.returned if one in of for each in values}
    made_of = differentiated | losses.parts_of(differentiated)

    def are_summands(values: frozenset[Value]) -> bool:
        return bool(values) and all(
            _is_summand_of(losses, each, differentiated) and bool(made_of & {each, *_renamed(losses, each)})
            for each in values
        )

    given = [values for one, values in losses.returned if one == part]
    inside = part[:-1] if part[-1] == ANY else part
    entries = [values for one, values in losses.returned if one[:-1] == inside and one and isinstance(one[-1], str)]
    return (bool(given) and all(map(are_summands, given))) or any(map(are_summands, entries))


def _is_summand_of(losses: Losses, value: Value, differentiated: set[Value]) -> bool:
    """Whether a value hangs on the graph of what it is a part of, as its name tells, or what it is made of."""
    is_known = value.source is not None and hangs_on_model(losses.facts, value.source)
    if is_residual(value.name):
        return is_known
    if may_hang(losses, value) or (is_known and value in differentiated):  # `return a + b, a, b`
        return True
    return any(is_summand(losses, value, one) for one in differentiated)


def _renamed(losses: Losses, value: Value) -> set[Value]:
    """What a value is another name of: `ce` for the entry of `{"ce": ce}`."""
    return losses.parts.get(value, set()) if path_of(value.source) is not None else set()


def _is_of_forward(facts: FileFacts, value: Value) -> bool:
    """Whether a part of what a model gave is a loss as well, and by its name no number for a report."""
    call = value.source
    is_attribute = value.place.endswith(f".{value.name}")
    is_named = is_one_loss(value.name) or (is_attribute and is_loss_of_part(value.name))
    if not is_named or not isinstance(call, ast.Call) or facts.definition(call.func) is not None:
        return False
    if class_of(facts, call.func) is not None:
        return False  # its `forward` is asked
    return calls_module(facts, call)


def _other_methods(scope: Scope) -> list[Scope]:
    owner = scope.owner
    return [each for each in (owner.inner if owner is not None else ()) if each is not scope and each.self_name]


def _leaves_hot(facts: FileFacts, method: Scope, attribute: str, depth: int) -> bool:
    """Whether a method differentiates an attribute of its object, which has its graph when the method is done."""
    place = f"{method.self_name}.{attribute}"
    if not any(path_of(method_call(each, *BACKWARDS)) == place for each in method.nodes(ast.Call)):
        return False
    losses = losses_of(facts, method)
    left = {each for each in losses.at_exit if each.place == place}
    return left <= hot_values(losses, depth)


@dataclasses.dataclass(frozen=True, slots=True)
class Taken:
    """The parameter of a function of the project that an argument becomes."""

    facts: FileFacts
    scope: Scope
    value: Value


def takers(facts: FileFacts, call: ast.Call, node: ast.expr) -> Iterator[Taken]:
    """As `taken_by`; for a method of each of some objects, as of callbacks, that of every class of the file."""
    taken = taken_by(facts, call, node)
    if taken is not None:
        yield taken
        return
    for method in methods_of_each(facts, call):
        for each, given in matched_arguments(call, method):
            if given is node:
                yield Taken(facts, method, Value(each.arg, each))


def taken_by(facts: FileFacts, call: ast.Call, node: ast.expr) -> Taken | None:
    """Which parameter of which function of the project an argument of a call becomes, where that is known."""
    found = facts.definition(call.func)
    if found is None or not found.scope.is_function or not found.scope.body:
        return None
    wanted = next((each for each, given in matched_arguments(call, found.scope) if given is node), None)
    if wanted is None and any(each.value is node and each.arg is not None for each in call.keywords):
        wanted = found.scope.node.args.kwarg  # type: ignore[union-attr]
    return None if wanted is None else Taken(found.facts, found.scope, Value(wanted.arg, wanted))


def returns_hot(facts: FileFacts, call: ast.Call, part: Part, depth: int = 1) -> bool:
    """Whether a function of the project returns, as that part of its result, what it called `backward()` on."""
    found = called_function(facts, call)
    if found is None or not found.scope.is_function or not found.scope.body or depth > _DEEPEST:
        return False
    if is_decorated_to(found, *_DETACHING) or not may_differentiate(found):
        return False
    if facts.is_without_graph(call):
        return False  # of one that trains and validates, this is a validation
    losses = losses_of(found.facts, found.scope)
    if not losses.may_have_hot:
        return False
    hot = hot_values(losses, depth)
    if part[-1:] == (ANY,):
        wholes = {each for one, values in losses.returned if one == part[:-1] for each in values}
        return bool(holders(wholes, hot)) or any(
            values & hot for one, values in losses.returned if one and one[:-1] == part[:-1]
        )
    given = [values for one, values in losses.returned if one == part and values]
    if any(all(is_detached(losses, each, derived=True) for each in values) for values in given):
        return False  # a number on the common way, a loss on another one
    given += [values for one, values in losses.returned if one[:-1] == part and one]  # with a loss in it
    return any(values & hot or any(_lists(losses, each, hot) for each in values) for values in given)


def may_differentiate(found: Definition) -> bool:
    """Whether a function, as far as its text tells, may differentiate anything: what does not is not followed.

    It does so itself, gives losses to another function, or has them differentiated by its callers.
    """
    known, scope = found.facts.may_differentiate, found.scope
    if scope not in known:
        files = [found.facts]
        files += [base for base, _ in bases_of(found.facts, scope.owner)] if scope.owner is not None else []
        known[scope] = (
            scope.name == TRAINING_STEP
            or any(each in one.source.text for one in files for each in _DIFFERENTIATES)
            or isinstance(scope.node, ast.Module)
            or mentions_loss(found.facts.source.segment(scope.node))
        )
    return known[scope]


def _lists(losses: Losses, value: Value, hot: set[Value]) -> bool:
    """Whether a value is a list, begun in the function, into which hot ones were put."""
    return isinstance(value.source, ast.List) and any(
        kept.keeper == value.place and not kept.is_sum and kept.values & hot for kept in losses.kept.values()
    )


def called_function(facts: FileFacts, call: ast.Call) -> Definition | None:
    """The function that gives what a call gives: of `optimizer.step(closure)` the closure; a module's `forward`."""
    if called_name(call) == "step" and isinstance(call.func, ast.Attribute) and len(call.args) == 1:
        closure = facts.definition(call.args[0])
        if closure is not None and closure.scope.is_function and not closure.scope.parameters:
            return closure
    found = facts.definition(call.func)
    if found is None and (owner := class_of(facts, call.func)) is not None:
        return find_method(owner.facts, owner.scope, "forward")
    return found


def returns_loss(facts: FileFacts, call: ast.Call, part: Part, depth: int) -> bool:
    """Whether a function of the project returns, as that part of its result, a loss with its graph."""
    found = _giving(facts, call)
    if found is None or depth > _DEEPEST:
        return False
    losses = losses_of(found.facts, found.scope)
    parts = [values for one, values in losses.returned if one == part]
    return bool(parts) and all(
        values and all(each.source is not None and may_hang(losses, each) for each in values) for values in parts
    )


def _giving(facts: FileFacts, call: ast.Call) -> Definition | None:
    """The function of the project whose result a call gives, if it is written out."""
    found = called_function(facts, call)
    return found if found is not None and found.scope.is_function and found.scope.body else None
