"""The best weights of a training, whatever loop it runs in."""

from __future__ import annotations

import math
import warnings
from typing import Any

import torch
from torch import nn

from .._errors import InputError
from ..history.history import History, Mode
from ..history.retention import Goal
from ..history.snapshot import Snapshot


class BestWeights:
    """Takes a snapshot of a model whenever a metric is better than ever before, and brings the best one back.

    Args:
        metric: its name, a label of the snapshots.
        goal: whether it is to become small, `"min"`, or large, `"max"`.
        keep: how many of the newest weights are kept beside the best, to compare or to average. With 0, a snapshot
            is taken only of weights that are better.
        snapshot_mode: the `mode` of the history.
        max_bytes: see `History`.
        device: see `History`.

    Attributes:
        history: where the snapshots are; None before `start`.
        best_score: the best value of the metric so far.
    """

    def __init__(
        self,
        metric: str,
        goal: Goal,
        *,
        keep: int,
        snapshot_mode: Mode,
        max_bytes: int | None,
        device: str | torch.device | None,
    ) -> None:
        if not isinstance(keep, int) or isinstance(keep, bool) or keep < 0:
            raise InputError(f"`keep` must be a number of snapshots from 0 on; got {keep!r}")
        self.metric, self.goal, self.keep = metric, goal, keep
        self._options: dict[str, Any] = {
            "keep": max(keep, 1),
            "keep_best": {metric: goal},
            "mode": snapshot_mode,
            "max_bytes": max_bytes,
            "device": device,
            "rng": False,
        }
        History(nothing=None, **self._options)  # the options are checked before the training begins
        self.history: History | None = None
        self.best_score: float | None = None
        self._model: nn.Module | None = None

    def start(self, model: nn.Module) -> None:
        """Begins anew, with no snapshots."""
        self.history = History(model=model, **self._options)
        self.best_score, self._model = None, model

    def observe(self, value: Any, **labels: Any) -> None:
        """Takes a snapshot if these weights are the best, or the newest are kept too."""
        score = float(value)
        better = not math.isnan(score) and (
            self.best_score is None or (score < self.best_score if self.goal == "min" else score > self.best_score)
        )
        if better:
            self.best_score = score
        if self.history is not None and (better or self.keep):
            self.history.take(**{**labels, self.metric: score})

    @property
    def best(self) -> Snapshot | None:
        """The snapshot with the best value, None if there is none."""
        if self.history is None or self.best_score is None:
            return None
        return self.history.best(self.metric)

    def restore(self) -> None:
        """Writes the best weights into the model; warns where the metric never had a value."""
        if self.best is None:
            warnings.warn(
                f"{self.metric!r} never had a value that is a number: the model keeps its last weights",
                stacklevel=2,
            )
        else:
            self.best.restore()

    def state_dict(self) -> dict[str, Any]:
        """The best weights and what they were labelled with, for a checkpoint."""
        if self.best is None:
            return {}
        return {"labels": dict(self.best.labels), "model": self.best.state_dict("model")}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Puts the best weights of an interrupted training into the history. The model stays as it is."""
        if not state or self._model is None:
            return
        now = History(model=self._model, rng=False).take()
        try:
            self._model.load_state_dict(state["model"])
            labels = dict(state["labels"])
            if self.metric in labels:
                self.observe(labels.pop(self.metric), **labels)
        finally:
            now.restore()
