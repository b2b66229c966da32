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
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from operator import attrgetter
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor

from ... import _torch_private
from .madvise import NO_MORE_NEEDED, can_offer_pages, madvise, whole_pages
from .strides import is_dense

SMALLEST_BYTES = 256 << 10
"""Of a storage that is kept: below, one call that allocates and copies is quicker than to look after its memory."""
# How long a storage lies idle before its pages are offered to the kernel: a loop that copies is back sooner.
_GRACE_S = 0.5
# The thread looks so often while there is something to look after: sooner at first, later if nothing happens.
_SOONEST_S, _LATEST_S = 0.25, 4.0
# As many bytes may lie idle as the largest of so many last copies took.
_REMEMBERED = 8
# A copy looks at so many lent storages, and at one more for each so many bytes: in little of the time that takes.
_LOOKS, _BYTES_A_LOOK = 8, SMALLEST_BYTES
_P = ParamSpec("_P")
_T = TypeVar("_T")


class Block:
    """A storage that the cache has a hand on."""

    __slots__ = ("address", "alias", "alone", "idle_since", "is_offered", "number", "size_bytes", "storage")

    def __init__(self, t: Tensor) -> None:
        self.alias = t.data
        self.storage = t.untyped_storage()
        self.number = _torch_private.storage_id(t)
        self.address = _torch_private.storage_address(t)
        self.size_bytes = self.storage.nbytes()
        uses, references = _users([self])[0]
        self.alone = uses - 1, references  # without `t`
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


def _users(blocks: Sequence[Block]) -> list[tuple[int, int]]:
    """How many tensors, arrays, graphs and the like each storage has, and how many references its Python object.

    Both numbers of a block are of one moment: no Python code runs in between, where another thread could turn a
    tensor into its storage, or back, and be in neither.
    """
    uses = _torch_private.storage_uses(map(_NUMBER, blocks))
    return list(zip(uses, map(sys.getrefcount, map(_STORAGE, blocks)), strict=True))


def _are_intact(blocks: Sequence[Block]) -> list[bool]:
    """Whether they are as they were made: not shared lazily, resized, moved, marked or waited for.

    To be asked of what nobody uses: others may change at any moment.
    """
    aliases = [block.alias for block in blocks]
    lazy, addresses = _torch_private.are_lazy(aliases), _torch_private.storage_addresses(aliases)
    return [
        not is_lazy
        and address == block.address
        and block.storage.nbytes() == block.size_bytes
        and block.storage.resizable()  # never again, once NumPy had it
        and not block.storage.__dict__
        and not weakref.getweakrefcount(block.storage)
        for block, is_lazy, address in zip(blocks, lazy, addresses, strict=True)
    ]


