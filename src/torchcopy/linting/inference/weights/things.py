"""What a place is whose `state_dict` is asked for: a module, an optimizer, or something else."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from ..nodes import method_call, path_of
from ..objects import class_of
from ..scopes import Scope
from ..summaries import find_method
from .module_paths import module_path, place_behind

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_MODULES = re.compile(
    r"model|net|module|encoder|decoder|actor|critic|policy|generator|discriminator|student|teacher|backbone|head|"
    r"classifier|learner|bert|gpt|unet|vae|gan|lstm|rnn|cnn|mlp|resnet|transformer|embed|predictor|probe|layer|block|branch|tower|expert|^[dgq]$|"
    r"feature|extractor|project(or|ion)|tagger|segment(er|or)|detector|regressor|dynamics|denoiser|"
    r"(^|_)(value|q)_?f(n|unc|unction)?\d?$|^(v|q)f\d?$|(^|_)(lm|llm|clf|ae|mdl)$|seq2seq|scratch$"
)
_OPTIMIZERS = re.compile(r"optim|adam|sgd|^opt")
_NEITHER = re.compile(
    r"sched|scaler|loader|sampler|dataset|data_?module|trainer|accelerator|metric|callback|stopper|meter|logger|config|buffer|"
    r"memory|strategy|tokenizer|generator_state|\brng|counter|progress|tracker|storage|iterator|normalizer"
)
_DOES_SOMETHING = re.compile(r"(er|or|tion|ity)s?_?$|ema|stat|env|agent|algo|state")  # no module
_USES_OF_MODULES = frozenset(
    "eval train parameters named_parameters zero_grad forward requires_grad_ modules named_modules cuda".split()
)


def thing_of(facts: FileFacts, of: ast.expr, path: str) -> str:
    """Whether `state_dict` is asked of a `module` or an `optimizer`, or of what gives something else."""
    kind = facts.kind_of(of)
    if kind.name == "optimizer":
        return "optimizer"
    if kind.name == "module":
        return "" if _returns_copies(facts, of) else "module"
    if kind.is_known or (path == "self" and not _is_module_method(facts, of)):
        return ""
    bound = facts.bindings(of) if isinstance(of, ast.Name) else []
    if [each.how for each in bound] == ["value"]:
        path = place_behind(facts, bound[0].value) or without_wrapper(facts.scope_of(of), path)
    last = path.rpartition(".")[2].partition("[")[0].lower()
    if _NEITHER.search(last):
        return ""
    if _OPTIMIZERS.search(last):
        return "optimizer"
    if path == "self" or _MODULES.search(last) or _is_used_as_module(facts, path):
        return "module"
    if not _DOES_SOMETHING.search(last) and _is_loaded(facts, path) and class_of(facts, of) is None:
        return "module"
    return ""


def _is_module_method(facts: FileFacts, node: ast.expr) -> bool:
    owner = facts.scope_of(node).owner
    if owner is None or not isinstance(owner.node, ast.ClassDef):
        return False
    if find_method(facts, owner, "state_dict") is not None:
        return False
    is_used = bool(owner.node.bases) and find_method(facts, owner, "parameters") is None
    return any(facts.is_module_class(each) for each in owner.node.bases) or (
        is_used and any(_asks_for_parameters(each) for each in owner.inner)
    )


def _asks_for_parameters(method: Scope) -> bool:
    """Whether a method asks its own object for parameters, as only modules have them."""
    return any(
        path_of(method_call(each, "parameters", "named_parameters")) == method.self_name
        for each in method.nodes(ast.Call)
    )


def _returns_copies(facts: FileFacts, of: ast.expr) -> bool:
    """Whether the class of a module of this project overrides `state_dict`: what that returns is not known."""
    found = class_of(facts, of)
    return found is not None and find_method(found.facts, found.scope, "state_dict") is not None


def _is_used_as_module(facts: FileFacts, path: str) -> bool:
    """Whether what only modules have is asked of a place anywhere in the file, or it is called."""
    last = path.rpartition(".")[2]
    if any(path_of(call.func) == path for call in facts.calls_by_name.get(last, ())):
        return True
    for scope in facts.functions:
        for node in scope.nodes(ast.Attribute):
            if node.attr in _USES_OF_MODULES and path_of(node.value) == path:
                return True
    return False


def _is_loaded(facts: FileFacts, path: str) -> bool:
    """Whether a state is loaded into a place somewhere in the file."""
    return any(
        path_of(method_call(each, "load_state_dict")) == path
        for each in facts.calls_by_name.get("load_state_dict", ())
    )


def is_module(facts: FileFacts, node: ast.expr, path: str) -> bool:
    """Whether a place is a module: by its kind, or by its name and what is asked of it in this file."""
    kind = facts.kind_of(node)
    if kind.is_known:
        return kind.name == "module"
    last = path.rpartition(".")[2].partition("[")[0].lower()
    if _NEITHER.search(last) or _OPTIMIZERS.search(last) or path == "self":
        return False
    return bool(_MODULES.search(last)) and _is_used_as_module(facts, path)


def without_wrapper(function: Scope, module: str) -> str:
    """`model` for another name of it: `inner = model.module if hasattr(model, "module") else model`."""
    first, dot, rest = module.partition(".")
    bound = function.bindings.get(first, [])
    if not bound or any(each.how != "value" or each.value is None for each in bound):
        return module
    values = [
        one
        for each in bound
        for one in ((each.value.body, each.value.orelse) if isinstance(each.value, ast.IfExp) else (each.value,))
    ]
    places = {module_path(each) for each in values}
    place = places.pop() if len(places) == 1 else None
    return module if place is None else f"{place}{dot}{rest}"
