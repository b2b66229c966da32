"""TC104: a `non_blocking` copy from a device is read on the host before the host has waited for it.

Followed are copies into pinned memory, such as `.to("cpu", non_blocking=True)` makes. Into pageable memory CUDA
copies before it returns: its documentation of `cudaMemcpyAsync` says so for this direction. PyTorch promises
nothing of the kind, but there the values are right, and a finding would be false.

`numpy()` alone reads nothing: an array that is taken before the wait and used after it is right. One that was taken
and let go of before any wait can only have been used too early, and is a finding.
"""

from __future__ import annotations

import dataclasses
import weakref
from typing import Any

from torch import Tensor

from ... import _torch_private
from ..finding_log import FindingLog
from ..tracking.storages import WatchedStorages, Write
from ..tracking.stream_order import Stream, StreamOrder


@dataclasses.dataclass(frozen=True)
class Pending:
    """A copy that the host has not waited for.

    Attributes:
        stream: where it runs.
        number: the how manieth thing it is there.
        start: address of its first byte; `size` of them.
        site: the line that made it.
    """

    stream: Stream
    number: int
    start: int
    size: int
    site: int

    def overlaps(self, start: int, size: int) -> bool:
        """Whether it writes to some of these bytes."""
        return start < self.start + self.size and self.start < start + size


class UnsynchronizedReads:
    """Follows copies to the host until it has waited for them.

    Attributes:
        pending: those that it has not waited for, by storage; empty most of the time.
        order: what was waited for.
    """

    def __init__(self, findings: FindingLog, storages: WatchedStorages, order: StreamOrder) -> None:
        self._findings, self._storages, self.order = findings, storages, order
        self.pending: dict[int, list[Pending]] = {}
        self._arrays: dict[int, weakref.ref[Any]] = {}

    def copied(self, stream: Stream, target: Tensor, start: int, size: int, site: int) -> None:
        """A copy into `target` was put on a stream; the host goes on."""
        storage = _torch_private.storage_id(target)
        made = Pending(stream, self.order.works(stream), start, size, site)
        if storage not in self.pending:
            self._storages.watch(target, self)
        self.pending.setdefault(storage, []).append(made)

    def waited(self) -> None:
        """The host has waited for something: forgets the copies that are done by now."""
        for storage, copies in list(self.pending.items()):
            left = [each for each in copies if not self.order.is_done(each.stream, each.number)]
            if left:
                self.pending[storage] = left
            else:
                del self.pending[storage]

    def read(self, storage: int, start: int, size: int, site: int) -> None:
        """The host reads some bytes of a storage."""
        for each in self.pending.get(storage, ()):
            if each.overlaps(start, size):
                self._tell(each, site)
                return

    def array_made(self, array: Any, storage: int, start: int, size: int, site: int) -> None:
        """`numpy()` has made an array of some bytes: if it dies while they are pending, it was used too early."""
        copies = [each for each in self.pending.get(storage, ()) if each.overlaps(start, size)]
        if not copies:
            return
        identity = id(array)

        def gone(_: Any) -> None:
            self._arrays.pop(identity, None)
            left = [each for each in copies if not self.order.is_done(each.stream, each.number)]
            if left:
                self._tell(left[0], site)

        self._arrays[identity] = weakref.ref(array, gone)

    def _tell(self, copy: Pending, site: int) -> None:
        self._findings.add(
            "TC104",
            "a `non_blocking` copy to the host is read before it has arrived: nothing has waited for it",
            [("copied here, without waiting", copy.site), ("read here", site)],
            fix="wait before the first read: `torch.cuda.synchronize()`, or an event recorded after the copy; or"
            " copy without `non_blocking`",
            size=copy.size,
        )

    def written(self, storage: int, write: Write) -> bool:
        """A write by the host changes nothing in what is pending."""
        del write
        return storage not in self.pending

    def gone(self, storage: int) -> None:
        """The memory is gone."""
        self.pending.pop(storage, None)

    def clear(self) -> None:
        """Lets go of everything."""
        self.pending.clear()
        self._arrays.clear()
