"""Modules: parameters and buffers are written in place, whatever else a module keeps goes through its own code."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor, nn

from ...copying.deep_copy import copy
from .comparing import fits, name_differences, tensor_differences
from .module_state import module_state
from .part import Kind, Load, Part, RestorePlan

_PERSISTENT, _OTHERS, _ABSENT = "state_dict", "non_persistent", "absent"


class ModulePart(Part):
    """A module. Its state is its `state_dict()`, the buffers outside of it, and the names of those not set."""

    kind: ClassVar[Kind] = "module"
    target: nn.Module

    def state(self) -> dict[str, Any]:
        """Its parts, with the live tensors themselves where PyTorch hands them out."""
        persistent, others, absent = module_state(self.target)
        state: dict[str, Any] = {_PERSISTENT: persistent}
        if others:
            state[_OTHERS] = others
        if absent:
            state[_ABSENT] = absent
        return state

    def plan(self, saved: Any) -> RestorePlan:
        """In place where the state's tensors are the module's own; else through `load_state_dict`."""
        plan = RestorePlan()
        live, others, _ = module_state(self.target)
        wanted, wanted_others = saved[_PERSISTENT], saved.get(_OTHERS, {})
        own = {id(t) for m in self.target.modules() for t in (*m._parameters.values(), *m._buffers.values())}
        computed = not own.issuperset(map(id, live.values()))
        to_set = self._buffers_to_set(saved, live, others)
        for here, there in ((live, wanted), (others, wanted_others)):
            named = [name for name in here if name not in to_set], [name for name in there if name not in to_set]
            plan.differences += name_differences(self.name, *named)
            kept = {name: here[name] for name in named[0] if id(here[name]) in own}
            plan.differences += tensor_differences(self.name, kept, there)
            if here is others or not computed:
                plan.pairs += [
                    (f"{self.name}[{name!r}]", t, there[name]) for name, t in kept.items() if name in there
                ]
        if to_set or computed:
            before = copy(live, on_escape="ignore") if computed else None
            as_now = {name: self._buffer(name) for name in to_set}
            plan.loads.append(
                Load(
                    self.name,
                    lambda: self._load(to_set, wanted if computed else None),
                    lambda: self._load(as_now, before),
                )
            )
        return plan

    def _load(self, buffers: dict[str, Tensor | None], state: Any) -> None:
        for name, t in buffers.items():
            path, _, leaf = name.rpartition(".")
            self.target.get_submodule(path)._buffers[leaf] = t
        if state is not None:
            self.target.load_state_dict(copy(state, on_escape="ignore"))

    def _buffers_to_set(self, saved: Any, live: Any, others: dict[str, Tensor]) -> dict[str, Tensor | None]:
        """Buffers that cannot be written in place, with new tensors for them, or None.

        These are the ones that came or went since, and those of another size that are not in the state_dict, such
        as a cache.
        """
        gone = [name for name in saved.get(_ABSENT, ()) if name in live or name in others]
        named = (*saved[_PERSISTENT].items(), *saved.get(_OTHERS, {}).items())
        tensors = {n: t for n, t in named if isinstance(t, Tensor) and self._has_no_place(n, t, live, others)}
        anew = dict(zip(tensors, copy(list(tensors.values())), strict=True))
        for name, t in anew.items():
            now = self._buffer(name)
            anew[name] = t if now is None else t.to(now.device)
        return {**dict.fromkeys(gone), **anew}

    def _has_no_place(self, name: str, saved: Tensor, live: Any, others: dict[str, Tensor]) -> bool:
        if name in live or (name in others and fits(others[name], saved)):
            return False
        path, _, leaf = name.rpartition(".")
        try:
            return leaf in self.target.get_submodule(path)._buffers
        except AttributeError:
            return False

    def _buffer(self, name: str) -> Tensor | None:
        path, _, leaf = name.rpartition(".")
        return self.target.get_submodule(path)._buffers[leaf]

    def gradients_of(self) -> list[Tensor]:
        """The parameters."""
        return [p for m in self.target.modules() for p in m._parameters.values() if p is not None]
