"""What changes the weights of a model in place: a step of its optimizer, a call that trains, loads or resets."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from ..nodes import (
    arguments,
    called_name,
    is_in_place,
    is_true,
    keyword,
    method_call,
    path_of,
    root_name,
)
from ..scopes import Scope
from ..summaries import Definition, is_abstract, is_optimizer_step, matched_arguments, takes_steps
from .module_paths import module_path
from .parameter_writes import writes_given, written_parameters
from .stepped_modules import is_stepped_for_another, may_train
from .trained_modules import may_concern, places_given
from .training_names import CAMEL, TRAINERS, only_evaluates, sounds_like_training

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_LOADS = re.compile(
    r"^_?((re)?load|restore)(_(best|model|checkpoint|ckpt|weights?|params|pretrained|state|snapshot|from_\w+)){0,3}$"
)
_WRAPPED = re.compile(r"^(fn|func|f|function|method|wrapped|body)$")
_RESETS = re.compile(r"reset|init|xavier|kaiming|orthogonal")
_PUTS_AVERAGES = re.compile(r"^(copy_(params_)?to|apply_(shadow|to|ema|average)\w*)$")
_AVERAGED = re.compile(r"ema|avg|average|swa|shadow")
_GIVES_BACK = re.compile(r"^_*((re|pre)?train(_|$)|fit(_|$)|fine_?tune|learn(_|$))|_(train|fit)$|^(do|run)_train")
_STEPS = ("step", "backward", "zero_grad", "minimize", "apply_gradients", "super", "load_state_dict", "forward")
_DEEPEST = 2  # calls of calls
_TRAINED = re.compile(r"model$|net(work)?$|module$|optim|opt$|params$|parameters$")
_READS_ONLY = ("print", "len", "isinstance", "hasattr", "getattr", "str", "repr", "id", "type", "sum", "save")


def is_given_back(facts: FileFacts, target: ast.expr, value: ast.expr) -> bool:
    """Whether a module is bound to itself again, trained: `model = train(model, batches)`."""
    module = path_of(target)
    if not isinstance(value, ast.Call) or module is None or _makes_another(value):
        return False
    if not any(path_of(each) == module for each in arguments(value)) or not updates(facts, value, module):
        return False
    found = facts.definition(value.func)
    if found is None or not found.scope.is_function:
        return _GIVES_BACK.search(CAMEL.sub(r"\1_\2", called_name(value)).lower()) is not None
    names = {
        each.arg
        for each, given in matched_arguments(value, found.scope)
        if path_of(given) == module and len(found.scope.bindings[each.arg]) == 1
    }
    together = facts.parent(target)
    index = together.elts.index(target) if isinstance(together, ast.Tuple) else None
    returned = (each.value for each in found.scope.nodes(ast.Return))
    return any(path_of(_at(each, index)) in names for each in returned)


def _at(returned: ast.expr | None, index: int | None) -> ast.expr | None:
    """What comes in a place of a tuple that is returned; without one, the whole."""
    if index is None:
        return returned
    return returned.elts[index] if isinstance(returned, ast.Tuple) and index < len(returned.elts) else None


def _makes_another(call: ast.Call) -> bool:
    """Whether what a call gives is no module that it is given, as `copy.deepcopy(model)` and `Trainer(model)`."""
    name = called_name(call)
    return name.lstrip("_")[:1].isupper() or "copy" in name or "clone" in name


def updates(facts: FileFacts, call: ast.Call, module: str) -> bool:
    """Whether `call` writes new weights into the module that is written `module`."""
    name = called_name(call)
    if name == "step" and not isinstance(call.func, ast.Name):
        if is_optimizer_step(facts, call):
            return may_train(facts, call, module)
        return _is_step_of_owner(facts, call, module)
    if name == "apply":
        return _resets_weights(facts, call, module)
    if name in ("load_state_dict", "state_dict", "backward", "zero_grad", "eval", "parameters"):
        return False
    if _calls_what_is_wrapped(facts, call, module) or _puts_averages_in(call, module):
        return True
    found = facts.definition(call.func)
    if _LOADS.search(name) and (call.args or call.keywords):
        return _is_given(facts, call, module) and (found is None or _loads_weights(found.scope))
    if found is not None and found.scope.is_function and _loads_into(call, found.scope, module):
        return True
    if only_evaluates(facts, call) or (found is not None and _writes_others(call, found, module)):
        return False
    trains = takes_steps(found)
    if not trains and not name.lstrip("_")[:1].isupper():  # a class does not train
        trains = sounds_like_training(call, name, found is not None) and not _has_nothing_to_train(found)
    return trains and may_concern(facts, call, module) and not is_stepped_for_another(facts, call, module)


def _writes_others(call: ast.Call, found: Definition, module: str) -> bool:
    """Whether a function writes into parameters that it is given, and none of a module: `copy(net, target)`."""
    if not written_parameters(found) or writes_given(call, found, module):
        return False
    return not any(called_name(each) in ("step", "backward") for each in found.scope.nodes(ast.Call))


def _has_nothing_to_train(found: Definition | None, depth: int = 0) -> bool:
    """Whether a function of the project neither steps nor calls anything that may: it is only named so."""
    if found is None or not found.scope.is_function or is_abstract(found.scope) or depth > _DEEPEST:
        return False
    known, key = found.facts.has_nothing_to_train, (found.scope, depth)
    if key not in known:
        inside = (each for each in ast.walk(found.scope.node) if isinstance(each, ast.Call))
        known[key] = not any(called_name(each) in _STEPS for each in inside) and not any(
            _may_train_something(found, call, depth) for call in found.scope.nodes(ast.Call)
        )
    return known[key]


def _may_train_something(found: Definition, call: ast.Call, depth: int) -> bool:
    """Whether a call inside of a function is a step of a training, or of what may take one."""
    name = called_name(call)
    bound = found.scope.bindings.get(name, []) if isinstance(call.func, ast.Name) else []
    if isinstance(call.func, ast.Subscript) or any(each.how != "definition" for each in bound):
        return True  # a value that is called
    inner = found.facts.definition(call.func)
    if inner is not None and inner.scope.is_function:
        return not _has_nothing_to_train(inner, depth + 1)
    given = arguments(call)
    if any((one := found.facts.definition(each)) is not None and one.scope.is_function for each in given):
        return True  # `map(step, batches)`
    is_given = any(_TRAINED.search((path_of(each) or "").lower()) for each in given)
    is_read = name in _READS_ONLY or found.facts.is_without_graph(call)
    return name.startswith("_foreach_") or (is_given and not is_read) or sounds_like_training(call, name, False)


def _calls_what_is_wrapped(facts: FileFacts, call: ast.Call, module: str) -> bool:
    """Whether a function calls the one that it wraps with the module: `fn(model, *args)` in a decorator."""
    if not isinstance(call.func, ast.Name):
        return False
    inside = facts.scope_of(call)
    made_by = getattr(inside.node, "decorator_list", ())
    wraps = any("wraps" in ast.unparse(each) for each in made_by)
    if not wraps and not _WRAPPED.search(call.func.id):
        return False
    around = inside.parent
    bound = around.bindings.get(call.func.id, []) if around is not None and around.is_function else []
    is_wrapped = [each.how for each in bound] == ["parameter"] and not only_evaluates(facts, call)
    given = [path_of(each) for each in arguments(call)]
    return is_wrapped and (module in given or (wraps and root_name(module) in given))


def _puts_averages_in(call: ast.Call, module: str) -> bool:
    """Whether averaged weights go into a module: `ema.copy_to(model.parameters())`, `ema.apply_shadow(model)`."""
    if not isinstance(call.func, ast.Attribute) or not _PUTS_AVERAGES.search(call.func.attr):
        return False
    of = path_of(call.func.value) or ""
    given = [method_call(each, "parameters") or each for each in call.args]
    return _AVERAGED.search(of.lower()) is not None and any(module_path(each) == module for each in given)


def _is_step_of_owner(facts: FileFacts, call: ast.Call, module: str) -> bool:
    """Whether a call of `step` is of the object that has the module, and learns: `agent.step(state, action)`."""
    receiver = path_of(call.func.value) if isinstance(call.func, ast.Attribute) else None
    if receiver is None or not module.startswith(f"{receiver}."):
        return False
    found = facts.definition(call.func)
    if found is not None:
        return takes_steps(found)
    is_told_much = len(arguments(call)) > 1 and not facts.is_without_graph(call)
    return is_told_much and bool(TRAINERS.search(receiver.lower()))


def _resets_weights(facts: FileFacts, call: ast.Call, module: str) -> bool:
    """Whether a call is `model.apply(reset_weights)`."""
    receiver = module_path(call.func.value) if isinstance(call.func, ast.Attribute) else None
    given = (path_of(call.args[0]) or "") if call.args else ""
    if receiver != module or not _RESETS.search(given.lower()):
        return False
    found = facts.definition(call.args[0])
    if found is None:
        return re.search(r"weight|param|xavier|kaiming|orthogonal", given.lower()) is not None
    names = [called_name(each) for each in found.scope.nodes(ast.Call)]
    return any(each == "reset_parameters" or is_in_place(each) for each in names)


def _loads_into(call: ast.Call, function: Scope, module: str) -> bool:
    """Whether a function of the project loads into a module, which it is given or which its object has."""
    given = {each.arg: path for each, value in matched_arguments(call, function) if (path := module_path(value))}
    for inner in function.nodes(ast.Call):
        path = module_path(method_call(inner, "load_state_dict")) or ""
        if is_true(keyword(inner, "assign")):
            continue  # what the module had is as it was
        root = root_name(path)
        if root in given and len(function.bindings[root]) == 1 and given[root] + path[len(root) :] == module:
            return True
    return False


def _loads_weights(function: Scope) -> bool:
    """Whether a function that is named so loads into a module, or gives it to one that does."""
    return any(
        "load_state_dict" in (name := called_name(each)) or (name != "load" and _LOADS.search(name))
        for each in function.nodes(ast.Call)
    )


def _is_given(facts: FileFacts, call: ast.Call, module: str) -> bool:
    """Whether a function that loads is given a module, or is a method of an object that has it."""
    given = places_given(call)
    owner = path_of(call.func.value) if isinstance(call.func, ast.Attribute) else None
    of = call.func.value if isinstance(call.func, ast.Attribute) else None
    bound = facts.bindings(of) if isinstance(of, ast.Name) else []
    given += [path for each in bound if isinstance(each.value, ast.Call) for path in places_given(each.value)]
    return any(module == each or module.startswith(f"{each}[") for each in given) or (
        owner is not None and module.startswith(f"{owner}.")
    )
