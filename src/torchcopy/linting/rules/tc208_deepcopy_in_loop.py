"""TC208: `copy.deepcopy` of a model or of its state in a loop that trains."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ..findings import Finding, Fix
from ..inference.file_facts import FileFacts
from ..inference.nodes import Loop, called_name, method_call, walk
from ..inference.scopes import Scope
from ..inference.weights.module_paths import module_path
from ..inference.weights.rounds import is_in_one_round
from ..inference.weights.training import updates

CODE = "TC208"
NEEDS = ("deepcopy(",)

_MODELS = re.compile(r"(^|_)(model|net|network|policy|actor|critic|encoder|decoder|generator|discriminator)\d*_?$")
_HOOKS = re.compile(
    r"on_(train_|validation_|val_|training_|valid_)?(epoch|batch|step)_end$|after_(epoch|batch|step)$"
)
_FEW = re.compile(
    r"fold|seed|trial|split|\bruns?\b|restart|repeat|task|ensemble|config|case|metric|mode|dtype|variant|boot|search|grid|hypothes|candidate"
)  # whole trainings, not steps of one


def check(facts: FileFacts) -> Iterator[Finding]:
    """Deep copies of weights in a loop in which weights are trained, or in a hook that such a loop calls."""
    for scope in facts.functions:
        if scope.name.startswith("test"):
            continue  # each of its rounds wants a model of its own
        for call in scope.nodes(ast.Call):
            if len(call.args) != 1 or called_name(call) != "deepcopy":
                continue
            if facts.resolve(call.func) not in ("copy.deepcopy", "deepcopy") or not _is_in_training(
                facts, scope, call
            ):
                continue
            given = call.args[0]
            state = method_call(given, "state_dict")
            if state is not None:
                written = facts.source.segment(given)
                message = (
                    f"`deepcopy({written})` in a training loop allocates and copies everything each time: "
                    "`tc.History` keeps snapshots at a fraction of that, `tc.copy` copies at once"
                )
            elif _is_model(facts, given):
                written = facts.source.segment(given)
                message = (
                    f"`deepcopy({written})` in a training loop copies tensor after tensor: `tc.copy({written})` "
                    "copies all at once, `tc.History` keeps snapshots"
                )
            else:
                continue
            yield facts.source.finding(CODE, message, call, fix=_fix(facts, call))


def _fix(facts: FileFacts, call: ast.Call) -> Fix | None:
    """`tc.copy` in its place, where the file has it already."""
    name = next((own for own, what in facts.imports.items() if what == "torchcopy"), None)
    if name is None:
        return None
    note = "what `copy.deepcopy` leaves out is copied too, such as attributes of parameters"
    return Fix((facts.source.replace(call.func, f"{name}.copy"),), safe=False, note=note)


def _is_model(facts: FileFacts, node: ast.expr) -> bool:
    kind = facts.kind_of(node)
    if kind.is_known:
        return kind.name == "module"
    if not any(each.partition(".")[0] == "torch" for each in facts.imports.values()):
        return False  # other libraries have models too
    path = module_path(node)
    return path is not None and _MODELS.search(path.rpartition(".")[2].lower()) is not None


def _is_in_training(facts: FileFacts, scope: Scope, call: ast.Call) -> bool:
    if is_in_one_round(facts, call):
        return False
    loops = facts.loops(call)
    if any(_trains(facts, loop) for loop in loops):
        return True
    return scope.owner is not None and _HOOKS.search(scope.name) is not None


def _names(*nodes: ast.expr) -> Iterator[str]:
    for node in nodes:
        for each in walk(node):
            if isinstance(each, ast.Name):
                yield each.id.lower()


def _trains(facts: FileFacts, loop: Loop) -> bool:
    """Whether weights are trained in a loop, each time before or after the copy."""
    if isinstance(loop, ast.For):
        is_listed = isinstance(loop.iter, ast.List | ast.Tuple)
        if is_listed or _FEW.search(" ".join(_names(loop.target, loop.iter))):
            return False
    for node in walk(loop):
        if isinstance(node, ast.Call):
            name = called_name(node)
            if name in ("backward", "manual_backward") or updates(facts, node, "?"):
                return True
    return False
