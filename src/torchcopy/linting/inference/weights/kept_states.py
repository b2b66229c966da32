"""Which expressions give a `state_dict()` whose tensors are still the model's own, and of which model."""

from __future__ import annotations

import ast
import dataclasses
import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..nodes import called_name, is_true, keyword, method_call, path_of, strip_calls, walk
from ..objects import property_read
from ..scopes import Scope
from ..summaries import (
    GIVES_ITSELF,
    Definition,
    fields_of,
    fields_of_named_tuple,
    find_method,
    is_decorated_to,
    matched_arguments,
)
from .keepers import kept_parameters
from .places import copied_entry, entry_path, in_container, owner_of
from .things import thing_of, without_wrapper
from .training import module_path

if TYPE_CHECKING:
    from ..file_facts import FileFacts

SHALLOW = ("copy.copy", "collections.OrderedDict", "types.MappingProxyType")
_MAY_HOLD_STATES = (ast.Call, ast.Dict, ast.DictComp, ast.ListComp, ast.Name, ast.Tuple)
_WRITTEN_STATES = (ast.Call, ast.Dict, ast.DictComp, ast.ListComp)
_SHALLOW_BUILT_IN = ("dict", "OrderedDict")
_KEEPING = ("cpu", "to", "detach", "numpy", "data", "contiguous", "view", "requires_grad_")
_VIEWS = ("numpy.asarray", "numpy.float32", "torch.as_tensor", "torch.from_numpy")
_MOVES = re.compile(r"^_*(move_)?(to|cpu|to_cpu|to_device|move)(_recursive(ly)?)?$")
_MAPS = ("tree_map", "tree_map_only", "map_structure")
_COPIED_ON_GPU = ("cpu", "to", "numpy")
NAMES_OF_SNAPSHOTS = re.compile(
    r"(^|_)(best|old|prev|previous|initial|init|before|start|anchor|anchors|backup|snapshot|orig|original|saved|last|"
    r"theta0|ref|reference|stored)(_|$)|_old$|_before$"
)
"""Names of variables in which values of parameters are kept."""
_DEEPEST = 7  # values in values, names of names
_MOST_VALUES = 10  # of a name that a function returns


@dataclasses.dataclass(frozen=True, slots=True)
class Kept:
    """One live state inside of an expression.

    Attributes:
        suffix: where in the value it is: `['model']`, or nothing.
        module: where its module is written.
        call: the expression to report.
        copied_on_gpu: its values went through `.cpu()` or the like.
        optimizer: it is the state of an optimizer.
        alias: where it was kept before, if it is a second name or a shallow copy of that.
        is_returned: a function that `call` calls returns it.
        taken: where that function takes it, if it is in the same file.
        taken_elsewhere: where it takes it in another file: `agent.py:42`.
        is_left: the function leaves it in an object that it is given, and does not return it.
    """

    suffix: str
    module: str
    call: ast.expr
    copied_on_gpu: bool = False
    optimizer: bool = False
    alias: str = ""
    is_returned: bool = False
    taken: ast.expr | None = None
    taken_elsewhere: str = ""
    is_left: bool = False

    @property
    def taking(self) -> tuple[ast.expr, ast.expr | None]:
        """Where it is taken: one call may give several."""
        return self.call, self.taken


