"""Whether gradients are on where a node runs: by the blocks around it, and by the decorators of its function."""

from __future__ import annotations

import ast
import functools
import re
from typing import TYPE_CHECKING

from .scopes import Scope

if TYPE_CHECKING:
    from .file_facts import FileFacts

_NO_GRAPH = ("no_grad", "inference_mode")
_SWITCHES = re.compile(r"grad_enabled\(|volatile|__enter__|enter_context|no_grad\(\)\.")
"""What may switch them by a statement, somewhere in a file."""
_FREEZES = "requires_grad"
_LEAVES_THEM_ON = frozenset(
    "autocast enable_grad tqdm trange open device profile record_function Progress progress_bar timer Timer "
    "detect_anomaly sdpa_kernel accumulate no_sync join".split()
)
_LEAVES_FUNCTIONS = ("staticmethod", "classmethod", "dataclass", "override", "autocast", "record")


def is_without_graph(facts: FileFacts, node: ast.AST) -> bool:
    """Whether a node runs under `no_grad` or `inference_mode`: by a `with`, or its function's decorator."""
    for at in facts.above(node):
        if isinstance(at, ast.With | ast.AsyncWith) and any(_stops_graph(item.context_expr) for item in at.items):
            return True
    scope: Scope | None = facts.scope_of(node)
    while scope is not None:
        if any(map(_stops_graph, getattr(scope.node, "decorator_list", ()))):
            return True
        scope = scope.parent
    return False


def is_surely_with_graph(facts: FileFacts, node: ast.AST) -> bool:
    """Whether gradients are on where a node of a function runs, but for what a caller switches off.

    No block around it that is not known, no decorator, and nothing in the file that switches them by a statement.
    """
    if facts.module is facts.scope_of(node) or _may_switch(facts.source.text) or _is_in_unknown_block(facts, node):
        return False
    scope: Scope | None = facts.scope_of(node)
    while scope is not None and scope is not facts.module:
        function = scope.node if isinstance(scope.node, ast.FunctionDef | ast.AsyncFunctionDef) else None
        if function is not None and (function.decorator_list or _FREEZES in facts.source.segment(function)):
            return False
        scope = scope.parent
    return True


def may_be_without_graph(facts: FileFacts, node: ast.AST) -> bool:
    """Whether gradients may be off where a node runs: by a block or decorator of any kind, or by a statement."""
    if _may_switch(facts.source.text) or _is_in_unknown_block(facts, node):
        return True
    scope: Scope | None = facts.scope_of(node)
    while scope is not None and scope is not facts.module:
        if any(_last_name(each) not in _LEAVES_FUNCTIONS for each in getattr(scope.node, "decorator_list", ())):
            return True
        scope = scope.parent
    return False


def _is_in_unknown_block(facts: FileFacts, node: ast.AST) -> bool:
    """Whether a block is around that may switch gradients: a context manager that is not known to leave them on."""
    blocks = (at.items for at in facts.above(node) if isinstance(at, ast.With | ast.AsyncWith))
    return any(_last_name(each.context_expr) not in _LEAVES_THEM_ON for items in blocks for each in items)


def may_freeze(facts: FileFacts) -> bool:
    """Whether a file says of some parameters whether they have gradients."""
    return _FREEZES in facts.source.text


@functools.lru_cache(maxsize=4)
def _may_switch(text: str) -> bool:
    return _SWITCHES.search(text) is not None


def _stops_graph(node: ast.expr) -> bool:
    name = _last_name(node)
    if name == "set_grad_enabled" and isinstance(node, ast.Call):
        return bool(node.args) and isinstance(node.args[0], ast.Constant) and node.args[0].value is False
    return name in _NO_GRAPH


def _last_name(node: ast.expr) -> str:
    """What is called or named: `no_grad` of `torch.no_grad()`."""
    called = node.func if isinstance(node, ast.Call) else node
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
