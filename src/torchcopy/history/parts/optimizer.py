"""Optimizers: their state is written in place, and what came into being after the snapshot is removed again."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor
from torch.optim import Optimizer

from ...copying.deep_copy import copy
from .comparing import fits, geometry
from .part import Kind, Load, Part, RestorePlan


class OptimizerPart(Part):
    """An optimizer. Its state is its `state_dict()`: parameters go by their numbers."""

    kind: ClassVar[Kind] = "optimizer"
    target: Optimizer

    def state(self) -> Any:
        """The `state_dict()`, whose tensors are the live ones."""
        return self.target.state_dict()

    def plan(self, saved: Any) -> RestorePlan:
        """In place where all that was saved has a place; else through `load_state_dict`."""
        plan = RestorePlan()
        parameters = [group["params"] for group in self.target.param_groups]
        plan.differences += self._group_differences(parameters, saved["param_groups"])
        numbered = [p for group in parameters for p in group]
        if not plan.differences:
            plan.differences += self._shape_differences(numbered, saved["state"])
        if plan.differences:
            return plan
        if self._writes_in_place(numbered, saved, plan):
            return plan
        plan.pairs.clear()
        plan.actions.clear()
        before = copy(self.target.state_dict(), on_escape="ignore")
        plan.loads.append(Load(self.name, lambda: self._load(saved), lambda: self._load(before)))
        return plan

    def gradients_of(self) -> list[Tensor]:
        """Its parameters."""
        return [p for group in self.target.param_groups for p in group["params"]]

    def _group_differences(self, live: list[list[Tensor]], saved: list[dict[str, Any]]) -> list[str]:
        path = f"{self.name}.param_groups"
        if len(live) != len(saved):
            return [f"{path}: expected {len(live)} groups as in the object, found {len(saved)}"]
        lines = [
            f"{path}[{k}]: expected {len(here)} parameters as in the object, found {len(there['params'])}"
            for k, (here, there) in enumerate(zip(live, saved, strict=True))
            if len(here) != len(there["params"])
        ]
        for k, group in enumerate(saved):
            now = self.target.param_groups[k]
            lacking = [name for name in self.target.defaults if name in now and name not in group]
            if lacking:
                kind = type(self.target).__name__
                lines.append(f"{path}[{k}]: expected the options of {kind}, found none of {', '.join(lacking)}")
        return lines

    def _shape_differences(self, numbered: list[Tensor], saved: dict[Any, Any]) -> list[str]:
        """State that is as large as its parameter was, where the parameter is another now."""
        lines = []
        for number, state in saved.items():
            if not (isinstance(number, int) and number < len(numbered) and isinstance(state, dict)):
                continue
            parameter, live = numbered[number], self.target.state.get(numbered[number])
            if live is None:
                lines += self._of_another_parameter(number, parameter, state)
            if not isinstance(live, dict):
                continue
            for name, value in state.items():
                there = live.get(name)
                if (
                    isinstance(value, Tensor)
                    and isinstance(there, Tensor)
                    and there.shape == parameter.shape
                    and not fits(there, value)
                ):
                    path = f"{self.name}.state[{number}][{name!r}]"
                    lines.append(f"{path}: expected {geometry(there)} as in the object, found {geometry(value)}")
        return lines

    def _of_another_parameter(self, number: int, parameter: Tensor, state: dict[Any, Any]) -> list[str]:
        """State that cannot have been this parameter's. PyTorch's optimizers keep its shape, or factors of it."""
        if not type(self.target).__module__.startswith("torch.optim."):
            return []
        path = f"{self.name}.state[{number}]"
        return [
            f"{path}[{name!r}]: expected what fits {geometry(parameter)}, found {geometry(value)}"
            for name, value in state.items()
            if isinstance(value, Tensor)
            and value.dim() == parameter.dim()
            and any(n not in (1, size) for n, size in zip(value.shape, parameter.shape, strict=True))
        ]

    def _load(self, saved: Any) -> None:
        """Through `load_state_dict`. PyTorch's own casts to the dtypes of the parameters: that is taken back."""
        self.target.load_state_dict(copy(saved, on_escape="ignore"))
        if self._loads_as_pytorch_does():
            loaded = self.target.state_dict()["state"]
            for number, state in saved["state"].items():
                _take_back_casts(loaded[number], state)

    def _loads_as_pytorch_does(self) -> bool:
        optimizer = self.target
        return (
            type(optimizer).load_state_dict is Optimizer.load_state_dict
            and not optimizer._optimizer_load_state_dict_pre_hooks
            and not optimizer._optimizer_load_state_dict_post_hooks
        )

    def _writes_in_place(self, numbered: list[Tensor], saved: Any, plan: RestorePlan) -> bool:
        optimizer = self.target
        if not self._loads_as_pytorch_does():
            return False
        for number, state in saved["state"].items():
            parameter = numbered[number] if isinstance(number, int) and number < len(numbered) else None
            live = None if parameter is None else optimizer.state.get(parameter)
            if live is None or not self._pair(f"{self.name}.state[{number}]", live, state, plan):
                return False
        then = {id(p) for k, p in enumerate(numbered) if k in saved["state"]}
        late = [
            key
            for key in optimizer.state
            if (id(key) not in then if isinstance(key, Tensor) else key not in saved["state"])
        ]
        plan.actions += [lambda p=p: optimizer.state.pop(p, None) for p in late]  # type: ignore[misc]
        for k, (group, wanted) in enumerate(zip(optimizer.param_groups, saved["param_groups"], strict=True)):
            wanted = {name: value for name, value in wanted.items() if name != "params"}
            live = {name: value for name, value in group.items() if name != "params"}
            if not self._pair(f"{self.name}.param_groups[{k}]", live, wanted, plan, into=group):
                return False
        return True

    def _pair(
        self,
        path: str,
        live: Any,
        wanted: Any,
        plan: RestorePlan,
        into: dict[str, Any] | None = None,
    ) -> bool:
        """Notes how the dict `live` becomes as `wanted`; False where a tensor has no place to be written to."""
        if not (isinstance(live, dict) and isinstance(wanted, dict)):
            return False
        into = live if into is None else into
        for name, value in wanted.items():
            there = live.get(name)
            if isinstance(value, Tensor):
                if not (isinstance(there, Tensor) and fits(there, value)):
                    return False
                plan.pairs.append((f"{path}[{name!r}]", there, value))
            elif isinstance(value, (int, float, str, bool)) or value is None:
                if there is not value:
                    plan.actions.append(lambda name=name, value=value: into.__setitem__(name, value))  # type: ignore[misc]
            elif isinstance(value, (tuple, list)) and not any(isinstance(x, Tensor) for x in value):
                new = copy(value, on_escape="ignore")
                plan.actions.append(lambda name=name, new=new: into.__setitem__(name, new))  # type: ignore[misc]
            else:
                return False
        plan.actions += [lambda name=name: into.pop(name, None) for name in live if name not in wanted]  # type: ignore[misc]
        return True


def _take_back_casts(loaded: Any, saved: Any) -> None:
    """Has each tensor in `loaded` be as it was saved, where it was cast when it was loaded."""
    if isinstance(saved, dict) and isinstance(loaded, dict):
        names = list(saved)
    elif isinstance(saved, list) and isinstance(loaded, list) and len(saved) == len(loaded):
        names = list(range(len(saved)))
    else:
        return
    for name in names:
        there, value = loaded[name], saved[name]
        if isinstance(value, Tensor) and isinstance(there, Tensor):
            if there.dtype != value.dtype:
                loaded[name] = value.to(there.device, copy=True)
        else:
            _take_back_casts(there, value)
