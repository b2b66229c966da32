"""Handlers for PyTorch-Ignite."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from ignite.engine import Engine, Events
from torch import Tensor, nn

from .._errors import InputError
from ..history.history import History, Mode
from ..history.retention import Goal
from ..history.snapshot import Snapshot
from .best_weights import BestWeights as _BestWeights
from .rollback import Rollback, any_process


class BestWeights:
    """Keeps the best weights in memory, and writes them back into the model when the trainer has completed.

    Add it to the evaluator: `evaluator.add_event_handler(Events.COMPLETED, handler)`. Handlers that the trainer got
    for `Events.COMPLETED` before this one was made still see the last weights. It has a `state_dict`, the best
    weights: among the `to_save` of a `Checkpoint`, a resumed training ends with the best of all epochs.

    Args:
        model: whose weights they are.
        trainer: when it has completed, the best ones are restored.
        score_function: gives the score from the evaluator; None for the metric `score_name`.
        score_name: the name of the score, a label of the snapshots.
        mode: `"max"` if the score is to become large, `"min"` if small.
        keep: how many of the newest weights are kept beside the best, to compare or to average. With 0, a snapshot
            is taken only of weights that are better.
        snapshot_mode: `"eager"`, `"lazy"` or `"background"`: the `mode` of the history.
        max_bytes: how much memory the snapshots may hold, see `History`.
        device: where their bytes go, see `History`.

    Example:
        >>> import torch
        >>> from ignite.engine import Engine, Events
        >>> from torchcopy.integrations.ignite import BestWeights
        >>> trainer, evaluator = Engine(lambda engine, batch: None), Engine(lambda engine, batch: None)
        >>> best = BestWeights(torch.nn.Linear(2, 1), trainer, score_name="accuracy")
        >>> _ = evaluator.add_event_handler(Events.COMPLETED, best)
    """

    def __init__(
        self,
        model: nn.Module,
        trainer: Engine,
        score_function: Callable[[Engine], float] | None = None,
        score_name: str | None = None,
        mode: Goal = "max",
        *,
        keep: int = 0,
        snapshot_mode: Mode = "eager",
        max_bytes: int | None = None,
        device: str | torch.device | None = None,
    ) -> None:
        if score_function is None and score_name is None:
            raise InputError("say what is best: score_name=… for a metric of the evaluator, or score_function=…")
        self._score_function, self._score_name = score_function, score_name or "score"
        self._trainer = trainer
        self._weights = _BestWeights(
            self._score_name, mode, keep=keep, snapshot_mode=snapshot_mode, max_bytes=max_bytes, device=device
        )
        self._weights.start(model)
        trainer.add_event_handler(Events.COMPLETED, self._restore)

    @property
    def history(self) -> History | None:
        """The snapshots."""
        return self._weights.history

    @property
    def best(self) -> Snapshot | None:
        """The best of them, None if there is none."""
        return self._weights.best

    @property
    def best_score(self) -> float | None:
        """The best score, None if there is none."""
        return self._weights.best_score

    def __call__(self, engine: Engine) -> None:
        """Looks at the score of the evaluator."""
        if self._score_function is not None:
            score = self._score_function(engine)
        elif self._score_name in engine.state.metrics:
            score = engine.state.metrics[self._score_name]
        else:
            there = ", ".join(map(repr, engine.state.metrics)) or "none"
            raise InputError(f"BestWeights: the evaluator has no metric {self._score_name!r}: there are {there}")
        state = self._trainer.state
        self._weights.observe(score, step=state.iteration, epoch=state.epoch)

    def _restore(self, _: Engine) -> None:
        self._weights.restore()

    def state_dict(self) -> dict[str, Any]:
        """The best weights, for a checkpoint."""
        return self._weights.state_dict()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Those of a checkpoint. The model stays as it is."""
        self._weights.load_state_dict(dict(state_dict))


