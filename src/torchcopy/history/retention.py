"""Which snapshots a history keeps: the newest ones, and the best by each metric."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from .._errors import InputError

if TYPE_CHECKING:
    from .snapshot import Snapshot

Goal = Literal["min", "max"]


def parse_keep(keep: Any) -> int | None:
    """How many of the newest are kept; None for all.

    Raises:
        InputError: it is no number of snapshots.
    """
    if keep is None or (isinstance(keep, int) and not isinstance(keep, bool) and keep >= 1):
        return keep
    raise InputError(f"`keep` must be a number of snapshots from 1 on, or None for all of them; got {keep!r}")


def parse_keep_best(keep_best: Any) -> dict[str, Goal]:
    """The metrics by which the best snapshot is kept, with what is best.

    Raises:
        InputError: it does not say that.
    """
    if keep_best is None:
        return {}
    if not isinstance(keep_best, Mapping):
        raise InputError(f'`keep_best` must be a dict such as {{"val_loss": "min"}}; got {keep_best!r}')
    for name, goal in keep_best.items():
        if not isinstance(name, str):
            raise InputError(f"`keep_best` maps the names of metrics to 'min' or 'max'; got the name {name!r}")
        if goal not in ("min", "max"):
            raise InputError(f"`keep_best[{name!r}]` must be 'min' or 'max'; got {goal!r}")
    return dict(keep_best)


def parse_max_bytes(max_bytes: Any) -> int | None:
    """How many bytes snapshots may hold; None for any number.

    Raises:
        InputError: it is no number of bytes.
    """
    if max_bytes is None or (isinstance(max_bytes, int) and not isinstance(max_bytes, bool) and max_bytes >= 0):
        return max_bytes
    raise InputError(f"`max_bytes` must be a number of bytes, or None; got {max_bytes!r}")


def best_of(snapshots: Sequence[Snapshot], metric: str, goal: Goal) -> Snapshot | None:
    """The snapshot with the smallest or largest value, the first of those; None where no one has a number there."""
    best, best_value = None, math.nan
    for snapshot in snapshots:
        value = snapshot.metrics.get(metric, math.nan)
        if math.isnan(value):
            continue
        if best is None or (value < best_value if goal == "min" else value > best_value):
            best, best_value = snapshot, value
    return best


def kept(snapshots: Sequence[Snapshot], keep: int | None, keep_best: Mapping[str, Goal]) -> list[Snapshot]:
    """Those that stay, in order: the newest `keep`, and the best by each metric."""
    if keep is None or len(snapshots) <= keep:
        return list(snapshots)
    staying = set(map(id, snapshots[-keep:])) | set(map(id, bests(snapshots, keep_best)))
    return [snapshot for snapshot in snapshots if id(snapshot) in staying]


def bests(snapshots: Sequence[Snapshot], keep_best: Mapping[str, Goal]) -> list[Snapshot]:
    """The best snapshot by each metric, where there is one."""
    found = (best_of(snapshots, metric, goal) for metric, goal in keep_best.items())
    return [snapshot for snapshot in found if snapshot is not None]
