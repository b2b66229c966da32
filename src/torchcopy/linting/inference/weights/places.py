"""How the places of states are written, and which are behind a name: of a loop, an attribute, a parameter."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from ..nodes import (
    arguments,
    called_name,
    gone_through,
    method_call,
    path_of,
    root_name,
    root_of,
    strip_calls,
)
from ..scopes import Scope
from ..summaries import GIVES_ITSELF, matched_arguments
from ..values.elements import container_of

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_MOVES = re.compile(r"device|cuda|cpu|prepare|compile|parallel")


def entry_path(node: ast.AST | None) -> str | None:
    """As `path_of`, with `[*]` for an entry that no constant names: `kept[*]` of `kept[-1]` and `kept[label]`.

    So is what is inside of such an entry: `kept[*]['model']` of `kept[label]["model"]`.
    """
    path = path_of(node)
    if path is not None:
        return path
    if isinstance(node, ast.Subscript):
        base = entry_path(node.value)
        key = repr(node.slice.value) if isinstance(node.slice, ast.Constant) else "*"
        return None if base is None else f"{base}[{key}]"
    if isinstance(node, ast.Attribute):
        base = entry_path(node.value)
        return None if base is None else f"{base}.{node.attr}"
    return None


def names_of_element(facts: FileFacts, call: ast.Call, place: str) -> list[str]:
    """How a call writes a place of a container: `net` for `nets[*]`, in a loop over `nets`."""
    if "[*]" not in place:
        return []
    roots = {root.id: root for node in [call.func, *arguments(call)] if isinstance(root := root_of(node), ast.Name)}
    inside = ((name, in_container(facts, root)) for name, root in roots.items())
    return [f"{name}{place[len(each) :]}" for name, each in inside if each is not None and is_in(place, each)]


def is_in(place: str, outer: str) -> bool:
    """Whether a place is `outer` or inside of it."""
    return place == outer or place.startswith((f"{outer}[", f"{outer}."))


def given_places(call: ast.Call, function: Scope) -> dict[str, str]:
    """What the caller writes for each parameter that is not bound anew, as far as it is a place."""
    return {
        parameter.arg: path
        for parameter, value in matched_arguments(call, function)
        if (path := _taken_from(value) if taken_of(value) is not value else path_of(value))
        and len(function.bindings[parameter.arg]) == 1
    }


def as_the_caller_writes(given: dict[str, str], place: str | None) -> str | None:
    """How the caller writes a place of a function that begins with a parameter."""
    root = root_name(place or "")
    return f"{given[root]}{place[len(root) :]}" if place is not None and root in given else None


def is_same_object(target: ast.expr, value: ast.expr) -> bool:
    """Whether a module is bound to itself again, moved: `net = net.to(device)`, `net = on_device(net)`."""
    path = path_of(target)
    inner, _ = strip_calls(value, *GIVES_ITSELF)
    if isinstance(inner, ast.Call) and _MOVES.search(called_name(inner).lower()) and inner.args:
        inner = inner.args[0]
    return path is not None and inner is not value and path_of(inner) == path


def in_container(facts: FileFacts, value: ast.expr) -> str | None:
    """`states[*]['model']` of `state['model']` in a loop over `states`."""
    root = root_of(value)
    inside = container_of(facts, root) if isinstance(root, ast.Name) else None
    container = path_of(inside)
    if isinstance(inside, ast.Call) and not (inside.args or inside.keywords):  # `for name, net in self.networks()`
        of = path_of(inside.func)
        container = None if of is None or _makes_new_ones(facts, inside) else f"{of}()"
    path = entry_path(value)
    if path is None or not isinstance(root, ast.Name):
        return None
    entry = f"{container}[*]" if container is not None else _part_of_entry(facts, root)
    return None if entry is None else f"{entry}{path[len(root.id) :]}"


def _part_of_entry(facts: FileFacts, name: ast.Name) -> str | None:
    """`kept[*][1]` for `state` in a loop over tuples: `for epoch, state in kept`."""
    bound = facts.bindings(name)
    if [each.how for each in bound] != ["element"] or bound[0].index < 0:
        return None
    through = gone_through(bound[0].value) if bound[0].value is not None else None
    path = path_of(through)
    return None if path is None or through is not bound[0].value else f"{path}[*][{bound[0].index}]"


def _makes_new_ones(facts: FileFacts, call: ast.Call) -> bool:
    """Whether a generator makes what it yields: `yield lr, nn.Linear(2, 2)`, not `yield name, self.net`."""
    found = facts.definition(call.func)
    yielded = [] if found is None else [each.value for each in found.scope.nodes(ast.Yield)]
    last = [each.elts[-1] if isinstance(each, ast.Tuple) else each for each in yielded]
    return any(isinstance(each, ast.Call) and called_name(each) != "getattr" for each in last)


def bound_places(facts: FileFacts, scope: Scope, value: ast.expr, path: str) -> list[str]:
    """Where what is loaded may come from: `weights["net"]`, or `self.kept["net"]`, if that is `weights`."""
    root = root_of(value)
    if not isinstance(root, ast.Name):
        return [path]
    bound = [
        f"{_taken_from(one) or ''}{f'[{each.index}]' if each.how == 'part' else ''}"
        for each in facts.bindings(root)
        if each.how in ("value", "part")
        for one in ((each.value.body, each.value.orelse) if isinstance(each.value, ast.IfExp) else (each.value,))
    ]
    own = [each for each in bound if scope.owns(each)]
    return [f"{each}{path[len(root.id) :]}" for each in own] or [path]


def taken_of(value: ast.expr) -> ast.expr:
    """The list that an entry is taken from: `kept` for `kept.pop()`; for others the value itself."""
    of = method_call(value, "pop", "popleft")
    return value if of is None else of


def _taken_from(value: ast.expr | None) -> str | None:
    """Where a value is from: `kept[*]` for `kept.pop()`."""
    of = path_of(method_call(value, "pop", "popleft"))
    return entry_path(value) if of is None else f"{of}[*]"


def copied_entry(facts: FileFacts, target: ast.expr, value: ast.expr) -> ast.expr | None:
    """The state whose entries go into another dict one by one: `for k, v in state.items(): d[k] = v`."""
    if not isinstance(target, ast.Subscript) or isinstance(target.slice, ast.Constant):
        return None
    entry, _ = strip_calls(value, "detach", "data")
    if isinstance(entry, ast.Name):
        return container_of(facts, entry)
    is_same = isinstance(entry, ast.Subscript) and ast.dump(entry.slice) == ast.dump(target.slice)
    return entry.value if is_same else None  # type: ignore[attr-defined]
