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
import dataclasses
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from torch import Tensor

from .. import _torch_private

# Between two sweeps: as short as this after lazy clones were made, as long as that while nothing changes.
_SOONEST_S, _LATEST_S = 0.02, 0.25
# A sweep may take this much of one processor; where there is a lot to look at, sweeps are further apart.
_SHARE = 0.02
# A storage that died may still be giving up on a thread that does not hold the interpreter's lock.
_GRACE_S = 0.05
# Sweeps without anything to look at before the thread ends: starting one costs as much as 100 lazy clones.
_IDLE_SWEEPS = 4
# The lock is let go after so many anchors, so that a fork does not wait for a whole sweep.
_AT_ONCE = 256
# From so many clones of one storage on, dead ones are forgotten even while another one still shares its bytes.
_MANY_SIBLINGS = 8
# From so many anchors on, or from twice those of the last sweep, a fork sweeps itself: the thread may be starved.
_SWEEP_AT = 2048
_NONE: Mapping[int, int] = {}


@dataclasses.dataclass(frozen=True)
class AnchorReport:
    """What anchors hold at one moment.

    Attributes:
        anchors: buffers that are, or until a moment ago were, shared by lazy clones.
        held_bytes: bytes of those that nothing but their anchor keeps alive any more.
    """

    anchors: int
    held_bytes: int

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data, ready for JSON."""
        return dataclasses.asdict(self)


class AnchorPool:
    """The anchors of one process, and the thread that lets them go. `lock` guards every lazy clone made.

    A context is known by the address of its bytes: while the anchor keeps them, nothing else can have it.
    The storages that share them, the *siblings*, are watched through weak references: a tensor would keep them
    alive, and `p.data = x` changes the storage behind a tensor.

    The garbage collector may run a finaliser in the midst of anything here, on the thread that has the lock.
    Such a finaliser may make lazy clones, but lets no anchor go while `busy`: it might be one that the code around
    it has just found held, or has found free and is about to let go itself.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.busy = False
        self._inherited: list[object] = []
        self._forget()

    def _forget(self) -> None:
        self._anchors: dict[int, Tensor] = {}
        self._siblings: dict[int, dict[int, None]] = {}
        self._joined: deque[tuple[Sequence[int], Sequence[int]]] = deque()
        self._not_before: dict[int, float] = {}
        self._probe = _torch_private.StorageProbe()
        self._sweep_at = _SWEEP_AT
        self._pause_s = _SOONEST_S
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()

    # --- taking: the caller holds the lock -------------------------------------------------------------------

    def known(self, addresses: Iterable[int]) -> list[bool]:
        """Which of these bytes have an anchor."""
        return list(map(self._anchors.__contains__, addresses))

    def hold(self, anchors: Mapping[int, Tensor], sources: Sequence[int]) -> None:
        """Keeps an anchor for the bytes at each address; `sources` are weak references to the storages there."""
        self.join(list(anchors), sources)  # first: an anchor without siblings is let go
        self._anchors.update(anchors)

    def join(self, addresses: Sequence[int], siblings: Sequence[int]) -> None:
        """Notes that storages, given by weak references, share the bytes at these addresses."""
        self._joined.append((addresses, siblings))

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
            self._visit(list(self._anchors), self._release_if_due)
            self._sweep_at = max(_SWEEP_AT, 2 * len(self._anchors))

    # --- letting go ------------------------------------------------------------------------------------------

    def sweep(self, stop: threading.Event | None = None) -> None:
        """Lets every anchor go that is not needed any more, or those that come before `stop` is set."""
        with self.lock:
            addresses = list(self._anchors)
        for start in range(0, len(addresses), _AT_ONCE):
            if stop is not None and stop.is_set():
                return
            with self.lock:
                self._visit(addresses[start : start + _AT_ONCE], self._release_if_due)
        with self.lock:
            self._sweep_at = max(_SWEEP_AT, 2 * len(self._anchors))

    def _visit(
        self, addresses: Iterable[int], visit: Callable[[int], object], own: Mapping[int, int] = _NONE
    ) -> int:
        """Calls `visit` with those addresses whose bytes only anchors have, or the storage that `own` names too.

        Returns how many they were. Under the lock; does nothing in a finaliser that disturbs other work under it.
        """
        if self.busy:
            return 0
        self.busy = True
        try:
            self._take_in()
            alone = [a for a in addresses if a in self._anchors and not self._shared(a, own.get(a))]
            for address in alone:
                visit(address)
            return len(alone)
        finally:
            self.busy = False
            self._probe.look_away()

    def _take_in(self) -> None:
        """Sorts by address what joined since the last time: work that a fork need not wait for."""
        joined = self._joined
        while joined:
            for address, weak in zip(*joined[0], strict=True):
                self._siblings.setdefault(address, {})[weak] = None
            joined.popleft()

    def _shared(self, address: int, own: int | None) -> bool:
        """Whether a sibling but `own` still shares the bytes. Siblings before the first that does are forgotten.

        A sibling whose bytes are elsewhere was written: PyTorch sets the new address after it has given up, and
        the context itself makes the last owner wait for its unlocking. One that died has given up, too, but on a
        thread without the interpreter's lock it may be just about to. So might one be that is lazy at another
        address: it may have been resized, which sets the address first.
        """
        siblings = self._siblings.get(address, {})
        if len(siblings) >= _MANY_SIBLINGS:
            self._forget_dead(address)
        for weak in [weak for weak in reversed(siblings) if weak != own]:
            try:
                seen = self._probe.look(weak)
                if seen == address:
                    return True
                gave_up = seen is not None and not self._probe.sees_lazy()
            except RuntimeError:  # its bytes may not be looked at, or its device is in trouble
                return True
            self._forget_sibling(address, weak, gave_up=gave_up)
        return False

    def _forget_dead(self, address: int) -> None:
        siblings = list(self._siblings[address])
        for weak, dead in zip(siblings, _torch_private.expired_storages(siblings), strict=True):
            if dead:
                self._forget_sibling(address, weak, gave_up=False)

    def _forget_sibling(self, address: int, weak: int, *, gave_up: bool) -> None:
        self._pause_s = _SOONEST_S
        if not gave_up:
            self._not_before[address] = time.monotonic() + _GRACE_S
        # Where a finaliser has forked the process in the midst of this, the child has nothing to forget.
        if address in self._siblings:
            del self._siblings[address][weak]
            _torch_private.free_weak_storages((weak,))

    def _release_if_due(self, address: int) -> None:
        if time.monotonic() >= self._not_before.get(address, 0.0):
            self._release(address)

    def _release(self, address: int) -> None:
        _torch_private.free_weak_storages(self._siblings.pop(address, {}))
        self._not_before.pop(address, None)
        self._anchors.pop(address, None)  # the bytes go here, unless another anchor or a tensor has them

    def let_go(self, tensors: Sequence[Tensor]) -> int:
        """See `let_go`."""
        with self.lock, _torch_private.outside_modes():
            addresses = map(_torch_private.storage_address, tensors)
            own = dict(zip(addresses, map(_torch_private.storage_id, tensors), strict=True))
            return self._visit(own, self._release, own)

    # --- asking ----------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._anchors)

    def report(self) -> AnchorReport:
        """What the anchors hold now. Looks at each; lets none go."""
        with self.lock, _torch_private.outside_modes():
            alone: list[int] = []
            self._visit(list(self._anchors), alone.append)
            held = sum(self._anchors[address].untyped_storage().nbytes() for address in alone)
            return AnchorReport(len(self._anchors), held)

    # --- the thread ------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._sweep_on()
        finally:
            with self.lock:
                if self._thread is threading.current_thread():  # the next fork starts another one
                    self._thread = None

    def _sweep_on(self) -> None:
        closing, pause, idle = self._closing, self._pause_s, 0
        while not closing.wait(pause):
            start = time.thread_time()
            self.sweep(closing)
            cost = time.thread_time() - start
            with self.lock:
                idle = 0 if self._anchors else idle + 1
                if idle > _IDLE_SWEEPS:
                    self._thread = None
                    return
                pause = max(self._pause_s if self._anchors else _LATEST_S, cost / _SHARE)
                self._pause_s = min(1.5 * self._pause_s, _LATEST_S)

    def close(self) -> None:
        """Ends the thread before the interpreter goes down; anchors that are left go with the process."""
        self._closing.set()
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
        self._forget()


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
