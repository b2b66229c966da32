"""What is done with kept states in one function: they are loaded, compared, saved and returned."""

from __future__ import annotations

import ast
import dataclasses
import functools
import itertools
import re
from typing import TYPE_CHECKING

from ..flow import Flow
from ..nodes import LEAVES, Loop, arguments, called_name, keyword, method_call, path_of, root_name, strip_calls
from ..scopes import Scope
from ..summaries import GIVES_ITSELF
from .comparisons import TAKES_VALUES, origins
from .devices import is_on_gpu
from .kept import Kept
from .loads import behind_copies, result_places
from .module_paths import module_path
from .places import bound_places, entry_path, in_container, is_in
from .purpose import OF_BEFORE, goes_into_another, is_replaced, is_reset_in_loop
from .rounds import is_at_times, is_every_few_rounds, is_kept_as_better, is_other_branch
from .states import FILLED, TRAINED, State, Use
from .things import thing_of

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_AT_TIMES = (ast.If, ast.ExceptHandler, ast.match_case)
_OF_THE_END = re.compile(r"(^|[^a-z])(final|last|latest|end)(?![a-z])")
_OF_ANOTHER = re.compile(rf"{OF_BEFORE.pattern}|anchor|teacher|target|(^|_)ref(erence)?(_|$)|frozen")


