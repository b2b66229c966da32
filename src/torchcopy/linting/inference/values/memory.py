"""Which places may be parts of one memory, and which are written."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..nodes import is_in_place, method_call, path_of, walk
from ..scopes import Scope

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_VIEWS = frozenset(
    """
    data detach view view_as reshape flatten unflatten squeeze unsqueeze expand expand_as T mT H mH t transpose
    permute swapaxes swapdims movedim narrow select split chunk tensor_split unbind unfold diagonal as_strided
    real imag conj adjoint contiguous to cpu cuda type_as ravel
    """.split()
)
_MOST_NAMES = 4  # one given to the next


def are_apart(facts: FileFacts, one: ast.expr, other: ast.expr) -> bool:
    """Whether neither is a part of what the other is a part of: whole tensors under names that lead to two."""
    roots: list[set[str]] = []
    for each in (one, other):
        at: ast.expr = each
        while (isinstance(at, ast.Attribute) and at.attr in _VIEWS) or method_call(at, *_VIEWS) is not None:
            at = at.value if isinstance(at, ast.Attribute) else at.func.value  # type: ignore[attr-defined]
        path = path_of(at)
        if isinstance(at, ast.Subscript) and not isinstance(at.slice, ast.Slice | ast.Tuple) and path is None:
            path = path_of(at.value)  # an entry of a state_dict
            if path is None or facts.kind_of(at.value).is_tensor:
                return False
        if path is None:
            return False
        roots.append({path} | _bases(facts, at))
    return not roots[0] & roots[1]


def _bases(facts: FileFacts, node: ast.expr, depth: int = 0) -> set[str]:
    """The places that a name or attribute may be a view of, by what it was given: `a` after `b = a.view(-1)`."""
    found: set[str] = set()
    bound = facts.bindings(node) if isinstance(node, ast.Name) else []
    if isinstance(node, ast.Attribute):
        bound = facts.attribute_bindings(node)
    for each in bound if depth < _MOST_NAMES else ():
        if each.value is None or each.how in ("element", "parameter"):
            continue
        inside = list(walk(each.value))
        is_view = path_of(each.value) is not None or any(
            isinstance(at, ast.Subscript) or (isinstance(at, ast.Attribute) and at.attr in _VIEWS) for at in inside
        )
        if is_view:
            for at in inside:
                if isinstance(at, ast.Name | ast.Attribute) and (path := path_of(at)) is not None:
                    found |= {path} | _bases(facts, at, depth + 1)
    return found - {"torch", "self"}


def written_in(scope: Scope, node: ast.expr) -> bool:
    """Whether the function writes into the tensor: by an in-place method, an operator or an item."""
    path = _root_path(node)
    if not path:
        return True
    for call in scope.nodes(ast.Call):
        is_written = isinstance(call.func, ast.Attribute) and is_in_place(call.func.attr)
        if is_written and _root_path(call.func.value) == path:  # type: ignore[attr-defined]
            return True
    if any(_root_path(each.target) == path for each in scope.nodes(ast.AugAssign)):
        return True
    return any(type(each.ctx) is ast.Store and _root_path(each) == path for each in scope.nodes(ast.Subscript))


def _root_path(node: ast.expr) -> str:
    """The place a view is of: `x` of `x.data`, `x.detach()`, `x[0]`."""
    while True:
        match node:
            case ast.Attribute(attr="data", value=below) | ast.Subscript(value=below):
                node = below
            case ast.Call(func=ast.Attribute(attr="detach", value=below)):
                node = below
            case _:
                return path_of(node) or ""