def kept_in(facts: FileFacts, node: ast.expr | None, depth: int = 0) -> list[Kept]:
    """The live states that a value holds: of `model.state_dict()`, `{"model": model.state_dict()}` and the like."""
    if node is None or depth > _DEEPEST:
        return []
    if (of := method_call(node, "state_dict")) is not None and isinstance(node, ast.Call):
        return _of_state_dict(facts, node, of) or _returned(facts, node, depth)
    if isinstance(node, ast.Call) and (given := _returned(facts, node, depth)):
        return given
    if isinstance(node, ast.Call) and (of := _all_parameters(facts, node)) is not None:
        module = module_path(of) or ""
        is_kept = thing_of(facts, of, module) == "module" and not _is_of_tc109(facts, node)
        return [Kept("", module, node)] if is_kept else []
    if (inner := unwrapped(facts, node)) is not None:
        found = kept_in(facts, inner, depth + 1)
        return [dataclasses.replace(each, call=node) for each in found]
    match node:
        case ast.Subscript(value=ast.Call() as whole, slice=ast.Constant(value=str())) if (
            method_call(whole, "state_dict") is not None
        ):
            return [dataclasses.replace(each, call=node) for each in kept_in(facts, whole, depth + 1)]
        case ast.Attribute() if given := _of_property(facts, node, depth):
            return given
        case ast.Name() | ast.Attribute() | ast.Subscript() if (path := entry_path(node)) is not None:
            return [Kept("", "", node, alias=path)]
        case ast.Call(func=ast.Name(id="max" | "min"), args=[among]) if (path := path_of(among)) is not None:
            return [Kept("", "", node, alias=f"{path}[*]")]
        case ast.Call(args=[ast.Lambda() as mapped, of]) if called_name(node) in _MAPS:
            return _mapped(facts, node, mapped.body, of, depth)
        case ast.GeneratorExp(elt=ast.Tuple(elts=[_, _])):  # of `dict((k, v.cpu()) for k, v in …)`
            return _of_comprehension(facts, node, depth)
        case ast.DictComp() | ast.ListComp():
            return _of_several(facts, node) or _of_comprehension(facts, node, depth)
        case ast.Dict(keys=[None], values=[state]):  # `{**model.state_dict()}`
            return [dataclasses.replace(each, call=node) for each in kept_in(facts, state, depth + 1)]
        case ast.Dict():
            return [
                dataclasses.replace(each, suffix=f"[{key.value!r}]{each.suffix}")
                for key, value in zip(node.keys, node.values, strict=True)
                if isinstance(key, ast.Constant)
                for each in kept_in(facts, value, depth + 1)
            ]
        case ast.Tuple() | ast.List():
            return [
                dataclasses.replace(each, suffix=f"[{index}]{each.suffix}")
                for index, value in enumerate(node.elts)
                for each in kept_in(facts, value, depth + 1)
            ]
        case ast.Call(args=[_, *held]) if (
            called_name(node) == "partial"
        ):  # `undo = partial(net.load_state_dict, x)`
            return [
                dataclasses.replace(each, suffix="()", call=value)
                for value in held
                for each in kept_in(facts, value, depth + 1)
                if not (each.alias or each.suffix)
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


def _of_property(facts: FileFacts, node: ast.Attribute, depth: int) -> list[Kept]:
    """The state that a property gives: of `self.model.weights`, which returns `self.state_dict()`."""
    found, of = property_read(facts, node), module_path(node.value)
    if found is None or of is None or type(node.ctx) is not ast.Load or is_decorated_to(found, "deepcopy", "clone"):
        return []
    own = found.scope.self_name
    return [
        dataclasses.replace(
            told_by(facts, found.facts, each, node), module=f"{of}{each.module[len(own) :]}", is_returned=True
        )
        for each in _returned_by(found, depth)
        if not each.alias and (each.module == own or each.module.startswith(f"{own}."))
    ]


def _all_parameters(facts: FileFacts, call: ast.Call) -> ast.expr | None:
    """The module of `dict(module.named_parameters())`."""
    is_dict = facts.resolve(call.func) in SHALLOW or getattr(call.func, "id", "") in _SHALLOW_BUILT_IN
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
    """The fields that a dataclass clones in its `__post_init__`, by whatever way it stores them."""
    after = find_method(made.facts, made.scope, "__post_init__")
    copying = [
        at
        for at in (after.scope.body if after is not None else ())
        if any(isinstance(each, ast.Call) and called_name(each) in ("clone", "deepcopy") for each in walk(at))
    ]
    return {
        each.attr if isinstance(each, ast.Attribute) else str(each.value)
        for at in copying
        for each in walk(at)
        if isinstance(each, ast.Attribute | ast.Constant)
    }


def _returned(facts: FileFacts, call: ast.Call, depth: int) -> list[Kept]:
    """What a function of the project returns: the state of an attribute of its object, or of what it is given."""
    found = facts.definition(call.func)
    if found is None or not found.scope.is_function or found.scope.node is facts.scope_of(call).node:
        return []
    if is_decorated_to(found, "deepcopy", "clone"):
        return []
    given = dict(matched_arguments(call, found.scope))
    copies = _makes_copies(found.scope)
    written = {parameter.arg: each for parameter, each in given.items() if isinstance(each, _WRITTEN_STATES)}
    places = {
        parameter.arg: place
        for parameter, each in given.items()
        if parameter.arg not in written and (place := module_path(each))
    }
    held = {parameter.arg: place for parameter, each in given.items() if (place := entry_path(each))}
    states: list[Kept] = []
    for each in _returned_by(found, depth):
        if each.alias and copies:
            continue
        if each.alias in held:  # it may give back what it got
            moved = each.copied_on_gpu or _MOVES.search(found.scope.name) is not None
            states.append(dataclasses.replace(each, alias=held[each.alias], call=call, copied_on_gpu=moved))
            continue
        if each.alias in written:  # what is written there: `to_cpu(model.state_dict())`
            moved = each.copied_on_gpu or _MOVES.search(found.scope.name) is not None
            states += [
                dataclasses.replace(
                    one, suffix=each.suffix + one.suffix, call=call, copied_on_gpu=moved or one.copied_on_gpu
                )
                for one in kept_in(facts, written[each.alias], depth + 1)
            ]
            continue
        first, dot, rest = without_wrapper(found.scope, each.module).partition(".")
        if _is_of_function_around(facts, call, found, first):
            states.append(dataclasses.replace(told_by(facts, facts, each, call), is_returned=True))
        elif first in places and (dot or first != found.scope.self_name):
            module = f"{places[first]}{dot}{rest}"
            states.append(
                dataclasses.replace(told_by(facts, found.facts, each, call), module=module, is_returned=True)
            )
    return states


def _is_of_function_around(facts: FileFacts, call: ast.Call, found: Definition, name: str) -> bool:
    """Whether a function reads a name of the function around it, which is the one that calls it."""
    around = found.scope.parent
    return (
        around is not None
        and around.is_function
        and around is facts.scope_of(call)
        and name in around.bindings
        and name not in found.scope.bindings
        and name != found.scope.self_name
    )


def told_by(facts: FileFacts, of: FileFacts, kept: Kept, call: ast.expr) -> Kept:
    """A state that a function takes, in this file or another one, as a call of it gives or leaves it."""
    if of is facts:
        return dataclasses.replace(kept, call=call, taken=kept.taken or kept.call)
    where = f"{os.path.basename(of.source.path)}:{(kept.taken or kept.call).lineno}"
    return dataclasses.replace(kept, call=call, taken=None, taken_elsewhere=kept.taken_elsewhere or where)


def _makes_copies(function: Scope) -> bool:
    """Whether a function is there to copy or convert what it is given, though it gives the rest back as it is.

    So does one that calls itself, for the parts, unless it is there to move them.
    """
    copying = ("clone", "deepcopy") if _MOVES.search(function.name) else ("clone", "deepcopy", function.name)
    return "copy" in function.name or any(called_name(each) in copying for each in function.nodes(ast.Call))


def _returned_by(function: Definition, depth: int) -> list[Kept]:
    """The live states that a function returns, as it writes them; worked out once, however many call it."""
    known = function.facts.returned_states
    key = function.scope, depth
    if key not in known:
        known[key] = []  # one that calls itself is not followed again
        found: dict[tuple[str, str, str], Kept] = {}  # each of them once: many ways may lead to one
        for each in function.scope.nodes(ast.Return):
            if isinstance(each.value, _MAY_HOLD_STATES):
                for state in _told(function.facts, each.value, depth + 1):
                    found.setdefault((state.suffix, state.module, state.alias), state)
        known[key] = [*found.values()]
    return known[key]


def _told(facts: FileFacts, value: ast.expr, depth: int) -> Iterator[Kept]:
    """The live states that a value holds; for a name in it those of what it is bound to."""
    for each in kept_in(facts, value, depth):
        name = _name_in(each)
        if name is None:
            yield each
            continue
        if any(one.how == "parameter" for one in facts.bindings(name)):
            yield each
        for bound in _bound_to(facts, name) if depth < _DEEPEST else ():
            for one in _told(facts, bound, depth + 1):
                yield dataclasses.replace(
                    one,
                    suffix=f"{each.suffix}{one.suffix}",
                    copied_on_gpu=each.copied_on_gpu or one.copied_on_gpu,
                )
        if each.call is name:
            for key, entry in _entries_put_in(facts, name):
                for one in kept_in(facts, entry, depth):
                    yield dataclasses.replace(one, suffix=f"{each.suffix}{key}{one.suffix}")


def _name_in(kept: Kept) -> ast.Name | None:
    """The name that an expression has its state from: `state` of `{k: v.cpu() for k, v in state.items()}`."""
    if not kept.alias.isidentifier():
        return None
    names = (each for each in walk(kept.call) if isinstance(each, ast.Name) and type(each.ctx) is ast.Load)
    return next((each for each in names if each.id == kept.alias), None)


def _entries_put_in(facts: FileFacts, name: ast.Name) -> Iterator[tuple[str, ast.expr]]:
    """What a function puts into the dict of a name: `['model']` and `x` of `best["model"] = x`."""
    for at in facts.scope_of(name).nodes(ast.Assign):
        for target in at.targets:
            is_entry = isinstance(target, ast.Subscript) and path_of(target.value) == name.id
            if is_entry and isinstance(target.slice, ast.Constant):  # type: ignore[attr-defined]
                yield f"[{target.slice.value!r}]", at.value  # type: ignore[attr-defined]
            elif is_entry and (whole := copied_entry(facts, target, at.value)) is not None:
                yield "", whole  # in a loop over it


def _bound_to(facts: FileFacts, name: ast.Name) -> list[ast.expr]:
    """What a name was bound to right before, or what it may be bound to, if none of that is a copy."""
    last = facts.last_value(name)
    if last is not None:
        return [last]
    bound = [each.value for each in facts.bindings(name) if each.how == "value" and each.value is not None]
    return [] if any(is_copy(each) for each in bound) or len(bound) > _MOST_VALUES else bound


def is_copy(value: ast.expr) -> bool:
    """Whether a value is made by copying: with `deepcopy`, or entry by entry with `clone`."""
    return any(isinstance(each, ast.Call) and called_name(each) in ("deepcopy", "clone") for each in walk(value))


def unwrapped(facts: FileFacts, node: ast.expr) -> ast.expr | None:
    """What a shallow copy is made of: `x` of `copy.copy(x)`, `dict(x)`, `x.copy()`."""
    if not isinstance(node, ast.Call):
        return None
    if (of := method_call(node, "copy")) is not None and not node.args and not node.keywords:
        return of if path_of(of) != "copy" else None
    if len(node.args) == 2 and facts.resolve(node.func) in ("typing.cast", "typing_extensions.cast"):
        return node.args[1]
    if len(node.args) == 1 and not node.keywords:
        is_shallow = facts.resolve(node.func) in SHALLOW
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
        copied_on_gpu=any(each in _COPIED_ON_GPU for each in moves),
    )
    return [kept] if container is None else [kept, dataclasses.replace(kept, module=container)]


