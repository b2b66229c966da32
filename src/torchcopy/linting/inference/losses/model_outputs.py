"""Whether an expression is computed from what a model gave, with its graph, by the bindings of its names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..nodes import called_name, path_of
from .loss_names import calls_model
from .loss_terms import detaches

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_NO_OUTPUT = re.compile(r"mask|len|(^|_)(ids?|idx|n|num)(_|$)|index|indices|label|target|count|weight|size|(^|_)y$")
_OF_OTHERS = re.compile(r"teacher|target|frozen|(^|[._])(ref|old|ema|prior|pretrained)([._]|$)|_(ref|old|ema)$")
_NO_GRAPH = frozenset(
    "argmax argmin round floor ceil sign long int bool size numel indices shape eq ne gt lt ge le "
    "bincount topk multinomial sample".split()
)
_MOST_NAMES = 40


def is_no_output(name: str) -> bool:
    """Whether a part of what a model gave is named as one without a graph: a mask, indices, counts."""
    return _NO_OUTPUT.search(name.lower()) is not None


def is_of_another(path: str) -> bool:
    """Whether a model is named as one that is not trained: a teacher, a target network."""
    return _OF_OTHERS.search(path.lower()) is not None


def calls_module(facts: FileFacts, call: ast.Call) -> bool:
    """Whether what is called is a module, or named as a model."""
    return calls_model(call) or facts.kind_of(call.func).name == "module"


def hangs_on_model(facts: FileFacts, node: ast.expr, seen: set[str] | None = None) -> bool:
    """Whether an expression is computed from what a model gave that is trained, as far as it is written here.

    What is detached, compared or rounded in it does not count, nor what a teacher or a target network gave.
    """
    seen = set() if seen is None else seen
    if detaches(node) or facts.is_without_graph(node) or len(seen) > _MOST_NAMES:
        return False
    inside = [*_walk(node)]
    if any(isinstance(each, ast.Compare) or _name_of(each) in _NO_GRAPH for each in inside):
        return False
    for each in inside:
        if isinstance(each, ast.Call) and _gives_outputs(facts, each):
            return True
    for each in inside:
        if isinstance(each, ast.Name) and type(each.ctx) is ast.Load and each.id not in seen:
            seen.add(each.id)
            bound = facts.bindings(each)
            if bound and all(
                one.how in ("value", "part") and one.value is not None and hangs_on_model(facts, one.value, seen)
                for one in bound
            ):
                return True
    return False


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of an expression without those of which only the shape is taken: `torch.rand_like(out)`."""
    yield node
    if not (isinstance(node, ast.Call) and called_name(node).endswith("_like")):
        for each in ast.iter_child_nodes(node):
            yield from _walk(each)


def _name_of(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _gives_outputs(facts: FileFacts, call: ast.Call) -> bool:
    if is_of_another(path_of(call.func) or ""):
        return False
    return called_name(call) == "log_prob" or calls_module(facts, call)
