"""TC106: a tensor and an array share memory, and one is written while the other is used afterwards.

A write by PyTorch is seen. That the array is used afterwards is known where it is handed to PyTorch again, or where
the program's text says that every way on leads through a line that reads it. A write by NumPy is seen by the bytes:
they are compared when a tensor of that memory is used.

Sharing on purpose looks much alike. Told apart are: buffers, which are empty when they are shared or are filled
as a whole by the program's own line; lines that read what is shared again after each write; and a write by NumPy
into an array that NumPy never reads. None of these is a finding, unless the same memory was shared anew after the
write while the older array was kept: who does that takes the two for different values.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any, Literal

from torch import Tensor

from ... import _torch_private
from ..._tensors import first_byte, has_storage, span_bytes
from ..copies import CopyLog
from ..finding_log import FindingLog
from ..naming.name_nodes import Held
from ..naming.name_uses import NameUses
from ..naming.sites import Sites
from ..tracking.storages import WatchedStorages, Write
from .saved_values import SavedValues

First = Literal["tensor", "array"]
_COPIED_INTO = frozenset(
    f"aten::{name}"
    for name in "copy_ _foreach_copy_ index_put_ _index_put_impl_ index_copy_ masked_scatter_ scatter_ set_".split()
)
_FILLED = _COPIED_INTO | {f"aten::{name}" for name in ("fill_", "zero_", "_foreach_zero_", "masked_fill_")}
_MOST_AT_ONE_LINE, _MOST_JUDGED, _MOST_COMPARED = 16, 8, 64
_OFTEN, _MOST_OFTEN = 32, 1024
_FIX: dict[First, str] = {
    "tensor": "copy on the way: `t.detach().clone().numpy()`, or `t.numpy().copy()`",
    "array": "copy on the way: `torch.tensor(array)`, or `torch.from_numpy(array.copy())`",
}


class Shared:
    """A tensor and an array on one memory.

    Attributes:
        first: which of the two was there first.
        site: the line that shared them.
        array: the array that all its views lead to, as a weak reference.
        storage: of the tensor.
        address: of the bytes that the tensor shows; `size` of them, `offset` bytes into its storage.
        digest: of these bytes when they were last looked at; None after a write by PyTorch.
        verified: the number of the next node at that moment.
        written_at: the line of the first write by PyTorch since they were shared; 0 for none.
        writes: how many there were.
        shared_anew: whether the same memory was shared again after a write.
        told: whether there is a finding of it.
    """

    __slots__ = (
        "address", "array", "compared", "constant", "digest", "first", "judged", "offset", "opaque_runs", "root",
        "shared_anew", "site", "size", "storage", "told", "verified", "writes", "written_at",
    )  # fmt: skip

    def __init__(self, first: First, tensor: Tensor, root: Any, site: int, opaque_runs: int) -> None:
        self.first, self.site, self.opaque_runs = first, site, opaque_runs
        self.root, self.array = id(root), weakref.ref(root)
        self.storage = _torch_private.storage_id(tensor)
        self.address, self.size = first_byte(tensor), span_bytes(tensor)
        self.offset = self.address - _torch_private.storage_address(tensor)
        self.constant = _torch_private.is_constant(self.address, self.size, tensor.element_size())
        self.digest: int | None = _torch_private.digest(self.address, self.size)
        self.verified = _torch_private.next_node_number()
        self.written_at = self.writes = self.compared = 0
        self.shared_anew = self.told = False
        self.judged: set[int] = set()

    def written(self, write: Write) -> bool:
        """Notes a write by PyTorch, if it was to these bytes."""
        if not any(map(self.overlaps, write.targets)):
            return False
        self.written_at = self.written_at or write.site
        self.writes += 1
        self.digest = None
        return True

    def overlaps(self, tensor: Tensor) -> bool:
        """Whether a tensor shows some of these bytes."""
        try:
            start = first_byte(tensor)
            return start < self.address + self.size and self.address < start + span_bytes(tensor)
        except RuntimeError:
            return False

    def is_only_the_tensors(self) -> bool:
        """Whether nobody but the tensor has the array any more."""
        array = self.array()
        if array is None:
            return True
        return self.first == "array" and array.base is None and sys.getrefcount(array) <= 3


class NumpySharing:
    """Follows arrays and tensors on one memory until one of them is gone.

    Attributes:
        watched: those that share, by storage; empty most of the time.
        reads: the storages whose reads are looked at: none that was read a thousand times and never changed.
        names: what the program's text says of names.
    """

    def __init__(
        self, findings: FindingLog, sites: Sites, storages: WatchedStorages, copies: CopyLog, saved: SavedValues
    ) -> None:
        self._findings, self._sites, self._storages, self._saved = findings, sites, storages, saved
        self._copies = copies
        self.watched: dict[int, list[Shared]] = {}
        self.reads: set[int] = set()
        self._by_root: dict[int, list[Shared]] = {}
        self._told_of: set[int] = set()  # storages whose writes and deaths are told here
        self._raw: set[int] = set()
        self.names = NameUses(sites)
        self._seen: dict[tuple[First, int, int, int], set[int]] = {}

    # --- what is shared -------------------------------------------------------------------------------------------

    def shared(self, first: First, tensor: Tensor, array: Any, site: int, frame: FrameType) -> None:
        """`array` was made of `tensor`, or the other way round."""
        root = _root(array)
        if root is None or tensor.device.type != "cpu" or not has_storage(tensor) or not tensor.nbytes:
            return
        self._settle(tensor)
        there = list(self.watched.get(_torch_private.storage_id(tensor), ()))
        if first == "array":
            there = self._of_array(root)
            self._handed_back(there, site)
        for older in there:
            self._shared_anew(older, tensor, frame)
        if sum(each.site == site and each.array() is not None for each in there) < _MOST_AT_ONE_LINE:
            made = Shared(first, tensor, root, site, self._copies.opaque_runs)
            self._tell_of(tensor)
            self.watched.setdefault(made.storage, []).append(made)
            self._by_root.setdefault(made.root, []).append(made)
            self.reads.add(made.storage)
            self._storages.sweep_if_due()

    def _settle(self, tensor: Tensor) -> None:
        """Looks a last time at what arrays that are gone may have written to the memory of a tensor."""
        for shared in list(self.watched.get(_torch_private.storage_id(tensor), ())):
            if shared.array() is None:
                if self._is_there(shared, tensor):
                    self._has_changed(shared, _torch_private.next_node_number())
                self.forget(shared)

    def exposed(self, tensor: Tensor) -> None:
        """A raw pointer to the memory of `tensor` was handed out: nobody knows how long it is used."""
        self._raw.add(self._tell_of(tensor))
        self._storages.sweep_if_due()

    def is_exposed(self, storage: int) -> bool:
        """Whether somebody may write to a storage who asks nobody."""
        there = self.watched.get(storage)
        return storage in self._raw or (there is not None and not all(s.is_only_the_tensors() for s in there))

    def _tell_of(self, tensor: Tensor) -> int:
        storage = _torch_private.storage_id(tensor)
        if storage not in self._told_of:
            self._told_of.add(self._storages.watch(tensor, self))
        return storage

    def _of_array(self, root: Any) -> list[Shared]:
        return [each for each in self._by_root.get(id(root), ()) if each.array() is root]

    def _handed_back(self, there: list[Shared], site: int) -> None:
        """An array is made a tensor of: that uses it."""
        for each in there:
            stale = each.first == "tensor" and each.written_at and not each.told
            if stale and not self._sites.is_direct(each.written_at):
                self._seen.setdefault(("tensor", each.site, each.written_at, site), set()).add(each.writes)

    def _shared_anew(self, older: Shared, tensor: Tensor, frame: FrameType) -> None:
        if older.told or older.array() is None:
            return
        if older.address != first_byte(tensor) or older.size != span_bytes(tensor):
            return
        if older.first == "tensor" and older.written_at:
            older.shared_anew = True
            self._judge(older, older.written_at, frame)
        elif older.first == "array" and older.digest is not None:
            older.shared_anew |= older.digest != _torch_private.digest(older.address, older.size)

    def forget(self, shared: Shared) -> None:
        """One of the two is gone, or nobody else has it."""
        for table, key in ((self.watched, shared.storage), (self._by_root, shared.root)):
            there = table.get(key)
            if there is not None and shared in there:
                there.remove(shared)
                if not there:
                    del table[key]
        if shared.storage not in self.watched:
            self.reads.discard(shared.storage)

    def gone(self, storage: int) -> None:
        """The memory of a tensor is gone."""
        self._told_of.discard(storage)
        self._raw.discard(storage)
        for shared in list(self.watched.get(storage, ())):
            self.forget(shared)

    # --- PyTorch writes -------------------------------------------------------------------------------------------

    def written(self, storage: int, write: Write) -> bool:
        """An operation has written to a storage that is shared."""
        there = self.watched.get(storage)
        if there is None:
            if storage in self._raw:
                return False
            self._told_of.discard(storage)
            return True
        for shared in list(there):
            if shared.written(write):
                array = shared.array()
                for peer in self._of_array(array) if array is not None else ():
                    if peer.storage != storage and any(map(peer.overlaps, write.targets)):
                        peer.digest = None
                        self._saved.written([peer.storage], write.number, write.site, silent=True)
                self._judge_write(shared, write)
        return False

    def _judge_write(self, shared: Shared, write: Write) -> None:
        if shared.told or len(shared.judged) >= _MOST_JUDGED or write.site in shared.judged:
            return
        shared.judged.add(write.site)
        by_library = not self._sites.is_direct(write.site)
        if shared.first == "array":
            if write.fills or write.name in _FILLED or self._on_one_line(shared.site, write.site):
                return
        elif not by_library and (write.fills or write.name in _COPIED_INTO):
            return
        if shared.constant and not by_library:
            return
        self._judge(shared, write.site, None)

    def _on_one_line(self, a: int, b: int) -> bool:
        return self._sites.line_number(a) == self._sites.line_number(b)

    def _judge(self, shared: Shared, written: int, frame: FrameType | None) -> None:
        array = shared.array()
        if array is None:
            return
        for held in self._holders(array, frame):
            use = self.names.next_use(held)
            if use is not None and (shared.shared_anew or not use.again):
                self._tell(shared, written, use.site)
                return

    def _holders(self, array: Any, frame: FrameType | None) -> list[Held]:
        import numpy as np

        def is_it(value: Any) -> bool:
            return value is array or (isinstance(value, np.ndarray) and _root(value) is array)

        return list(self.names.holders(frame or sys._getframe(), is_it))

    # --- NumPy writes ---------------------------------------------------------------------------------------------

    def due(self, storage: int) -> list[Shared]:
        """Those whose bytes are to be looked at now that the storage is read: ever more rarely."""
        there = self.watched.get(storage, ())
        due = [shared for shared in there if self._is_due(shared)]
        if all(shared.compared >= _MOST_OFTEN for shared in there):
            self.reads.discard(storage)
        return due

    def used(self, due: list[Shared], tensor: Tensor, number: int, site: Callable[[], int]) -> None:
        """An operation is about to read `tensor`: are its bytes what they were?"""
        for shared in due:
            if not self._is_there(shared, tensor):
                self.forget(shared)  # the tensor has other memory now
            elif shared.overlaps(tensor):
                if self._has_changed(shared, number):
                    self._used_after_change(shared, site())
                if shared.is_only_the_tensors():
                    self.forget(shared)

    def before_backward(self) -> None:
        """A backward is about to run: which shared memory was written by others, and since when?"""
        newest = [each for some in list(self.watched.values())[-_MOST_COMPARED:] for each in some]
        for shared in newest:
            if not self._is_due(shared):
                continue
            held = self._storages.hold(shared.storage)
            if held is None or held[1] + shared.offset != shared.address or held[2] < shared.offset + shared.size:
                self.forget(shared)
                continue
            self._has_changed(shared, _torch_private.next_node_number())
            if shared.is_only_the_tensors():
                self.forget(shared)
            del held

    def _is_there(self, shared: Shared, tensor: Tensor) -> bool:
        """Whether a tensor of the storage still has the bytes that were shared."""
        there = _torch_private.storage_address(tensor) + shared.offset == shared.address
        return there and tensor.untyped_storage().nbytes() >= shared.offset + shared.size

    def _is_due(self, shared: Shared) -> bool:
        shared.compared += 1
        return shared.compared <= _OFTEN or shared.compared & (shared.compared - 1) == 0

    def _has_changed(self, shared: Shared, number: int) -> bool:
        """Whether the bytes are others than they were, and no operation has written them; the caller holds them."""
        before, now = shared.digest, _torch_private.digest(shared.address, shared.size)
        since = shared.verified
        unseen = shared.opaque_runs != self._copies.opaque_runs
        shared.digest, shared.verified, shared.opaque_runs = now, number, self._copies.opaque_runs
        if before is None or before == now or unseen:
            return False
        self._saved.written_raw(shared.storage, min(since, number), self._line_of_write(shared) or shared.site)
        return True

    def _line_of_write(self, shared: Shared) -> int:
        """The line that writes to the array, if the program's text has but one."""
        if self.names.is_written_at(shared.site):
            return shared.site
        array = shared.array()
        if array is None:
            return 0
        line = self._sites.line(shared.site)
        lines = {
            site
            for held in self._holders(array, None)
            for site in self.names.writes(held, line.line if self._is_in(held, shared.site) else 0)
        }
        return lines.pop() if len(lines) == 1 else 0

    def _is_in(self, held: Held, site: int) -> bool:
        return held.frame.f_code is self._sites.code_of(site)

    def _used_after_change(self, shared: Shared, used: int) -> None:
        if shared.told:
            return
        written = self._line_of_write(shared)
        if shared.shared_anew:
            self._tell(shared, written, used)
        elif not shared.constant and written != shared.site and self._array_is_read(shared):
            moments = self._seen.setdefault((shared.first, shared.site, written, used), set())
            if shared.digest is not None and len(moments) < 2:
                moments.add(shared.digest)

    def _array_is_read(self, shared: Shared) -> bool:
        array = shared.array()
        if array is None:
            return False
        line = self._sites.line(shared.site).line
        return any(
            self.names.reads(held, line if self._is_in(held, shared.site) else 0)
            for held in self._holders(array, None)
        )

    # --- what is found --------------------------------------------------------------------------------------------

    def _tell(self, shared: Shared, written: int, used: int) -> None:
        shared.told = True
        self._report(shared.first, shared.site, written, used, shared.size)

    def _report(self, first: First, site: int, written: int, used: int, size: int = 0) -> None:
        self._findings.add(
            "TC106",
            "a tensor and an array share memory: what is used here was overwritten through the other one",
            [("shared here", site), ("written here", written), ("used here", used)],
            fix=_FIX[first],
            size=size,
        )

    def finish(self) -> None:
        """Reports what was used after one write. A line that uses it after each of several wants to see them."""
        for (first, site, written, used), moments in self._seen.items():
            if len(moments) == 1:
                self._report(first, site, written, used)
        self._seen.clear()

    def clear(self) -> None:
        """Lets go of everything."""
        for table in (self.watched, self.reads, self._by_root, self._told_of, self._raw):
            table.clear()


def _root(array: Any) -> Any:
    """The array that all views of one memory lead to."""
    import numpy as np

    if not isinstance(array, np.ndarray):
        return None
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
