"""Optimizers and what drives them: copied together with their parameters, never apart from them."""

from __future__ import annotations

import functools
import weakref
from typing import TYPE_CHECKING, Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from ..._errors import CopyError
from ..objects.object_paths import held_objects
from ..refusals import place_of
from .protocol import copy_by_protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from torch import Tensor

    from .walk import Walk


def copy_optimizer(walk: Walk, x: Optimizer) -> Any:
    """A copy that refers to the copied parameters. Parameters met only here are checked when the walk has ended.

    `Optimizer.__getstate__` keeps state, defaults and groups, and drops what subclasses add, and hooks: a copied
    `LBFGS` could not step. All attributes are copied instead, save for the `step` that a scheduler has wrapped.
    """
    cls = type(x)
    walk.inside_optimizer += 1
    walk.tensors.optimizers.append(x)
    try:
        if cls.__getstate__ is not Optimizer.__getstate__ or hasattr(x, "__deepcopy__"):
            return copy_by_protocol(walk, x, cls)
        y = object.__new__(cls)
        walk.remember(x, y)
        wrapped = hasattr(vars(x).get("step"), "_wrapped_by_lr_sched")
        walk.items({name: value for name, value in vars(x).items() if not (wrapped and name == "step")}, vars(y))
        return y
    finally:
        walk.inside_optimizer -= 1


def copy_scheduler(walk: Walk, x: LRScheduler) -> Any:
    """A copy that watches the copied optimizer, so that its first step does not warn of a skipped one."""
    y = copy_by_protocol(walk, x, type(x))
    optimizer = getattr(x, "optimizer", None)
    if optimizer is not None and hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        walk.after.append(lambda: _watch_steps(y.optimizer, called=getattr(optimizer, "_opt_called", False)))
    return y


def _watch_steps(optimizer: Optimizer, *, called: bool) -> None:
    """Has the optimizer note that it was stepped: schedulers do so when they are made, and warn where it is not."""
    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        return
    unwatched, of = type(optimizer).step, weakref.ref(optimizer)

    @functools.wraps(unwatched)
    def step(*args: Any, **kwargs: Any) -> Any:
        stepped: Any = of()
        stepped._opt_called = True
        return unwatched(stepped, *args, **kwargs)

    step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    optimizer.step = step  # type: ignore[method-assign]
    if called:
        optimizer._opt_called = True  # type: ignore[attr-defined]


def check_parameters_come_along(root: object, optimizers: Iterable[Optimizer], found: Mapping[int, Tensor]) -> None:
    """Refuses an optimizer whose parameters are reached through it only.

    Args:
        root: what is being copied.
        optimizers: those in it.
        found: by id, the tensors that were first met inside an optimizer.

    Raises:
        CopyError: a copy of it would train tensors that belong to no copied module.
    """
    parameters = [(each, [p for group in each.param_groups for p in group["params"]]) for each in optimizers]
    if not any(id(p) in found for _, own in parameters for p in own):
        return  # nearly always: the model came first
    beside = set(map(id, held_objects(root, passing=(Optimizer, LRScheduler))))
    for optimizer, own in parameters:
        missing = [p for p in own if id(p) in found and id(p) not in beside]
        if missing:
            count = (
                "none of its parameters is"
                if len(missing) == len(own)
                else f"{len(missing)} of its {len(own)} parameters are not"
            )
            raise CopyError(
                f"{place_of(optimizer, root)} cannot be copied here, for {count} copied with it: its copy would "
                "train tensors that no module uses. Copy it together with its model, "
                "`tc.copy((model, optimizer))`; or have it train the same parameters, `share=model.parameters()`"
            )
