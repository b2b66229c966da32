"""Modules: parameters and buffers are written in place, whatever else a module keeps goes through its own code."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor, nn

from ...copying.deep_copy import copy
from .comparing import name_differences, tensor_differences
from .module_state import module_state
from .part import Kind, Load, Part, RestorePlan

_PERSISTENT, _OTHERS = "state_dict", "non_persistent"


class ModulePart(Part):
    """A module. Its state is its `state_dict()`, and the buffers that are not in it."""

    kind: ClassVar[Kind] = "module"
    target: nn.Module

    def state(self) -> dict[str, Any]:
        """The two parts of the state, with the live tensors themselves where PyTorch hands them out."""
        state, others = module_state(self.target)
        return {_PERSISTENT: state, _OTHERS: others} if others else {_PERSISTENT: state}

    def plan(self, saved: Any) -> RestorePlan:
        """In place where the state's tensors are the module's own; else through `load_state_dict`."""
        plan = RestorePlan()
        (live, others), wanted = module_state(self.target), saved[_PERSISTENT]
        plan.differences += name_differences(self.name, live, wanted)
        plan.differences += tensor_differences(self.name, live, wanted)
        wanted_others = saved.get(_OTHERS, {})
        plan.differences += name_differences(self.name, others, wanted_others)
        plan.differences += tensor_differences(self.name, others, wanted_others)
        if plan.differences:
            return plan
        if self._holds(live):
            plan.pairs += [(f"{self.name}[{name!r}]", t, wanted[name]) for name, t in live.items()]
        else:
            before = copy(live, on_escape="ignore")
            plan.loads.append(
                Load(
                    self.name,
                    lambda: self.target.load_state_dict(copy(wanted, on_escape="ignore")),
                    lambda: self.target.load_state_dict(before),
                )
            )
        plan.pairs += [(f"{self.name}[{name!r}]", t, wanted_others[name]) for name, t in others.items()]
        return plan

    def _holds(self, live: Any) -> bool:
        """Whether every value of the state_dict is a parameter or buffer of the module: nothing was computed."""
        own = set(map(id, self.target.parameters()))
        own.update(map(id, self.target.buffers()))
        return own.issuperset(map(id, live.values()))

    def gradients_of(self) -> list[Tensor]:
        """The parameters."""
        return list(self.target.parameters())