def _of_several(facts: FileFacts, node: ast.DictComp | ast.ListComp) -> list[Kept]:
    """`{name: m.state_dict() for name, m in models.items()}`: the states of the modules that a container holds."""
    value = node.value if isinstance(node, ast.DictComp) else node.elt
    of = method_call(value, "state_dict")
    path = in_container(facts, of) if of is not None else None
    if path is None or of is None or len(node.generators) != 1 or not isinstance(value, ast.Call):
        return []
    thing = thing_of(facts, of, path.removesuffix("[*]"))
    if not thing or value.args:
        return []
    return [Kept("[*]", path, value, optimizer=thing == "optimizer")]


def _of_comprehension(
    facts: FileFacts, node: ast.DictComp | ast.ListComp | ast.GeneratorExp, depth: int
) -> list[Kept]:
    """`{k: v.cpu() for k, v in model.state_dict().items()}`: the values are the model's own, but for a move."""
    if len(node.generators) != 1:
        return []
    loop = node.generators[0]
    given = node.value if isinstance(node, ast.DictComp) else node.elt
    if isinstance(node, ast.GeneratorExp) and isinstance(given, ast.Tuple):
        given = given.elts[1]
    if isinstance(given, ast.IfExp):  # `v.cpu() if v is not None else v`
        given = given.body
    value, methods = strip_calls(_within_views(facts, given), *_KEEPING)
    of = method_call(loop.iter, "items")
    if (module := owner_of(loop.iter)) is not None:
        return _of_parameters(facts, node, module, value, methods)
    if isinstance(node, ast.ListComp) and (values := method_call(loop.iter, "values")) is not None:
        if not (isinstance(value, ast.Name) and isinstance(loop.target, ast.Name) and value.id == loop.target.id):
            return []
        of = values
    elif of is not None and isinstance(loop.target, ast.Tuple) and len(loop.target.elts) == 2:
        wanted = loop.target.elts[1]
        if not (isinstance(value, ast.Name) and isinstance(wanted, ast.Name) and value.id == wanted.id):
            return []
    else:
        of = loop.iter if method_call(loop.iter, "keys") is None else method_call(loop.iter, "keys")
        same = isinstance(value, ast.Subscript) and of is not None and _is_same(value.value, of)
        if not same:
            return []
    if _copies(given):
        return []
    moved = any(each in _COPIED_ON_GPU for each in methods)
    return [
        dataclasses.replace(each, call=node, copied_on_gpu=moved or each.copied_on_gpu)
        for each in kept_in(facts, of, depth + 1)
        if not each.suffix
    ]


