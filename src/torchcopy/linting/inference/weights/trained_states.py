"""Which of the states that are kept in a function were trained since: what changes their model in place."""

from __future__ import annotations

import ast
import dataclasses
import functools
import re
from collections.abc import Iterator

from ..nodes import arguments, called_name, method_call, path_of
from ..summaries import is_optimizer_step, takes_steps
from .parameter_writes import writes_given, written_place
from .places import is_in, names_of_element
from .rounds import (
    ROUNDS,
    is_one_of_each_round,
)
from .state_uses import StateUses
from .states import TRAINED, State
from .training import updates

IN_THE_MIDST = re.compile(
    r"epoch|batch|step|update|backup|snapshot|save_best|improve|valid|after|good|push|remember"
)

_PUTS_BACK = re.compile(r"restore|revert|put_back|swap_back|undo|reset")


class TrainedStates(StateUses):
    """Marks the states whose model a statement trains; what is done with them says the base class."""

    def _trained(self, call: ast.Call, facts: frozenset[State], loaded: set[State]) -> frozenset[State]:
        modules = {each.kept.module for each in facts if each.place and not each.is_trained}
        modules -= {*self._given_by_their_state(call, facts)}
        trained = {module for module in modules if self._updates(call, module)}
        put_back = {each for each in facts if each.place and not each.is_trained and self._puts_back(call, each)}
        if trained or put_back:
            self.training_lines.add(call.lineno)
            changed = {
                each
                for each in facts
                if not each.is_trained
                and (each.kept.module in trained or each in put_back)
                and each not in loaded
                and (each.is_of_former_pass or not is_one_of_each_round(self.facts, each.kept, call))
            }
            facts = (facts - changed) | {dataclasses.replace(each, is_trained=True) for each in changed}
        if TRAINED not in facts and self._steps(call):
            facts |= {TRAINED}
        return facts

    def _updates(self, call: ast.Call, module: str) -> bool:
        """Whether a call trains a module, which it may know as the element of a container."""
        names = (module, *names_of_element(self.facts, call, module))
        return any(updates(self.facts, call, each) for each in names)

    def _puts_back(self, call: ast.Call, state: State) -> bool:
        """Whether a call writes other weights over those of a state, which had been put in for a while.

        That is `ema.restore(net.parameters())` behind `ema.copy_to(net.parameters())`, the state kept in between.
        """
        module, kept_at = state.kept.module, state.kept.call
        if not self._writes_into(call, module) or not _PUTS_BACK.search(called_name(call)):
            return False
        owner = path_of(call.func.value) if isinstance(call.func, ast.Attribute) else None
        before = [
            each
            for each in self.scope.nodes(ast.Call)
            if isinstance(each.func, ast.Attribute)
            and path_of(each.func.value) == owner
            and each.lineno < call.lineno
            and self.facts.loops(each) == self.facts.loops(call)
            and self._writes_into(each, module)
        ]
        last = max(before, key=lambda each: each.lineno, default=None)
        return last is not None and last.lineno < kept_at.lineno and not _PUTS_BACK.search(called_name(last))

    def _writes_into(self, call: ast.Call, module: str) -> bool:
        found = self.facts.definition(call.func) if isinstance(call.func, ast.Attribute) else None
        return found is not None and writes_given(call, found, module)

    def _given_by_their_state(self, call: ast.Call, facts: frozenset[State]) -> Iterator[str]:
        """The modules whose state alone a function is given: it trains a model of its own, which begins so."""
        given = {path for each in arguments(call) if (path := path_of(each)) is not None}
        of = call.func.value if isinstance(call.func, ast.Attribute) else None
        owner = path_of(of)
        if self.facts.definition(call.func) is not None or any("opt" in each.lower() for each in given):
            return
        made = [each.value for each in self.facts.bindings(of)] if isinstance(of, ast.Name) else []
        of_owner = {path_of(one) for each in made if isinstance(each, ast.Call) for one in arguments(each)}
        for each in facts:
            module = each.kept.module
            is_given = bool(each.place) and any(is_in(each.place, one) for one in given)
            if is_given and module not in given | of_owner and not (owner and is_in(module, owner)):
                yield module

    def _steps(self, call: ast.Call) -> bool:
        """Whether an optimizer takes a step: here, or in another method of the object."""
        if called_name(call) == "step":
            return updates(self.facts, call, "?")
        if not isinstance(call.func, ast.Attribute) or path_of(call.func.value) != self.scope.self_name:
            return False
        return self._calls_what_steps(call)

    def _calls_what_steps(self, call: ast.Call) -> bool:
        found = self.facts.definition(call.func)
        return takes_steps(found)

    @functools.cached_property
    def _trains_in_a_loop(self) -> bool:
        """Whether the function is the whole training, which is over behind its loop, and not one epoch of it."""
        if IN_THE_MIDST.search(self.scope.name) or any(each.arg in ROUNDS for each in self.scope.parameters):
            return False
        return any(
            self.facts.loops(each) and (is_optimizer_step(self.facts, each) or self._calls_what_steps(each))
            for each in self.scope.nodes(ast.Call)
        )

    def _written(self, tensor: ast.expr | None, at: ast.AST, facts: frozenset[State]) -> frozenset[State]:
        """After a write in place: of a parameter it trains; of an entry of the state it is the purpose."""
        if tensor is None:
            return facts
        place = written_place(self.facts, tensor)
        if place is not None:
            return self._trained_by_writing(place, at, facts)
        root: ast.expr = tensor
        while isinstance(root, ast.Attribute | ast.Subscript | ast.Call):
            root = root.func if isinstance(root, ast.Call) else root.value
        for bound in self.facts.bindings(root) if isinstance(root, ast.Name) else ():
            if bound.how == "value" and isinstance(bound.value, ast.Subscript):  # `entry = state[key]`
                of = path_of(bound.value.value)
                self.written_through |= {of} if of is not None else set()
                facts = frozenset(each for each in facts if each.place != of)
            if bound.how == "element" and bound.value is not None:
                iterated = method_call(bound.value, "items", "values")
                place = path_of(iterated if iterated is not None else bound.value)
                facts = frozenset(each for each in facts if each.place != place)
        path = path_of(tensor)
        base = path_of(tensor.value) if isinstance(tensor, ast.Subscript) else None
        if base is not None and any(each.place == base for each in facts):
            self.written_through.add(base)
        return frozenset(each for each in facts if each.place not in (path, base) or not each.place)

    def _trained_by_writing(self, place: str, at: ast.AST, facts: frozenset[State]) -> frozenset[State]:
        """After parameters were written that are not other ones than those of the states."""
        changed = {
            each
            for each in facts
            if each.place
            and not each.is_trained
            and (is_in(each.kept.module, place) or self._is_one_of(each, place, at))
        }
        if changed:
            self.training_lines.add(getattr(at, "lineno", 0))
        return (facts - changed) | {dataclasses.replace(each, is_trained=True) for each in changed}

    def _is_one_of(self, state: State, place: str, at: ast.AST) -> bool:
        """Whether a parameter is of the module of a state, and not put in since: `net.fc = nn.Linear(…)`."""
        module = state.kept.module
        if not is_in(place, module) or "[*]" in module:  # of which element?
            return False
        since = range(state.kept.call.lineno, getattr(at, "lineno", 0) + 1)
        put_in = (
            (path_of(target) or "").removesuffix(".data")
            for each in self.scope.nodes(ast.Assign)
            if each.lineno in since
            for target in each.targets
        )
        return not any(path != module and is_in(path, module) and is_in(place, path) for path in put_in)

    def _moved(self, call: ast.Call, module: str | None, facts: frozenset[State]) -> frozenset[State]:
        """After `model.cpu()` or `model.to("cpu")`: what was kept on a GPU stays there, which the message tells."""
        is_to_host = called_name(call) == "cpu" or any(
            isinstance(each, ast.Constant) and each.value == "cpu" for each in call.args
        )
        if not is_to_host or module is None:
            return facts
        return frozenset(
            dataclasses.replace(each, kept=dataclasses.replace(each.kept, copied_on_gpu=True))
            if each.place and each.kept.module == module and not each.is_trained
            else each
            for each in facts
        )
