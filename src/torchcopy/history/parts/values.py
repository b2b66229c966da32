"""Tensors, containers of them, and plain values that belong to a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from ...copying.deep_copy import copy
from ...copying.walking.walk import IMMUTABLE
from .comparing import fits, geometry
from .part import Kind, Part, RestorePlan


class ValuesPart(Part):
    """A tensor, an array, or a dict or list, restored in place.

    A number, a string or a tuple is kept too. Nobody can set the caller's variable back, so it is read from the
    snapshot: `snapshot.state("epoch")`.
    """

    kind: ClassVar[Kind] = "values"

    def state(self) -> Any:
        """The object itself."""
        return self.target

    def plan(self, saved: Any) -> RestorePlan:
        """Tensors are written in place where they fit, containers are filled anew."""
        plan = RestorePlan()
        _plan(self.name, self.target, saved, None, plan)
        return plan


def _plan(path: str, live: Any, saved: Any, assign: Callable[[Any], object] | None, plan: RestorePlan) -> None:
    if isinstance(live, Tensor) and isinstance(saved, Tensor) and fits(live, saved):
        plan.pairs.append((path, live, saved))
    elif isinstance(live, dict) and isinstance(saved, dict):
        _plan_dict(path, live, saved, plan)
    elif isinstance(live, list) and isinstance(saved, list):
        _plan_list(path, live, saved, plan)
    elif isinstance(live, np.ndarray) and isinstance(saved, np.ndarray) and _same_array_kind(live, saved):
        plan.actions.append(lambda: np.copyto(live, saved))
    elif isinstance(live, tuple) and isinstance(saved, tuple) and len(live) == len(saved):
        for k, (here, there) in enumerate(zip(live, saved, strict=True)):
            _plan(f"{path}[{k}]", here, there, None, plan)
    elif assign is not None:
        new = copy(saved, on_escape="ignore")
        plan.actions.append(lambda: assign(new))
    elif not (type(live) in IMMUTABLE and type(saved) in IMMUTABLE):
        plan.differences.append(f"{path}: expected {_described(live)} as in the object, found {_described(saved)}")


def _plan_dict(path: str, live: dict[Any, Any], saved: dict[Any, Any], plan: RestorePlan) -> None:
    for name, value in saved.items():
        if name in live:
            _plan(f"{path}[{name!r}]", live[name], value, lambda new, name=name: live.__setitem__(name, new), plan)  # type: ignore[misc]
        else:
            new = copy(value, on_escape="ignore")
            plan.actions.append(lambda name=name, new=new: live.__setitem__(name, new))  # type: ignore[misc]
    for name in live:
        if name not in saved:
            plan.actions.append(lambda name=name: live.pop(name, None))  # type: ignore[misc]


def _plan_list(path: str, live: list[Any], saved: list[Any], plan: RestorePlan) -> None:
    common = min(len(live), len(saved))
    for k in range(common):
        _plan(f"{path}[{k}]", live[k], saved[k], lambda new, k=k: live.__setitem__(k, new), plan)  # type: ignore[misc]
    if len(live) > common:
        plan.actions.append(lambda: live.__delitem__(slice(common, None)))
    elif len(saved) > common:
        rest = copy(saved[common:], on_escape="ignore")
        plan.actions.append(lambda: live.extend(rest))


def _same_array_kind(live: np.ndarray[Any, Any], saved: np.ndarray[Any, Any]) -> bool:
    return live.shape == saved.shape and live.dtype == saved.dtype and live.flags.writeable


def _described(x: Any) -> str:
    return geometry(x) if isinstance(x, Tensor) else type(x).__name__
