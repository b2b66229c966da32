"""TC101: a `state_dict()` that is kept while the training goes on, and then loaded, saved or returned."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..findings import Edit, Finding, Fix
from ..inference.file_facts import FileFacts
from ..inference.nodes import called_name, method_call
from ..inference.scopes import Scope
from ..inference.weights.kept_states import Kept, unwrapped
from ..inference.weights.state_flow import KeptStates, State, Use

CODE = "TC101"
NEEDS = ("state_dict()", "state_dict(keep_vars")

_SIGNS_OF_TRAINING = ("optimizer", ".step(", "epoch", "def train", "def fit")


def check(facts: FileFacts) -> Iterator[Finding]:
    """States that were kept without a copy, and read after the model was trained."""
    flows: dict[Scope, KeptStates] = {}
    for scope in facts.functions:
        if "state_dict" in facts.source.text and scope.body:
            flow = KeptStates(facts, scope)
            flow.run(scope.body)
            flows[scope] = flow
    found: dict[ast.expr, tuple[Kept, ast.AST, str]] = {}
    for flow in flows.values():
        for call, each in flow.found.items():
            found.setdefault(call, each)
    for call, each in _across_methods(facts, flows):
        found.setdefault(call, each)
    for call, each in _in_a_given_object(flows):
        found.setdefault(call, each)
    for kept, at, role in found.values():
        yield _finding(facts, kept, at, role)


def _across_methods(
    facts: FileFacts, flows: dict[Scope, KeptStates]
) -> Iterator[tuple[ast.expr, tuple[Kept, ast.AST, str]]]:
    """States that one method keeps in an attribute, and another one, or a user of the object, loads."""
    trains = any(word in facts.source.text for word in _SIGNS_OF_TRAINING)
    for keeper, flow in flows.items():
        owner, name = keeper.owner, keeper.self_name
        if owner is None or not name:
            continue
        handed = {each.arg for each in keeper.parameters} - {name}
        for state in flow.at_exit:
            attribute = _attribute_of(state.place, name)
            module = state.kept.module
            if state.kept.is_returned and "[*]" not in state.place:
                continue  # such a method is asked at the end too
            own = [(f"{each.self_name}.", flows[each]) for each in flows if each.owner is owner]
            if keeper.name == "__init__" and any(f"{of}{attribute}" in other.copied for of, other in own):
                continue  # only what it begins with is no copy
            if any(f"{of}{state.place[len(name) + 1 :]}" in other.written_through for of, other in own):
                continue  # to be written
            if not attribute or (module in flow.rebound and not module.startswith(f"{name}.")):
                continue  # nobody trains a module later that was made here, and is no attribute
            if not trains and module.partition(".")[0] not in handed:
                continue
            for user, other in flows.items():
                same_class = user.owner is owner
                for use in other.unknown_uses:
                    if same_class:
                        matches = _is_entry(use.place, f"{user.self_name}{state.place[len(name) :]}")
                    else:
                        matches = _ends_alike(use.place, attribute) and "best" in attribute
                    if not use.is_load and (user.name in flow.called or user is keeper):
                        continue  # at once
                    if matches and _is_of(use, state, keeper.name):
                        yield state.kept.call, (state.kept, use.node, use.role)


def _in_a_given_object(flows: dict[Scope, KeptStates]) -> Iterator[tuple[ast.expr, tuple[Kept, ast.AST, str]]]:
    """States that one function keeps as the best in an object that it is given, and another one loads from it."""
    for keeper, flow in flows.items():
        given = {each.arg for each in keeper.parameters} - {keeper.self_name}
        for state in flow.at_exit:
            name, _, attribute = state.place.partition(".")
            if name not in given or "best" not in attribute or state.kept.module.partition(".")[0] not in given:
                continue
            for user, other in flows.items():
                is_given = any(each.arg == name for each in user.parameters)
                for use in other.unknown_uses:
                    same_module = use.module.rpartition(".")[2] == state.kept.module.rpartition(".")[2]
                    if user is not keeper and is_given and use.is_load and use.place == state.place and same_module:
                        yield state.kept.call, (state.kept, use.node, use.role)


def _attribute_of(place: str, self_name: str) -> str:
    """`best` of `self.best['model']`; nothing for another place."""
    if not place.startswith(f"{self_name}."):
        return ""
    return place[len(self_name) + 1 :].partition("[")[0]


def _is_entry(place: str, kept: str) -> bool:
    """Whether a place is where a state is kept, or holds it: `[*]` stands for any entry."""
    return kept == place or kept.startswith((f"{place}[", f"{place}."))


def _ends_alike(place: str, attribute: str) -> bool:
    """Whether a place outside of the class may be this attribute of one of its objects: `stopper.best_state`."""
    return place.partition("[")[0].endswith(f".{attribute}") and not place.startswith("self.")


def _is_of(use: Use, state: State, keeper: str) -> bool:
    """Whether what is loaded goes into a module of the same name, which the user has not made anew."""
    if not use.is_load:
        return "best" in use.place
    if use.since_made is not None and keeper not in use.since_made:
        return False
    whole = f"{use.module}." if "." not in use.module else ""  # `self.load_state_dict(…)` loads `self.model` too
    is_part = bool(whole) and state.kept.is_returned and state.kept.module.startswith(whole)
    return is_part or use.module.rpartition(".")[2] == state.kept.module.rpartition(".")[2]


def _finding(facts: FileFacts, kept: Kept, at: ast.AST, role: str) -> Finding:
    line = getattr(at, "lineno", 0)
    what = "optimizer" if kept.optimizer else "model"
    if kept.copied_on_gpu:
        message = (
            f"this state of `{kept.module}` is copied where the {what} is on a GPU; on the CPU its tensors are "
            f"the {what}'s own, which the training changes until it is {role} in line {line}; clone the values"
        )
    else:
        message = (
            f"the tensors of this state are those of `{kept.module}`, which the training changes until it is "
            f"{role} in line {line}; clone the values, or keep a `copy.deepcopy`"
        )
    also = [(f"{role} here", line)]
    if kept.taken is not None:
        also.append(("taken here", kept.taken.lineno))
    return facts.source.finding(CODE, message, kept.call, fix=_fix(facts, kept), also=also)


def _fix(facts: FileFacts, kept: Kept) -> Fix | None:
    """Clones the values, so that what is loaded is what was kept: other numbers than those of the mistake."""
    source, call = facts.source, kept.call
    if kept.optimizer or kept.alias or kept.is_returned:
        return None
    if isinstance(call, ast.DictComp):
        value = call.value
        if not isinstance(value, ast.Name | ast.Attribute | ast.Call):
            return None
        if isinstance(value, ast.Call) and called_name(value) == "numpy":
            return None
        edits = (Edit(source.end(value), source.end(value), ".clone()"),)
    else:
        state = call
        while method_call(state, "state_dict") is None:
            inner = unwrapped(facts, state)
            if inner is None:
                return None
            state = inner
        edits = (source.replace(call, f"{{k: v.clone() for k, v in {source.segment(state)}.items()}}"),)
    return Fix(edits, safe=False, note="what is loaded is what was kept")
