"""Writes into parameters without an optimizer: `p.data.add_(1)` in a loop, `nn.init.zeros_(net.fc.bias)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..nodes import called_name, is_in_place, keyword, method_call, path_of, root_of, strip_calls, walk
from ..scopes import Binding, Scope
from ..summaries import Definition, matched_arguments
from ..values.elements import container_of
from ..values.torch_names import GIVES_A_NEW_ONE
from .module_paths import module_of_parameters, module_path, owner_of
from .places import entry_path

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_PARAMETERS = ("weight", "bias", "running_mean", "running_var")
_MODULES = ("modules", "named_modules", "children", "named_children")


def written_tensor(facts: FileFacts, call: ast.Call) -> ast.expr | None:
    """The tensor whose values a call writes: `p` of `p.data.add_(1)` and of `nn.init.zeros_(p)`."""
    if not is_in_place(called_name(call)):
        return None
    if facts.resolve(call.func).startswith("torch.nn.init."):
        given = call.args[0] if call.args else keyword(call, "tensor")
        return values_behind(given) if given is not None else None
    return values_behind(call.func.value) if isinstance(call.func, ast.Attribute) else None


def values_behind(written: ast.expr) -> ast.expr | None:
    """The tensor whose values a write to an expression changes: `p` for `p.data`; none for a gradient or a copy."""
    inner, _ = strip_calls(written, "data", "detach", "view")
    at = inner
    while isinstance(at, ast.Attribute | ast.Subscript | ast.Call):
        if isinstance(at, ast.Attribute) and at.attr == "grad":
            return None
        if isinstance(at, ast.Call) and called_name(at) in GIVES_A_NEW_ONE:
            return None
        at = at.func if isinstance(at, ast.Call) else at.value
    return inner


def written_place(facts: FileFacts, tensor: ast.expr) -> str | None:
    """Which parameters a write to a tensor changes: all of a module or list, `net`, or one, `net.fc.weight`."""
    while isinstance(tensor, ast.Subscript):  # `net.fc.weight[0]`
        tensor = tensor.value
    root = root_of(tensor)
    if isinstance(tensor, ast.Attribute):
        if tensor.attr not in _PARAMETERS:
            return None
        return _place_of_element(facts, root) if _is_element(facts, root) else _place_of_one(facts, tensor)
    if not isinstance(root, ast.Name):
        return None
    of = container_of(facts, root)
    iterated = [of] if of is not None else [each.value for each in facts.bindings(root) if each.how == "element"]
    inside = (node for each in iterated if each is not None for node in walk(each) if isinstance(node, ast.expr))
    return next((path for node in inside if (path := owner_of(node)) is not None), None)


def written_module(facts: FileFacts, call: ast.Call) -> str | None:
    """The module whose parameter an in-place method writes: of `p.data.add_(…)` in a loop over them."""
    tensor = written_tensor(facts, call)
    return written_place(facts, tensor) if isinstance(tensor, ast.Name) else None


def writes_given(call: ast.Call, found: Definition, module: str) -> bool:
    """Whether a function of the project writes in place into parameters of a module that it is given.

    It is given the module, or `module.parameters()`, also if it leaves some of them out.
    """
    written = written_parameters(found)
    return bool(written) and any(
        each.arg in written and (module_of_parameters(value) or module_path(value)) == module
        for each, value in matched_arguments(call, found.scope)
    )


def written_parameters(found: Definition) -> frozenset[str]:
    """The parameters of a function of the project into whose tensors it writes in place."""
    function, known = found.scope, found.facts.written_parameters
    if not function.is_function:
        return frozenset()
    if function not in known:
        known[function] = frozenset(_places_written(found.facts, function))
    return known[function]


def _places_written(facts: FileFacts, function: Scope) -> Iterator[str]:
    """The parameters of a function into whose tensors it writes, in a loop: `p.data.copy_(q)`, `p -= p.grad`."""
    named = {each.arg for each in function.parameters}
    written = [written_tensor(facts, each) for each in function.nodes(ast.Call)]
    written += [values_behind(each.target) for each in function.nodes(ast.AugAssign)]
    for tensor in written:
        of = container_of(facts, tensor) if isinstance(tensor, ast.Name) else None
        place = (module_of_parameters(of) or path_of(of)) if of is not None else None
        if place in named and all(_leaves_some_out(each, place) for each in function.bindings[place]):
            yield place


def _leaves_some_out(bound: Binding, name: str) -> bool:
    """Whether a binding is that of a parameter, or makes a list of what is in it: `ps = [p for p in ps if …]`."""
    if bound.how == "parameter":
        return True
    match bound.value:
        case ast.ListComp(
            elt=ast.Name(id=kept), generators=[ast.comprehension(target=ast.Name(id=each), iter=ast.Name(id=of))]
        ):
            return kept == each and of == name
        case ast.Call(func=ast.Name(id="list" | "tuple"), args=[ast.Name(id=of)]):
            return of == name
    return False


def _is_element(facts: FileFacts, root: ast.expr) -> bool:
    """Whether a name is that of a loop: `layer` in `for layer in net.layers`."""
    bound = facts.bindings(root) if isinstance(root, ast.Name) else []
    return bool(bound) and all(each.how == "element" for each in bound)


def _place_of_element(facts: FileFacts, root: ast.expr) -> str | None:
    """What the name of a loop is a part of: `net` in a loop over `net.modules()`, `net.layers` over these."""
    if not isinstance(root, ast.Name):
        return None
    found = set()
    for each in facts.bindings(root):
        of = method_call(each.value, *_MODULES)
        found.add(module_path(of) if of is not None else entry_path(container_of(facts, root)))
    return found.pop() if len(found) == 1 else None


def _place_of_one(facts: FileFacts, parameter: ast.Attribute) -> str | None:
    """How a parameter is written by what its module was taken from: `net.fc.weight` after `head = net.fc`."""
    path, root = entry_path(parameter), root_of(parameter)
    bound = facts.bindings(root) if isinstance(root, ast.Name) else []
    taken = path_of(bound[0].value) if len(bound) == 1 and bound[0].how == "value" else None
    if path is None or taken is None or "." not in taken or not isinstance(root, ast.Name):
        return path
    return f"{taken}{path[len(root.id) :]}"
