"""Averages that begin as the parameters themselves: what is averaged in place is then written into the module."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..nodes import method_call, path_of, strip_calls
from ..scopes import Scope
from ..values.elements import container_of
from .module_paths import module_path, parameters_behind

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_VIEWS = ("data", "detach", "view")
_MOVES = ("float", "cpu", "to")  # copy at times
_AVERAGES = ("mul_", "lerp_", "add_", "sub_", "copy_", "div_")


@dataclasses.dataclass(frozen=True, slots=True)
class SharedAverage:
    """An attribute that is to hold averages of parameters, and holds the parameters.

    Attributes:
        place: the attribute, as the method writes it.
        module: whose parameters.
        node: the tensor that is kept, `p.data`.
        is_moved: it is converted or moved, which copies unless it is there already.
        written: the call that averages in place.
    """

    place: str
    module: str
    node: ast.expr
    is_moved: bool
    written: ast.Call


def shared_averages(facts: FileFacts) -> Iterator[SharedAverage]:
    """Of each class: `self.shadow = {n: p.data for n, p in model.named_parameters()}`, and later their `mul_`."""
    for owner in facts.scopes:
        if isinstance(owner.node, ast.ClassDef):
            methods = [each for each in owner.inner if each.self_name]
            for method in methods:
                for place, module, node in _kept(facts, method):
                    attribute = place[len(method.self_name) :]
                    written = _averaged_in_place(facts, methods, attribute, _names_of(method, module))
                    if written is not None:
                        _, through = strip_calls(node, *_VIEWS, *_MOVES)
                        is_moved = any(each in _MOVES for each in through)
                        yield SharedAverage(place, module, node, is_moved, written)


def _kept(facts: FileFacts, method: Scope) -> Iterator[tuple[str, str, ast.expr]]:
    """The attribute, the module and the tensor of what a method keeps of parameters as they are."""
    assigned: list[tuple[ast.expr, ast.expr | None]] = [
        (at.targets[0], at.value) for at in method.nodes(ast.Assign)
    ]
    assigned += [(at.target, at.value) for at in method.nodes(ast.AnnAssign)]
    for target, value in assigned:
        match value:
            case ast.ListComp(elt=kept, generators=[loop]) | ast.DictComp(value=kept, generators=[loop]):
                place = path_of(target)
                owner = _owner(loop.iter)
                names = loop.target.elts if isinstance(loop.target, ast.Tuple) else [loop.target]
                inner, _ = strip_calls(kept, *_VIEWS, *_MOVES)
                if owner is None or path_of(inner) != path_of(names[-1]):
                    continue
            case ast.expr() if isinstance(target, ast.Subscript):  # `self.shadow[name] = p.data` in a loop
                place, kept = path_of(target.value), value
                inner, _ = strip_calls(kept, *_VIEWS, *_MOVES)
                owner = parameters_behind(facts, inner) if isinstance(inner, ast.Name) else None
                inside = container_of(facts, inner) if isinstance(inner, ast.Name) else None
                if owner is None or _owner(inside) is None:
                    continue
            case _:
                continue
        if place is not None and method.owns(place) and not _is_copied(method, place, target):
            yield place, owner, kept


def _owner(parameters: ast.expr | None) -> str | None:
    of = method_call(parameters, "parameters", "named_parameters")
    return None if of is None else module_path(of)


def _is_copied(method: Scope, place: str, kept: ast.expr) -> bool:
    """Whether a method writes other entries into the attribute too: `shadow[n] = shadow[n].clone()`."""
    stored = [each for each in method.nodes(ast.Subscript) if type(each.ctx) is ast.Store]
    others = [each for each in stored if path_of(each.value) == place and each is not kept]
    return bool(others)


def _names_of(method: Scope, module: str) -> set[str]:
    """How methods write a module: as this one does, or as the attribute that it keeps it in."""
    kept = (each for each in method.nodes(ast.Assign) if path_of(each.value) == module)
    return {module, *(path for each in kept if method.owns(path := path_of(each.targets[0]) or ""))}


def _averaged_in_place(
    facts: FileFacts, methods: list[Scope], attribute: str, modules: set[str]
) -> ast.Call | None:
    """The call of a method that writes in place to what the attribute holds, from the parameters of that module."""
    for method in methods:
        place = f"{method.self_name}{attribute}"
        for call in method.nodes(ast.Call):
            if not isinstance(call.func, ast.Attribute) or call.func.attr not in _AVERAGES:
                continue
            written, _ = strip_calls(call.func.value, *_VIEWS, *_AVERAGES)
            if isinstance(written, ast.Subscript):
                is_it = path_of(written.value) == place
            else:
                is_it = isinstance(written, ast.Name) and path_of(container_of(facts, written)) == place
            if is_it and _reads_parameters(facts, call, modules):
                return call
    return None


def _reads_parameters(facts: FileFacts, call: ast.Call, modules: set[str]) -> bool:
    """Whether a call is given a parameter of the module."""
    given = (strip_calls(each, *_VIEWS, *_MOVES, "clone")[0] for each in call.args)
    return any(isinstance(each, ast.Name) and _owner(container_of(facts, each)) in modules for each in given)
