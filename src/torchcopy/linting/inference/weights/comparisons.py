"""Where two states of one model meet in an expression: they are compared, or one is subtracted from the other."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..nodes import COMPREHENSIONS, arguments, called_name, children, method_call, root_of
from ..values.elements import container_of, is_of_values
from .places import entry_path

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_COMPARES = re.compile(
    r"^(equal|allclose|isclose|eq|ne|sub|subtract|lerp|array_equal|array_almost_equal|mse_loss|l1_loss|dist)$|"
    r"compar|assert_?(\w*_)?(all_?)?(close|equal|almost)|(_|^)(same|differ|diff|delta|distance)(s|_|$)"
)
_COMPARES_NO_VALUES = re.compile(r"key|shape|size|dtype|struct|name|device|meta")
_READS_NO_VALUE = frozenset(
    "keys len set id type isinstance data_ptr size numel nelement element_size nbytes dim ndim shape dtype device "
    "layout stride storage untyped_storage is_shared is_leaf is_cuda is_contiguous is_floating_point get_device "
    "requires_grad grad grad_fn names name _version".split()
)
TAKES_VALUES = ("state_dict", "named_parameters", "parameters")
"""What gives the newer values of a module, to be compared with older ones."""
_KEYS_OF_DICT = ("list", "sorted", "tuple", "frozenset", "iter", "next", "enumerate")
_MOST_ARGUMENTS = 4
_MOST_NODES = 40  # of a side: what has more is no comparison of two entries


def met(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The two sides that an expression or statement brings together, if it reads the values of both."""
    match node:
        case ast.Compare(left=left, comparators=others, ops=ops):
            for one, op, other in zip([left, *others], ops, others, strict=False):
                if isinstance(op, ast.Eq | ast.NotEq):
                    yield one, other
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            if not any(isinstance(each, ast.BinOp) for each in (left, right)):
                yield left, right
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            if all(isinstance(each, ast.BinOp) and isinstance(each.op, ast.Mult) for each in (left, right)):
                yield left, right  # `a * old[key] + b * new[key]`
        case ast.AugAssign(target=target, op=ast.Sub(), value=value):
            yield target, value
        case ast.Call():
            name = called_name(node).lower()
            if not _COMPARES.search(name) or _COMPARES_NO_VALUES.search(name):
                return
            given = arguments(node)
            if isinstance(node.func, ast.Attribute):
                given = [node.func.value, *given]
            yield from itertools.combinations(given[:_MOST_ARGUMENTS], 2)


def origins(facts: FileFacts, node: ast.expr) -> Iterator[ast.expr]:
    """The places and the states whose values an expression reads, also behind the name of a loop."""
    waiting: list[ast.AST] = [node]
    seen: set[ast.AST] = set()
    while waiting and len(seen) < _MOST_NODES:
        at = waiting.pop()
        if at in seen or _reads_no_value(at):
            continue
        seen.add(at)
        if isinstance(at, ast.expr) and method_call(at, "state_dict", "parameters", "named_parameters") is not None:
            yield at
        elif isinstance(at, ast.Name | ast.Attribute | ast.Subscript) and entry_path(at) is not None:
            yield at
            root = root_of(at)
            container = container_of(facts, root) if isinstance(root, ast.Name) else None
            is_value = isinstance(root, ast.Name) and (is_of_values(facts, root) or _is_list(facts, container))
            if container is not None and is_value:  # else it is a key of a dict
                waiting.append(container)
        elif isinstance(at, COMPREHENSIONS):
            waiting += [at.key, at.value] if isinstance(at, ast.DictComp) else [at.elt]
        else:
            waiting += children(at)


def _reads_no_value(node: ast.AST) -> bool:
    """Whether an expression reads the keys of a dict, or what a tensor is, not what it holds."""
    if isinstance(node, ast.Attribute):
        return node.attr in _READS_NO_VALUE
    if not isinstance(node, ast.Call):
        return False
    name = called_name(node)
    of_dict = bool(node.args) and not isinstance(node.args[0], ast.Call | ast.GeneratorExp)
    is_state = bool(node.args) and method_call(node.args[0], "state_dict") is not None
    return name in _READS_NO_VALUE or (name in _KEYS_OF_DICT and (of_dict or is_state))


def _is_list(facts: FileFacts, node: ast.expr | None) -> bool:
    """Whether a place holds a list, as far as is known: one that is written so, or that a function returns."""
    bound = facts.bindings(node) if isinstance(node, ast.Name) else []
    if isinstance(node, ast.Attribute):
        bound = facts.attribute_bindings(node)
    values = [each.value for each in bound]
    for call in [each for each in values if isinstance(each, ast.Call)]:
        found = facts.definition(call.func)
        if found is not None and found.scope.is_function:
            values += [each.value for each in found.scope.nodes(ast.Return)]
    return any(isinstance(each, ast.List | ast.ListComp) for each in values)