def _of_parameters(
    facts: FileFacts, node: ast.expr, module: str, value: ast.expr, methods: list[str]
) -> list[Kept]:
    """`{name: p.cpu() for name, p in model.named_parameters()}`, as far as it is not TC109's.

    That code tells of lists and dicts of parameters that are kept as they are where they are written.
    """
    loop = node.generators[0] if isinstance(node, ast.DictComp | ast.GeneratorExp | ast.ListComp) else None
    of = method_call(loop.iter, "parameters", "named_parameters") if loop is not None else None
    last = loop.target.elts[-1] if loop is not None and isinstance(loop.target, ast.Tuple) else None
    last = loop.target if loop is not None and last is None else last
    is_same = isinstance(value, ast.Name) and isinstance(last, ast.Name) and value.id == last.id
    moved = any(each in _COPIED_ON_GPU for each in methods)
    if not is_same or _copies(node):
        return []
    if of is None:  # of a list of parameters: other values only where they are taken out of the graph
        return [Kept("", module, node, copied_on_gpu=moved)] if {"data", "detach"} & {*methods} else []
    if (not moved and _is_of_tc109(facts, node)) or thing_of(facts, of, module) != "module":
        return []
    return [Kept("", module, node, copied_on_gpu=moved)]


def _is_of_tc109(facts: FileFacts, node: ast.expr) -> bool:
    """Whether parameters are bound to a name as TC109 looks for: `best = dict(model.named_parameters())`."""
    above = facts.parent(node)
    while isinstance(above, ast.Call):
        above = facts.parent(above)
    targets = above.targets if isinstance(above, ast.Assign) else []
    return any(isinstance(each, ast.Name) and NAMES_OF_SNAPSHOTS.search(each.id.lower()) for each in targets)


