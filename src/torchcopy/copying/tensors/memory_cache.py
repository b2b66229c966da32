"""The memory of large copies that are gone, kept for the next ones.

Memory that is new from the system costs more than the copying: the kernel hands it out page by page, zeroed, at the
first write. Who copies the same thing again and again (the best model so far, an average, a snapshot) pays for
that each time. So the storage of a large copy outlives the copy, as PyTorch's caching allocator keeps the memory of
a GPU, and the next copy of that size gets it. What has lain idle for a moment is offered to the kernel, which takes
it when somebody else needs it. docs/decisions/0009-memory-of-copies-is-kept.md has the argument in full.
"""

from __future__ import annotations

import atexit
import functools
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from ... import _torch_private
from .madvise import NO_MORE_NEEDED, can_offer_pages, madvise, whole_pages
from .strides import is_dense

SMALLEST_BYTES = 64 << 10
"""Of a storage that is kept. Smaller ones come from memory that the C library has."""
# How long a storage lies idle before its pages are offered to the kernel: a loop that copies is back sooner.
_GRACE_S = 0.5
# The thread looks so often while there is something to look after: sooner at first, later if nothing happens.
_SOONEST_S, _LATEST_S = 0.25, 4.0
# As many bytes may lie idle as the largest of so many last copies took.
_REMEMBERED = 8


class Block:
    """A storage that the cache has a hand on."""

    __slots__ = (
        "address",
        "alias",
        "idle_since",
        "is_offered",
        "number",
        "owner",
        "references",
        "size_bytes",
        "storage",
        "uses",
    )

    def __init__(self, t: Tensor) -> None:
        self.alias = t.data
        self.storage = t.untyped_storage()
        self.number = _torch_private.storage_id(t)
        self.address = _torch_private.storage_address(t)
        self.size_bytes = self.storage.nbytes()
        # By the cache alone, of the storage and of its Python object.
        self.uses = _torch_private.storage_uses([self.number])[0] - 1
        self.references = sys.getrefcount(self.storage)
        self.owner: _Owner | None = None
        self.idle_since = 0.0
        self.is_offered = False

    def tensor_like(self, t: Tensor) -> Tensor:
        """A tensor of its memory, with `t`'s dtype, shape and strides."""
        alias = self.alias
        if alias.dtype == t.dtype and alias.shape == t.shape and alias.stride() == t.stride():
            return alias.data
        made = torch.empty(0, dtype=t.dtype, device="cpu")
        made.set_(self.storage, 0, t.shape, t.stride())
        return made


def _are_used(blocks: Sequence[Block]) -> list[bool]:
    """Whether anybody else has the storages: a tensor, an array, a graph, or Python code their objects."""
    uses = _torch_private.storage_uses(block.number for block in blocks)
    return [
        found > block.uses or sys.getrefcount(block.storage) > block.references
        for block, found in zip(blocks, uses, strict=True)
    ]


def _are_intact(blocks: Sequence[Block]) -> list[bool]:
    """Whether they are the memory that they were made with: not shared lazily, resized, moved or marked."""
    aliases = [block.alias for block in blocks]
    lazy, addresses = _torch_private.are_lazy(aliases), _torch_private.storage_addresses(aliases)
    return [
        not is_lazy
        and address == block.address
        and block.storage.nbytes() == block.size_bytes
        and not block.storage.__dict__
        for block, is_lazy, address in zip(blocks, lazy, addresses, strict=True)
    ]


class _Owner(weakref.ref[Tensor]):
    """A weak reference to the tensor that a block was lent for."""

    __slots__ = ("block",)
    block: Block


