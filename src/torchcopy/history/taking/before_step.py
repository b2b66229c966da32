"""What the thread that trains does before an optimizer next writes: a safe point to let go of lazy clones."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.hooks import RemovableHandle


class BeforeStep:
    """Work that waits for the next step of any optimizer. PyTorch has a hook for it only while there is some."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._work: dict[Hashable, Callable[[], bool]] = {}
        self._hook: RemovableHandle | None = None

    def do(self, who: Hashable, work: Callable[[], bool]) -> None:
        """Has `work` called before each step until it returns True; one work for each `who`."""
        with self._lock:
            self._work[who] = work
            if self._hook is None:
                self._hook = register_optimizer_step_pre_hook(self._run)

    def _run(self, *_: object) -> None:
        if torch.compiler.is_compiling():  # nothing for a graph; what is not let go of is copied by the write
            return
        with self._lock:
            for who, work in tuple(self._work.items()):  # a finaliser may have more
                if work():
                    self._work.pop(who, None)
            if not self._work and self._hook is not None:
                self._hook.remove()
                self._hook = None

    def after_fork_in_child(self) -> None:
        """A new lock: another thread may have held the old one."""
        self._lock = threading.RLock()


before_step = BeforeStep()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=before_step.after_fork_in_child)
