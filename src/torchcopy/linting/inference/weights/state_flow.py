"""How the state of a model is followed through one function: where it is kept, trained over, loaded and saved.

The facts that flow are the places where a live state is kept, each with whether its model was trained meanwhile.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import re
from collections.abc import Iterator

from ..nodes import arguments, called_name, method_call, path_of, root_name, root_of, strip_calls, walk
from ..objects import is_no_list
from ..summaries import GIVES_ITSELF, is_optimizer_step
from .comparisons import met
from .effects import cloned_in, compared_by, left_by, replaced_by
from .keepers import CONTAINERS, kept_by_method, put_in
from .kept_states import Kept, is_copy, kept_in
from .loads import loaded_by, put_into_parameters
from .places import (
    bound_places,
    copied_entry,
    entry_path,
    is_in,
    is_same_object,
    names_of_element,
    owner_of,
    parameters_behind,
    taken_of,
)
from .purpose import OF_BEFORE, is_copied_next, is_only_filled, is_rewritten
from .rounds import (
    ROUNDS,
    SIGNS_OF_TRAINING,
    is_in_last_round,
    is_of_each_round,
    is_one_of_each_round,
    loops_through_models,
)
from .state_uses import StateUses
from .states import TRAINED, State, Use
from .threads import SAVES, handed_to_saver
from .training import is_given_back, module_path, place_behind, updates

_IN_THE_MIDST = re.compile(
    r"epoch|batch|step|update|backup|snapshot|save_best|improve|valid|after|good|push|remember"
)
_SWAPS = re.compile(
    r"ema_(scope|context|weights|param)|averaged?_(param|weight)|(use|apply|with|swap)_(ema|swa|avg|aver|shadow|param)"
)
_SWAPPED = re.compile(r"model|net|module|^self$")
_INTO_A_STATE = re.compile(r"(^|[._])(dcp|dist_cp|distributed\.checkpoint|dist_checkpointing)$")
_LOADS_A_STATE = re.compile(r"load_(from_)?state_dict|^(?!_*get).*model_state_dict")
_FILLS = ("load", "async_load", "load_state_dict")
_YIELDED = "yield"  # a place that no source can write
_MOST_STATES = 200  # in one value: what holds more is no checkpoint
_CHANGES_DICT = ("update", "pop", "popitem", "setdefault", "clear", "move_to_end")


class KeptStates(StateUses):
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
        match node:
            case ast.Assign(targets=targets, value=value):
                facts = self._assigned(targets, value, facts)
            case ast.AnnAssign(target=target, value=value) if value is not None:
                facts = self._assigned([target], value, facts)
            case ast.AugAssign(target=target, op=ast.Add(), value=ast.List(elts=[value])):
                facts = self._listed(path_of(target), value, facts)
            case ast.AugAssign(target=target):
                facts = self._written(target, self._without(path_of(target), facts))
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

    def _given_out(self, value: ast.expr, facts: frozenset[State]) -> frozenset[State]:
        """After a generator has yielded a state, in each round of a loop that trains its model meanwhile."""
        for state in self._states_of(value, facts):
            made = dataclasses.replace(state, place=f"{_YIELDED}{state.place}")
            if dataclasses.replace(made, is_trained=True) in facts and "[*]" not in state.kept.module:
                self.yielded.setdefault(state.kept.call, state.kept)
            facts |= {made}
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
        self.entered.pop(whole, None)
        return {dataclasses.replace(each, place=whole) for each in states}

    def _is_of_self(self, value: ast.expr) -> bool:
        """Whether a value is the object, or what an attribute of it holds: `self.to(device)`, `self.model`."""
        if path_of(strip_calls(value, *GIVES_ITSELF)[0]) == self.scope.self_name:
            return True
        return self.scope.owns(place_behind(self.facts, value) or "")

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
        return bool(self.scope.self_name) and (is_told or bool(_IN_THE_MIDST.search(self.scope.name)))

    def _stored(self, target: ast.expr, facts: frozenset[State]) -> frozenset[State]:
        """After a place got another value: what it held is gone, as are the states of the module it was."""
        path = path_of(target)
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Subscript):
            target = target.value  # `state[key].data = …`
            path = path_of(target)
        if isinstance(target, ast.Attribute) and target.attr == "data":
            of = parameters_behind(self.facts, target)  # which has another tensor from now on
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

    def _without(self, path: str | None, facts: frozenset[State]) -> frozenset[State]:
        if path is None:
            return facts
        return frozenset(
            each for each in facts if not is_in(each.place, path) and not is_in(each.kept.module or "?", path)
        )

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
                if state.place and is_in(state.place, place) and state.is_trained and state.kept.module == module:
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
        if name.endswith("_") and not name.endswith("__") and receiver is not None:
            facts = self._written(receiver, facts)
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
            if is_only_filled(self.facts, self.scope, each.place.partition("[")[0]):
                continue
            if "[*]" not in each.kept.module and before in facts:  # else each round has a model of its own
                self.found.setdefault(each.kept.taking, (each.kept, at, "kept beside the next one"))

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

    @functools.cached_property
    def _trains_in_a_loop(self) -> bool:
        """Whether the function is the whole training, which is over behind its loop, and not one epoch of it."""
        if _IN_THE_MIDST.search(self.scope.name) or any(each.arg in ROUNDS for each in self.scope.parameters):
            return False
        return any(
            self.facts.loops(each) and (is_optimizer_step(self.facts, each) or self._calls_what_steps(each))
            for each in self.scope.nodes(ast.Call)
        )

    def _calls_what_steps(self, call: ast.Call) -> bool:
        found = self.facts.definition(call.func)
        return found is not None and found.scope.is_function and self.facts.done_by(found).steps

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

    def _trained(self, call: ast.Call, facts: frozenset[State], loaded: set[State]) -> frozenset[State]:
        modules = {each.kept.module for each in facts if each.place and not each.is_trained}
        modules -= {*self._given_by_their_state(call, facts)}
        trained = {module for module in modules if self._updates(call, module)}
        if trained:
            self.training_lines.add(call.lineno)
            changed = {
                each
                for each in facts
                if not each.is_trained
                and each.kept.module in trained
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

    def _written(self, receiver: ast.expr, facts: frozenset[State]) -> frozenset[State]:
        """After an in-place method: on a parameter it trains; on an entry of the state it is the purpose."""
        inner, _ = strip_calls(receiver, "data", "detach", "view")
        root: ast.expr = inner
        while isinstance(root, ast.Attribute | ast.Subscript | ast.Call):
            root = root.func if isinstance(root, ast.Call) else root.value
        if isinstance(root, ast.Name):
            for bound in self.facts.bindings(root):
                if bound.how == "value" and isinstance(bound.value, ast.Subscript):  # `entry = state[key]`
                    of = path_of(bound.value.value)
                    self.written_through |= {of} if of is not None else set()
                    facts = frozenset(each for each in facts if each.place != of)
                if bound.how != "element" or bound.value is None:
                    continue
                owners = (owner_of(n) for n in walk(bound.value) if isinstance(n, ast.expr))
                for path in owners:
                    if path is not None:
                        return frozenset(
                            dataclasses.replace(each, is_trained=True) if is_in(each.kept.module, path) else each
                            for each in facts
                        )
                iterated = method_call(bound.value, "items", "values")
                place = path_of(iterated if iterated is not None else bound.value)
                facts = frozenset(each for each in facts if each.place != place)
        path = path_of(inner)
        base = path_of(inner.value) if isinstance(inner, ast.Subscript) else None
        if base is not None and any(each.place == base for each in facts):
            self.written_through.add(base)
        return frozenset(each for each in facts if each.place not in (path, base) or not each.place)


def _inside(place: str, outer: str) -> str | None:
    """Where a place is inside of another, `kept[*]` being any entry of `kept`; nothing where it is elsewhere."""
    if is_in(place, outer):
        return place[len(outer) :]
    base = outer.removesuffix("[*]")
    if base == outer or not place.startswith(f"{base}['"):
        return None
    return place[len(base) :].partition("]")[2]


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
