"""Callbacks for Lightning: `lightning.pytorch`, and `pytorch_lightning` as well."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .._errors import InputError
from ..history.history import History, Mode
from ..history.retention import Goal
from ..history.snapshot import Snapshot
from .best_weights import BestWeights as _BestWeights
from .rollback import Rollback

if TYPE_CHECKING:
    from lightning.pytorch import Callback, LightningModule, Trainer
else:
    _NAMES = ("lightning.pytorch", "pytorch_lightning")
    _loaded = [sys.modules[name] for name in _NAMES if sys.modules.get(name) is not None]
    if not _loaded:
        for _name in _NAMES:
            try:
                _loaded = [importlib.import_module(_name)]
                break
            except ModuleNotFoundError as error:
                if error.name not in ("lightning", *_NAMES):
                    raise
    if not _loaded:
        raise ModuleNotFoundError("torchcopy.integrations.lightning needs Lightning: pip install lightning")
    # The two are copies of one code with classes of their own: a callback for each that the program has loaded.
    Callback = type("Callback", tuple(library.Callback for library in _loaded), {})


class BestWeights(Callback):
    """Keeps the best weights in memory, and writes them back into the model when the training ends.

    Nothing goes to disk, and no epoch waits for it. A checkpoint contains the best weights so far, so that a
    resumed training ends with the best of all epochs. The optimizers stay as they are in the last epoch. After a
    training that ended with an error, `callback.best.restore()` does what its end would have done.

    Args:
        monitor: the metric, as given to `self.log`; with `sync_dist=True` where there are several processes, so
            that all of them choose the same epoch.
        mode: `"min"` if it is to become small, `"max"` if large.
        check_on_train_epoch_end: whether the metric is looked at when a training epoch ends. None: when a
            validation ends, or at the end of the training epoch where there is no validation.
        keep: how many of the newest weights are kept beside the best, to compare or to average. With 0, a snapshot
            is taken only of weights that are better.
        snapshot_mode: `"eager"`, `"lazy"` or `"background"`: the `mode` of the history.
        max_bytes: how much memory the snapshots may hold, see `History`.
        device: where their bytes go, see `History`.

    Example:
        >>> from torchcopy.integrations.lightning import BestWeights
        >>> BestWeights("val_loss", mode="min").monitor
        'val_loss'
    """

    def __init__(
        self,
        monitor: str,
        *,
        mode: Goal = "min",
        check_on_train_epoch_end: bool | None = None,
        keep: int = 0,
        snapshot_mode: Mode = "eager",
        max_bytes: int | None = None,
        device: str | torch.device | None = None,
    ) -> None:
        self.monitor, self.mode, self.check_on_train_epoch_end = monitor, mode, check_on_train_epoch_end
        self._weights = _BestWeights(
            monitor, mode, keep=keep, snapshot_mode=snapshot_mode, max_bytes=max_bytes, device=device
        )
        self._fitting = False

    @property
    def history(self) -> History | None:
        """The snapshots; None before the first training."""
        return self._weights.history

    @property
    def best(self) -> Snapshot | None:
        """The best of them, None if there is none."""
        return self._weights.best

    @property
    def best_score(self) -> float | None:
        """The best value of the metric, None if there is none."""
        return self._weights.best_score

    @property
    def state_key(self) -> str:
        """Tells the states of several callbacks in a checkpoint apart."""
        return self._generate_state_key(monitor=self.monitor, mode=self.mode)

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Begins a history for each training."""
        self._fitting = stage == "fit"
        if self._fitting:
            self._weights.start(pl_module)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Looks at the metric of a validation."""
        if self._fitting and not trainer.sanity_checking and not self.check_on_train_epoch_end:
            self._observe(trainer)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Looks at the metric of a training epoch."""
        at_end = self.check_on_train_epoch_end
        if at_end or (at_end is None and not trainer.enable_validation):
            self._observe(trainer)

    def _observe(self, trainer: Trainer) -> None:
        metrics = trainer.callback_metrics
        if self.monitor not in metrics:
            raise InputError(
                f"BestWeights({self.monitor!r}): no such metric here, there are "
                f"{', '.join(map(repr, metrics)) or 'none'}. Call `self.log({self.monitor!r}, value)`, and pass "
                "check_on_train_epoch_end=True if that is in the training step"
            )
        value = metrics[self.monitor]
        self._weights.observe(value, step=trainer.global_step, epoch=trainer.current_epoch)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Restores the best weights."""
        self._weights.restore()

    def state_dict(self) -> dict[str, Any]:
        """The best weights, for the checkpoint."""
        return self._weights.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Those of the checkpoint that a training is resumed from."""
        if self._fitting:
            self._weights.load_state_dict(state_dict)


