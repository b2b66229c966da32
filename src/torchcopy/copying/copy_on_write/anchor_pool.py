"""When anchors are let go: the lock around all lazy clones, and the thread that looks who still shares bytes."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

from torch import Tensor

from ... import _torch_private
from .anchor_report import AnchorReport
from .anchor_table import AnchorTable

# Between two sweeps: as short as this after lazy clones were made, as long as that while nothing changes.
_SOONEST_S, _LATEST_S = 0.02, 0.25
# A sweep may take this much of one processor; where there is a lot to look at, sweeps are further apart.
_SHARE = 0.02
# Sweeps without anything to look at before the thread ends: starting one costs as much as 100 lazy clones.
_IDLE_SWEEPS = 4
# The lock is let go after so many storages, so that a fork does not wait for a whole sweep.
_AT_ONCE = 512
# From so many anchors on, or from a quarter more than the last sweep left, a fork wakes the thread, which asks who
# died. From so many, or from twice as many, it does so itself, and asks who was written: the thread may be starved.
_WAKE_AT, _SWEEP_AT = 1536, 2048
_P = ParamSpec("_P")
_T = TypeVar("_T")


class AnchorPool:
    """The anchors of one process, and the thread that lets them go. `lock` guards every lazy clone made.

    The garbage collector may run a finaliser in the midst of anything here, on the thread that has the lock.
    Such a finaliser may make lazy clones, but lets no anchor go while `busy`: it might be one that the code around
    it has just found held, or has found free and is about to let go itself.

    Attributes:
        lock: held by whoever makes lazy clones or touches the table.
        busy: whether the thread that has the lock is in the midst of work with the table.
        table: which anchors there are, and for whom.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.busy = False
        self.table = AnchorTable()
        self._start_anew()

    def _start_anew(self) -> None:
        self._wake_at, self._sweep_at = _WAKE_AT, _SWEEP_AT
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._calls: queue.SimpleQueue[None] = queue.SimpleQueue()  # to the thread; a finaliser may call, too

    # --- letting go ------------------------------------------------------------------------------------------

    def sweep(self, stop: threading.Event | None = None) -> None:
        """Lets every anchor go that is not needed any more, unless `stop` is set meanwhile."""
        shared: set[int] = set()
        with self.lock:
            watched = self._undisturbed(self.table.newest_first) or []
        for start in range(0, len(watched), _AT_ONCE):
            if stop is not None and stop.is_set():
                return
            with self.lock:
                self._undisturbed(self.table.look, watched[start : start + _AT_ONCE], shared)
        with self.lock:
            self._undisturbed(self.table.release_due)
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

    def let_go(self, tensors: Sequence[Tensor]) -> int:
        """See `anchors.let_go`."""
        with self.lock, _torch_private.outside_modes():
            addresses = map(_torch_private.storage_address, tensors)
            own = dict(zip(addresses, map(_torch_private.storage_id, tensors), strict=True))
            return self._undisturbed(self.table.let_go, own) or 0

    def watch(self) -> None:
        """Sees to it that somebody sweeps, if lazy clones were made. The caller holds the lock."""
        if not self.table.has_joined():
            return
        if self._thread is None and not self._closing.is_set():
            self._thread = threading.Thread(target=self._run, name="torchcopy-anchors", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:  # no more threads, or the interpreter goes down: later forks try again
                self._thread = None
        if len(self.table.anchors) >= self._sweep_at:
            self._undisturbed(self._sweep_at_once)
        elif len(self.table.anchors) >= self._wake_at:
            self._wake_at = self._sweep_at  # one call is enough
            self._calls.put(None)

    def _sweep_at_once(self) -> None:
        self.table.release_dead()
        if len(self.table.anchors) >= self._sweep_at:
            self.table.look(self.table.newest_first(), set())
            self.table.release_due()
        self._expect_more()

    def _expect_more(self) -> None:
        self._wake_at = max(_WAKE_AT, 5 * len(self.table.anchors) // 4)
        self._sweep_at = max(_SWEEP_AT, 2 * len(self.table.anchors))

    # --- asking ----------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.table.anchors)

    def report(self) -> AnchorReport:
        """What the anchors hold now. Looks at each; lets none go."""
        with self.lock, _torch_private.outside_modes():
            alone = self._undisturbed(self.table.unshared) or ()
            return AnchorReport(len(self.table.anchors), sum(t.untyped_storage().nbytes() for t in alone))

    # --- the thread ------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._sweep_on()
        finally:
            with self.lock:
                if self._thread is threading.current_thread():  # the next fork starts another one
                    self._thread = None

    def _sweep_on(self) -> None:
        closing, calls, soon, pause, idle = self._closing, self._calls, _SOONEST_S, _SOONEST_S, 0
        due = time.monotonic() + pause
        while not closing.is_set():
            try:
                calls.get(timeout=max(0.0, due - time.monotonic()))
            except queue.Empty:
                pass
            else:
                with self.lock:
                    self._undisturbed(self.table.release_dead)
                    self._wake_at = max(_WAKE_AT, 5 * len(self.table.anchors) // 4)
                continue
            start = time.thread_time() - self.table.freeing_s  # giving memory back early costs no more than late
            self.sweep(closing)
            cost = time.thread_time() - self.table.freeing_s - start
            with self.lock:
                idle = 0 if self.table.anchors else idle + 1
                if idle > _IDLE_SWEEPS:
                    self._thread = None
                    return
                if self.table.changed:
                    self.table.changed, soon = False, _SOONEST_S
                pause = max(soon if self.table.anchors else _LATEST_S, cost / _SHARE)
                soon = min(1.5 * soon, _LATEST_S)
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
        self.table.start_anew()
        self._start_anew()
