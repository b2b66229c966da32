"""TC109: a second name, a shallow copy or a list of parameters, kept as if it had values of its own.

Each is followed to where the module is trained and what was kept is read; a name says that it was to be kept.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ..findings import Edit, Finding, Fix
from ..inference.file_facts import FileFacts
from ..inference.nodes import called_name, path_of, strip_calls
from ..inference.scopes import Scope
from ..inference.weights.averages import shared_averages
from ..inference.weights.models_of_rounds import models_of_rounds
from ..inference.weights.shared_parameters import SharedParameters, kept_places, last_name, shared_by
from ..inference.weights.things import is_module

CODE = "TC109"
NEEDS = (
    "copy.copy(",
    "target",
    "teacher",
    "best_",
    "parameters(",
    ".append(model",
    ".append(net",
    "] = model",
    "] = net",
)

_OLDER = ("old_", "prev_", "previous_", "past_")
_TARGET = re.compile(r"(^|_)target(_|$)|^target|_target$|_tgt$")
_SHARED_WITH = re.compile(r"source|src")  # an encoder for both
_TEACHER, _STUDENT = re.compile(r"teacher"), re.compile(r"student")
_SIGNS_OF_TRAINING = ("optimizer", ".step(", ".backward(", "load_state_dict(")


def check(facts: FileFacts) -> Iterator[Finding]:
    """Shallow copies, second names and lists of modules or their parameters, that were to keep values."""
    text = facts.source.text
    told: set[ast.AST] = set()
    for scope in facts.functions:
        if scope.body and any(_may_share(facts, node) for node in scope.nodes(ast.Assign)):
            flow = SharedParameters(facts, scope)
            flow.run(scope.body)
            for shared, read in flow.found.values():
                line = getattr(read, "lineno", 0)
                told |= {*ast.walk(shared.node)}
                yield facts.source.finding(
                    CODE,
                    f"`{shared.place}` is {shared.what}: after the training its values in line {line} are the new "
                    "ones; keep a copy",
                    shared.node,
                    also=[("read here", line)],
                )
        yield from _kept_in_rounds(facts, scope)
    if "copy.copy(" in text:
        yield from _shallow_modules(facts)
    if "parameters(" in text:
        yield from _averages(facts, told)
    if any(word in text for word in _SIGNS_OF_TRAINING):
        if "target" in text or "teacher" in text:
            yield from _targets(facts)
        if any(word in text for word in _OLDER):
            yield from _older_ones(facts)


def _kept_in_rounds(facts: FileFacts, scope: Scope) -> Iterator[Finding]:
    """`models.append(model)` in each epoch, and behind the loop `models[best]`."""
    for each in models_of_rounds(facts, scope):
        yield facts.source.finding(
            CODE,
            f"`{each.place}` keeps `{each.module}` itself, round by round: all are the one that is trained; keep "
            f"`copy.deepcopy({each.module})`",
            each.node,
            also=[("read here", each.read.lineno)],
        )


def _averages(facts: FileFacts, told: set[ast.AST]) -> Iterator[Finding]:
    """`self.shadow = {n: p.data for n, p in model.named_parameters()}`, then `self.shadow[n].mul_(decay)`."""
    for each in shared_averages(facts):
        if each.node in told:
            continue
        line = each.written.lineno
        where = ", unless that is on another device or of another type" if each.is_moved else ""
        yield facts.source.finding(
            CODE,
            f"`{each.place}` holds the parameters of `{each.module}` themselves{where}: the average of line {line} "
            "is written into them; begin with `.clone()` of each",
            each.node,
            fix=_begun_with_copies(facts, each.node),
            also=[("written here", line)],
        )


def _begun_with_copies(facts: FileFacts, tensor: ast.expr) -> Fix:
    """`.clone()` behind the tensor that is kept, a name with attributes and calls."""
    end = facts.source.end(tensor)
    return Fix((Edit(end, end, ".clone()"),), safe=False, note="the average no longer writes into the parameters")


def _may_share(facts: FileFacts, node: ast.Assign) -> bool:
    return any(shared_by(facts, place, value) is not None for place, value in kept_places(node))


def _shallow_modules(facts: FileFacts) -> Iterator[Finding]:
    """`self.target = copy.copy(model)`: the same parameters, whichever method trains them."""
    if not any(word in facts.source.text for word in _SIGNS_OF_TRAINING):
        return
    for scope in facts.functions:
        for call in scope.nodes(ast.Call):
            if facts.resolve(call.func) != "copy.copy" or len(call.args) != 1:
                continue
            module = path_of(call.args[0])
            above = facts.parent(call)
            if module is None or not isinstance(above, ast.Assign) or not is_module(facts, call.args[0], module):
                continue
            place = path_of(above.targets[0])
            if place is None or "." not in place or _gets_own_parameters(scope, place):
                continue
            yield facts.source.finding(
                CODE,
                f"`copy.copy` makes a second module around the parameters of `{module}`: both are trained; "
                f"`copy.deepcopy({module})` has its own",
                call,
            )


def _gets_own_parameters(scope: Scope, place: str) -> bool:
    """Whether parameters, or the tables of them, are put into the copy."""
    for node in scope.nodes(ast.Attribute):
        if node.attr in ("_parameters", "_modules", "_buffers", "__dict__") and path_of(node.value) == place:
            return True
    return any(
        type(node.ctx) is ast.Store and path_of(node.value) == place for node in scope.nodes(ast.Attribute)
    ) or any(
        called_name(call) in ("setattr", "__setattr__", "register_parameter") and place in map(path_of, call.args)
        for call in scope.nodes(ast.Call)
    )


def _targets(facts: FileFacts) -> Iterator[Finding]:
    """`self.target_net = self.q_net`: the target network is the network that is trained."""
    for scope in facts.functions:
        for node in scope.nodes(ast.Assign):
            value = strip_calls(node.value, "eval")[0]
            place, module = path_of(node.targets[0]), path_of(value)
            if place is None or module is None:
                continue
            is_teacher = (
                _TEACHER.search(last_name(place)) is not None and _STUDENT.search(last_name(module)) is not None
            )
            if not (_TARGET.search(last_name(place)) or is_teacher):
                continue
            if _is_made_anew(facts, scope, node, module) or _SHARED_WITH.search(last_name(module)):
                continue
            if _TARGET.search(last_name(module)) or not _is_network_name(last_name(place)):
                continue
            if facts.kind_of(value).name != "module":
                continue
            bound = facts.bindings_of_path(scope, place)
            others = [each.value for each in bound if not _is_none(each.value)]
            is_only = len(others) == 1 or all(path_of(each) == module for each in others)
            if is_only and _is_synchronised(facts, place):
                yield facts.source.finding(
                    CODE,
                    f"`{place}` is a second name of `{module}` and is trained with it; "
                    f"a {'teacher' if is_teacher else 'target network'} is a copy: `copy.deepcopy({module})`",
                    node.value,
                )


def _older_ones(facts: FileFacts) -> Iterator[Finding]:
    """`self.old_net = self.net` behind a task, which the next one asks while it trains `self.net`."""
    for scope in facts.functions:
        for node in scope.nodes(ast.Assign) if scope.self_name and scope.name != "__init__" else ():
            place, module = path_of(node.targets[0]) or "", path_of(node.value) or ""
            is_pair = any(place == module.replace(".", f".{word}", 1) for word in _OLDER)
            if not (is_pair and scope.owns(module) and is_module(facts, node.value, module)):
                continue
            made_in = {facts.scope_of(each.node).name for each in facts.bindings_of_path(scope, module)}
            kept = [each for each in facts.bindings_of_path(scope, place) if not _is_none(each.value)]
            if made_in == {"__init__"} and len(kept) == 1 and _is_called(facts, place):
                yield facts.source.finding(
                    CODE,
                    f"`{place}` is a second name of `{module}` and is trained with it; an older one is a copy: "
                    f"`copy.deepcopy({module})`",
                    node.value,
                )


def _is_called(facts: FileFacts, place: str) -> bool:
    return any(path_of(each.func) == place for each in facts.calls_by_name.get(place.rpartition(".")[2], ()))


def _is_made_anew(facts: FileFacts, scope: Scope, node: ast.Assign, module: str) -> bool:
    """Whether the module is made anew, next or in each round of a loop: its second name is of an older one."""
    around, bound = {*facts.loops(node)}, facts.bindings_of_path(scope, module)
    is_next = any(facts.scope_of(each.node) is scope and each.node.lineno > node.lineno for each in bound)  # type: ignore[attr-defined]
    return is_next or any(around & {*facts.loops(each.node)} for each in bound)


def _is_network_name(name: str) -> bool:
    return bool(re.search(r"net|model|critic|actor|policy|_q|q_|encoder|value|teacher", name)) or name == "target"


def _is_none(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_synchronised(facts: FileFacts, place: str) -> bool:
    """Whether the target is evaluated, or at times given the values of the other: it is meant to be behind."""
    for scope in facts.functions:
        for call in scope.nodes(ast.Call):
            if path_of(call.func) == place:
                return True
            if called_name(call) == "load_state_dict" and path_of(getattr(call.func, "value", None)) == place:
                return True
    return False
