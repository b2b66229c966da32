"""Which entries of a dict of losses are meant, where names are written or gone through by a loop."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .loss_names import is_one_loss

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_MOST_WRITTEN = 8


def may_be_one_of(facts: FileFacts, names: ast.expr | None, of: ast.expr) -> bool:
    """Whether names that a loop goes through may be among others: where both are written, some of them are."""
    written, others = written_keys(facts, names), written_keys(facts, of)
    return not written or not others or not {*written}.isdisjoint(others)


def is_one_of(facts: FileFacts, entry: ast.expr, names: ast.expr) -> bool:
    """Whether an entry is one of those that names tell, or is named as a loss, where they are not written."""
    key = entry.slice if isinstance(entry, ast.Subscript) else None
    if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
        return False
    written = written_keys(facts, names)
    return key.value in written if written else is_one_loss(key.value)


def written_keys(facts: FileFacts, container: ast.expr | None) -> list[str]:
    """The texts that a loop goes through, where they are written: `("ce", "kl")`, or a dict with such keys."""
    bound = facts.bindings(container) if isinstance(container, ast.Name) else []
    written = bound[0].value if len(bound) == 1 else container
    match written:
        case ast.List(elts=keys) | ast.Tuple(elts=keys):
            pass
        case ast.Dict(keys=keys):
            pass
        case _:
            return []
    texts = [each.value for each in keys if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return texts if len(texts) == len(keys) <= _MOST_WRITTEN else []


def in_pairs(facts: FileFacts, name: ast.Name) -> Iterator[ast.expr]:
    """What a name may be in a loop over pairs that are written there: `for key, loss in [("ce", ce), …]`."""
    for bound in facts.bindings(name):
        if bound.how == "element" and bound.index >= 0 and isinstance(bound.value, ast.List | ast.Tuple):
            for each in bound.value.elts[:_MOST_WRITTEN]:
                if isinstance(each, ast.Tuple) and bound.index < len(each.elts):
                    yield each.elts[bound.index]
