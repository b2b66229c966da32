"""Anchors: what makes PyTorch's copy-on-write safe when several threads give up one buffer at the same moment.

Lazy clones share a context that counts its owners (`c10/core/impl/COWDeleter.cpp`). An owner gives up when it is
first written or when its storage dies. It lowers the count first and locks the context afterwards; meanwhile an
owner on another thread can bring the count to zero and delete the context under it. An *anchor* is one more lazy
clone that nobody writes. While it is held, no writer and no dropper is ever the last owner, and only the last one
deletes. It is let go, under one lock, when nothing but anchors is left on the context.

docs/decisions/0007-copy-on-write-across-threads.md has the argument in full.
"""

from __future__ import annotations

import atexit
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import compress, repeat
from operator import eq, ne, not_
from typing import ParamSpec, TypeVar

from torch import Tensor

from ... import _torch_private
from .anchor_report import AnchorReport

# Between two sweeps: as short as this after lazy clones were made, as long as that while nothing changes.
_SOONEST_S, _LATEST_S = 0.02, 0.25
# A sweep may take this much of one processor; where there is a lot to look at, sweeps are further apart.
_SHARE = 0.02
# A storage that died may still be giving up on a thread that does not hold the interpreter's lock.
_GRACE_S = 0.05
# Sweeps without anything to look at before the thread ends: starting one costs as much as 100 lazy clones.
_IDLE_SWEEPS = 4
# The lock is let go after so many storages, so that a fork does not wait for a whole sweep.
_AT_ONCE = 512
# From so many anchors on, or from a quarter more than the last sweep left, a fork wakes the thread, which asks who
# died. From so many, or from twice as many, it does so itself, and asks who was written: the thread may be starved.
_WAKE_AT, _SWEEP_AT = 1536, 2048
_P = ParamSpec("_P")
_T = TypeVar("_T")


class _Joined:
    """Storages that share the bytes at some addresses from now on, as weak references, one an address."""

    __slots__ = ("addresses", "again", "weak")

    def __init__(self, addresses: Sequence[int], weak: Sequence[int]) -> None:
        self.addresses, self.weak = addresses, weak
        self.again: list[bool] | None = None  # which of them were watched before


