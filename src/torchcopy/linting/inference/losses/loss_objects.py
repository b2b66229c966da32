"""What an object or dict holds that is made with losses: its entries, its fields."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..nodes import arguments, called_name, path_of
from ..summaries import fields_of, fields_of_named_tuple, find_method
from .loss_terms import entries_of

if TYPE_CHECKING:
    from ..file_facts import FileFacts


def entries_in(facts: FileFacts, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """The entries of a dict, or the attributes of an object, that is made there."""
    yield from entries_of(value)
    if isinstance(value, ast.Call) and value.args and called_name(value)[:1].isupper():
        found = facts.definition(value.func)
        fields = fields_of(found) if found is not None else fields_of_named_tuple(facts, value.func)
        yield from zip(fields, value.args, strict=False)


def held_by_object(facts: FileFacts, call: ast.expr) -> Iterator[ast.expr]:
    """What an object of a class of the project keeps of what it is made with: `loss` of `Round(step, loss)`."""
    found = facts.definition(call.func) if isinstance(call, ast.Call) else None
    if isinstance(call, ast.Call) and found is None and fields_of_named_tuple(facts, call.func):
        yield from arguments(call)
    if found is None or not isinstance(found.scope.node, ast.ClassDef) or not isinstance(call, ast.Call):
        return
    by_name = {each.arg: each.value for each in call.keywords if each.arg is not None}
    made_by = find_method(found.facts, found.scope, "__init__")
    if made_by is None:
        fields = fields_of(found) if find_method(found.facts, found.scope, "__post_init__") is None else []
        yield from (by_name | dict(zip(fields, call.args, strict=False))).values() if fields else ()
        return
    by_name |= zip((each.arg for each in made_by.scope.parameters[1:]), call.args, strict=False)
    own = made_by.scope.self_name
    for at in made_by.scope.nodes(ast.Assign):
        is_kept = any(isinstance(each, ast.Attribute) and path_of(each.value) == own for each in at.targets)
        if is_kept and isinstance(at.value, ast.Name) and at.value.id in by_name:
            yield by_name[at.value.id]
