"""The way back from a loss that is no number any more, whatever loop it happens in."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.utils import get_total_norm

from .._errors import InputError
from ..history.history import History, Mode
from .learning_rate import scale_learning_rates


class RollbackWarning(UserWarning):
    """The loss was no finite number, and the run was brought back to where it was good."""


class Rollback:
    """Takes snapshots of a run while it is good, and brings it back to the last one when it is not.

    The data go on: the batches that came since the snapshot do not come again. Random numbers go on too, as the
    same ones might lead to the same end. A snapshot is taken only of weights that are finite. Where the run fails
    again before there is a new snapshot, it goes back one snapshot further.

    Args:
        every_n_steps: how many steps lie between two snapshots.
        max_rollbacks: how often it goes back, in the whole run. The next time, it is brought back and stopped.
        lr_factor: by how much the learning rate is multiplied each time.
        divergence_threshold: a loss that is larger counts as one that is no number; None for no such limit.
        keep: how many snapshots there are to go back to.
        snapshot_mode: the `mode` of the history.
        max_bytes: see `History`.
        device: see `History`.

    Attributes:
        history: where the snapshots are; None before `start`.
        rollbacks: how often it went back.
    """

    def __init__(
        self,
        *,
        every_n_steps: int,
        max_rollbacks: int,
        lr_factor: float,
        divergence_threshold: float | None,
        keep: int,
        snapshot_mode: Mode,
        max_bytes: int | None,
        device: str | torch.device | None,
    ) -> None:
        for name, value, least in (("every_n_steps", every_n_steps, 1), ("max_rollbacks", max_rollbacks, 0)):
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise InputError(f"`{name}` must be a whole number from {least} on; got {value!r}")
        if not 0 < lr_factor < math.inf:
            raise InputError(f"`lr_factor` must be a positive number, 1 for no change; got {lr_factor!r}")
        self.every_n_steps, self.max_rollbacks, self.lr_factor = every_n_steps, max_rollbacks, lr_factor
        self.divergence_threshold = divergence_threshold
        self._options: dict[str, Any] = {
            "keep": keep,
            "mode": snapshot_mode,
            "max_bytes": max_bytes,
            "device": device,
            "rng": False,
        }
        History(nothing=None, **self._options)  # the options are checked before the training begins
        self.history: History | None = None
        self.rollbacks = 0
        self._objects: dict[str, Any] = {}
        self._step = 0
        self._lr_scale = 1.0
        self._back_at: int | None = None  # the snapshot that was restored, until there is a newer one

    def start(self, objects: Mapping[str, Any], step: int) -> None:
        """Takes the first snapshot, of the run as it starts."""
        self._objects = dict(objects)
        self.history = History(**self._objects, **self._options)
        self._lr_scale, self._back_at = 1.0, None
        self._take(step)

    def after_step(
        self,
        step: int,
        losses: Iterable[Any],
        *,
        wrong: str = "",
        agree: Callable[[bool], bool] = bool,
    ) -> bool:
        """Goes back if a loss is bad, else takes a snapshot if it is time.

        Args:
            step: how many steps the optimizer has made.
            losses: of the batches since the last call, numbers or tensors.
            wrong: what else is wrong; empty for nothing.
            agree: tells whether any process of a distributed run says True.

        Returns:
            Whether the training is to go on.
        """
        wrong = next(filter(None, map(self._what_is_wrong, losses)), wrong)
        due = step - self._step >= self.every_n_steps
        if not wrong and due and not self._is_finite():
            wrong = "the weights are not finite"
        if agree(bool(wrong)):
            return self._go_back(step, wrong or "the loss of another process is bad")
        if due:
            self._take(step)
        return True

    def _what_is_wrong(self, loss: Any) -> str:
        values = loss.detach() if isinstance(loss, Tensor) else torch.tensor(loss)
        if not bool(torch.isfinite(values).all()):
            return f"the loss is {values.item()}" if values.numel() == 1 else "the loss is not finite"
        limit = self.divergence_threshold
        if limit is not None and bool((values > limit).any()):
            return f"the loss, {values.max().item():.4g}, is above {limit:g}"
        return ""

    def _is_finite(self) -> bool:
        """Whether the parameters are finite and no buffer is NaN: a mask of -inf is as it should be."""
        modules = [each for each in self._objects.values() if isinstance(each, nn.Module)]
        with torch.no_grad():
            parameters = _largest(p for m in modules for p in m.parameters())
            return math.isfinite(parameters) and not math.isnan(_largest(b for m in modules for b in m.buffers()))

    def _take(self, step: int) -> None:
        if self.history is not None:
            self.history.take(step=step, lr_scale=self._lr_scale)
            self._step, self._back_at = step, None

    def _go_back(self, step: int, wrong: str) -> bool:
        history = self.history
        if history is None:
            return True
        if history[-1].number == self._back_at and len(history) > 1:
            history.remove(history[-1])
        snapshot = history[-1]
        snapshot.restore()
        self._back_at, self._step = snapshot.number, step
        told = f"{wrong} at step {step}: the run is back at what it was after step {snapshot.labels['step']}"
        if self.rollbacks >= self.max_rollbacks:
            warnings.warn(
                f"{told}, and stops there: it went back {self.rollbacks} times, as often as `max_rollbacks` allows",
                RollbackWarning,
                stacklevel=3,
            )
            return False
        self.rollbacks += 1
        self._lr_scale *= self.lr_factor
        factor = self._lr_scale / snapshot.labels["lr_scale"]
        if factor != 1:
            scale_learning_rates(self._objects.values(), factor)
            told += f", its learning rate multiplied by {factor:g}"
        warnings.warn(
            f"{told} ({self.rollbacks} of at most {self.max_rollbacks} times)", RollbackWarning, stacklevel=3
        )
        return True


def any_process(bad: bool) -> bool:
    """Whether any process of a distributed run says True; what this one says where there are no others."""
    if not (dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1):
        return bad
    on_gpu = dist.get_backend() == "nccl"
    said = torch.tensor(int(bad), device=torch.device("cuda", torch.cuda.current_device()) if on_gpu else "cpu")
    dist.all_reduce(said, dist.ReduceOp.MAX)
    return bool(said)


def _largest(tensors: Iterable[Tensor]) -> float:
    """The largest absolute value, NaN if there is one; 0 for no tensors."""
    looked_at = [
        t for t in tensors if t.numel() and t.element_size() > 1 and (t.is_floating_point() or t.is_complex())
    ]
    return float(get_total_norm(looked_at, norm_type=math.inf))
