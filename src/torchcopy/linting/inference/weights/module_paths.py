"""How modules are written, and the module behind what a name, a call or a parameter stands for."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from ..nodes import (
    called_name,
    method_call,
    path_of,
    strip_calls,
    walk,
)
from ..values.elements import container_of
from .places import entry_path

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_LISTS_OF_PARAMETERS = re.compile(r"(^|[._])param(eter)?s(_list)?$")
_UNWRAPS = ("unwrap_model", "unwrap", "de_parallel")


def module_path(node: ast.AST | None) -> str | None:
    """Where a module is written, without the wrapper around it: `model` for `model.module`."""
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        return module_path(node.values[-1])  # `(ema or model).state_dict()`: the one that is trained
    path = path_of(node)
    if path is None:
        if isinstance(node, ast.Call) and node.args and called_name(node) in _UNWRAPS:
            return module_path(node.args[0])
        if isinstance(node, ast.Call) and called_name(node) == "getattr" and len(node.args) > 1:
            of, name = module_path(node.args[0]), node.args[1]
            if of is None or not isinstance(name, ast.Constant) or not isinstance(name.value, str):
                return None
            return of if name.value in ("module", "_orig_mod") else f"{of}.{name.value}"
        if isinstance(node, ast.Call) and not (node.args or node.keywords) and isinstance(node.func, ast.Attribute):
            of = module_path(node.func.value)  # `self.global_model().get_module()`
            return None if of is None else f"{of}.{node.func.attr}()"
        path = entry_path(node)  # `models[name]`
        if path is None:
            return None
    inner = path.removesuffix(".module").removesuffix("._orig_mod")
    return path if inner == "self" else inner  # the module that an object calls so


def place_behind(facts: FileFacts, value: ast.expr | None) -> str | None:
    """Where the object keeps a module: `self.model` for `self._core()`, which returns it."""
    if not isinstance(value, ast.Call) or value.args or value.keywords:
        return module_path(value)
    found = facts.definition(value.func)
    if found is None or not found.scope.is_function or not isinstance(value.func, ast.Attribute):
        return None
    own = found.scope.self_name
    returned = [each.value for each in found.scope.nodes(ast.Return)]
    given = [
        one for each in returned for one in ((each.body, each.orelse) if isinstance(each, ast.IfExp) else (each,))
    ]
    places = {module_path(each) or "" for each in given}
    place = places.pop() if len(places) == 1 else ""
    return f"{path_of(value.func.value)}{place[len(own) :]}" if own and place.startswith(f"{own}.") else None


def module_of_parameters(node: ast.expr | None) -> str | None:
    """The module of `net.parameters()` or `net.named_parameters()`."""
    of = method_call(node, "parameters", "named_parameters")
    return None if of is None else module_path(of)


def owner_of(parameters: ast.expr | None) -> str | None:
    """The module of `net.parameters()`, or the place of a list that is named as one of parameters."""
    module = module_of_parameters(parameters)
    if module is not None:
        return module
    path = path_of(parameters)
    return path if path is not None and _LISTS_OF_PARAMETERS.search(path) else None


def parameters_behind(facts: FileFacts, node: ast.expr) -> str | None:
    """Whose parameter an expression is: of `p` in a loop over `net.parameters()` that module, or their list."""
    inner, _ = strip_calls(node, "data", "detach")
    return owner_of(container_of(facts, inner)) if isinstance(inner, ast.Name) else None


def given_other_tensors(facts: FileFacts, node: ast.AST) -> frozenset[str]:
    """The modules whose parameters get other tensors in a statement or loop: `p.data = shadow[name]`.

    What was kept of them before is theirs no more.
    """
    known = facts.given_other_tensors
    if node not in known:
        assigned = (target for each in walk(node) if isinstance(each, ast.Assign) for target in each.targets)
        given = (each for each in assigned if isinstance(each, ast.Attribute) and each.attr == "data")
        known[node] = frozenset(one for each in given if (one := parameters_behind(facts, each)) is not None)
    return known[node]
