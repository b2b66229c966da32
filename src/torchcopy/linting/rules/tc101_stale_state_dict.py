"""TC101: a `state_dict()` that is kept while the training goes on, and then loaded, saved or returned."""

from __future__ import annotations

import ast
import dataclasses
import os
from collections.abc import Iterator

from ..findings import Edit, Finding, Fix
from ..inference.file_facts import FileFacts
from ..inference.nodes import called_name, method_call
from ..inference.scopes import Scope
from ..inference.weights.across_functions import across_functions, flow_of
from ..inference.weights.kept import Kept
from ..inference.weights.kept_by_callers import kept_by_callers
from ..inference.weights.kept_for_others import kept_for_others
from ..inference.weights.kept_states import unwrapped
from ..inference.weights.state_flow import KeptStates
from ..inference.weights.states import State, Use

CODE = "TC101"
GIVES_WAY_TO = ("TC109",)  # of averages that begin as the parameters, it tells where they are written
NEEDS = (
    "state_dict()",
    "state_dict(keep_vars",
    "load_state_dict(",
    "named_parameters()",
    "parameters()]",
    "parameters() if ",
    "params]",
    *(f"{word}(" for word in ("snapshot", "get_weights", "get_params", "get_parameters", "get_state", "backup")),
    *(f"{word}(" for word in ("get_model_params", "get_model_weights", "get_model_state", "save_state")),
)
"""What takes a state, and names of methods of other files that often hand one out."""


_MEANWHILE = {
    "kept beside the next one": "in each round: all that is kept is the last one",
    "saved by a thread": "while a thread saves them",
    "kept for others": "before anything reads it as the best one",
}


def check(facts: FileFacts) -> Iterator[Finding]:
    """States that were kept without a copy, and read after the model was trained."""
    flows: dict[Scope, KeptStates] = {}
    for scope in facts.functions:
        if scope.body:
            flows[scope] = flow_of(facts, scope)
    found: dict[ast.expr, tuple[Kept, ast.AST, str, str]] = {}
    taken: dict[ast.expr, set[int]] = {}
    here = (each for flow in flows.values() for each in flow.found.values())
    told = [
        (*each, facts.source.path) for each in sorted(here, key=lambda each: each[0].order)
    ]  # of what one call gives the model is named
    across = sorted(across_functions(facts, flows), key=lambda each: _order(facts, *each))
    told += [(state.kept, use.node, use.role, use.path) for state, use in across]
    told += [
        (kept, call, "kept beside the next one", facts.source.path) for kept, call in kept_by_callers(facts, flows)
    ]
    others = sorted(kept_for_others(facts, flows), key=lambda each: (each.kept.call.lineno, each.kept.order))
    told += [(each.kept, each.kept.call, "kept for others", facts.source.path) for each in others]
    for one, at, role, path in told:
        kept = _where_it_is_mended(one)
        found.setdefault(kept.call, (kept, at, role, path))
        if kept.taken is not None:
            taken.setdefault(kept.call, set()).add(kept.taken.lineno)
    for call, (kept, at, role, path) in found.items():
        yield _finding(facts, kept, at, role, path, sorted(taken.get(call, ())))


def _where_it_is_mended(kept: Kept) -> Kept:
    """A state that a function of this file leaves in an object is cloned where that function takes it."""
    if not kept.is_left or kept.taken is None:
        return kept
    return dataclasses.replace(kept, call=kept.taken, taken=None)


def _order(facts: FileFacts, state: State, use: Use) -> tuple[bool, str, int, tuple[bool, str, str, bool, int]]:
    """Which of several uses is told: the first one of this file, in each run."""
    return use.path != facts.source.path, use.path, getattr(use.node, "lineno", 0), state.kept.order


def _finding(facts: FileFacts, kept: Kept, at: ast.AST, role: str, path: str, taken: list[int]) -> Finding:
    line = getattr(at, "lineno", 0)
    is_here = path == facts.source.path
    where = f"line {line}" if is_here else f"{os.path.basename(path)}:{line}"
    what = "optimizer" if kept.optimizer else "model"
    whose = f"`{kept.module}`" + (f", as {kept.taken_elsewhere} takes them" if kept.taken_elsewhere else "")
    meanwhile = _MEANWHILE.get(role, f"until it is {role} in {where}")
    if kept.copied_on_gpu:
        message = (
            f"this state of `{kept.module}` is copied where the {what} is on a GPU; on the CPU its tensors are "
            f"the {what}'s own, which the training changes {meanwhile}; clone the values"
        )
    else:
        message = (
            f"the tensors of this state are those of {whose}, which the training changes "
            f"{meanwhile}; clone the values, or keep a `copy.deepcopy`"
        )
    also = [(f"{role} here", line)] if is_here and at is not kept.call else []
    also += [("taken here", each) for each in taken]
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