class MemoryCache:
    """The storages of large copies, lent and idle.

    A storage is lent with the tensor that was made of it, and comes back when that tensor is gone and nobody else
    uses the storage. Who still does (a view, an array of NumPy's) keeps it until then.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._busy = False
        self._died: deque[Any] = deque()  # owners; filled by the interpreter, at any moment
        self._lent: set[Block] = set()
        self._held: list[Block] = []  # their tensors are gone, but somebody has the storage
        self._idle: dict[int, list[Block]] = {}  # by size
        self._in_order: dict[Block, None] = {}  # the idle ones, oldest first
        self._idle_bytes = 0
        self._last_copies: deque[int] = deque([0], maxlen=_REMEMBERED)  # their bytes
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()

    # --- for a copy ------------------------------------------------------------------------------------------

    def take(self, units: Sequence[Tensor]) -> list[Block | None]:
        """An idle storage for each of the tensors to be copied; None where there is none of its size."""
        dropped: list[Block] = []
        with self._lock:
            if self._busy:  # a finaliser, in the midst of something here
                return [None] * len(units)
            self._busy = True
            try:
                self._last_copies.append(sum(t.nbytes for t in units))
                self._look_at_returned(dropped)
                return [self._take_one(t) for t in units] if self._in_order else [None] * len(units)
            finally:
                self._busy = False

    def _take_one(self, t: Tensor) -> Block | None:
        blocks = self._idle.get(t.nbytes)
        if not blocks:
            return None
        block = blocks.pop()
        del self._in_order[block]
        self._idle_bytes -= block.size_bytes
        return block

    def lend(self, copies: Sequence[Tensor], blocks: Sequence[Block | None]) -> None:
        """Notes whose storages the copies have: those that were taken, and new ones of their own."""
        with self._lock:
            if self._busy:
                return
            self._busy = True
            try:
                for t, block in zip(copies, blocks, strict=True):
                    if block is None:
                        block = Block(t)
                    block.owner = owner = _Owner(t, self._died.append)
                    owner.block = block
                    self._lent.add(block)
                if self._thread is None and not self._closing.is_set():
                    self._start_thread()
            finally:
                self._busy = False

    # --- what comes back -------------------------------------------------------------------------------------

    def _look_at_returned(self, dropped: list[Block]) -> None:
        """Takes in what is not used any more. What is not kept goes to `dropped`, to be freed by the caller."""
        returned, self._held = self._held, []
        died, lent = self._died, self._lent
        while died:
            block = died.popleft().block
            block.owner = None
            if block in lent:
                lent.remove(block)
                returned.append(block)
        now = time.monotonic()
        for block, is_intact, is_used in zip(returned, _are_intact(returned), _are_used(returned), strict=True):
            if not is_intact:
                dropped.append(block)
            elif is_used:
                self._held.append(block)
            else:
                block.idle_since, block.is_offered = now, False
                self._put(block)
        most = max(self._last_copies)
        while self._idle_bytes > most:
            dropped.append(self._drop_oldest())

    def _put(self, block: Block) -> None:
        self._idle.setdefault(block.size_bytes, []).append(block)
        self._in_order[block] = None
        self._idle_bytes += block.size_bytes

    def _drop_oldest(self) -> Block:
        block = next(iter(self._in_order))
        del self._in_order[block]
        self._idle[block.size_bytes].remove(block)
        self._idle_bytes -= block.size_bytes
        return block

    def empty(self) -> int:
        """Frees what lies idle; returns how many bytes that were."""
        dropped: list[Block] = []
        with self._lock:
            if self._busy:
                return 0
            self._busy = True
            try:
                self._look_at_returned(dropped)
                freed = self._idle_bytes
                dropped += self._in_order
                self._idle.clear()
                self._in_order.clear()
                self._idle_bytes = 0
            finally:
                self._busy = False
        return freed

    # --- the thread ------------------------------------------------------------------------------------------

    def _start_thread(self) -> None:
        self._thread = threading.Thread(target=self._run, name="torchcopy-memory", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # no more threads, or the interpreter goes down: later copies try again
            self._thread = None

    def _run(self) -> None:
        pause = _SOONEST_S
        while not self._closing.wait(pause):
            dropped: list[Block] = []
            with self._lock:
                if self._busy:
                    continue
                self._busy = True
                try:
                    something_new = bool(self._died)
                    self._look_at_returned(dropped)
                    due = self._due()
                    if not (self._lent or self._held or due or self._waits_for_its_time()):
                        self._thread = None
                        return
                finally:
                    self._busy = False
            dropped.clear()
            _offer(due)
            with self._lock:
                for block in due:
                    self._put(block)
            pause = _SOONEST_S if something_new else min(1.5 * pause, _LATEST_S)

    def _due(self) -> list[Block]:
        """Takes out what has lain idle for so long that its pages are to be offered: nobody may write it now."""
        latest = time.monotonic() - _GRACE_S
        due = [block for block in self._in_order if not block.is_offered and block.idle_since <= latest]
        for block in due:
            del self._in_order[block]
            self._idle[block.size_bytes].remove(block)
            self._idle_bytes -= block.size_bytes
        return due

    def _waits_for_its_time(self) -> bool:
        return any(not block.is_offered for block in self._in_order)

    def close(self) -> None:
        """Ends the thread before the interpreter goes down."""
        self._closing.set()
        thread = self._thread
        if thread is not None:
            thread.join(timeout=1.0)

    # --- forked processes ------------------------------------------------------------------------------------

    def before_fork(self) -> None:
        """Waits until no other thread is in the midst of something here."""
        self._lock.acquire()

    def after_fork_in_parent(self) -> None:
        """Goes on."""
        self._lock.release()

    def after_fork_in_child(self) -> None:
        """The child has the memory, but not the thread."""
        self._lock = threading.RLock()
        self._thread = None


def _offer(blocks: Iterable[Block]) -> None:
    """Lets the kernel take the pages of what nobody uses, should it need them."""
    advise = madvise()
    for block in blocks:
        block.is_offered = True
        start, size = whole_pages(block.address, block.size_bytes)
        if advise is not None and size:
            advise(start, size, NO_MORE_NEEDED)


def fits(t: Tensor) -> bool:
    """Whether the copy of `t` may have kept memory: a plain one, large, without gaps, in main memory."""
    return (
        t.nbytes >= SMALLEST_BYTES
        and t.device.type == "cpu"
        and type(t) in _PLAIN
        and (t.is_contiguous() or is_dense(t))
    )


def is_in_use() -> bool:
    """Whether memory is kept here and now: not where somebody looks at how tensors come about, and counts bytes."""
    return _is_possible() and not (torch.is_inference_mode_enabled() or _torch_private.is_observed())


@functools.cache
def _is_possible() -> bool:
    wanted = os.environ.get("TORCHCOPY_NO_MEMORY_CACHING", "0") in ("", "0")
    return wanted and can_offer_pages() and _torch_private.can_count_storage_uses()


def empty_cache() -> int:
    """Gives the memory that copies have left behind back to the system.

    The memory of a large copy (64 kB a tensor and more, in main memory) outlives it, so that the next copy of the
    same size need not wait for new memory: at most as much as the largest of the last eight copies took. After half
    a second it is marked as free for the system to take, should anybody need it, though it still counts as the
    process's own in many displays. Call this to be rid of it at once. With `TORCHCOPY_NO_MEMORY_CACHING=1` in the
    environment none is kept. No tensor is touched, no value, graph or gradient; what tensors still use stays.

    Returns:
        How many bytes were given back.

    Example:
        >>> import torch, torchcopy as tc
        >>> copied = tc.copy({"w": torch.zeros(100_000)})
        >>> del copied
        >>> tc.empty_cache() >= 0
        True
    """
    return cache.empty()


_PLAIN = frozenset({Tensor, torch.nn.Parameter})
cache = MemoryCache()
atexit.register(cache.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=cache.before_fork,
        after_in_parent=cache.after_fork_in_parent,
        after_in_child=cache.after_fork_in_child,
    )
