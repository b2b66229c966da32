"""What a history is about, as a record: what was taken, what is kept, and how far the weights moved."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .held_bytes import storages_of
from .retention import Goal, best_of

if TYPE_CHECKING:
    from .history import History
    from .snapshot import Snapshot

COUNTERS = ("step", "global_step", "iteration", "iter", "batch", "epoch")
"""Labels that say when a snapshot was taken rather than how good it is, the finest first."""


@dataclasses.dataclass(frozen=True)
class TakenSnapshot:
    """A snapshot that was taken, whether or not it is still there.

    Attributes:
        number: 0 for the first snapshot of the history.
        labels: what it was taken with.
        kept: whether the history has it still.
    """

    number: int
    labels: dict[str, Any]
    kept: bool

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data, ready for JSON."""
        return {**dataclasses.asdict(self), "labels": plain_labels(self.labels)}


@dataclasses.dataclass(frozen=True)
class SnapshotSummary:
    """A kept snapshot, in a few figures.

    Attributes:
        number: of the snapshot.
        labels: what it was taken with.
        taken_at: when, in seconds since the epoch.
        parts: names of its parts.
        tensors: how many there are in all parts.
        nbytes: of its tensors, shared memory once.
        best: the metrics by which it is the best.
    """

    number: int
    labels: dict[str, Any]
    taken_at: float
    parts: tuple[str, ...]
    tensors: int
    nbytes: int
    best: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data, ready for JSON."""
        plain = {"parts": list(self.parts), "best": list(self.best), "labels": plain_labels(self.labels)}
        return {**dataclasses.asdict(self), **plain}


@dataclasses.dataclass(frozen=True)
class HistoryOverview:
    """A history: each snapshot that was taken, and each that is kept.

    Attributes:
        taken: all that were taken, in order.
        snapshots: those that are kept, in order.
        keep_best: metrics by which the best is kept, with what is best.
        nbytes: what all kept snapshots hold, shared memory once.
    """

    taken: tuple[TakenSnapshot, ...]
    snapshots: tuple[SnapshotSummary, ...]
    keep_best: Mapping[str, Goal]
    nbytes: int

    @property
    def counter(self) -> str | None:
        """The label that says when a snapshot was taken; None where no such label is a number in all of them."""
        for name in COUNTERS:
            if self.taken and all(_is_finite(each.labels.get(name)) for each in self.taken):
                return name
        return None

    @property
    def metrics(self) -> tuple[str, ...]:
        """The labels that are numbers and no counters, in the order in which they came."""
        found = (name for each in self.taken for name, value in each.labels.items() if is_number(value))
        return tuple(name for name in dict.fromkeys(found) if name not in COUNTERS)

    def when(self, taken: TakenSnapshot | SnapshotSummary) -> float:
        """The counter of a snapshot; its number where there is no counter."""
        return taken.number if self.counter is None else taken.labels[self.counter]

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data, ready for JSON; what is no finite number becomes a string there."""
        return {
            "nbytes": self.nbytes,
            "keep_best": dict(self.keep_best),
            "snapshots": [each.to_dict() for each in self.snapshots],
            "taken": [each.to_dict() for each in self.taken],
        }


def overview(history: History) -> HistoryOverview:
    """The record of a history as it is now. Reads only."""
    best: dict[int, list[str]] = {}
    kept = tuple(history)
    for metric, goal in history.keep_best.items():
        found = best_of(kept, metric, goal)
        if found is not None:
            best.setdefault(found.number, []).append(metric)
    return HistoryOverview(
        taken=history.records,
        snapshots=tuple(_summary(each, best.get(each.number, ())) for each in kept),
        keep_best=dict(history.keep_best),
        nbytes=sum(storages_of(t for each in kept for t in each._tensors()).values())
        + sum(each._value_bytes for each in kept),
    )


def _summary(snapshot: Snapshot, best: Sequence[str]) -> SnapshotSummary:
    return SnapshotSummary(
        number=snapshot.number,
        labels=dict(snapshot.labels),
        taken_at=snapshot.taken_at,
        parts=snapshot.parts,
        tensors=sum(1 for name in snapshot.parts for _ in snapshot._named_tensors(name)),
        nbytes=sum(storages_of(snapshot._tensors()).values()) + snapshot._value_bytes,
        best=tuple(best),
    )


def plain_labels(labels: Mapping[str, Any]) -> dict[str, Any]:
    """Labels as strict JSON can hold them."""
    return {name: plain_number(value) for name, value in labels.items()}


def plain_number(value: Any) -> Any:
    """The value itself; `"nan"`, `"inf"`, `"-inf"` for what is no finite number: strict JSON has no word for it."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def is_number(value: object) -> bool:
    """Whether a label is a metric: any number, NaN too."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_finite(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
