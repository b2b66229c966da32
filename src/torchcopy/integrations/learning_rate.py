"""The learning rate made smaller in the middle of a run, so that the schedulers keep it so."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

_IN_GROUPS = ("lr", "initial_lr", "max_lr", "min_lr")  # the last two are those of OneCycleLR
_IN_SCHEDULERS = ("base_lrs", "max_lrs", "_last_lr")


def scale_learning_rates(objects: Iterable[Any], factor: float) -> None:
    """Multiplies what optimizers learn with, and what schedulers compute it from, by `factor`.

    Other objects among them stay as they are.
    """
    for each in objects:
        if isinstance(each, Optimizer):
            for group in each.param_groups:
                _scale_group(group, factor)
        elif hasattr(each, "state_dict") and not isinstance(each, nn.Module):
            _scale_scheduler(each, factor)


def _scale_group(group: dict[str, Any], factor: float) -> None:
    for name in _IN_GROUPS:
        if isinstance(group.get(name), Tensor):
            group[name].mul_(factor)  # a captured step reads this very tensor
        elif name in group:
            group[name] = group[name] * factor


def _scale_scheduler(scheduler: Any, factor: float) -> None:
    for name in _IN_SCHEDULERS:
        rates = getattr(scheduler, name, None)
        if rates is not None:
            setattr(scheduler, name, [rate * factor for rate in rates])
    inner = getattr(scheduler, "_schedulers", ())  # SequentialLR, ChainedScheduler
    wrapped = getattr(scheduler, "lr_scheduler", None)  # that of Ignite
    for each in (*inner, *([] if wrapped is None else [wrapped])):
        _scale_scheduler(each, factor)
