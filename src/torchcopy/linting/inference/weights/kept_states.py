"""Which expressions give a `state_dict()` whose tensors are still the model's own, and of which model."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..nodes import called_name, keyword, method_call, path_of, strip_calls, walk
from ..summaries import (
    GIVES_ITSELF,
    Definition,
    fields_of,
    fields_of_named_tuple,
    find_method,
    matched_arguments,
)
from .entrywise_states import is_of_tc109, of_comprehension, of_mapped, of_several
from .keepers import kept_parameters
from .kept import COPIED_ON_GPU, DEEPEST, Kept
from .module_paths import module_path
from .places import entry_path, in_container
from .returned_states import of_call, of_property
from .things import thing_of

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_SHALLOW = ("copy.copy", "collections.OrderedDict", "types.MappingProxyType")
_SHALLOW_BUILT_IN = ("dict", "OrderedDict")
_MAPS = ("tree_map", "tree_map_only", "map_structure")


def kept_in(facts: FileFacts, node: ast.expr | None, depth: int = 0) -> list[Kept]:
    """The live states that a value holds: of `model.state_dict()`, `{"model": model.state_dict()}` and the like."""
    if node is None or depth > DEEPEST:
        return []
    if (of := method_call(node, "state_dict")) is not None and isinstance(node, ast.Call):
        return _of_state_dict(facts, node, of) or of_call(facts, node, depth)
    if isinstance(node, ast.Call) and (given := of_call(facts, node, depth)):
        return given
    if isinstance(node, ast.Call) and (of := _all_parameters(facts, node)) is not None:
        module = module_path(of) or ""
        is_kept = thing_of(facts, of, module) == "module" and not is_of_tc109(facts, node)
        return [Kept("", module, node)] if is_kept else []
    if (inner := unwrapped(facts, node)) is not None:
        found = kept_in(facts, inner, depth + 1)
        return [dataclasses.replace(each, call=node) for each in found]
    match node:
        case ast.Subscript(value=ast.Call() as whole, slice=ast.Constant(value=str())) if (
            method_call(whole, "state_dict") is not None
        ):
            return [dataclasses.replace(each, call=node) for each in kept_in(facts, whole, depth + 1)]
        case ast.Attribute(attr=name) if name in facts.methods_by_name and (
            given := of_property(facts, node, depth)
        ):
            return given
        case ast.Name() | ast.Attribute() | ast.Subscript() if (path := entry_path(node)) is not None:
            return [Kept("", "", node, alias=path)]
        case ast.Call(func=ast.Name(id="max" | "min"), args=[among]) if (path := path_of(among)) is not None:
            return [Kept("", "", node, alias=f"{path}[*]")]
        case ast.Call(args=[ast.Lambda() as mapped, of]) if called_name(node) in _MAPS:
            return of_mapped(facts, node, mapped.body, of, depth)
        case ast.GeneratorExp(elt=ast.Tuple(elts=[_, _])):  # of `dict((k, v.cpu()) for k, v in …)`
            return of_comprehension(facts, node, depth)
        case ast.DictComp() | ast.ListComp():
            return of_several(facts, node) or of_comprehension(facts, node, depth)
        case ast.Dict():
            return [
                dataclasses.replace(each, suffix=f"[{key.value!r}]{each.suffix}")
                if isinstance(key, ast.Constant)
                else dataclasses.replace(each, call=node)  # of `{**model.state_dict()}`
                for key, value in zip(node.keys, node.values, strict=True)
                if key is None or isinstance(key, ast.Constant)
                for each in kept_in(facts, value, depth + 1)
            ]
        case ast.Tuple() | ast.List():
            return [
                dataclasses.replace(each, suffix=f"[{index}]{each.suffix}")
                for index, value in enumerate(node.elts)
                for each in kept_in(facts, value, depth + 1)
            ]
        case ast.Call(args=[called, *held]) if called_name(node) == "partial" and _puts_back(called):
            into = module_path(called.value) if isinstance(called, ast.Attribute) else None
            return [  # `undo = partial(net.load_state_dict, net.state_dict())`
                dataclasses.replace(each, suffix="()", call=value)
                for value in held
                for each in kept_in(facts, value, depth + 1)
                if not (each.alias or each.suffix) and each.module in (into, *map(module_path, held))
            ]
        case ast.Call(func=ast.Name(id="dict"), args=[]):
            return [
                dataclasses.replace(each, suffix=f"[{word.arg!r}]{each.suffix}")
                for word in node.keywords
                for each in kept_in(facts, word.value, depth + 1)
            ]
        case ast.Call(func=ast.Name(id=name)) if name[:1].isupper() and not name.isupper():
            return [
                dataclasses.replace(each, suffix=f".{attribute}{each.suffix}")
                for attribute, value in _attributes_given(facts, node)
                for each in kept_in(facts, value, depth + 1)
                if not each.alias
            ]
        case ast.IfExp(body=body, orelse=orelse):
            return kept_in(facts, body, depth + 1) + kept_in(facts, orelse, depth + 1)
        case ast.BoolOp(op=ast.Or(), values=values):
            return [each for value in values for each in kept_in(facts, value, depth + 1)]
    return []


def _puts_back(called: ast.expr) -> bool:
    """Whether what is called is there to load a state: `net.load_state_dict`, `restore`."""
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return re.search(r"load|restore|reset|revert|roll_?back|undo|put_back", name) is not None


def _all_parameters(facts: FileFacts, call: ast.Call) -> ast.expr | None:
    """The module of `dict(module.named_parameters())`."""
    is_dict = facts.resolve(call.func) in _SHALLOW or getattr(call.func, "id", "") in _SHALLOW_BUILT_IN
    of = method_call(call.args[0], "named_parameters") if is_dict and len(call.args) == 1 else None
    return of if of is not None and module_path(of) else None


def _attributes_given(facts: FileFacts, call: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    """What a constructor is given for attributes of its object: by keyword, or in the order of a dataclass."""
    found = facts.definition(call.func)
    made_by = find_method(found.facts, found.scope, "__init__") if found is not None else None
    if made_by is None:
        cloned = _cloned_after(found) if found is not None else set()
        fields = fields_of(found) if found is not None else fields_of_named_tuple(facts, call.func)
        by_place = zip(fields, call.args, strict=False)
        by_name = ((each.arg, each.value) for each in call.keywords if each.arg)
        yield from ((name, value) for name, value in (*by_place, *by_name) if name not in cloned)
        return
    given = {parameter.arg: value for parameter, value in matched_arguments(call, made_by.scope)}
    for each in kept_parameters(made_by):
        if each.name in given:
            yield each.attribute[1:], given[each.name]


def _cloned_after(made: Definition) -> set[str]:
    """The fields that a dataclass clones in its `__post_init__`, by whatever way it stores them, or converts."""
    converted = {
        path_of(each.target) or ""
        for each in made.scope.nodes(ast.AnnAssign)
        if isinstance(each.value, ast.Call) and keyword(each.value, "converter") is not None
    }
    after = find_method(made.facts, made.scope, "__post_init__")
    copying = [
        at
        for at in (after.scope.body if after is not None else ())
        if any(isinstance(each, ast.Call) and called_name(each) in ("clone", "deepcopy") for each in walk(at))
    ]
    return converted | {
        each.attr if isinstance(each, ast.Attribute) else str(each.value)
        for at in copying
        for each in walk(at)
        if isinstance(each, ast.Attribute | ast.Constant)
    }


def unwrapped(facts: FileFacts, node: ast.expr) -> ast.expr | None:
    """What a shallow copy is made of: `x` of `copy.copy(x)`, `dict(x)`, `x.copy()`."""
    if not isinstance(node, ast.Call):
        return None
    if (of := method_call(node, "copy")) is not None and not node.args and not node.keywords:
        return of if path_of(of) != "copy" else None
    if len(node.args) == 2 and facts.resolve(node.func) in ("typing.cast", "typing_extensions.cast"):
        return node.args[1]
    if len(node.args) == 1 and not node.keywords:
        is_shallow = facts.resolve(node.func) in _SHALLOW
        if is_shallow or (isinstance(node.func, ast.Name) and node.func.id in _SHALLOW_BUILT_IN):
            return node.args[0]
    return None


def _of_state_dict(facts: FileFacts, node: ast.Call, of: ast.expr) -> list[Kept]:
    of, moves = strip_calls(of, *GIVES_ITSELF)  # `model.cpu().state_dict()`
    module = module_path(of)
    if module is None or node.args:
        return []
    container = in_container(facts, of)
    thing = thing_of(facts, of, module) or (thing_of(facts, of, container) if container is not None else "")
    if not thing:
        return []
    kept = Kept(
        "",
        module,
        node,
        optimizer=thing == "optimizer",
        copied_on_gpu=any(each in COPIED_ON_GPU for each in moves),
    )
    return [kept] if container is None else [kept, dataclasses.replace(kept, module=container)]
