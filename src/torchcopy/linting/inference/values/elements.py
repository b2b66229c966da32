"""What the name of a loop is an element of: `states` of `for s in states`, `for m, s in zip(models, states)`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..nodes import called_name

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_MOST_LOOPS = 10  # that bind a name which is looked at
_SAME_ELEMENTS = ("list", "tuple", "reversed", "sorted", "iter", "tqdm", "track")


def container_of(facts: FileFacts, name: ast.Name) -> ast.expr | None:
    """What a name is an element of: a list, or the `d` of `d.values()`; nothing unless its loops agree.

    Of a loop over `model.named_parameters()` that call; of one over a dict itself the dict, though it gives keys.
    """
    found = _iterated(facts, name)
    return None if found is None else found[0]


def is_of_values(facts: FileFacts, name: ast.Name) -> bool:
    """Whether the loop of a name asks for values: with `values()`, `items()`, `parameters()` and the like."""
    found = _iterated(facts, name)
    return found is not None and found[1]


def _iterated(facts: FileFacts, name: ast.Name) -> tuple[ast.expr, bool] | None:
    """What a name is an element of, and whether values were asked for."""
    bound = facts.bindings(name)
    if len(bound) > _MOST_LOOPS:
        return None
    for loop in facts.loops(name):  # one around the name binds it, if nothing else in that does
        targets = [each for each in bound if _is_target(facts, each.node, loop)]
        if targets and all(each in targets or loop not in facts.loops(each.node) for each in bound):
            bound = targets
            break
    found = [_in_loop(facts, each.node) for each in bound]
    written = {ast.dump(each[0]) if each is not None else "" for each in found}
    return found[0] if len(written) == 1 else None


def _is_target(facts: FileFacts, node: ast.AST, loop: ast.AST) -> bool:
    """Whether a loop binds a name in each round."""
    above = facts.parent(node)
    while isinstance(above, ast.Tuple | ast.List):
        node, above = above, facts.parent(above)
    return isinstance(above, ast.For | ast.AsyncFor) and above is loop and node is above.target


def _in_loop(facts: FileFacts, target: ast.AST) -> tuple[ast.expr, bool] | None:
    places: list[int] = []  # of the target in its tuple, and of that in another one
    above = facts.parent(target)
    while isinstance(above, ast.Tuple | ast.List):
        places.append(above.elts.index(target))  # type: ignore[arg-type]
        target, above = above, facts.parent(above)
    if not isinstance(above, ast.For | ast.AsyncFor | ast.comprehension) or target is not above.target:
        return None
    return _container(above.iter, places[::-1])


def _container(iterated: ast.expr, places: list[int]) -> tuple[ast.expr, bool] | None:
    if not isinstance(iterated, ast.Call):
        return None if places else (iterated, False)
    name, given = called_name(iterated), iterated.args
    first, rest = (places[0], places[1:]) if places else (-1, [])
    match name:
        case "enumerate" if given and first == 1:
            return _container(given[0], rest)
        case "zip" if 0 <= first < len(given):
            return _container(given[first], rest)
        case "items" if first == 1 and not rest and isinstance(iterated.func, ast.Attribute):
            return iterated.func.value, True
        case "values" if not places and isinstance(iterated.func, ast.Attribute):
            return iterated.func.value, True
        case "named_parameters" | "named_buffers" if first == 1 and not rest:
            return iterated, True
        case _ if name in _SAME_ELEMENTS and given:
            return _container(given[0], places)
    if places == [1] and _is_own_method(iterated):
        return iterated, True  # pairs of a name and a value: `for name, net in self.networks()`
    return None if places else (iterated, name in ("parameters", "buffers"))


def _is_own_method(call: ast.Call) -> bool:
    """Whether a method of the object is called without anything given: `self.networks()`."""
    is_method = isinstance(call.func, ast.Attribute) and getattr(call.func.value, "id", "") == "self"
    return is_method and not (call.args or call.keywords)
