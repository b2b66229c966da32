"""Every copy, and whether it was needed: whether its source or itself was written while both could be read."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable

from torch import Tensor

from .. import _torch_private
from .naming.sites import Sites
from .records import STATUSES, CopySite, Kind, Status
from .tracking.storages import WatchedStorages, Write

_SMALL_PART = 16  # a copy of so small a part of its source's memory lets the rest of it go


class Tally:
    """The copies of one kind that one line has made, added up."""

    __slots__ = ("bytes", "count", "counts", "of_detached", "seconds", "site", "status_bytes", "status_seconds")

    def __init__(self, site: int) -> None:
        self.site = site
        self.count = self.bytes = 0
        self.of_detached = 0  # how many were made of what was detached just before, as `torch.tensor(t)` does
        self.seconds = 0.0
        self.counts: dict[Status, int] = dict.fromkeys(STATUSES, 0)
        self.status_bytes: dict[Status, int] = dict.fromkeys(STATUSES, 0)
        self.status_seconds: dict[Status, float] = dict.fromkeys(STATUSES, 0.0)

    def add(self, size: int, seconds: float) -> None:
        """Counts one more copy, whose status is not known yet."""
        self.count += 1
        self.bytes += size
        self.seconds += seconds

    def decide(self, status: Status, size: int, seconds: float) -> None:
        """Says what a copy that was counted has turned out to be."""
        self.counts[status] += 1
        self.status_bytes[status] += size
        self.status_seconds[status] += seconds


class LiveCopy:
    """A copy whose two sides live, and were not written yet."""

    __slots__ = ("bytes", "decided", "log", "opaque_runs", "part", "seconds", "source", "tally", "target")

    def __init__(self, log: CopyLog, tally: Tally, size: int, seconds: float, part: bool) -> None:
        self.log, self.tally, self.bytes, self.seconds, self.part = log, tally, size, seconds, part
        self.source = self.target = 0
        self.opaque_runs = log.opaque_runs
        self.decided = False

    def decide(self, status: Status) -> None:
        """Says what it is; the first word holds."""
        if not self.decided:
            self.decided = True
            if status == "redundant" and self.opaque_runs != self.log.opaque_runs:
                status = "unknown"
            self.tally.decide(status, self.bytes, self.seconds)

    def written(self, storage: int, write: Write) -> bool:
        """One of the two was written: the copy was needed, if both were there."""
        del write
        if not self.decided:
            lives = storage == self.target or self.log.storages.is_alive(self.target)
            self.decide("needed" if lives else "redundant")
        return True

    def gone(self, storage: int) -> None:
        """One of the two died."""
        if storage == self.target:
            # A copy of a small part that has outlived its source has let the rest of that go.
            self.decide("unknown" if self.part and not self.log.storages.is_alive(self.source) else "redundant")
        elif self.part and self.log.storages.is_alive(self.target):
            self.decide("needed")  # the rest of the source's memory could go


class Converted:
    """What an unchanged tensor was converted into before."""

    __slots__ = ("log", "opaque_runs", "seen")

    def __init__(self, log: CopyLog) -> None:
        self.log, self.opaque_runs = log, log.opaque_runs
        self.seen: set[tuple[object, ...]] = set()

    def written(self, storage: int, write: Write) -> bool:
        """It is another tensor now."""
        del write
        self.log.conversions.pop(storage, None)
        return True

    def gone(self, storage: int) -> None:
        """It died."""
        self.log.conversions.pop(storage, None)


class CopyLog:
    """The table of all copies by line and kind.

    Attributes:
        storages: where writes and deaths are told.
        tallies: by line and kind.
        conversions: by the storage of their source.
        is_exposed: whether an array or a raw pointer to a storage is about, so that not all writes to it are seen.
        opaque_runs: how often something ran whose writes are not seen: no copy that lived then is called redundant.
    """

    def __init__(self, storages: WatchedStorages) -> None:
        self.storages = storages
        self.tallies: dict[tuple[int, Kind], Tally] = {}
        self.conversions: dict[int, Converted] = {}
        self.timeline = Timeline()
        self.opaque_runs = 0
        self.is_exposed: Callable[[int], bool] = lambda _: False

    def tally(self, site: int, kind: Kind) -> Tally:
        """The sum for one line and kind."""
        found = self.tallies.get((site, kind))
        if found is None:
            found = self.tallies[site, kind] = Tally(site)
        return found

    def copied(
        self,
        site: int,
        kind: Kind,
        source: Tensor,
        target: Tensor,
        seconds: float,
        at: float,
        *,
        detached: bool = False,
    ) -> LiveCopy | None:
        """Notes a copy into new memory. Returns it if it is open whether it is needed."""
        size = target.nbytes
        tally = self.tally(site, kind)
        tally.add(size, seconds)
        tally.of_detached += detached
        self.timeline.add(at, size)
        if kind == "clone":
            part = source.untyped_storage().nbytes() >= _SMALL_PART * max(size, 1)
            live = LiveCopy(self, tally, size, seconds, part)
            live.source = self.storages.watch(source, live)
            self._settle_latest(live.source)
            live.target = self.storages.watch(target, live)
            if self.is_exposed(live.source) or self.is_exposed(live.target):
                live.decide("unknown")
            return live
        tally.decide("repeated" if self._is_repeated(source, target) else "needed", size, seconds)
        return None

    def _settle_latest(self, source: int) -> None:
        """Decides the latest copies of a storage that have died while it lives: later, it may be dead too."""
        for each in self.storages.dependents[source][-4:]:
            if isinstance(each, LiveCopy) and each.target and not self.storages.is_alive(each.target):
                each.decide("redundant")

    def wrote(self, site: int, kind: Kind, size: int, seconds: float, at: float) -> None:
        """Notes a copy into memory that was there before, or into a file."""
        tally = self.tally(site, kind)
        tally.add(size, seconds)
        tally.decide("needed", size, seconds)
        self.timeline.add(at, size)

    def _is_repeated(self, source: Tensor, target: Tensor) -> bool:
        view = (source.shape, source.stride(), source.storage_offset(), source.dtype)
        made = (*view, target.dtype, target.device, target.stride())
        storage = _torch_private.storage_id(source)
        known = self.conversions.get(storage)
        if known is None:
            known = Converted(self)
            self.conversions[self.storages.watch(source, known)] = known
        if known.opaque_runs != self.opaque_runs:
            known.opaque_runs = self.opaque_runs
            known.seen.clear()
        if made in known.seen:
            return True
        known.seen.add(made)
        return False

    def finish(self, status: Status = "unknown") -> None:
        """The audit is over: what is not decided stays open, or is what `status` says."""
        self.storages.sweep()
        for each in self.storages.all_dependents():
            if isinstance(each, LiveCopy):
                each.decide(status)

    def as_records(self, sites: Sites) -> tuple[CopySite, ...]:
        """The table, most bytes first; equal lines of different calls are one."""
        grouped: dict[tuple[str, int, Kind], list[Tally]] = defaultdict(list)
        for (site, kind), tally in self.tallies.items():
            grouped[*sites.line_number(site), kind].append(tally)
        rows = [
            CopySite(
                line=sites.line(some[0].site),
                kind=kind,
                count=sum(t.count for t in some),
                bytes=sum(t.bytes for t in some),
                seconds=sum(t.seconds for t in some),
                counts={status: sum(t.counts[status] for t in some) for status in STATUSES},
                status_bytes={status: sum(t.status_bytes[status] for t in some) for status in STATUSES},
            )
            for (_, _, kind), some in grouped.items()
        ]
        return tuple(sorted(rows, key=lambda row: (-row.bytes, row.line.path, row.line.line, row.kind)))


@dataclasses.dataclass
class Timeline:
    """Bytes copied over time, in at most `limit` parts of equal length."""

    limit: int = 240
    width: float = 0.05
    parts: dict[int, int] = dataclasses.field(default_factory=dict)

    def add(self, at: float, size: int) -> None:
        """Adds bytes copied `at` seconds after the beginning."""
        part = int(at / self.width)
        while part >= self.limit:
            self.width *= 2
            halved: dict[int, int] = defaultdict(int)
            for number, there in self.parts.items():
                halved[number // 2] += there
            self.parts = dict(halved)
            part = int(at / self.width)
        self.parts[part] = self.parts.get(part, 0) + size

    def points(self) -> tuple[tuple[float, int], ...]:
        """Seconds at the end of each part, and the bytes copied in it."""
        if not self.parts:
            return ()
        last = max(self.parts)
        return tuple((round((k + 1) * self.width, 6), self.parts.get(k, 0)) for k in range(last + 1))