class AnchorPool:
    """The anchors of one process, and the thread that lets them go. `lock` guards every lazy clone made.

    A context is known by the address of its bytes: while the anchor keeps them, nothing else can have it.
    The storages that share them, the *siblings*, are watched through weak references: a tensor would keep them
    alive, and `p.data = x` changes the storage behind a tensor. A weak reference is a number that no other storage
    has until it is freed; it is freed when the storage is not watched any more.

    All is done with many storages in a call, at the speed of C: `map`, `compress`, sets and dicts of numbers.

    The garbage collector may run a finaliser in the midst of anything here, on the thread that has the lock.
    Such a finaliser may make lazy clones, but lets no anchor go while `busy`: it might be one that the code around
    it has just found held, or has found free and is about to let go itself. And Ctrl-C may end anything here
    between two steps: their order is such that an anchor or a weak reference may then be left over, but none is
    let go too early.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.busy = False
        self._inherited: list[object] = []
        self._forget_all()

    def _forget_all(self) -> None:
        self._anchors: dict[int, Tensor] = {}
        self._watched: dict[int, int] = {}  # weak reference of a storage: address of the bytes that it shares
        self._joined: deque[_Joined] = deque()  # not among the watched yet
        self._giving_up: deque[tuple[float, Sequence[int | None]]] = deque()  # until when, which bytes
        self._probe = _torch_private.StorageProbe()
        self._wake_at, self._sweep_at = _WAKE_AT, _SWEEP_AT
        self._pause_s = _SOONEST_S
        self._freeing_s = 0.0
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._calls: queue.SimpleQueue[None] = queue.SimpleQueue()  # to the thread; a finaliser may call, too

    # --- taking: the caller holds the lock -------------------------------------------------------------------

    def known(self, addresses: Iterable[int]) -> list[bool]:
        """Which of these bytes have an anchor."""
        return list(map(self._anchors.__contains__, addresses))

    def hold(self, anchors: Mapping[int, Tensor], sources: Sequence[int]) -> None:
        """Keeps an anchor for the bytes at each address; `sources` are weak references to the storages there."""
        self.join(list(anchors), sources)  # first: an anchor without siblings is let go
        self._anchors.update(anchors)

    def join(self, addresses: Sequence[int], siblings: Sequence[int]) -> None:
        """Notes that storages, given by weak references, share the bytes at these addresses.

        A storage that shared others before has given those up: nobody writes it while it is forked.
        """
        self._joined.append(_Joined(addresses, siblings))

    def watch(self) -> None:
        """Sees to it that somebody sweeps, if lazy clones were made."""
        if not self._joined:
            return
        self._pause_s = _SOONEST_S
        if self._thread is None and not self._closing.is_set():
            self._thread = threading.Thread(target=self._run, name="torchcopy-anchors", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:  # no more threads, or the interpreter goes down: later forks try again
                self._thread = None
        if len(self._anchors) >= self._sweep_at:
            self._undisturbed(self._sweep_at_once)
        elif len(self._anchors) >= self._wake_at:
            self._wake_at = self._sweep_at  # one call is enough
            self._calls.put(None)

    def _sweep_at_once(self) -> None:
        self._drop_and_release()
        if len(self._anchors) >= self._sweep_at:
            self._look(self._newest_first(), set())
            self._release_due()
        self._expect_more()

    def _drop_and_release(self) -> None:
        """Asks only who died: that is quick."""
        self._take_in()
        self._drop_dead(self._watched)
        self._release_due()

    def _expect_more(self) -> None:
        self._wake_at = max(_WAKE_AT, 5 * len(self._anchors) // 4)
        self._sweep_at = max(_SWEEP_AT, 2 * len(self._anchors))

    # --- letting go ------------------------------------------------------------------------------------------

    def sweep(self, stop: threading.Event | None = None) -> None:
        """Lets every anchor go that is not needed any more, unless `stop` is set meanwhile."""
        shared: set[int] = set()
        with self.lock:
            watched = self._undisturbed(self._newest_first) or []
        for start in range(0, len(watched), _AT_ONCE):
            if stop is not None and stop.is_set():
                return
            with self.lock:
                self._undisturbed(self._look, watched[start : start + _AT_ONCE], shared)
        with self.lock:
            self._undisturbed(self._release_due)
            self._expect_more()

    def _undisturbed(self, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T | None:
        """Does the work under the lock, unless this is a finaliser that disturbs other work under it."""
        if self.busy:
            return None
        self.busy = True
        try:
            return work(*args, **kwargs)
        finally:
            self.busy = False

    def _newest_first(self) -> list[int]:
        self._take_in()
        return list(reversed(self._watched))

    def _take_in(self) -> None:
        """Watches the storages that joined since the last time: work that a fork need not wait for."""
        joined, watched = self._joined, self._watched
        while joined:
            some = joined[0]
            if some.again is None:
                some.again = list(map(watched.__contains__, some.weak))
            watched.update(zip(some.weak, some.addresses, strict=True))
            joined.popleft()
            if True in some.again:
                _torch_private.free_weak_storages(compress(some.weak, some.again))

    def _look(self, storages: Iterable[int], shared: set[int]) -> None:
        """Watches those no more that share their bytes no more; adds to `shared` which bytes are shared.

        One sibling that has the bytes is enough: the others at the same address are only asked whether they died.

        One whose bytes are elsewhere was written: PyTorch sets the new address after it has given up, and
        the context itself makes the last owner wait for its unlocking. One that died has given up, too, but on a
        thread without the interpreter's lock it may be just about to. So might one be that is lazy at another
        address: it may have been resized, which sets the address first.
        """
        left = self._drop_dead(storages)
        addresses = map(self._watched.get, left)
        where = {w: a for w, a in zip(left, addresses, strict=True) if a is not None and a not in shared}
        while where:
            one_each = dict(zip(where.values(), where, strict=True))
            seen = self._see(list(one_each.values()), list(one_each))
            shared.update(compress(one_each, map(eq, one_each, seen)))
            elsewhere = set(compress(one_each.values(), map(ne, one_each, seen)))
            self._drop_elsewhere(elsewhere)
            where = {w: a for w, a in where.items() if a not in shared and w not in elsewhere}

    def _see(self, storages: list[int], addresses: list[int]) -> list[int | None]:
        """Where the bytes of each are now. Those that may not be looked at count as unchanged."""
        try:
            return self._probe.look(storages)
        except RuntimeError:  # a device is in trouble, or one of them has no bytes that may be looked at
            if len(storages) == 1:
                return [*addresses]
        middle = len(storages) // 2
        halves = slice(None, middle), slice(middle, None)
        return [seen for half in halves for seen in self._see(storages[half], addresses[half])]

    def _drop_dead(self, storages: Iterable[int]) -> list[int]:
        """Watches those no more that are gone; returns the others, of those that are watched."""
        watched = list(filter(self._watched.__contains__, storages))
        dead = _torch_private.expired_storages(watched)
        self._drop(list(compress(watched, dead)), gave_up=False)
        return list(compress(watched, map(not_, dead)))

    def _drop_elsewhere(self, storages: Collection[int]) -> None:
        if not storages:
            return
        weak = list(storages)
        try:
            lazy = self._probe.are_lazy(weak)
        except RuntimeError:
            lazy = [None] * len(weak)
        written = [state is False for state in lazy]
        self._drop(list(compress(weak, written)), gave_up=True)
        self._drop(list(compress(weak, map(not_, written))), gave_up=False)

    def _drop(self, storages: Sequence[int], *, gave_up: bool) -> None:
        """Watches them no more. Where they may be just about to give up, the anchors stay for a moment."""
        if not storages:
            return
        self._pause_s = _SOONEST_S
        # Where a finaliser has forked the process in the midst of this, the child has nothing to forget.
        mine = list(filter(self._watched.__contains__, storages))
        if not gave_up:
            self._giving_up.append((time.monotonic() + _GRACE_S, list(map(self._watched.get, mine))))
        deque(map(self._watched.pop, mine, repeat(None)), maxlen=0)
        _torch_private.free_weak_storages(mine)

    def _release_due(self) -> None:
        """Lets the anchors go whose bytes nobody shares, but those that somebody may be just giving up."""
        known = set(self._anchors)  # first: whoever shares these has joined before
        self._take_in()
        now, giving_up = time.monotonic(), self._giving_up
        while giving_up and giving_up[0][0] <= now:
            giving_up.popleft()
        known.difference_update(self._watched.values(), *(addresses for _, addresses in giving_up))
        self._release(known)

    def _release(self, addresses: Collection[int]) -> None:
        # All are taken out before the bytes of the first one go: another fork may get its address at once.
        # In the order in which they were made, which is how they lie in memory.
        addresses = list(compress(self._anchors, map(addresses.__contains__, self._anchors)))
        anchors = list(map(self._anchors.pop, addresses, repeat(None)))
        start = time.thread_time()
        while anchors:
            del anchors[:_AT_ONCE]  # the bytes go here, unless a tensor has them
        self._freeing_s += time.thread_time() - start

    def let_go(self, tensors: Sequence[Tensor]) -> int:
        """See `let_go`."""
        with self.lock, _torch_private.outside_modes():
            addresses = map(_torch_private.storage_address, tensors)
            own = dict(zip(addresses, map(_torch_private.storage_id, tensors), strict=True))
            return self._undisturbed(self._let_go, own) or 0

    def _let_go(self, own: Mapping[int, int]) -> int:
        """`own` has the storages that may keep the bytes at these addresses."""
        alone = own.keys() & self._anchors.keys()
        self._take_in()
        there = list(compress(self._watched, map(alone.__contains__, self._watched.values())))
        others = [weak for weak in there if weak != own[self._watched[weak]]]
        shared: set[int] = set()
        self._look(reversed(others), shared)
        alone.difference_update(shared, *(some.addresses for some in tuple(self._joined)))  # by a finaliser
        self._drop([weak for weak in there if self._watched.get(weak) in alone], gave_up=True)
        self._release(alone)
        return len(alone)

    # --- asking ----------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._anchors)

    def report(self) -> AnchorReport:
        """What the anchors hold now. Looks at each; lets none go."""
        with self.lock, _torch_private.outside_modes():
            alone = self._undisturbed(self._unshared) or ()
            return AnchorReport(len(self._anchors), sum(t.untyped_storage().nbytes() for t in alone))

    def _unshared(self) -> list[Tensor]:
        known = dict(self._anchors)
        shared: set[int] = set()
        self._look(self._newest_first(), shared)
        return [anchor for address, anchor in known.items() if address not in shared]

    # --- the thread ------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._sweep_on()
        finally:
            with self.lock:
                if self._thread is threading.current_thread():  # the next fork starts another one
                    self._thread = None

    def _sweep_on(self) -> None:
        closing, calls, pause, idle = self._closing, self._calls, self._pause_s, 0
        due = time.monotonic() + pause
        while not closing.is_set():
            try:
                calls.get(timeout=max(0.0, due - time.monotonic()))
            except queue.Empty:
                pass
            else:
                with self.lock:
                    self._undisturbed(self._drop_and_release)
                    self._wake_at = max(_WAKE_AT, 5 * len(self._anchors) // 4)
                continue
            start = time.thread_time() - self._freeing_s  # giving memory back early costs no more than late
            self.sweep(closing)
            cost = time.thread_time() - self._freeing_s - start
            with self.lock:
                idle = 0 if self._anchors else idle + 1
                if idle > _IDLE_SWEEPS:
                    self._thread = None
                    return
                pause = max(self._pause_s if self._anchors else _LATEST_S, cost / _SHARE)
                self._pause_s = min(1.5 * self._pause_s, _LATEST_S)
            due = time.monotonic() + pause

    def close(self) -> None:
        """Ends the thread before the interpreter goes down; anchors that are left go with the process."""
        self._closing.set()
        self._calls.put(None)
        thread = self._thread
        if thread is not None:
            thread.join(timeout=1.0)

    def after_fork_in_child(self) -> None:
        """Starts anew in a forked process, which has the memory of its parent but not its threads.

        The anchors it inherited are kept for good: a thread of the parent may have been giving up at the moment
        of the fork, and what it locked stays locked here.
        """
        self.lock = threading.RLock()
        self._inherited.append(self._anchors)
        self._forget_all()


pool = AnchorPool()
atexit.register(pool.close)
if hasattr(os, "register_at_fork"):
    # Forking waits until no other thread is making lazy clones or sweeping, so that the child sees none half made.
    os.register_at_fork(
        before=lambda: pool.lock.acquire(),
        after_in_parent=lambda: pool.lock.release(),
        after_in_child=lambda: pool.after_fork_in_child(),
    )


def settle() -> int:
    """Lets go at once of the memory that nothing but anchors keeps alive; returns how many anchors are left.

    That happens by itself within a fraction of a second. An anchor is left while a lazy clone and its source
    still share bytes, and for a moment after a storage died that shared them.
    """
    with _torch_private.outside_modes():
        pool.sweep()
    return len(pool)


def held_bytes() -> int:
    """Bytes that anchors keep alive and the program itself does not: old values that `settle()` can give back."""
    return pool.report().held_bytes


def report() -> AnchorReport:
    """What anchors hold at this moment."""
    return pool.report()


def let_go(tensors: Sequence[Tensor]) -> int:
    """Lets the anchors of `tensors` go where nobody else shares their bytes any more; returns how many those were.

    While an anchor is held, the first write to a tensor copies its bytes, even when all its lazy clones are gone.
    After this call, it does not.

    It is for a point where the caller knows what PyTorch cannot say: during the call, no other thread writes or
    drops one of `tensors`, and the lazy clones that are gone were written or dropped before it.

    Args:
        tensors: sources or lazy clones. Not changed, not materialised.
    """
    return pool.let_go(tensors)