class StateUses(Flow[State]):
    """Notes what is done with kept states, as far as `found`, and with places that held none, as `unknown_uses`.

    How states come to be kept says the subclass, in `state_flow.py`.
    """

    def __init__(self, facts: FileFacts, scope: Scope, *, into_calls: bool = True) -> None:
        super().__init__()
        self.facts = facts
        self.scope = scope
        self.into_calls = into_calls
        """Whether what called functions leave kept is followed too: not in those themselves."""
        self.found: dict[tuple[ast.expr, ast.expr | None], tuple[Kept, ast.AST, str]] = {}
        self.unknown_uses: list[Use] = []
        self.rebound: dict[str, set[str]] = {}
        self.refilled: dict[str, list[ast.AST]] = {}
        """Names that the function gives a value, and where; those of attributes are in the facts."""
        self.written_through: set[str] = set()
        """Places of states whose entries are written in place: on purpose."""
        self.entered: dict[str, int] = {}
        """Places of dicts into which entries are put under keys that vary, and from which line on."""
        self.copied: set[str] = set()
        """Places that get a copy somewhere in the function."""
        self.yielded: dict[ast.expr, tuple[Kept, str]] = {}
        """States that are yielded in each round of a training, as which part: for a caller they are one."""
        self.training_lines: set[float] = set()
        self.called: set[str] = set()
        self.stale_at_call: dict[str, set[State]] = {}
        """For each own method that is called, the states of an earlier time that the object may hold then."""

    @functools.cached_property
    def _may_compare(self) -> bool:
        """Whether what another function kept may be compared with a newer state here."""
        takes = any(called_name(each) in TAKES_VALUES for each in self.scope.nodes(ast.Call))
        return bool(self.scope.self_name) or (takes and bool(self.scope.parameters))

    def _loaded(self, call: ast.Call, receiver: ast.expr | None, facts: frozenset[State]) -> frozenset[State]:
        given = arguments(call)
        if receiver is not None:
            receiver, _ = strip_calls(receiver, *GIVES_ITSELF)  # `model.cpu().load_state_dict(best)`
        module = module_path(receiver) or ""
        if receiver is None or not module:
            module = next((path for each in given if (path := module_path(each)) is not None), "")
        inside = in_container(self.facts, receiver) if receiver is not None else None
        loaded: set[str] = set()
        for each in given:
            value = behind_copies(self.facts, each)
            path = entry_path(value)
            for place in result_places(self.facts, value) if path is None else (path,):
                if place != module:
                    read = self._read_into(module, value, place, call, facts, inside)
                    loaded |= read if not _is_computed(value) else set()  # else it is no more what it was
        if _is_assigning(call):
            return facts
        if receiver is not None and thing_of(self.facts, receiver, module) == "optimizer":
            facts |= {TRAINED}  # it has moments from now on: those that are loaded, no more what it had
            return frozenset(
                each
                for each in facts
                if not each.place or each.kept.module not in (module, inside) or each.place in loaded
            )
        self.training_lines.add(call.lineno)
        modules = {module, inside}
        own = [each for each in facts if each.place in loaded and each.kept.module in modules]
        if own and not any(each.is_trained or each.is_of_former_model for each in own):
            return facts  # its tensors are those of the module: nothing changes
        return frozenset(
            dataclasses.replace(each, is_trained=True)
            if each.place and each.kept.module in modules and each.place not in loaded
            else each
            for each in facts
        )

    def _read_into(
        self,
        module: str,
        value: ast.expr,
        path: str,
        call: ast.Call | ast.For,
        facts: frozenset[State],
        inside: str | None,
    ) -> set[str]:
        """Notes that a value is loaded into a module, which may be `inside` of a container: which states it is."""
        places = (path, in_container(self.facts, value))
        known = [state for state in facts if state.place in places]
        for state in known:
            is_stale = state.is_trained and not goes_into_another(state.kept, state.place, module)
            if is_stale or is_reset_in_loop(self.facts, state.kept, state.place, call, module):
                self._report(state, call, "loaded")
        for place in bound_places(self.facts, self.scope, value, path):
            may_be_older = not any(each.is_trained for each in known) or all(each.kept.is_left for each in known)
            is_older = not known or (self.scope.owns(place) and may_be_older)
            if is_older and (known or not self._is_refilled(place, path, call, facts)):
                since = self._since_made(module) if inside is None else None
                self.unknown_uses.append(Use(self.facts.source.path, place, call, inside or module, since))
        return {state.place for state in known}

    def _called_with(self, call: ast.Call, facts: frozenset[State]) -> None:
        """After `functional_call(net, anchor, x)`, where the parameters have the name of older ones."""
        module = module_path(call.args[0]) if len(call.args) > 1 else None
        path = entry_path(call.args[1]) if module is not None else None
        if module is not None and path is not None and _OF_ANOTHER.search(path.lower()):
            self._read_into(module, call.args[1], path, call, facts, None)

    def _refilled(self, path: str, target: ast.expr) -> set[State]:
        """Notes that a place got a value: on this way, or for a name in this function."""
        if "." in path:
            return {State("", dataclasses.replace(FILLED, module=path))}
        self.refilled.setdefault(path, []).append(target)
        return set()

    def _is_refilled(self, place: str, path: str, at: ast.AST, facts: frozenset[State]) -> bool:
        """Whether this function gave a place a value before; an object that it made has filled its attributes."""
        if any(each.kept.call is FILLED.call and is_in(place, each.kept.module) for each in facts):
            return True
        return any(
            is_in(place, each) and not place.startswith(f"{each}.")
            for each, targets in self.refilled.items()
            if (each != path or each == place) and not all(is_other_branch(self.facts, one, at) for one in targets)
        )

    def _compared(self, old: ast.expr, new: ast.expr, at: ast.AST, facts: frozenset[State]) -> None:
        """After an old state met the newer one of its model."""
        modules: set[str] = set()
        for each in origins(self.facts, new):
            of = method_call(each, "state_dict", "parameters", "named_parameters")
            if of is not None:
                modules |= {module_path(of) or "?"}
                continue
            path = entry_path(each) or ""
            modules |= {
                one.kept.module for one in facts if not one.is_trained and one.place and is_in(path, one.place)
            }
            modules |= {one.kept.module for one in facts if _is_entry(path, one.kept.module, old)}
        for each in origins(self.facts, old) if modules else ():
            inside = in_container(self.facts, each)
            path = entry_path(each) or ""
            if inside is not None and "[*][" in inside:  # of a list of tuples
                path = inside
            known = [one for one in facts if one.place and is_in(path, one.place)]
            for state in known:
                if state.is_trained and state.kept.module in modules:
                    self._report(state, at, "compared")
            root = root_name(path)
            is_given = any(one.how == "parameter" for one in self.scope.bindings.get(root, ()))
            if not known and (self.scope.owns(path) or is_given) and not self._is_refilled(path, "", at, facts):
                for module in modules:
                    self.unknown_uses.append(
                        Use(self.facts.source.path, path, at, module, self._since_made(module), role="compared")
                    )

    def _since_made(self, module: str) -> frozenset[str] | None:
        since = self.rebound.get(module)
        return None if since is None else frozenset(since)

    def _read_whole(self, value: ast.expr, at: ast.AST, role: str, facts: frozenset[State]) -> None:
        """A save or return of a place, or of something around it."""
        shown = [value]
        written = self.facts.last_value(value) if isinstance(value, ast.Name) else value
        if isinstance(value, ast.Tuple | ast.List):
            shown = list(value.elts)
        elif isinstance(value, ast.Call) and called_name(value)[:1].isupper():
            shown = arguments(value)  # `return Result(best=best)`
        elif isinstance(written, ast.Dict):
            shown = [value, *written.values] if written is not value else list(written.values)
        for each in shown:
            path = path_of(behind_copies(self.facts, each))
            if path is None or path == self.scope.self_name:
                continue
            places = (path, in_container(self.facts, each))
            for state in facts:
                if state.place and state.is_trained and any(one and is_in(state.place, one) for one in places):
                    self._report(state, at, role)
            is_seen_inside = any(each.is_function for each in self.scope.inner)  # by functions that may fill it
            if path.partition(".")[2] or path not in self.scope.bindings or is_seen_inside:
                self.unknown_uses.append(Use(self.facts.source.path, path, at, "", role=role))

    def _report(self, state: State, at: ast.AST, role: str) -> None:
        if self.entered.get(state.place, getattr(at, "lineno", 0)) < getattr(at, "lineno", 0):
            return  # a state to be loaded is put together
        if state.place in self.written_through:
            return
        if state.kept.copied_on_gpu and is_on_gpu(self.facts, self.scope, state.kept.module):
            return
        if state.is_of_former_model and not (role == "loaded" and OF_BEFORE.search(state.place.lower())):
            return
        if role != "loaded" and (self._is_at_once(state, at) or self._is_meant_to_be_live(state, at, role)):
            return
        is_copied = any(is_in(state.place, each) for each in self.copied)
        is_first = not self.facts.loops(state.kept.call)
        if (is_first and is_copied) or self._is_replaced(state):
            return  # only what it begins with is no copy
        before = self.found.get(state.kept.taking)
        if before is None or (before[1] is at and state.kept.order < before[0].order):  # the same in each run
            self.found[state.kept.taking] = (state.kept, at, role)

    def _is_replaced(self, state: State) -> bool:
        """Whether the first round of the loop behind always keeps a better state where this one was at first."""
        call = state.kept.call
        at = self.facts.statement_of(call)
        first = entry_path(at.targets[0]) if isinstance(at, ast.Assign) else None
        places = {state.place, *([first] if first is not None else [])}
        return any(is_replaced(self.facts, self.scope, each, call) for each in places)

    def _is_meant_to_be_live(self, state: State, at: ast.AST, role: str) -> bool:
        """Whether what is saved or returned may well be what the model is by then: nothing tells that it is older.

        What tells is its name, as that of the best one, or that it is kept at times only, as the better one.
        """
        if role not in ("saved", "returned"):
            return False
        is_begun = not self.facts.loops(state.kept.call)
        if is_begun and len(self.facts.bindings_of_path(self.scope, state.place)) > 1:
            return True  # until there is a better one
        root, dot, _ = state.place.partition(".")
        texts = (
            each.value for each in ast.walk(at) if isinstance(each, ast.Constant) and isinstance(each.value, str)
        )
        if is_begun and role == "saved" and self.facts.loops(at) and not OF_BEFORE.search(state.place.lower()):
            return True  # in each round as it is then
        if any(OF_BEFORE.search(each.lower()) for each in texts):
            return False  # `torch.save(weights, "initial.pt")`
        if state.was_named_older or OF_BEFORE.search(state.place.lower()) or (dot and root != self.scope.self_name):
            return False  # of an object that is there to keep it
        if is_begun and _OF_THE_END.search(state.place.lower()) and self._is_loaded_over(state, at):
            return False  # `final = model.state_dict()`, then the model gets the best state
        around = [*self.facts.above(at)]
        if any(isinstance(each, ast.With) and each not in around for each in self.facts.above(state.kept.call)):
            return False  # of `with ema.average_parameters():`, most likely
        return is_begun or not is_at_times(self.facts, state.kept.call, at)

    def _is_loaded_over(self, state: State, at: ast.AST) -> bool:
        """Whether all that changes a model between where its state is kept and read is a state that it gets."""
        between = range(state.kept.call.lineno + 1, getattr(at, "lineno", 0))
        loads = {
            each.lineno
            for each in self.facts.calls_by_name.get("load_state_dict", ())
            if module_path(each.func.value if isinstance(each.func, ast.Attribute) else None) == state.kept.module
        }
        changed = {line for line in self.training_lines if line in between}
        return bool(changed) and changed <= loads

    def _is_read_in_each_round(self, state: State, at: ast.AST, loop: Loop) -> bool:
        """Whether each round of a loop, or every few, reads the best state, and only some of them keep one."""
        above = itertools.takewhile(lambda each: each is not loop, self.facts.above(at))
        if any(isinstance(each, _AT_TIMES) and not is_every_few_rounds(each) for each in above):
            return False
        if "best" not in state.place.lower() and not is_kept_as_better(self.facts, state.kept.call):
            return False
        bound = self.facts.bindings_of_path(self.scope, state.place)
        if sum(loop in self.facts.loops(each.node) for each in bound) > 1:
            return False
        between = range(state.kept.call.lineno, getattr(at, "lineno", 0))
        leaves = any(
            isinstance(each, ast.If) and any(isinstance(way[-1], LEAVES) for way in (each.body, each.orelse) if way)
            for each in loop.body
            if each.lineno in between
        )
        return not leaves and is_at_times(self.facts, state.kept.call, at)

    def _is_at_once(self, state: State, at: ast.AST) -> bool:
        """Whether a state is read in the round that keeps it, and only an earlier one's was trained over."""
        first, last = state.kept.call.lineno, getattr(at, "lineno", 0)
        loops = self.facts.loops(at)[:1]
        if first > last or self.facts.loops(state.kept.call)[:1] != loops:
            return False
        if loops and self._is_read_in_each_round(state, at, loops[0]):
            return False
        return not any(first < line < last for line in self.training_lines)


def _is_entry(path: str, module: str, entry: ast.expr) -> bool:
    """Whether a place is the weight that an entry of a state has the name of: `net.weight`, `state["weight"]`."""
    is_named = isinstance(entry, ast.Subscript) and isinstance(entry.slice, ast.Constant)
    return bool(module) and is_named and path == f"{module}.{entry.slice.value}"  # type: ignore[attr-defined]


def _is_computed(value: ast.expr) -> bool:
    """Whether what is loaded is computed entry by entry: `{k: old[k] + step * noise[k] for k in old}`."""
    return isinstance(value, ast.DictComp) and isinstance(value.value, ast.BinOp)


def _is_assigning(call: ast.Call) -> bool:
    wanted = keyword(call, "assign")
    return isinstance(wanted, ast.Constant) and wanted.value is True
