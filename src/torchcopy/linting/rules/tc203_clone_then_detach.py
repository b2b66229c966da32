"""TC203: `t.clone().detach()`, where `t.detach().clone()` records nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..findings import Edit, Finding, Fix
from ..inference.file_facts import FileFacts
from ..source import Source

CODE = "TC203"
NEEDS = (".clone",)


def check(facts: FileFacts) -> Iterator[Finding]:
    """Finds the two calls in that order, but not where no graph is recorded anyway."""
    source = facts.source
    if ".detach" not in source.text:
        return
    for scope in facts.scopes:
        for outer in scope.nodes(ast.Call):
            match outer:
                case ast.Call(
                    func=ast.Attribute(
                        attr="detach",
                        value=ast.Call(func=ast.Attribute(attr="clone", value=tensor)) as inner,
                    ),
                    args=[],
                    keywords=[],
                ):
                    kind = facts.kind_of(tensor)
                    if kind.graph is False or facts.is_without_graph(outer):
                        continue
                    message = "`clone().detach()` records a node for nothing: detach first"
                    yield source.finding(CODE, message, outer, fix=_swapped(source, inner, outer))


def _swapped(source: Source, inner: ast.Call, outer: ast.Call) -> Fix | None:
    """The two names with their arguments, each in the other's place; what stands between them stays."""
    clone = source.end(inner.func) - len("clone"), source.end(inner)
    detach = source.end(outer.func) - len("detach"), source.end(outer)
    first, second = source.text[slice(*clone)], source.text[slice(*detach)]
    if not (first.startswith("clone") and second.startswith("detach")):
        return None
    return Fix((Edit(*clone, second), Edit(*detach, first)))
