"""Averages that begin as the parameters themselves: what is averaged in place is then written into the module."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..nodes import keyword, path_of, root_name, strip_calls
from ..scopes import Scope
from ..values.elements import container_of
from .module_paths import given_other_tensors, module_of_parameters, parameters_behind

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_VIEWS = ("data", "detach", "view")
_MOVES = ("float", "cpu", "to")  # copy at times
_PUTS_ELSEWHERE = ("cuda", "half", "bfloat16", "to")
_AVERAGES = re.compile(r"ema|avg|average|shadow|slow|swa|mean|polyak|moving|momentum|teacher")


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
        methods = [each for each in owner.inner if each.self_name] if isinstance(owner.node, ast.ClassDef) else []
        kept = [(method, *each) for method in methods for each in _kept(facts, method)]
        if not kept or any(given_other_tensors(facts, each.node) for each in methods):
            continue  # or what was kept of the parameters is theirs no more
        averaged = [*_averaged_in_place(facts, methods)]
        tensors = {each[-1] for each in kept}
        for method, place, module, node in kept:
            attribute = place[len(method.self_name) + 1 :]
            if _is_bound_anew(facts, owner, attribute, node, tensors):
                continue
            is_named = _AVERAGES.search(f"{owner.name} {attribute}".lower()) is not None
            modules = _names_of(method, module, is_named=is_named)
            is_moved = any(each in _MOVES for each in strip_calls(node, *_VIEWS, *_MOVES)[1])
            if is_moved and _is_put_elsewhere(method, module):
                continue
            written = (call for kept_in, of, call in averaged if kept_in == attribute and of in modules)
            found = next(written, None)
            if found is not None:
                yield SharedAverage(place, module, node, is_moved, found)


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
                module = module_of_parameters(loop.iter)
                inner, _ = strip_calls(kept, *_VIEWS, *_MOVES)
                names = loop.target.elts if isinstance(loop.target, ast.Tuple) else [loop.target]
                if not names or not isinstance(inner, ast.Name) or path_of(inner) != path_of(names[-1]):
                    continue
            case ast.expr() if isinstance(target, ast.Subscript):  # `self.shadow[name] = p.data` in a loop
                place, kept = path_of(target.value), value
                inner, _ = strip_calls(kept, *_VIEWS, *_MOVES)
                is_of_loop = isinstance(inner, ast.Name) and parameters_behind(facts, inner) is not None
                module = module_of_parameters(container_of(facts, inner)) if is_of_loop else None  # type: ignore[arg-type]
            case _:
                continue
        if place is None or module is None or not method.owns(place) or _is_copied(kept):
            continue
        stored = [
            each for each in method.nodes(ast.Subscript) if type(each.ctx) is ast.Store and each is not target
        ]
        root = root_name(module)
        is_as_given = root == method.self_name or [each.how for each in method.bindings.get(root, [])] == [
            "parameter"
        ]
        if is_as_given and not any(path_of(each.value) == place for each in stored):
            yield place, module, kept


def _is_copied(kept: ast.expr) -> bool:
    """Whether a tensor is kept by `.to(device, copy=True)`."""
    return any(isinstance(each, ast.Call) and keyword(each, "copy") is not None for each in ast.walk(kept))


def _is_bound_anew(facts: FileFacts, owner: Scope, attribute: str, kept: ast.expr, tensors: set[ast.expr]) -> bool:
    """Whether a method also binds an attribute to other tensors than parameters: to copies of them, say."""
    for each in facts.class_attributes(owner).get(attribute, []):
        match each.value:
            case ast.Dict(keys=[]) | ast.List(elts=[]) | ast.Call(args=[], keywords=[]) | ast.Constant() | None:
                pass
            case filled if facts.scope_of(filled) is facts.scope_of(kept) and tensors.isdisjoint(ast.walk(filled)):
                return True
    return False


def _is_put_elsewhere(method: Scope, module: str) -> bool:
    """Whether a method moves or converts the module, so that what is moved back is another tensor."""
    bound = [at.value for at in method.nodes(ast.Assign) if path_of(at.targets[0]) == module]
    return any(
        isinstance(each.func, ast.Attribute)
        and each.func.attr in _PUTS_ELSEWHERE
        and (path_of(each.func.value) == module or each in bound)
        for each in method.nodes(ast.Call)
    )


def _names_of(method: Scope, module: str, *, is_named: bool) -> set[str]:
    """How methods write a module: as the attribute that this one keeps it in.

    Where it keeps it nowhere, another one may be given it under the same name: the average is to be named as one.
    """
    root = root_name(module)
    if root == method.self_name:
        return {module}
    kept = {
        path_of(target)
        for at in method.nodes(ast.Assign)
        if path_of(at.value) == module
        for target in at.targets
        if method.owns(path_of(target) or "")
    }
    return {each for each in kept if each is not None} or ({module} if is_named else set())


def _averaged_in_place(facts: FileFacts, methods: list[Scope]) -> Iterator[tuple[str, str, ast.Call]]:
    """The attribute whose entries a method averages in place, with the parameters of which module, and the call."""
    for method in methods:
        for call in method.nodes(ast.Call):
            written = _averaged(call)
            if written is None:
                continue
            inside = written.value if isinstance(written, ast.Subscript) else None
            if isinstance(written, ast.Name):
                inside = container_of(facts, written)
            place = path_of(inside)
            if place is None or not method.owns(place):
                continue
            for each in call.args:
                given, _ = strip_calls(each, *_VIEWS, *_MOVES, "clone")
                of = module_of_parameters(container_of(facts, given)) if isinstance(given, ast.Name) else None
                if of is not None:
                    yield place[len(method.self_name) + 1 :], of, call


def _averaged(call: ast.Call) -> ast.expr | None:
    """What a call averages in place: `s` of `s.lerp_(p, 0.1)` and of `s.mul_(d).add_(p, alpha=1 - d)`."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in ("lerp_", "add_"):
        return None
    written, through = strip_calls(call.func.value, *_VIEWS, "mul_")
    return written if call.func.attr == "lerp_" or "mul_" in through else None
