"""Where states are put: lists, entries, objects of the project, and what called functions leave kept."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator

from ..nodes import arguments, method_call, path_of, root_name, root_of
from .devices import is_on_gpu
from .effects import left_by
from .keepers import kept_by_method
from .kept import Kept
from .kept_states import kept_in
from .module_paths import module_path
from .places import (
    copied_entry,
    entry_path,
    is_in,
)
from .purpose import OF_BEFORE, is_only_filled, is_rewritten
from .rounds import (
    ROUNDS,
    SIGNS_OF_TRAINING,
    is_in_last_round,
)
from .states import TRAINED, State
from .trained_states import IN_THE_MIDST, TrainedStates

_YIELDED = "yield"  # a place that no source can write


class PlacedStates(TrainedStates):
    """Follows states into containers and objects; assignments and the rest of the statements are the subclass's."""

    def _states_of(self, value: ast.expr, facts: frozenset[State]) -> Iterator[State]:
        """The states in a value, their places being suffixes."""
        for kept in kept_in(self.facts, value):
            if kept.alias:
                for state in facts:
                    inside = _inside(state.place, kept.alias)
                    if inside is not None:
                        moved = state.kept.copied_on_gpu or kept.copied_on_gpu
                        known = dataclasses.replace(state.kept, copied_on_gpu=moved)
                        is_older = state.was_named_older or OF_BEFORE.search(state.place.lower()) is not None
                        place = kept.suffix + inside
                        yield dataclasses.replace(state, place=place, kept=known, was_named_older=is_older)
            elif is_in_last_round(self.facts, kept.call):
                continue
            elif not kept.optimizer or TRAINED in facts or self._has_moments():
                yield State(kept.suffix, kept)

    def _has_moments(self) -> bool:
        """Whether a method is one that runs in the midst of a training, so that an optimizer has its moments."""
        is_told = any(each.arg in ROUNDS for each in self.scope.parameters)
        return bool(self.scope.self_name) and (is_told or bool(IN_THE_MIDST.search(self.scope.name)))

    def _without(self, path: str | None, facts: frozenset[State]) -> frozenset[State]:
        if path is None:
            return facts
        return frozenset(
            each for each in facts if not is_in(each.place, path) and not is_in(each.kept.module or "?", path)
        )

    def _listed(self, base: str | None, value: ast.expr, facts: frozenset[State]) -> frozenset[State]:
        """After `kept.append(value)`, or `kept += [value]`."""
        if base is None:
            return facts
        states = {*self._states_of(value, facts)}
        made = {dataclasses.replace(each, place=f"{base}[*]{each.place}") for each in states}
        self._collected(made, value, facts)
        return facts | made

    def _collected(self, made: set[State], at: ast.AST, facts: frozenset[State]) -> None:
        """After each round of a training has put its state beside those of the rounds before: all are one."""
        for each in made:
            before = dataclasses.replace(each, is_trained=True)
            if each.kept.copied_on_gpu and is_on_gpu(self.facts, self.scope, each.kept.module):
                continue
            if is_only_filled(self.facts, self.scope, each.place.partition("[")[0]):
                continue
            if "[*]" not in each.kept.module and before in facts:  # else each round has a model of its own
                self.found.setdefault(each.kept.taking, (each.kept, at, "kept beside the next one"))

    def _given_out(self, value: ast.expr, facts: frozenset[State]) -> frozenset[State]:
        """After a generator has yielded a state, in each round of a loop that trains its model meanwhile."""
        for state in self._states_of(value, facts):
            made = dataclasses.replace(state, place=f"{_YIELDED}{state.place}")
            if dataclasses.replace(made, is_trained=True) in facts and "[*]" not in state.kept.module:
                self.yielded.setdefault(state.kept.call, (state.kept, state.place))
            facts |= {made}
        return facts

    def _left_by_function(self, call: ast.Call, facts: frozenset[State]) -> frozenset[State]:
        """After `note_score(progress, model)`, which keeps the state of the one in the other."""
        for state, is_sure in left_by(self.facts, self.scope, call):
            if "[*]" in state.place:
                self._collected({state}, call, facts)
            elif is_sure:
                facts = self._without(state.place, facts)
            facts |= {state}
        return facts

    def _kept_by_object(self, call: ast.Call, facts: frozenset[State]) -> frozenset[State]:
        """After `stopper.update(loss, model.state_dict())`, where that method keeps the state in `stopper.best`."""
        for keeping in kept_by_method(self.facts, call):
            made = {
                dataclasses.replace(each, place=f"{keeping.place}{each.place}")
                for each in self._states_of(keeping.value, facts)
            }
            if made and keeping.is_sure:
                facts = self._without(keeping.place, facts)
            if "[*]" in keeping.place:
                self._collected(made, call, facts)
            facts |= made
        return facts

    def _filled(self, call: ast.Call, facts: frozenset[State]) -> frozenset[State]:
        """After `torch.distributed.checkpoint.load(state)`: what it was given is written on purpose."""
        filled = {path for each in arguments(call) if (path := path_of(each)) is not None}
        return frozenset(each for each in facts if not any(is_in(each.place, one) for one in filled))

    def _updated(self, call: ast.Call, base: str, facts: frozenset[State]) -> frozenset[State]:
        """After `best.update(model=m.state_dict())`: as after `best["model"] = m.state_dict()`."""
        given = [(f"[{each.arg!r}]", each.value) for each in call.keywords if each.arg]
        if len(call.args) == 1 and isinstance(call.args[0], ast.Dict):
            given += [
                (f"[{key.value!r}]", value)
                for key, value in zip(call.args[0].keys, call.args[0].values, strict=True)
                if isinstance(key, ast.Constant)
            ]
        for suffix, value in given:
            states = [*self._states_of(value, facts)]
            facts = self._without(f"{base}{suffix}", facts)
            for state in states:
                made = dataclasses.replace(state, place=f"{base}{suffix}{state.place}")
                facts |= {made}
        return facts

    def _saved_meanwhile(self, value: ast.expr, call: ast.Call, facts: frozenset[State]) -> None:
        """After a state was given to a thread that saves it, in the midst of a training."""
        for state in self._states_of(value, facts):
            root = root_name(state.kept.module)
            bound = self.scope.bindings.get(root, ())
            is_given = root == self.scope.self_name or any(each.how == "parameter" for each in bound)
            is_on = is_given and any(each in self.facts.source.text for each in SIGNS_OF_TRAINING)
            is_on = is_on and not self._trains_in_a_loop
            if is_on or (self.facts.loops(call) and (TRAINED in facts or state.is_trained)):
                self.found.setdefault(state.kept.taking, (state.kept, call, "saved by a thread"))

    def _behind_its_name(self, target: ast.expr, made: set[State]) -> set[State]:
        """The states that go into an entry of an attribute: `slot["net"] = …`, where `slot = self.bests[name]`."""
        root = root_of(target)
        bound = self.facts.bindings(root) if made and root is not target and isinstance(root, ast.Name) else []
        places = [entry_path(each.value) for each in bound if isinstance(each.value, ast.Subscript)]
        if len(places) != 1 or len(bound) != 1 or not places[0] or not isinstance(root, ast.Name):
            return set()
        return {
            dataclasses.replace(each, place=f"{places[0]}{each.place[len(root.id) :]}")
            for each in made
            if each.place.startswith(root.id)
        }

    def _entered(self, target: ast.expr, value: ast.expr, facts: frozenset[State]) -> set[State]:
        """The state that a dict becomes, into which a loop puts the entries of one: `best[key] = value`."""
        entry = copied_entry(self.facts, target, value)
        whole = path_of(target.value) if isinstance(target, ast.Subscript) else None
        states = [*self._states_of(entry, facts)] if entry is not None else []
        of = method_call(entry, "named_parameters")
        if of is not None and whole is not None and not is_rewritten(self.scope, whole):
            states = [State("", Kept("", module_path(of) or "", value))]  # `old[name] = p.data`
        if whole is None or not states:
            return set()
        if isinstance(value, ast.Attribute) and value.attr == "data":  # of parameters that train on
            states = [
                State(each.place, Kept("", each.kept.module, value)) if _are_parameters(each.kept) else each
                for each in states
            ]
        self.entered.pop(whole, None)
        return {dataclasses.replace(each, place=whole) for each in states}


def _are_parameters(kept: Kept) -> bool:
    """Whether what is kept are the parameters as they are: `{n: p for n, p in net.named_parameters()}`."""
    return isinstance(kept.call, ast.DictComp) and isinstance(kept.call.value, ast.Name)


def _inside(place: str, outer: str) -> str | None:
    """Where a place is inside of another, `kept[*]` being any entry of `kept`; nothing where it is elsewhere."""
    if is_in(place, outer):
        return place[len(outer) :]
    base = outer.removesuffix("[*]")
    if base == outer or not place.startswith(f"{base}['"):
        return None
    return place[len(base) :].partition("]")[2]
