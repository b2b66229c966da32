"""What changes the weights of a model in place: a step of its optimizer, a call that trains."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from ..nodes import (
    arguments,
    called_name,
    is_true,
    keyword,
    method_call,
    path_of,
    root_name,
    root_of,
    strip_calls,
    walk,
)
from ..scopes import Binding, Scope
from ..summaries import GIVES_ITSELF, Definition, is_abstract, is_optimizer_step, matched_arguments
from .places import entry_path

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_TRAINS = re.compile(
    r"(^|_)(train(er|ing)?|fit|finetune|learn|optimi[sz]e|optimi[sz]ation|update|epoch|do_step|train_?(step|batch|epoch|loop|iter|model))(_|$)"
)
_TRAINS_NOTHING = re.compile(
    r"eval|valid|test|log|lr|sched|progress|bar|stat|metric|loader|data|meter|print|config|param|mode|set_|get_|is_|"
    r"best|early|saved|ckpt|checkpoint|(^|_)keys?(_|$)|plot|display|history|desc|postfix|count|num|len|size|table|dict|dir|path|file|freeze|display|target|"
    r"learning_rate|summary|(^|_)(ema|for_inference)(_|$)|(^|_)(put|post|send|upload|report|record|clean|cleanup)(_|$)|_results?$|visuali|(^|_)(wealth|fitness|ranks?|prices?|end|begin|start)(_|$)|hook|callback"
)
_TRAINERS = re.compile(r"train|learner|agent|engine|algo|solver|runner|experiment|client|strategy")
_LOADS = re.compile(
    r"^_?((re)?load|restore)(_(best|model|checkpoint|ckpt|weights?|params|pretrained|state|snapshot|from_\w+)){0,3}$"
)
_EVALUATES = re.compile(r"^(val|valid|validation|eval|evaluate|evaluation|test|testing|dev)$")
_WRAPPED = re.compile(r"^(fn|func|f|function|method|wrapped|body)$")
_RESETS = re.compile(r"reset|init|xavier|kaiming|orthogonal")
_CAMEL = re.compile(r"([a-z0-9])([A-Z])")
_AVERAGES = re.compile(r"ema|avg|average|swa|shadow|metric|meter|bar")
_PUTS_AVERAGES = re.compile(r"^(copy_(params_)?to|apply_(shadow|to|ema|average)\w*)$")
_AVERAGED = re.compile(r"ema|avg|average|swa|shadow")
_OF_A_MODEL = re.compile(r"model|net(work)?$|(^|_)state(_dict)?$")
_OF_MODELS = re.compile(r"(?<=train)_models?(?=_|$)|(?<=fit)_models?(?=_|$)|(?<=tune)_models?(?=_|$)")
_GIVES_BACK = re.compile(r"^_*((re|pre)?train(_|$)|fit(_|$)|fine_?tune|learn(_|$))|_(train|fit)$|^(do|run)_train")
_MODE_ARGUMENTS = 1
_STEPS = ("step", "backward", "zero_grad", "minimize", "apply_gradients", "super", "load_state_dict", "forward")
_DEEPEST = 2  # calls of calls
_TRAINED = re.compile(r"model$|net(work)?$|module$|optim|opt$|params$|parameters$")
_READS_ONLY = ("print", "len", "isinstance", "hasattr", "getattr", "str", "repr", "id", "type", "sum", "save")
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


def is_given_back(facts: FileFacts, target: ast.expr, value: ast.expr) -> bool:
    """Whether a module is bound to itself again, trained: `model = train(model, batches)`."""
    module = path_of(target)
    if not isinstance(value, ast.Call) or module is None or _makes_another(value):
        return False
    if not any(path_of(each) == module for each in arguments(value)) or not updates(facts, value, module):
        return False
    found = facts.definition(value.func)
    if found is None or not found.scope.is_function:
        return _GIVES_BACK.search(_CAMEL.sub(r"\1_\2", called_name(value)).lower()) is not None
    names = {
        each.arg
        for each, given in matched_arguments(value, found.scope)
        if path_of(given) == module and len(found.scope.bindings[each.arg]) == 1
    }
    returned = [each.value for each in found.scope.nodes(ast.Return)]
    shown = [one for each in returned for one in (each.elts if isinstance(each, ast.Tuple) else [each])]
    return any(path_of(each) in names for each in shown)


def _makes_another(call: ast.Call) -> bool:
    """Whether what a call gives is no module that it is given, as `copy.deepcopy(model)` and `Trainer(model)`."""
    name = called_name(call)
    return name.lstrip("_")[:1].isupper() or "copy" in name or "clone" in name


def updates(facts: FileFacts, call: ast.Call, module: str) -> bool:
    """Whether `call` writes new weights into the module that is written `module`."""
    name = called_name(call)
    if name == "step" and not isinstance(call.func, ast.Name):
        if is_optimizer_step(facts, call):
            return _may_train(facts, call, module)
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
    if _only_evaluates(facts, call):
        return False
    trains = found is not None and found.scope.is_function and facts.done_by(found).steps
    if not trains and not name.lstrip("_")[:1].isupper():  # a class does not train
        trains = _sounds_like_training(call, name, found is not None) and not _has_nothing_to_train(found)
    return trains and _may_concern(facts, call, module)


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
    return name.startswith("_foreach_") or (is_given and not is_read) or _sounds_like_training(call, name, False)


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
    is_wrapped = [each.how for each in bound] == ["parameter"] and not _only_evaluates(facts, call)
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
        return found.scope.is_function and facts.done_by(found).steps
    is_told_much = len(arguments(call)) > 1 and not facts.is_without_graph(call)
    return is_told_much and bool(_TRAINERS.search(receiver.lower()))


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
    return any(each == "reset_parameters" or (each.endswith("_") and not each.endswith("__")) for each in names)


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


def _places_given(call: ast.Call) -> list[str]:
    return [path for each in arguments(call) if (path := entry_path(each)) is not None]


def _is_given(facts: FileFacts, call: ast.Call, module: str) -> bool:
    """Whether a function that loads is given a module, or is a method of an object that has it."""
    given = _places_given(call)
    owner = path_of(call.func.value) if isinstance(call.func, ast.Attribute) else None
    of = call.func.value if isinstance(call.func, ast.Attribute) else None
    bound = facts.bindings(of) if isinstance(of, ast.Name) else []
    given += [path for each in bound if isinstance(each.value, ast.Call) for path in _places_given(each.value)]
    return any(module == each or module.startswith(f"{each}[") for each in given) or (
        owner is not None and module.startswith(f"{owner}.")
    )


def _only_evaluates(facts: FileFacts, call: ast.Call) -> bool:
    """Whether a call is told not to train: `run_epoch(epoch, "val")`, `step(train=False)`, under `no_grad`."""
    for each in arguments(call):
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and _EVALUATES.search(each.value.lower()):
            return True
    for word in call.keywords:
        is_no = isinstance(word.value, ast.Constant) and word.value.value is False
        if is_no and word.arg in ("train", "training", "is_train", "is_training"):
            return True
    return facts.is_without_graph(call)


def _sounds_like_training(call: ast.Call, name: str, is_known: bool) -> bool:
    lower = _OF_MODELS.sub("", _CAMEL.sub(r"\1_\2", name).lower())
    if not _TRAINS.search(lower) or _TRAINS_NOTHING.search(lower):
        return False
    receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
    receiver_name = (path_of(receiver) or "").lower().rpartition(".")[2]
    if lower == "train" and receiver is not None and len(arguments(call)) <= _MODE_ARGUMENTS:
        return bool(_TRAINERS.search(receiver_name))
    if lower in ("update", "epoch", "learn", "optimize"):
        if _AVERAGES.search(receiver_name):
            return False
        given = [(path_of(each) or "").lower() for each in arguments(call)]
        return bool(_TRAINERS.search(receiver_name)) or any(re.search(r"optim|model$|net$", each) for each in given)
    if receiver is None and not is_known:
        return bool(call.args or call.keywords)
    return True


def _may_concern(facts: FileFacts, call: ast.Call, module: str) -> bool:
    """Whether a call that trains trains this module: given it or an optimizer, or given no module at all."""
    given = _places_given(call)
    if _trains_its_own_copy(facts, call, module):
        return False
    if isinstance(call.func, ast.Attribute):
        receiver = entry_path(call.func.value)
        if isinstance(call.func.value, ast.Call):  # `Trainer(model).fit(batches)`, `self.trainer().fit(batches)`
            maker = call.func.value
            by_name = (called_name(maker), path_of(maker.func) or "")
            return module in _places_given(maker) or any(_TRAINERS.search(each.lower()) for each in by_name)
        if receiver is None or module == receiver or module.startswith(f"{receiver}."):
            return True
        if module not in given and any(_is_copy_of(facts, each, module) for each in arguments(call)):
            return False  # it is the copy that is trained
        if receiver == "self" or _TRAINERS.search(receiver.lower()):
            return True
        if facts.kind_of(call.func.value).name == "module" or _is_loaded_into(facts, call.func.value):
            return False
    if any(
        module == each or module.startswith((f"{each}.", f"{each}[")) or each.startswith(f"{module}.")
        for each in given
    ):
        return True
    if any("opt" in each.lower() for each in given):
        return True
    if isinstance(call.func, ast.Attribute) and _is_made_without_models(facts, call.func.value):
        return False  # `scaler.fit(features)`
    found = facts.definition(call.func)
    if found is not None and found.scope.is_function and not found.scope.self_name:
        is_trainer = any(_TRAINERS.search(each.lower()) for each in given)
        return is_trainer or (found.facts is facts and _reads_from_outside(found.scope, module))
    others = [each for each in arguments(call) if facts.kind_of(each).name == "module"]
    return not others and not any(_OF_A_MODEL.search(each.lower()) for each in given)


def _is_made_without_models(facts: FileFacts, node: ast.expr) -> bool:
    """Whether a name is bound to what constructors give that are given no model: `scaler = StandardScaler()`."""
    bound = facts.bindings(node) if isinstance(node, ast.Name) else []
    made = [each.value for each in bound if isinstance(each.value, ast.Call)]
    return (
        bool(made)
        and len(made) == len(bound)
        and all(
            called_name(each)[:1].isupper()
            and not any(isinstance(one, ast.Name | ast.Attribute | ast.Starred) for one in arguments(each))
            for each in made
        )
    )


def _trains_its_own_copy(facts: FileFacts, call: ast.Call, module: str) -> bool:
    """Whether a function of the project makes a deep copy of the module that it is given, and reads it no more."""
    found = facts.definition(call.func)
    if found is None or not found.scope.is_function:
        return False
    if _copies_own_module(call, found.scope, module):
        return True
    names = [each.arg for each, value in matched_arguments(call, found.scope) if module_path(value) == module]
    read = [each for each in found.scope.nodes(ast.Name) if each.id in names and type(each.ctx) is ast.Load]
    copied = [each for each in read if _is_deep_copied(found.facts, each)]
    is_rebound = any(
        isinstance(each.value, ast.Call) and any(one in copied for one in each.value.args)
        for name in names
        for each in found.scope.bindings[name]
    )
    has_optimizer = any("opt" in (path_of(each) or "").lower() for each in arguments(call))
    return bool(copied) and (is_rebound or (copied == read and not has_optimizer))


def _copies_own_module(call: ast.Call, method: Scope, module: str) -> bool:
    """Whether a method reads the module of its object for a deep copy alone: `copy.deepcopy(self.model)`."""
    receiver = path_of(call.func.value) if isinstance(call.func, ast.Attribute) else None
    if receiver is None or not method.self_name or not module.startswith(f"{receiver}."):
        return False
    own = f"{method.self_name}{module[len(receiver) :]}"
    read = [each for each in method.nodes(ast.Attribute) if path_of(each) == own and type(each.ctx) is ast.Load]
    above = [method.parents.get(each) for each in read]
    return bool(read) and all(isinstance(each, ast.Call) and called_name(each) == "deepcopy" for each in above)


def _is_deep_copied(facts: FileFacts, node: ast.expr) -> bool:
    above = facts.parent(node)
    return isinstance(above, ast.Call) and called_name(above) == "deepcopy"


def _is_copy_of(facts: FileFacts, node: ast.expr, module: str) -> bool:
    """Whether a value is a deep copy of a module, or a name bound to such alone: `local = copy.deepcopy(model)`."""
    bound = facts.bindings(node) if isinstance(node, ast.Name) else []
    return _copies_module(node, module) or _are_copies(bound, module)


def _are_copies(bound: list[Binding], module: str) -> bool:
    """Whether all that is bound are deep copies of a module."""
    return bool(bound) and all(_copies_module(each.value, module) for each in bound)


def _copies_module(value: ast.expr | None, module: str) -> bool:
    is_copy = isinstance(value, ast.Call) and called_name(value) == "deepcopy"
    return is_copy and any(module_path(one) == module for one in value.args)  # type: ignore[union-attr]


def _reads_from_outside(scope: Scope, module: str) -> bool:
    """Whether a function reads a module that is no parameter of it, and not made by it."""
    root = root_name(module)
    return root not in scope.bindings and any(each.id == root for each in scope.nodes(ast.Name))


def _is_loaded_into(facts: FileFacts, node: ast.expr) -> bool:
    """Whether a function loads a state into what is written there: that is a model of its own."""
    path = path_of(node)
    calls = facts.scope_of(node).nodes(ast.Call)
    return any(path_of(method_call(each, "load_state_dict")) == path for each in calls if path is not None)


def _may_train(facts: FileFacts, call: ast.Call, module: str) -> bool:
    """Whether the optimizer of a step may hold the parameters of this module: not if it holds another's."""
    optimizer = call.func.value if isinstance(call.func, ast.Attribute) else None
    if isinstance(optimizer, ast.Name):
        bound = facts.bindings(optimizer)
    elif isinstance(optimizer, ast.Attribute):
        bound = facts.attribute_bindings(optimizer)
    else:
        return True
    owners: set[str] = set()
    for each in bound:
        if not isinstance(each.value, ast.Call):
            return True
        found = _parameter_owners(each.value)
        if not found:
            return True
        owners |= found
    if not owners or any(each == module or _is_within(each, module) or _is_within(module, each) for each in owners):
        return True
    last = module.rpartition(".")[2]
    if any(each.rpartition(".")[2] == last for each in owners):
        return True
    scope = facts.scope_of(optimizer)
    if all(_are_copies(facts.bindings_of_path(scope, each), module) for each in owners):
        return False
    return not all(_are_apart(facts, optimizer, each, module) for each in owners)