class MemoryCache:
    """The storages of large copies, lent and idle.

    A storage is lent with the tensor that was made of it. It comes back when nobody uses it any more: no tensor (a
    view, an alias), no array of NumPy's, no graph, no Python code. Who has it is counted, now and then; a weak
    reference to the tensor would not do: `p.data = x` changes the storage behind a tensor, and
    `torch.utils.swap_tensors`, with which modules may be converted, refuses tensors that have one.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._busy = False
        self._lent: deque[Block] = deque()  # in the order of the last look at them
        self._lent_last: deque[Block] = deque()  # after those
        self._idle: dict[int, dict[Block, None]] = {}  # by size
        self._in_order: dict[Block, None] = {}  # the idle ones, oldest first
        self._idle_bytes = 0
        self._last_copies: deque[int] = deque([0], maxlen=_REMEMBERED)  # their bytes
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()

    def _undisturbed(self, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T | None:
        """Does the work under the lock, unless this is a finaliser that disturbs other work under it."""
        with self._lock:
            if self._busy:
                return None
            self._busy = True
            try:
                return work(*args, **kwargs)
            except BaseException:  # Ctrl-C ends anything between two steps: what they keep may not fit together
                self._idle, self._in_order, self._idle_bytes = {}, {}, 0
                raise
            finally:
                self._busy = False

    # --- for a copy ------------------------------------------------------------------------------------------

    def take(self, units: Sequence[Tensor]) -> list[Block | None]:
        """An idle storage for each of the tensors to be copied; None where there is none of its size."""
        dropped: list[Block] = []  # freed when the lock is not held any more
        return self._undisturbed(self._take, units, dropped) or [None] * len(units)

    def _take(self, units: Sequence[Tensor], dropped: list[Block]) -> list[Block | None]:
        size_bytes = sum(t.nbytes for t in units)
        self._last_copies.append(size_bytes)
        self._look_at_lent(_LOOKS + size_bytes // _BYTES_A_LOOK, dropped)
        return [self._take_one(t) for t in units] if self._in_order else []

    def _take_one(self, t: Tensor) -> Block | None:
        same_size = self._idle.get(t.nbytes)
        if same_size is None:
            return None
        block = next(reversed(same_size))  # the one whose pages are most likely in place
        self._remove(block)
        return block

    def lend(self, copies: Sequence[Tensor], blocks: Sequence[Block | None]) -> None:
        """Notes whose storages the copies have: those that were taken, and new ones of their own."""
        self._undisturbed(self._lend, copies, blocks)

    def _lend(self, copies: Sequence[Tensor], blocks: Sequence[Block | None]) -> None:
        self._lent_last.extend(block or Block(t) for t, block in zip(copies, blocks, strict=True))
        if not (self._closing.is_set() or (self._thread is not None and self._thread.is_alive())):
            self._start_thread()

    # --- what comes back -------------------------------------------------------------------------------------

    def _look_at_lent(self, at_most: int, dropped: list[Block]) -> bool:
        """Takes in what is not used any more; returns whether there was any.

        Looks at as many of the last ones that were lent, and of those that were looked at longest ago. What is not
        kept goes to `dropped`, to be freed by the caller.
        """
        lent, last = self._lent, self._lent_last
        lent.extend(last.popleft() for _ in range(len(last) - at_most))
        looked_at = [(lent, lent.popleft()) for _ in range(min(at_most, len(lent)))]
        looked_at += ((last, last.popleft()) for _ in range(len(last)))
        unused = []
        for (place, block), users in zip(looked_at, _users([block for _, block in looked_at]), strict=True):
            if users == block.alone:
                unused.append(block)
            else:
                place.append(block)
        now = time.monotonic()
        for block, is_intact in zip(unused, _are_intact(unused), strict=True):  # nobody can change them any more
            if is_intact:
                block.idle_since, block.is_offered = now, False
                self._put(block)
            else:
                dropped.append(block)
        most = max(self._last_copies)
        while self._idle_bytes > most:
            oldest = next(iter(self._in_order))
            self._remove(oldest)
            dropped.append(oldest)
        return bool(unused)

    def _number_lent(self) -> int:
        return len(self._lent) + len(self._lent_last)

    def _put(self, block: Block) -> None:
        self._idle.setdefault(block.size_bytes, {})[block] = None
        self._in_order[block] = None
        self._idle_bytes += block.size_bytes

    def _remove(self, block: Block) -> None:
        same_size = self._idle[block.size_bytes]
        del self._in_order[block], same_size[block]
        if not same_size:
            del self._idle[block.size_bytes]
        self._idle_bytes -= block.size_bytes

    def empty(self) -> int:
        """Frees what lies idle; returns how many bytes that were."""
        dropped: list[Block] = []
        return self._undisturbed(self._empty, dropped) or 0

    def _empty(self, dropped: list[Block]) -> int:
        self._look_at_lent(self._number_lent(), dropped)
        freed = self._idle_bytes
        dropped += self._in_order
        self._idle, self._in_order, self._idle_bytes = {}, {}, 0
        return freed

    # --- the thread ------------------------------------------------------------------------------------------

    def _start_thread(self) -> None:
        self._thread = threading.Thread(target=self._run, name="torchcopy-memory", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # no more threads, or the interpreter goes down: later copies try again
            self._thread = None

    def _run(self) -> None:
        closing, pause = self._closing, _SOONEST_S
        while not closing.wait(pause):
            dropped: list[Block] = []
            due: list[Block] = []
            has_news = self._undisturbed(self._look_after_all, dropped, due)
            if has_news is None:
                return
            dropped.clear()
            _offer(due)
            self._undisturbed(self._put_back, due)
            pause = _SOONEST_S if has_news else min(1.5 * pause, _LATEST_S)

    def _look_after_all(self, dropped: list[Block], due: list[Block]) -> bool | None:
        """What the thread does each time: whether anything came back, or None when there is nothing left to do.

        What has lain idle for long goes to `due`: its pages are to be offered, and nobody may write them meanwhile.
        """
        has_news = self._look_at_lent(self._number_lent(), dropped)
        latest = time.monotonic() - _GRACE_S
        waiting = [block for block in self._in_order if not block.is_offered]
        due += (block for block in waiting if block.idle_since <= latest)
        for block in due:
            self._remove(block)
        if self._number_lent() or waiting:
            return has_news
        self._thread = None
        return None

    def _put_back(self, blocks: Sequence[Block]) -> None:
        """Back to the idle ones: older than those that came meanwhile."""
        meanwhile = list(self._in_order)
        for block in meanwhile:
            if not block.is_offered:
                self._remove(block)
        for block in chain(blocks, (block for block in meanwhile if not block.is_offered)):
            self._put(block)

    def close(self) -> None:
        """Ends the thread before the interpreter goes down."""
        self._closing.set()
        thread = self._thread
        if thread is not None and thread.is_alive():
            thread.join(timeout=1.0)

    # --- forked processes ------------------------------------------------------------------------------------

    def before_fork(self) -> None:
        """Waits until no other thread is in the midst of something here."""
        self._lock.acquire()

    def after_fork_in_parent(self) -> None:
        """Goes on."""
        self._lock.release()

    def after_fork_in_child(self) -> None:
        """The child has the memory, but not the thread, which may have been just looking at the event."""
        self._lock = threading.RLock()
        self._thread = None
        is_closing, self._closing = self._closing.is_set(), threading.Event()
        if is_closing:
            self._closing.set()


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
    """Frees the memory that copies have left behind.

    The memory of a large copy (256 kB a tensor and more, in main memory) outlives it, so that the next copy of the
    same size need not wait for new memory: at most as much as the largest of the last eight copies took. Within
    some seconds it is marked as free for the system to take, should anybody need it, though it still counts as the
    process's own in many displays. Call this to be rid of it at once. With `TORCHCOPY_NO_MEMORY_CACHING=1` in the
    environment none is kept. No tensor is touched, no value, graph or gradient; what tensors still use stays.

    Returns:
        How many bytes were freed.

    Example:
        >>> import torch, torchcopy as tc
        >>> copied = tc.copy({"w": torch.zeros(100_000)})
        >>> del copied
        >>> tc.empty_cache() >= 0
        True
    """
    return cache.empty()


_PLAIN = frozenset({Tensor, torch.nn.Parameter})
_NUMBER, _STORAGE = attrgetter("number"), attrgetter("storage")
cache = MemoryCache()
atexit.register(cache.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=cache.before_fork,
        after_in_parent=cache.after_fork_in_parent,
        after_in_child=cache.after_fork_in_child,
    )
