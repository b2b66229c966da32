"""What is loaded into a module, behind copies that come too late, and by functions that are given it."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..nodes import arguments, called_name, method_call, names_in, path_of, root_name, strip_calls, walk
from ..scopes import Scope
from ..summaries import Definition
from ..values.elements import container_of
from .kept_states import unwrapped
from .module_paths import given_other_tensors, module_path, owner_of, parameters_behind
from .places import as_the_caller_writes, entry_path, given_places
from .training import updates

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


@dataclasses.dataclass(frozen=True, slots=True)
class Load:
    """A state that a function of the project is given and loads.

    Attributes:
        place: of the state, as the function writes it, or as its caller does.
        module: into which it goes, written in the same way.
        is_trained_over: the function loads it in each round of a loop, in which it trains the module.
    """

    place: str
    module: str
    is_trained_over: bool = False


def loaded_by(facts: FileFacts, call: ast.Call) -> Iterator[Load]:
    """What a function of the project is given and loads."""
    found = facts.definition(call.func)
    if found is None or not found.scope.is_function:
        return
    known = found.facts.loads
    if found.scope not in known:
        known[found.scope] = [*_loads_of(found)]
    if not known[found.scope]:
        return
    given = given_places(call, found.scope)
    if found.scope.parent is facts.scope_of(call):  # it sees the names of the one that calls it
        given |= {
            name: name
            for load in known[found.scope]
            for name in map(root_name, (load.place, load.module))
            if name not in found.scope.bindings
        }
    for load in known[found.scope]:
        place, module = (as_the_caller_writes(given, each) for each in (load.place, load.module))
        if place is not None and module is not None:
            yield dataclasses.replace(load, place=place, module=module)


def _loads_of(found: Definition) -> Iterator[Load]:
    """What a function loads of what it may be given, as it writes that itself."""
    for inner in found.scope.nodes(ast.Call):
        into = module_path(method_call(inner, "load_state_dict"))
        loaded = behind_copies(found.facts, arguments(inner)[0]) if into is not None and arguments(inner) else None
        if loaded is None or into is None:
            continue
        is_trained_over = any(
            updates(found.facts, each, into)
            for loop in found.facts.loops(inner)
            for each in walk(loop)
            if isinstance(each, ast.Call) and each is not inner
        )
        yield from (Load(written, into, is_trained_over) for written in _written(found, loaded))
    yield from _put_into_parameters(found)


def result_places(facts: FileFacts, value: ast.expr) -> Iterator[str]:
    """Where what a method of the project returns is kept: `self.cache.states[*]` of `self.cache.get(key)`."""
    found = facts.definition(value.func) if isinstance(value, ast.Call) else None
    if found is None or not found.scope.is_function or not isinstance(value, ast.Call):
        return
    given = given_places(value, found.scope)
    for each in found.scope.nodes(ast.Return):
        of = method_call(each.value, "get")
        written = entry_path(each.value) if of is None else f"{path_of(of)}[*]"
        place = as_the_caller_writes(given, written)
        if place is not None:
            yield place


def _written(found: Definition, loaded: ast.expr) -> Iterator[str]:
    """The places from which what a function loads comes: what a name is bound to, or the entries put into it."""
    if not isinstance(loaded, ast.Name):
        if (path := entry_path(loaded)) is not None:
            yield path
        return
    yield _entry_behind(found.scope, loaded)
    for at in found.scope.nodes(ast.Assign):
        is_entry = isinstance(at.targets[0], ast.Subscript) and path_of(at.targets[0].value) == loaded.id
        for each in walk(at.value) if is_entry else ():
            if isinstance(each, ast.Subscript) and (path := path_of(each.value)) is not None:
                yield path


def _put_into_parameters(found: Definition) -> Iterator[Load]:
    """The states whose entries a function writes into the parameters of a module."""
    others = given_other_tensors(found.facts, found.scope.node)
    for loop in found.scope.nodes(ast.For):
        for module, of in put_into_parameters(found.facts, loop):
            place = path_of(of)
            if place is not None and module not in others:
                yield Load(place, module)


def put_into_parameters(facts: FileFacts, loop: ast.For) -> Iterator[tuple[str, ast.expr]]:
    """The module whose parameters a loop writes, and the states from which it takes what it writes.

    So do `for name, p in model.named_parameters(): p.data = state[name]` and
    `for p, value in zip(model.parameters(), kept): p.copy_(value)`.
    """
    for parameter, value in _written_into(loop):
        module = parameters_behind(facts, parameter)
        for each in walk(value) if module is not None else ():
            of: ast.expr | None = None
            if isinstance(each, ast.Subscript) and isinstance(each.slice, ast.Name):
                of = each.value
            elif isinstance(each, ast.Name) and each.id != getattr(parameter, "id", ""):
                of = container_of(facts, each)
            if module is not None and of is not None and entry_path(of) is not None and owner_of(of) != module:
                yield module, of


def _written_into(loop: ast.For) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What a loop writes into its names: `p` and `x` of `p.data = x` and `p.data.copy_(x)`."""
    for each in walk(loop):
        match each:
            case ast.Assign(targets=[ast.Attribute(attr="data", value=ast.Name() as name)], value=value):
                yield name, value
            case ast.Call(func=ast.Attribute(attr="copy_" | "set_", value=of), args=[value, *_]):
                inner, _ = strip_calls(of, "data", "detach")
                if isinstance(inner, ast.Name):
                    yield inner, value


def _entry_behind(function: Scope, name: ast.Name) -> str:
    """What a name of a function is bound to, if that is one entry: `state['encoder']` of `state.get("encoder")`."""
    bound = [each.value for each in function.bindings.get(name.id, []) if each.how == "value"]
    match bound:
        case [ast.Call(func=ast.Attribute(value=of, attr="get"), args=[ast.Constant(value=key), *_])]:
            return f"{path_of(of)}[{key!r}]"
        case [ast.Subscript() as entry]:
            return path_of(entry) or name.id
    return name.id