class RollbackOnNaN(Callback):
    """Brings the run back to where it was good when the loss is NaN or infinite.

    Back goes what the optimizers' steps have changed: the model, all optimizers, the schedulers and the scaler of
    mixed precision. The data go on, and so do the counts of steps and epochs and the random numbers: the same batch
    with the same dropout might lead to the same NaN. Each time there is a `RollbackWarning`. To look at the loss of
    each step waits for the device. In a distributed run, one bad loss brings all processes back.

    Args:
        monitor: the logged metric to look at; None for the loss that the training step returns.
        every_n_steps: how many steps of the optimizers lie between two snapshots.
        max_rollbacks: how often it goes back. The next time the run is brought back and the training stops.
        lr_factor: by how much the learning rate is multiplied each time, with what the schedulers compute it from.
        divergence_threshold: a loss above it counts as one that is not finite; None for no limit. With
            `accumulate_grad_batches`, Lightning divides the loss before it is looked at.
        keep: how many snapshots there are. Where the run fails again before a new one, it goes back one further.
        snapshot_mode: `"eager"`, `"lazy"` or `"background"`: the `mode` of the history.
        max_bytes: how much memory the snapshots may hold, see `History`.
        device: where their bytes go, see `History`.

    Example:
        >>> from torchcopy.integrations.lightning import RollbackOnNaN
        >>> RollbackOnNaN(every_n_steps=50, lr_factor=0.5).rollbacks
        0
    """

    def __init__(
        self,
        *,
        monitor: str | None = None,
        every_n_steps: int = 100,
        max_rollbacks: int = 3,
        lr_factor: float = 1.0,
        divergence_threshold: float | None = None,
        keep: int = 2,
        snapshot_mode: Mode = "eager",
        max_bytes: int | None = None,
        device: str | torch.device | None = None,
    ) -> None:
        self.monitor = monitor
        self._rollback = Rollback(
            every_n_steps=every_n_steps,
            max_rollbacks=max_rollbacks,
            lr_factor=lr_factor,
            divergence_threshold=divergence_threshold,
            keep=keep,
            snapshot_mode=snapshot_mode,
            max_bytes=max_bytes,
            device=device,
        )

    @property
    def history(self) -> History | None:
        """The snapshots; None before the first training."""
        return self._rollback.history

    @property
    def rollbacks(self) -> int:
        """How often the run went back."""
        return self._rollback.rollbacks

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Begins to count anew with each training; a checkpoint that is loaded later has its count."""
        if stage == "fit":
            self._rollback.rollbacks = 0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Takes the first snapshot."""
        objects: dict[str, Any] = {"model": pl_module}
        schedulers = [config.scheduler for config in trainer.lr_scheduler_configs]
        for kind, several in (("optimizer", trainer.optimizers), ("scheduler", schedulers)):
            for number, each in enumerate(several):
                objects[kind if len(several) == 1 else f"{kind}_{number}"] = each
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        if scaler is not None:
            objects["scaler"] = scaler
        self._rollback.start(objects, trainer.global_step)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Looks at the loss; goes back, or takes a snapshot when it is time."""
        goes_on = self._rollback.after_step(
            trainer.global_step,
            self._losses(trainer, pl_module, outputs),
            agree=lambda bad: trainer.strategy.reduce_boolean_decision(bad, all=False),
        )
        if not goes_on:
            trainer.should_stop = True

    def _losses(self, trainer: Trainer, pl_module: LightningModule, outputs: Any) -> list[Any]:
        if self.monitor is not None:
            if self.monitor not in trainer.callback_metrics:
                raise InputError(
                    f"RollbackOnNaN(monitor={self.monitor!r}): the training step logged no such metric, but "
                    f"{', '.join(map(repr, trainer.callback_metrics)) or 'none'}"
                )
            return [trainer.callback_metrics[self.monitor]]
        loss = outputs if isinstance(outputs, Tensor) else (outputs or {}).get("loss")
        if loss is None and not pl_module.automatic_optimization:
            raise InputError(
                "RollbackOnNaN: the training step returned no loss. Return it, or log it and pass monitor=…"
            )
        return [] if loss is None else [loss]

    def state_dict(self) -> dict[str, Any]:
        """How often the run went back, for the checkpoint."""
        return {"rollbacks": self._rollback.rollbacks}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on counting."""
        self._rollback.rollbacks = state_dict["rollbacks"]