def _are_apart(facts: FileFacts, near: ast.AST, one: str, other: str) -> bool:
    """Whether two places were each made by one constructor, neither given the other, or are two parameters."""
    scope = facts.scope_of(near)
    if all([each.how for each in facts.bindings_of_path(scope, path)] == ["parameter"] for path in (one, other)):
        return True
    given = [_given_as(facts, scope, path) for path in (one, other)]
    if all(given) and given[0] != given[1]:
        return True
    for path, second in ((one, other), (other, one)):
        bound = facts.bindings_of_path(scope, path)
        if len(bound) != 1 or not isinstance(bound[0].value, ast.Call):
            return False
        if any(path_of(each) == second for each in walk(bound[0].value)):
            return False
    return True


def _given_as(facts: FileFacts, scope: Scope, path: str) -> str:
    """The parameter that an attribute is bound to, moved or frozen: `backbone` for `self.backbone`."""
    bound = facts.bindings_of_path(scope, path)
    if len(bound) != 1 or bound[0].value is None:
        return ""
    value, _ = strip_calls(bound[0].value, *GIVES_ITSELF)
    hows = [each.how for each in facts.bindings(value)] if isinstance(value, ast.Name) else []
    return value.id if isinstance(value, ast.Name) and hows == ["parameter"] else ""


def _is_within(inner: str, outer: str) -> bool:
    return inner.startswith((f"{outer}.", f"{outer}["))


def _parameter_owners(call: ast.Call) -> set[str]:
    """The modules whose `parameters()` a constructor of an optimizer is given."""
    owners: set[str] = set()
    for node in walk(call, into_functions=True):
        if isinstance(node, ast.Attribute) and node.attr in ("parameters", "named_parameters"):
            path = module_path(node.value)
            if path is None:
                return set()
            owners.add(path)
    return owners


def written_module(facts: FileFacts, call: ast.Call) -> str | None:
    """The module whose parameter an in-place method writes: of `p.data.add_(…)` in a loop over them."""
    name = called_name(call)
    if not name.endswith("_") or name.endswith("__") or not isinstance(call.func, ast.Attribute):
        return None
    inner, _ = strip_calls(call.func.value, "data", "detach", "view")
    root = root_of(inner)
    if not isinstance(root, ast.Name):
        return None
    for bound in facts.bindings(root):
        if bound.how == "element" and bound.value is not None:
            for node in walk(bound.value):
                owner = method_call(node, "parameters", "named_parameters")
                if owner is not None:
                    return module_path(owner)
    return None
