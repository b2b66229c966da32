"""What the name of a loop is an element of: `states` of `for s in states`, `for m, s in zip(models, states)`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..nodes import called_name

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_SAME_ELEMENTS = ("list", "tuple", "reversed", "sorted", "iter", "tqdm", "track")


def container_of(facts: FileFacts, name: ast.Name) -> ast.expr | None:
    """What a name is an element of, or, of a dict, a value of; nothing unless the loops that bind it agree.

    Of a loop over `model.named_parameters()` that call.
    """
    found = [_container_in_loop(facts, each.node) for each in facts.bindings(name)]
    written = {ast.dump(each) if each is not None else "" for each in found}
    return found[0] if len(written) == 1 else None


def _container_in_loop(facts: FileFacts, target: ast.AST) -> ast.expr | None:
    places: list[int] = []  # of the target in its tuple, and of that in another one
    above = facts.parent(target)
    while isinstance(above, ast.Tuple | ast.List):
        places.append(above.elts.index(target))  # type: ignore[arg-type]
        target, above = above, facts.parent(above)
    if not isinstance(above, ast.For | ast.AsyncFor | ast.comprehension) or target is not above.target:
        return None
    return _container(above.iter, places[::-1])


def _container(iterated: ast.expr, places: list[int]) -> ast.expr | None:
    if not isinstance(iterated, ast.Call):
        return None if places else iterated
    name, given = called_name(iterated), iterated.args
    first, rest = (places[0], places[1:]) if places else (-1, [])
    match name:
        case "enumerate" if given and first == 1:
            return _container(given[0], rest)
        case "zip" if 0 <= first < len(given):
            return _container(given[first], rest)
        case "items" if first == 1 and not rest and isinstance(iterated.func, ast.Attribute):
            return iterated.func.value
        case "values" if not places and isinstance(iterated.func, ast.Attribute):
            return iterated.func.value
        case "named_parameters" | "named_buffers" if first == 1 and not rest:
            return iterated
        case _ if name in _SAME_ELEMENTS and given:
            return _container(given[0], places)
    return None if places else iterated
