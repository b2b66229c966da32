"""What is loaded into a module, behind copies that come too late, and by functions that are given it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..nodes import arguments, called_name, method_call, names_in, path_of
from ..scopes import Scope
from ..summaries import matched_arguments
from .kept_states import unwrapped
from .places import entry_path

if TYPE_CHECKING:
    from ..file_facts import FileFacts


def behind_copies(facts: FileFacts, node: ast.expr) -> ast.expr:
    """What is loaded, behind copies that come too late."""
    while True:
        inner = unwrapped(facts, node)
        if inner is None and isinstance(node, ast.Call) and called_name(node) == "deepcopy" and node.args:
            inner = node.args[0]
        if inner is None:
            inner = _converted(node)
        if inner is None:
            return node
        node = inner


def _converted(node: ast.expr) -> ast.expr | None:
    """What a comprehension goes through, entry by entry: `best` of `{k: v.to(device) for k, v in best.items()}`."""
    match node:
        case ast.DictComp(value=value, generators=[ast.comprehension(target=target, iter=iterated)]):
            pass
        case ast.GeneratorExp(
            elt=ast.Tuple(elts=[_, value]), generators=[ast.comprehension(target=target, iter=iterated)]
        ):
            pass
        case _:
            return None
    of = method_call(iterated, "items")
    if of is not None and isinstance(target, ast.Tuple) and isinstance(target.elts[-1], ast.Name):
        return of if any(each.id == target.elts[-1].id for each in names_in(value)) else None
    keys = method_call(iterated, "keys")
    of = keys if keys is not None else iterated
    path = path_of(of)
    reads = (each for each in ast.walk(value) if isinstance(each, ast.Subscript))
    return of if path is not None and any(path_of(each.value) == path for each in reads) else None


def loaded_by(facts: FileFacts, call: ast.Call) -> Iterator[tuple[str, str]]:
    """The places of the caller that a function of the project is given and loads, and into which module."""
    found = facts.definition(call.func)
    if found is None or not found.scope.is_function:
        return
    given = {
        parameter.arg: path for parameter, each in matched_arguments(call, found.scope) if (path := path_of(each))
    }
    for inner in found.scope.nodes(ast.Call):
        into = path_of(method_call(inner, "load_state_dict"))
        loaded = behind_copies(found.facts, arguments(inner)[0]) if into is not None and arguments(inner) else None
        if loaded is None:
            continue
        written = path_of(loaded) if not isinstance(loaded, ast.Name) else _entry_behind(found.scope, loaded)
        state, module = (_as_given(found.scope, given, each) for each in (written, into))
        if state is not None and module is not None:
            yield state, module


def _entry_behind(function: Scope, name: ast.Name) -> str:
    """What a name of a function is bound to, if that is one entry: `state['encoder']` of `state.get("encoder")`."""
    bound = [each.value for each in function.bindings.get(name.id, []) if each.how == "value"]
    match bound:
        case [ast.Call(func=ast.Attribute(value=of, attr="get"), args=[ast.Constant(value=key), *_])]:
            return f"{path_of(of)}[{key!r}]"
        case [ast.Subscript() as entry]:
            return path_of(entry) or name.id
    return name.id


def _as_given(function: Scope, given: dict[str, str], path: str | None) -> str | None:
    """How the caller writes a place that begins with a parameter, if that is bound to nothing else."""
    root = re.split(r"[.\[]", path or "", maxsplit=1)[0]
    if path is None or root not in given or len(function.bindings.get(root, [])) != 1:
        return None
    return f"{given[root]}{path[len(root) :]}"
