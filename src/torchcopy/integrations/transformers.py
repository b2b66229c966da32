"""Callbacks for the `Trainer` of Hugging Face Transformers."""

from __future__ import annotations

import math
import warnings
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import get_total_norm
from torch.utils.hooks import RemovableHandle
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from ..history.history import History, Mode
from ..history.snapshot import Snapshot
from .best_weights import BestWeights
from .rollback import Rollback, any_process


class BestWeightsCallback(TrainerCallback):
    """Keeps the best weights in memory, and writes them back into the model when the training ends.

    What `load_best_model_at_end` does, without a checkpoint for each evaluation. The optimizer stays as it is in
    the last step. A resumed training knows the metrics of the part before, but not its weights: where those were
    better than all that came later, there is a warning.

    Args:
        metric_for_best_model: the metric of the evaluation, with or without `eval_`; None for that of the
            `TrainingArguments`, else `"loss"`.
        greater_is_better: None for that of the `TrainingArguments`; else False for names that end in `loss`.
        keep: how many of the newest weights are kept beside the best, to compare or to average. With 0, a snapshot
            is taken only of weights that are better.
        snapshot_mode: `"eager"`, `"lazy"` or `"background"`: the `mode` of the history.
        max_bytes: how much memory the snapshots may hold, see `History`.
        device: where their bytes go, see `History`.

    Example:
        >>> from torchcopy.integrations.transformers import BestWeightsCallback
        >>> callback = BestWeightsCallback("accuracy")      # Trainer(…, callbacks=[callback])
        >>> callback.history is None                        # it begins with the training
        True
    """

    def __init__(
        self,
        metric_for_best_model: str | None = None,
        greater_is_better: bool | None = None,
        *,
        keep: int = 0,
        snapshot_mode: Mode = "eager",
        max_bytes: int | None = None,
        device: str | torch.device | None = None,
    ) -> None:
        self.metric_for_best_model, self.greater_is_better = metric_for_best_model, greater_is_better
        self._options: dict[str, Any] = {
            "keep": keep,
            "snapshot_mode": snapshot_mode,
            "max_bytes": max_bytes,
            "device": device,
        }
        BestWeights("eval_loss", "min", **self._options)  # the options are checked before the training begins
        self._weights: BestWeights | None = None
        self._training = False
        self._best_before: tuple[float, float] | None = None

    @property
    def history(self) -> History | None:
        """The snapshots; None before the first training."""
        return None if self._weights is None else self._weights.history

    @property
    def best(self) -> Snapshot | None:
        """The best of them, None if there is none."""
        return None if self._weights is None else self._weights.best

    @property
    def best_score(self) -> float | None:
        """The best value of the metric, None if there is none."""
        return None if self._weights is None else self._weights.best_score

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Begins a history for each training."""
        metric = self.metric_for_best_model or args.metric_for_best_model or "loss"
        metric = metric if metric.startswith("eval_") else f"eval_{metric}"
        greater = self.greater_is_better
        if greater is None and self.metric_for_best_model in (None, args.metric_for_best_model):
            greater = args.greater_is_better
        if greater is None:
            greater = not metric.endswith("loss")
        self._weights = BestWeights(metric, "max" if greater else "min", **self._options)
        self._weights.start(kwargs["model"])
        self._training, self._best_before = True, None
        self._look_at_the_part_before(self._weights, state)

    def _look_at_the_part_before(self, weights: BestWeights, state: TrainerState) -> None:
        """Of a resumed training: these weights may have been evaluated, others better ones are gone."""
        sign = 1 if weights.goal == "max" else -1
        for logs in state.log_history:
            value = logs.get(weights.metric, math.nan)
            if logs["step"] == state.global_step and state.global_step:
                weights.observe(value, step=state.global_step, epoch=logs.get("epoch"))
            elif not math.isnan(value) and (
                self._best_before is None or sign * value > sign * self._best_before[0]
            ):
                self._best_before = value, logs["step"]

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Looks at the metric. Where there are several sets to evaluate, it is in the metrics of one."""
        metrics = kwargs["metrics"]
        weights = self._weights
        if self._training and weights is not None and weights.metric in metrics:
            weights.observe(metrics[weights.metric], step=state.global_step, epoch=state.epoch)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Restores the best weights."""
        self._training = False
        weights = self._weights
        if weights is None:
            return
        weights.restore()
        if self._best_before is not None and weights.best_score is not None:
            before, step = self._best_before
            if before > weights.best_score if weights.goal == "max" else before < weights.best_score:
                warnings.warn(
                    f"{weights.metric} was {before:g} at step {step}, before the training was resumed, and those "
                    f"weights are not in memory: the best since then, {weights.best_score:g}, were restored",
                    stacklevel=2,
                )


class RollbackOnNaNCallback(TrainerCallback):
    """Brings the run back to where it was good when the loss or the gradients are NaN or infinite.

    Back goes what the optimizer's steps have changed: the model, the optimizer, the scheduler and the scaler of
    mixed precision. The data go on, and so do the counts of steps and the random numbers: the same batch with the
    same dropout might lead to the same NaN. Each time there is a `RollbackWarning`.

    The loss is the one that the model returns. A loss computed elsewhere is not to be seen from a callback; then
    the gradients tell. With float16 they do not, as there the scaler meets infinite ones from time to time, and
    passes over those steps itself. To look at them waits for the device, at each step.

    Args:
        every_n_steps: how many steps of the optimizer lie between two snapshots.
        max_rollbacks: how often it goes back. The next time the run is brought back and the training stops.
        lr_factor: by how much the learning rate is multiplied each time, with what the scheduler computes it from.
        divergence_threshold: a loss above it counts as one that is not finite; None for no limit.
        keep: how many snapshots there are. Where the run fails again before a new one, it goes back one further.
        snapshot_mode: `"eager"`, `"lazy"` or `"background"`: the `mode` of the history.
        max_bytes: how much memory the snapshots may hold, see `History`.
        device: where their bytes go, see `History`.

    Example:
        >>> from torchcopy.integrations.transformers import RollbackOnNaNCallback
        >>> RollbackOnNaNCallback(every_n_steps=50, lr_factor=0.5).rollbacks
        0
    """

    def __init__(
        self,
        *,
        every_n_steps: int = 100,
        max_rollbacks: int = 3,
        lr_factor: float = 1.0,
        divergence_threshold: float | None = None,
        keep: int = 2,
        snapshot_mode: Mode = "eager",
        max_bytes: int | None = None,
        device: str | torch.device | None = None,
    ) -> None:
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
        self._losses: list[Tensor] = []
        self._gradients_are_finite = True
        self._hook: RemovableHandle | None = None

    @property
    def history(self) -> History | None:
        """The snapshots; None before the first training."""
        return self._rollback.history

    @property
    def rollbacks(self) -> int:
        """How often the run went back."""
        return self._rollback.rollbacks

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Takes the first snapshot."""
        model, optimizer, scheduler = kwargs["model"], kwargs["optimizer"], kwargs["lr_scheduler"]
        objects: dict[str, Any] = {"model": model}
        if optimizer is not None:  # Accelerate wraps both
            objects["optimizer"] = getattr(optimizer, "optimizer", optimizer)
        if scheduler is not None:
            objects["scheduler"] = getattr(scheduler, "scheduler", scheduler)
        if _scaler_of(optimizer) is not None:
            objects["scaler"] = _scaler_of(optimizer)
        self._stop_looking()
        self._hook = model.register_forward_hook(self._look_at)
        self._losses, self._gradients_are_finite = [], True
        self._rollback.rollbacks = 0
        self._rollback.start(objects, state.global_step)

    def _look_at(self, model: nn.Module, inputs: Any, output: Any) -> None:
        loss = output.get("loss") if isinstance(output, dict) else None
        if model.training and isinstance(loss, Tensor):
            self._losses.append(loss.detach())

    def on_pre_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Looks at the gradients."""
        if _scaler_of(kwargs["optimizer"]) is None:
            gradients = [p.grad for p in kwargs["model"].parameters() if p.grad is not None and p.numel()]
            self._gradients_are_finite = bool(torch.isfinite(get_total_norm(gradients, norm_type=math.inf)))

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> TrainerControl:
        """Goes back, or takes a snapshot when it is time."""
        goes_on = self._rollback.after_step(
            state.global_step,
            self._losses,
            wrong="" if self._gradients_are_finite else "a gradient is not finite",
            agree=any_process,
        )
        self._losses, self._gradients_are_finite = [], True
        if not goes_on:
            control.should_training_stop = True
        return control

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Leaves the model without its hook."""
        self._stop_looking()

    def _stop_looking(self) -> None:
        if self._hook is not None:
            self._hook.remove()
            self._hook = None


def _scaler_of(optimizer: Any) -> Any:
    """The scaler of mixed precision, which Accelerate gives to its optimizer; None if there is none."""
    return getattr(optimizer, "scaler", None)
