"""TC203: `t.clone().detach()`, where `t.detach().clone()` records nothing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ..findings import Edit, Finding, Fix
from ..inference.file_facts import FileFacts
from ..inference.nodes import called_name, keyword
from ..source import Source

CODE = "TC203"
NEEDS = (".clone",)

_NO_GRADIENT = re.compile(
    r"(^|[._])(labels?|targets?|y|(item_?)?ids?(_seq)?|idx|inds?|index|indices|masks?|lengths?|counts?|seq_?len|perms?|d_p)\d*$"
    r"|(^|[._])(grads?|gradients?|grad_\w+|(recv_?)?buf(fer)?s?|state_?dict|checkpoint)([._]|$)"
)
"""Names of integers, gradients and what was received or loaded: none of them hangs on a graph."""


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
                    is_function = bool(facts.resolve(inner.func))  # `torch.clone(t)`
                    if is_function:
                        if not inner.args:
                            continue
                        tensor = inner.args[0]
                    if facts.is_without_graph(outer) or _has_no_graph(facts, tensor):
                        continue
                    message = "`clone().detach()` records a node for nothing: detach first"
                    fix = None if is_function else _swapped(source, inner, outer)
                    yield source.finding(CODE, message, outer, fix=fix)


def _has_no_graph(facts: FileFacts, tensor: ast.expr) -> bool:
    """Whether no gradient flows to a value: by its kind, as `.data` or a buffer, or because it holds integers."""
    if facts.kind_of(tensor).graph is False:
        return True
    if _wants_none(facts, tensor):
        return True
    at = tensor
    while isinstance(at, ast.Subscript):
        at = at.value
    if isinstance(at, ast.Attribute) and at.attr in ("data", "grad"):
        return True
    written = facts.source.segment(at)
    if _NO_GRADIENT.search(written.lower()):
        return True
    if isinstance(at, ast.Name) and any(_is_loaded(facts, each.value) for each in facts.bindings(at)):
        return True
    is_own = isinstance(at, ast.Attribute) and isinstance(at.value, ast.Name)
    name = at.attr if isinstance(at, ast.Attribute) and is_own else ""
    buffer = rf"register_buffer\(\s*f?[\"']{re.escape(name)}[\"']"
    return (
        bool(name) and "register_buffer" in facts.source.text and re.search(buffer, facts.source.text) is not None
    )


def _is_loaded(facts: FileFacts, value: ast.expr | None) -> bool:
    """Whether a value is taken out of a state or a file."""
    if value is None:
        return False
    written = facts.source.segment(value)
    return any(word in written for word in ("checkpoint", "state_dict", "torch.load("))


def _wants_none(facts: FileFacts, tensor: ast.expr) -> bool:
    """Whether it is put into `nn.Parameter(…, requires_grad=False)`: what it was is one too, most likely."""
    for at in facts.above(tensor):
        if isinstance(at, ast.Call) and called_name(at) == "Parameter":
            wanted = keyword(at, "requires_grad")
            return isinstance(wanted, ast.Constant) and wanted.value is False
    return False


def _swapped(source: Source, inner: ast.Call, outer: ast.Call) -> Fix | None:
    """The two names with their arguments, each in the other's place; what stands between them stays."""
    clone = source.end(inner.func) - len("clone"), source.end(inner)
    detach = source.end(outer.func) - len("detach"), source.end(outer)
    first, second = source.text[slice(*clone)], source.text[slice(*detach)]
    if not (first.startswith("clone") and second.startswith("detach")):
        return None
    return Fix((Edit(*clone, second), Edit(*detach, first)))
