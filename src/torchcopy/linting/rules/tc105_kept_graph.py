"""TC105: losses that are listed or added up, round by round, with the graphs that hang on them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..findings import Finding, Fix
from ..inference.file_facts import FileFacts
from ..inference.losses import KeptValue, Losses, losses_of, repeats, returns_hot
from ..inference.nodes import called_name, keyword
from ..inference.scopes import Scope

CODE = "TC105"
_HARMLESS = ("min", "max", "len", "print", "plot", "enumerate")
NEEDS = ("backward(", "autograd.grad(", ".append(", "+=")


def check(facts: FileFacts) -> Iterator[Finding]:
    """Values that `backward()` was called on and that something keeps for longer than a round."""
    text = facts.source.text
    is_trained_elsewhere = False
    if not any(word in text for word in ("backward(", "autograd.grad(")):
        if "torch" in text:
            yield from _never_differentiated(facts)
        if "loss" not in text:
            return
        is_trained_elsewhere = True  # by a function of another file that returns the loss
    for scope in facts.functions:
        if not scope.body or not _keeps_anything(scope):
            continue
        if is_trained_elsewhere and not scope.has(ast.For, ast.While):
            continue
        losses = losses_of(facts, scope)
        if not losses.kept:
            continue
        hot = losses.hot()
        reported: set[ast.AST] = set()
        for kept in losses.kept.values():
            is_hot = any(each in hot or _from_call(facts, each.source, each.index) for each in kept.values)
            if is_hot and kept.statement not in reported and _is_leak(facts, scope, losses, kept):
                reported.add(kept.statement)
                yield _finding(facts, kept)


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
        if _is_leak(facts, scope, losses, kept) and not _is_computed_with(facts, scope, kept.keeper):
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


def _from_call(facts: FileFacts, source: ast.expr | None, index: int) -> bool:
    return isinstance(source, ast.Call) and returns_hot(facts, source, index)


def _is_leak(facts: FileFacts, scope: Scope, losses: Losses, kept: KeptValue) -> bool:
    """Whether it is kept over rounds, not itself to be differentiated, and not only the last few of them."""
    root = kept.keeper.partition("[")[0]
    if any(place == root or place.startswith((f"{root}[", f"{root}.")) for place in losses.backward_places):
        return False
    if any(each.place.partition("[")[0] == root for each in losses.needed):
        return False  # what it adds up is differentiated
    if any(losses.is_detached(each, derived=True) for each in kept.values):
        return False  # on one of the ways
    if kept.is_sum and facts.is_without_graph(kept.statement):
        return False
    kind = facts.kind_of(kept.node)
    if kind.name in ("number", "ndarray", "text", "list") or (kind.is_tensor and kind.graph is False):
        return False
    if _is_bounded(facts, scope, root):
        return False
    return repeats(facts, scope, kept)


def _is_bounded(facts: FileFacts, scope: Scope, root: str) -> bool:
    """Whether the keeper is a `deque` with a `maxlen`."""
    bound = scope.bindings.get(root, [])
    if root.startswith(f"{scope.self_name}.") and scope.owner is not None:
        bound = facts.class_attributes(scope.owner).get(root.partition(".")[2], [])
    for each in bound:
        if isinstance(each.value, ast.Call) and called_name(each.value) == "deque":
            return len(each.value.args) > 1 or keyword(each.value, "maxlen") is not None
    return False


def _may_be_number(facts: FileFacts, kept: KeptValue) -> bool:
    """Whether a loss begins with a number, or is one on another way out of the function that returns it."""
    for each in kept.values:
        if isinstance(each.source, ast.Constant):
            return True
        if isinstance(each.source, ast.Call) and (found := facts.definition(each.source.func)) is not None:
            if not found.scope.is_function or not found.scope.body:
                continue
            parts = losses_of(found.facts, found.scope).returned
            if any(not values for index, values in parts if index == each.index or index == -1):
                return True
    return False


def _finding(facts: FileFacts, kept: KeptValue) -> Finding:
    source = facts.source
    text = source.segment(kept.node)
    what = "is added up" if kept.is_sum else "is kept"
    fix = None
    if isinstance(kept.node, ast.Name | ast.Attribute | ast.Subscript) and "retain_graph" not in source.text:
        note = "where it is a number, which has no `detach`" if _may_be_number(facts, kept) else ""
        fix = Fix((source.replace(kept.node, f"{text}.detach()"),), safe=not note, note=note)
    message = f"`{text}` {what} in `{kept.keeper}` with the graph of each round: keep `{text}.detach()`"
    return source.finding(CODE, message, kept.node, fix=fix)