def _mapped(facts: FileFacts, node: ast.expr, body: ast.expr, of: ast.expr, depth: int) -> list[Kept]:
    """Of `tree_map(lambda x: x.cpu(), model.state_dict())`."""
    value, methods = strip_calls(_within_views(facts, body), *_KEEPING)
    if not isinstance(value, ast.Name) or _copies(body):
        return []
    moved = any(each in _COPIED_ON_GPU for each in methods)
    return [
        dataclasses.replace(each, call=node, copied_on_gpu=moved or each.copied_on_gpu)
        for each in kept_in(facts, of, depth + 1)
    ]


def _within_views(facts: FileFacts, node: ast.expr) -> ast.expr:
    """What is behind functions that copy nothing where there is no need: `x` of `np.asarray(x)`."""
    while isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
        if facts.resolve(node.func) not in _VIEWS:
            break
        node = node.args[0]
    return node


def _is_same(one: ast.expr, other: ast.expr) -> bool:
    """Whether two expressions are the same place, or the state of the same place."""
    first, second = method_call(one, "state_dict") or one, method_call(other, "state_dict") or other
    return path_of(first) is not None and path_of(first) == path_of(second)


def _copies(node: ast.expr) -> bool:
    """Whether a move in a chain of methods copies for sure, or changes the type and so may well."""
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and called_name(each) == "to":
            if is_true(keyword(each, "copy")) or keyword(each, "dtype") is not None:
                return True
            if any(isinstance(one, ast.Attribute) and path_of(one.value) == "torch" for one in each.args):
                return True
            if any("dtype" in (path_of(one) or "").rpartition(".")[2] for one in each.args):
                return True
        if isinstance(each, ast.Call) and called_name(each) == "numpy" and method_call(each.func, "copy"):
            return True
    return False
