"""The thread that moves the bytes of snapshots, and when the thread that trains lets go of what was moved."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections import deque
from typing import TYPE_CHECKING

from .before_step import before_step

if TYPE_CHECKING:
    from .background import StagingJob


class Stager:
    """The thread that moves bytes while there are any; the one that trains lets go before an optimizer writes.

    The thread is no daemon: the interpreter waits for it, so that no snapshot is left half moved.

    Attributes:
        untold: errors that no call has raised yet, by the identities of their jobs.
    """

    def __init__(self) -> None:
        self._start_anew()
        self._unfinished: list[StagingJob] = []  # for the thread that trains: clones to let go of

    def _start_anew(self) -> None:
        self._lock = threading.Lock()
        self._letting_go = threading.RLock()
        self.untold: dict[int, str] = {}
        self._waiting: deque[StagingJob] = deque()
        self._thread: threading.Thread | None = None

    def submit(self, job: StagingJob) -> None:
        """Has the job run on the thread."""
        with self._letting_go:
            self._unfinished.append(job)
        before_step.do(self, self.let_go)
        with self._lock:
            self._waiting.append(job)
            if self._thread is not None:
                return
            self._thread = threading.Thread(target=self._run, name="torchcopy-staging")
            try:
                self._thread.start()
                return
            except RuntimeError:  # there can be no more threads, or the interpreter is about to end
                self._thread = None
        self._run()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                job = self._waiting.popleft()
            job.run()
            del job

    def is_running(self) -> bool:
        """Whether there is a thread that will do what is waiting."""
        return self._thread is not None

    def let_go(self) -> bool:
        """Lets go of the lazy clones that have been copied, of all jobs of this thread and of those that ended.

        Returns:
            Whether none is left.
        """
        if not self._unfinished:
            return True
        with self._letting_go:
            here = threading.get_ident()
            self._unfinished = [
                job
                for job in self._unfinished
                if not ((job._thread == here or not _is_alive(job._thread)) and job.let_go())
            ]
            return not self._unfinished

    def tell(self) -> None:
        """Writes what nobody has asked for: the program is about to end."""
        for message in self.untold.values():
            sys.stderr.write(f"torchcopy: {message}\n")

    def after_fork_in_child(self) -> None:
        """Forgets the thread, which stayed with the parent; jobs that it had not done are run by who waits."""
        self._start_anew()
        for job in self._unfinished:
            job.after_fork_in_child()


def _is_alive(thread: int) -> bool:
    return any(each.ident == thread for each in threading.enumerate())


stager = Stager()
atexit.register(stager.tell)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=stager.after_fork_in_child)
