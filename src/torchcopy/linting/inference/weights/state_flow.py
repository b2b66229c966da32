"""How the state of a model is followed through one function: where it is kept, trained over, loaded and saved.

The facts that flow are the places where a live state is kept, each with whether its model was trained meanwhile.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator

from ..nodes import arguments, called_name, path_of, strip_calls, walk
from ..objects import is_no_list
from ..summaries import GIVES_ITSELF
from .comparisons import met
from .effects import cloned_in, compared_by, replaced_by
from .keepers import CONTAINERS, put_in
from .loads import loaded_by, put_into_parameters
from .module_paths import (
    given_other_tensors,
    module_path,
    parameters_behind,
    place_behind,
)
from .parameter_writes import values_behind, written_tensor
from .placed_states import PlacedStates
from .places import bound_places, entry_path, is_in, is_same_object, taken_of
from .purpose import is_copied_next
from .returned_states import is_copy
from .rounds import (
    is_of_each_round,
    loops_through_models,
)
from .states import State, Use
from .threads import SAVES, handed_to_saver
from .training import is_given_back, updates

_SWAPS = re.compile(
    r"ema_(scope|context|weights|param)|averaged?_(param|weight)|(use|apply|with|swap)_(ema|swa|avg|aver|shadow|param)"
)
_SWAPPED = re.compile(r"model|net|module|^self$")
_INTO_A_STATE = re.compile(r"(^|[._])(dcp|dist_cp|distributed\.checkpoint|dist_checkpointing)$")
_LOADS_A_STATE = re.compile(r"load_(from_)?state_dict|^(?!_*get).*model_state_dict")
_FILLS = ("load", "async_load", "load_state_dict")
_MOST_STATES = 200  # in one value: what holds more is no checkpoint
_CHANGES_DICT = ("update", "pop", "popitem", "setdefault", "clear", "move_to_end")


class KeptStates(PlacedStates):
    """Follows kept states through one function."""

    def visit(self, node: ast.AST, facts: frozenset[State]) -> frozenset[State]:
        """Notes what is called, loaded, saved and returned, and follows where states are kept."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom):
            return facts
        if self._may_compare or any(each.is_trained for each in facts):
            for each in walk(node):
                for one, other in met(each):
                    self._compared(one, other, each, facts)
                    self._compared(other, one, each, facts)
        for call in walk(node):
            if isinstance(call, ast.Call):
                facts = self._call(call, facts)
        loop = self.facts.parent(node)
        if isinstance(loop, ast.For) and loop.iter is node:
            facts = self._begun_again(loop, facts)
            for module, of in put_into_parameters(self.facts, loop):
                self._read_into(module, of, entry_path(of) or "", loop, facts, None)
            others = given_other_tensors(self.facts, loop)
            facts = frozenset(each for each in facts if not each.place or each.kept.module not in others)
        match node:
            case ast.Assign(targets=targets, value=value):
                facts = self._assigned(targets, value, facts)
            case ast.AnnAssign(target=target, value=value) if value is not None:
                facts = self._assigned([target], value, facts)
            case ast.AugAssign(target=target, op=ast.Add(), value=ast.List(elts=[value])):
                facts = self._listed(path_of(target), value, facts)
            case ast.AugAssign(target=target):
                facts = self._written(values_behind(target), node, self._without(path_of(target), facts))
            case ast.Delete(targets=targets):
                for gone in targets:
                    if isinstance(gone, ast.Name):  # what was kept of a model outlives its name
                        facts = frozenset(each for each in facts if not is_in(each.place, gone.id))
                        continue
                    facts = self._stored(gone, facts)
                    if isinstance(gone, ast.Subscript):
                        facts = self._without(entry_path(gone), facts)
            case ast.Expr(value=ast.Yield()) if self._is_entered_and_left() and not self.facts.is_without_graph(
                node
            ):
                facts = frozenset(dataclasses.replace(each, is_trained=bool(each.place)) for each in facts)
            case ast.Expr(value=ast.Yield(value=value)) if value is not None and self.facts.loops(node):
                facts = self._given_out(value, facts)
            case ast.Return(value=value) if value is not None:
                self._read_whole(value, node, "returned", facts)
            case ast.Name() | ast.Tuple() | ast.List() | ast.Attribute() | ast.withitem():
                facts = self._targets(node, facts)
        return facts

    def _begun_again(self, loop: ast.For, facts: frozenset[State]) -> frozenset[State]:
        """Where a loop begins: it may clone the entries of a state, or go through the models once more."""
        cloned = cloned_in(loop)
        return frozenset(
            dataclasses.replace(each, is_of_former_pass=True)
            if each.place and loop in loops_through_models(self.facts, each.kept)
            else each
            for each in facts
            if cloned is None or each.place != cloned
        )

    def _is_entered_and_left(self) -> bool:
        """Whether the function is a context manager, in which its caller trains at the `yield`."""
        made_by = getattr(self.scope.node, "decorator_list", ())
        is_converted = any(
            called_name(each) in ("half", "float", "bfloat16") for each in self.scope.nodes(ast.Call)
        )
        return any((path_of(each) or "").endswith("contextmanager") for each in made_by) and not is_converted

    def after_with(self, at: ast.With | ast.AsyncWith, facts: frozenset[State]) -> frozenset[State]:
        """After `with ema.average_parameters():`, which puts other weights back into the module."""
        if not any(
            _SWAPS.search((path_of(getattr(each.context_expr, "func", None)) or "").lower()) for each in at.items
        ):
            return facts
        inside = {*walk(at)}
        self.training_lines.add((at.end_lineno or 0) + 0.5)
        return frozenset(
            dataclasses.replace(each, is_trained=True)
            if each.place and each.kept.call in inside and _SWAPPED.search(each.kept.module.rpartition(".")[2])
            else each
            for each in facts
        )

    def _targets(self, node: ast.AST, facts: frozenset[State]) -> frozenset[State]:
        target = node.optional_vars if isinstance(node, ast.withitem) else node
        for each in ast.walk(target) if target is not None else ():
            if isinstance(each, ast.Name | ast.Attribute) and type(each.ctx) is ast.Store:
                facts = self._stored(each, facts)
        return facts

    def _assigned(self, targets: list[ast.expr], value: ast.expr, facts: frozenset[State]) -> frozenset[State]:
        states = [*self._states_of(value, facts)] if not is_copied_next(self.facts, targets) else []
        if len(states) > _MOST_STATES:
            states = []
        pairs = [*_parts(targets)]
        for target, _ in pairs:
            if not (is_same_object(target, value) or is_given_back(self.facts, target, value)):
                facts = self._stored(target, facts)
                if isinstance(value, ast.Call) and updates(self.facts, value, path_of(target) or ""):
                    facts = frozenset(each for each in facts if not each.is_of_former_model)  # it may train another
        for target, part in pairs:
            path = entry_path(target)
            if path is None:
                continue
            if not part and self._is_of_self(value):
                self.rebound.pop(path, None)  # another name of what the object holds
            if not _begins(value, part) or states:
                facts |= self._refilled(path.removesuffix("[*]"), target)
            if is_copy(value):
                self.copied.add(path)
            inside = [each for each in states if each.place.startswith(part)]
            made = {dataclasses.replace(each, place=path + each.place[len(part) :]) for each in inside}
            if made and path.endswith("[*]") and is_of_each_round(self.facts, target):
                self._collected(made, target, facts)
            facts |= made | self._behind_its_name(target, made)
            facts |= self._entered(target, value, facts)
        return facts

    def _is_of_self(self, value: ast.expr) -> bool:
        """Whether a value is the object, or what an attribute of it holds: `self.to(device)`, `self.model`."""
        if path_of(strip_calls(value, *GIVES_ITSELF)[0]) == self.scope.self_name:
            return True
        return self.scope.owns(place_behind(self.facts, value) or "")

    def _stored(self, target: ast.expr, facts: frozenset[State]) -> frozenset[State]:
        """After a place got another value: what it held is gone, as are the states of the module it was."""
        path = path_of(target)
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Subscript):
            target = target.value  # `state[key].data = …`
            path = path_of(target)
        if isinstance(target, ast.Attribute) and target.attr == "data":
            of = parameters_behind(self.facts, target)  # which have another tensor from now on
            facts = frozenset(each for each in facts if not each.place or each.kept.module != of)
        if path is None:
            if isinstance(target, ast.Subscript) and (base := path_of(target.value)) is not None:
                self.entered.setdefault(base, target.lineno)
                return frozenset(each for each in facts if each.place != base)  # an entry of the state is written
            return facts
        self.rebound[path] = set()
        if isinstance(target, ast.Subscript):
            base = path_of(target.value)
            facts = frozenset(each for each in facts if each.place != base)
        stale = frozenset(
            dataclasses.replace(each, is_of_former_model=True)
            for each in facts
            if each.is_trained
            and each.place
            and not is_in(each.place, path)
            and is_in(each.kept.module, path)
            and not self._is_one_of_each_round(target, each.kept.call)
        )
        return self._without(path, facts) | stale

    def _is_one_of_each_round(self, target: ast.expr, kept: ast.expr) -> bool:
        """Whether each round of a loop makes a model and keeps its state then."""
        is_in_one_loop = bool({*self.facts.loops(target)} & {*self.facts.loops(kept)})
        return is_in_one_loop and target.lineno < kept.lineno

    def _call(self, call: ast.Call, facts: frozenset[State]) -> frozenset[State]:
        name = called_name(call)
        receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
        if isinstance(receiver, ast.Name) and receiver.id == self.scope.self_name:
            self.called.add(name)
            stale = {each for each in facts if each.is_trained and self.scope.owns(each.place)}
            if stale:
                self.stale_at_call.setdefault(name, set()).update(stale)
            for since in self.rebound.values():
                since.add(name)
        if name in _FILLS and _INTO_A_STATE.search((path_of(receiver) or "").lower()):
            return self._filled(call, facts)
        if _LOADS_A_STATE.search(name):
            return self._loaded(call, receiver, facts)
        if name == "functional_call":
            self._called_with(call, facts)
        if name in SAVES and not (name == "save" and receiver is None):
            for each in arguments(call):
                self._read_whole(each, call, "saved", facts)
            return facts
        for value in handed_to_saver(self.facts, self.scope, call):
            self._saved_meanwhile(value, call, facts)
        for place in replaced_by(self.facts, call) if facts and self.into_calls else ():
            facts = self._without(place, facts)
        if name in ("cpu", "to") and facts and receiver is not None:
            facts = self._moved(call, module_path(receiver), facts)
        facts = self._kept_by_object(call, self._left_by_function(call, facts) if self.into_calls else facts)
        for place, module in compared_by(self.facts, call) if facts and self.into_calls else ():
            for state in facts:
                is_it = bool(state.place) and (is_in(state.place, place) or is_in(place, state.place))
                if is_it and state.is_trained and state.kept.module == module:
                    self._report(state, call, "compared")
        called = path_of(call.func)
        for state in facts:
            if state.is_trained and state.place == f"{called}()":  # what `partial` made puts it back
                self._report(state, call, "loaded")
        loaded: set[State] = set()
        for load in loaded_by(self.facts, call) if facts or self._may_load_own(call) else ():
            known = {one for one in facts if one.place == load.place and one.kept.module == load.module}
            loaded |= known
            for place in self._own_places(call, load.place) if not known else ():
                if not self._is_refilled(place, "", call, facts):
                    made = self._since_made(load.module)
                    self.unknown_uses.append(Use(self.facts.source.path, place, call, load.module, made))
            for state in known:
                if state.is_trained or (load.is_trained_over and not state.kept.optimizer):
                    self._report(state, call, "loaded")
        base = path_of(receiver) if receiver is not None else None
        for container, value in put_in(call):
            is_list = name not in CONTAINERS or not is_no_list(self.facts, container)
            if is_list and name != "update":
                return self._listed(path_of(container), value, facts)
        if name in _CHANGES_DICT and base is not None:
            facts = frozenset(each for each in facts if each.place != base)
            if name == "clear":
                facts = self._without(base, facts)
            if name == "pop" and not any(isinstance(getattr(each, "value", None), str) for each in call.args):
                facts = frozenset(each for each in facts if not each.place.startswith(f"{base}["))  # of a list
            if name == "update":
                is_filled = bool(call.args) and not isinstance(call.args[0], ast.Dict)
                if is_filled and not any(True for _ in self._states_of(call.args[0], facts)):
                    self.written_through.add(base)  # with the weights of another one, if only at times
                facts = self._updated(call, base, facts)
        facts = self._written(written_tensor(self.facts, call), call, facts)
        if name == "step" or facts or receiver is not None:
            facts = self._trained(call, facts, loaded)
        return facts

    def _own_places(self, call: ast.Call, place: str) -> Iterator[str]:
        """Where the object keeps what a call is given, also behind a name: `last = self.kept.pop()`."""
        for each in arguments(call):
            if is_in(place, path_of(taken_of(each)) or "?"):
                yield from (
                    one for one in bound_places(self.facts, self.scope, each, place) if self.scope.owns(one)
                )

    def _may_load_own(self, call: ast.Call) -> bool:
        """Whether a call may give what the object keeps to one that loads it: `origin.restore(self.good)`."""
        given = ((taken_of(each), path_of(taken_of(each)) or "") for each in arguments(call) if self.into_calls)
        return any(
            self.scope.owns(place)
            for each, path in given
            if path
            for place in bound_places(self.facts, self.scope, each, path)
        )


def _begins(value: ast.expr, part: str) -> bool:
    """Whether a part of a value is one that a variable begins with: `None` or `{}`."""
    if part and isinstance(value, ast.Tuple | ast.List):
        index = int(part[1:-1])
        return index < len(value.elts) and _begins(value.elts[index], "")
    return isinstance(value, ast.Constant | ast.Dict | ast.List)


def _parts(targets: list[ast.expr]) -> Iterator[tuple[ast.expr, str]]:
    """Each place that an assignment binds, with the part of the value that it gets: `[1]`, or nothing for all."""
    for target in targets:
        if isinstance(target, ast.Tuple | ast.List):
            yield from ((each, f"[{index}]") for index, each in enumerate(target.elts))
        else:
            yield target, ""