class RollbackOnNaN:
    """Brings the run back to where it was good when the trainer's output has a NaN or an infinite number in it.

    Add it with `attach(trainer)`. The data go on, and so do the trainer's counts and the random numbers: the same
    batch with the same dropout might lead to the same NaN. Each time there is a `RollbackWarning`. To look at the
    output of each iteration waits for the device. In a distributed run, one bad output brings all processes back.

    Args:
        to_save: what goes back, by name, as for a `Checkpoint`: model, optimizers, schedulers, scaler; not the
            trainer, whose data go on.
        every: how many iterations lie between two snapshots.
        output_transform: gives the loss from the trainer's output: a number, a tensor, a NumPy array, or a nest of
            those.
        max_rollbacks: how often it goes back. The next time the run is brought back and terminated.
        lr_factor: by how much the learning rate is multiplied each time, with what PyTorch's schedulers compute it
            from. Ignite's own schedulers set the rate by themselves: they do not see it.
        divergence_threshold: a loss above it counts as one that is not finite; None for no limit.
        keep: how many snapshots there are. Where the run fails again before a new one, it goes back one further.
        snapshot_mode: `"eager"`, `"lazy"` or `"background"`: the `mode` of the history.
        max_bytes: how much memory the snapshots may hold, see `History`.
        device: where their bytes go, see `History`.

    Example:
        >>> import torch
        >>> from ignite.engine import Engine
        >>> from torchcopy.integrations.ignite import RollbackOnNaN
        >>> trainer = Engine(lambda engine, batch: float(batch))
        >>> RollbackOnNaN({"model": torch.nn.Linear(2, 1)}, every=50, lr_factor=0.5).attach(trainer)
    """

    def __init__(
        self,
        to_save: Mapping[str, Any],
        *,
        every: int = 100,
        output_transform: Callable[[Any], Any] = lambda output: output,
        max_rollbacks: int = 3,
        lr_factor: float = 1.0,
        divergence_threshold: float | None = None,
        keep: int = 2,
        snapshot_mode: Mode = "eager",
        max_bytes: int | None = None,
        device: str | torch.device | None = None,
    ) -> None:
        for name, value in to_save.items():
            if isinstance(value, Engine):
                raise InputError(f"`to_save[{name!r}]` is an engine: its data go on, so leave it out")
        self._to_save = dict(to_save)
        self._output_transform = output_transform
        self._rollback = Rollback(
            every_n_steps=every,
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
        """The snapshots; None before the trainer has started."""
        return self._rollback.history

    @property
    def rollbacks(self) -> int:
        """How often the run went back."""
        return self._rollback.rollbacks

    def attach(self, trainer: Engine) -> None:
        """Adds it to the trainer."""
        trainer.add_event_handler(Events.STARTED, self._start)
        trainer.add_event_handler(Events.ITERATION_COMPLETED, self)

    def _start(self, trainer: Engine) -> None:
        self._rollback.start(self._to_save, trainer.state.iteration)

    def __call__(self, trainer: Engine) -> None:
        """Looks at the output; goes back, or takes a snapshot when it is time."""
        losses = _numbers_in(self._output_transform(trainer.state.output))
        if not self._rollback.after_step(trainer.state.iteration, losses, agree=any_process):
            trainer.terminate()

    def state_dict(self) -> dict[str, Any]:
        """How often the run went back, for a checkpoint."""
        return {"rollbacks": self._rollback.rollbacks}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Goes on counting."""
        self._rollback.rollbacks = state_dict["rollbacks"]


def _numbers_in(output: Any) -> Iterator[Any]:
    if isinstance(output, (Tensor, numbers.Number)):
        yield output
    elif isinstance(output, np.ndarray):
        if output.dtype.kind in "biufc":  # as a copy: torch reads neither every byte order nor every stride
            wide = np.complex128 if output.dtype.kind == "c" else np.float64
            yield torch.from_numpy(np.array(output, dtype=wide, order="C"))
        elif output.dtype.kind == "O":
            yield from _numbers_in(output.tolist())
    elif isinstance(output, Mapping):
        for value in output.values():
            yield from _numbers_in(value)
    elif isinstance(output, Sequence) and not isinstance(output, str):
        for value in output:
            yield from _numbers_in(value)
