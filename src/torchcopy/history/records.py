"""What a history and its snapshots hold, as records."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor

from .. import _torch_private
from .._tensors import describe, format_bytes, has_storage
from .held_bytes import held_bytes, storages_of
from .retention import Goal, best_of

if TYPE_CHECKING:
    from .snapshot import Snapshot

How = Literal["copied", "lazy", "on its way"]


@dataclasses.dataclass(frozen=True)
class HeldTensor:
    """A tensor in a snapshot.

    Attributes:
        path: part and name, `model['0.weight']`.
        how: `"copied"`: it has its own bytes. `"lazy"`: it shares them until somebody writes. `"on its way"`: it is
            lazy until the thread of the background mode has moved it.
        why: why it was copied at once in a mode that does not; empty elsewhere.
        nbytes: of its elements.
    """

    path: str
    how: How
    why: str
    nbytes: int

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data, ready for JSON."""
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True)
class SnapshotReport:
    """How a snapshot holds its tensors.

    Attributes:
        mode: what was asked for.
        tensors: each one.
    """

    mode: str
    tensors: tuple[HeldTensor, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors together, shared ones included."""
        return sum(t.nbytes for t in self.tensors)

    @property
    def fallbacks(self) -> tuple[HeldTensor, ...]:
        """Those that were copied at once although the mode is another."""
        return tuple(t for t in self.tensors if t.why)

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data, ready for JSON."""
        return {"mode": self.mode, "tensors": [t.to_dict() for t in self.tensors]}

    def __str__(self) -> str:
        counts: dict[str, list[int]] = {}
        for t in self.tensors:
            entry = counts.setdefault(t.how, [0, 0])
            entry[0] += 1
            entry[1] += t.nbytes
        listed = ", ".join(f"{n} {how} ({format_bytes(size)})" for how, (n, size) in counts.items())
        lines = [f"{self.mode}: {listed or 'no tensors'}"]
        lines += [f"  {t.path}: copied at once: {t.why}" for t in self.fallbacks]
        return "\n".join(lines)


def report_on(snapshot: Snapshot) -> SnapshotReport:
    """How the snapshot holds each of its tensors now."""
    listed = []
    at_once = snapshot._held.at_once
    for name in snapshot.parts:
        for path, t in snapshot._named_tensors(name):
            lazy = has_storage(t) and _torch_private.is_lazy(t)
            how: How = "copied" if not lazy else "lazy" if snapshot.ready else "on its way"
            fell_back = snapshot.mode == "lazy" and not lazy if at_once is None else id(t) in at_once
            why = _why_not_lazy(t) if fell_back else ""
            listed.append(HeldTensor(f"{name}{path}", how, why, t.nbytes if has_storage(t) else 0))
    return SnapshotReport(snapshot.mode, tuple(listed))


def _why_not_lazy(t: Tensor) -> str:
    if not _torch_private.copy_on_write_works():
        return "this PyTorch has no copy-on-write that torchcopy can watch (see `torchcopy doctor`)"
    if not has_storage(t) or t.is_quantized or t.is_nested:
        return f"PyTorch has no copy-on-write for {describe(t)}"
    if t.numel() == 0:
        return "it has no elements"
    return "PyTorch has no copy-on-write for memory that it does not own, or of which only a part is viewed"


@dataclasses.dataclass(frozen=True)
class KeptSnapshot:
    """A snapshot in a history.

    Attributes:
        number: of the snapshot.
        labels: what it was taken with.
        best: the metrics by which it is the best.
        nbytes: what it holds alone: bytes that no other snapshot has, nor a live object.
    """

    number: int
    labels: dict[str, Any]
    best: tuple[str, ...]
    nbytes: int


@dataclasses.dataclass(frozen=True)
class HistoryReport:
    """What a history holds.

    Attributes:
        mode: how its snapshots are taken.
        nbytes: all that is held, shared bytes counted once, and those of live objects not at all.
        snapshots: each one, oldest first.
    """

    mode: str
    nbytes: int
    snapshots: tuple[KeptSnapshot, ...]

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data, ready for JSON."""
        return dataclasses.asdict(self)

    def __str__(self) -> str:
        lines = [f"{len(self.snapshots)} snapshots ({self.mode}), {format_bytes(self.nbytes)} held"]
        for each in self.snapshots:
            labels = " ".join(f"{name}={value}" for name, value in each.labels.items())
            best = f"  best {', '.join(each.best)}" if each.best else ""
            lines.append(f"  {each.number}: {labels or 'no labels'}, {format_bytes(each.nbytes)} of its own{best}")
        return "\n".join(lines)


def report_on_history(
    mode: str, snapshots: Sequence[Snapshot], keep_best: Mapping[str, Goal], live: Collection[int]
) -> HistoryReport:
    """What the snapshots hold, where live tensors have the bytes at the addresses `live`."""
    each_held = [storages_of(each._tensors()) for each in snapshots]
    counts = Counter(address for held in each_held for address in held)
    best: dict[int, list[str]] = {}
    for metric, goal in keep_best.items():
        found = best_of(snapshots, metric, goal)
        if found is not None:
            best.setdefault(id(found), []).append(metric)
    listed = tuple(
        KeptSnapshot(
            each.number,
            dict(each.labels),
            tuple(best.get(id(each), ())),
            each._value_bytes
            + sum(size for address, size in held.items() if counts[address] == 1 and address not in live),
        )
        for each, held in zip(snapshots, each_held, strict=True)
    )
    held = sum(each._value_bytes for each in snapshots)
    return HistoryReport(mode, held + held_bytes((each._tensors() for each in snapshots), live), listed)
