"""Keeps the cyclic garbage collector from running while many objects are made that are no garbage."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_paused = 0  # how many calls are inside
_was_enabled = False


@contextmanager
def no_collection() -> Iterator[None]:
    """No automatic collection while the body runs, on any thread; as it was set before when the last one leaves.

    The collector runs after every 700 new containers. Each time it looks at the young ones, and every so often at
    all that the program has: when a copy makes 100,000, that takes as long as making them.
    """
    global _paused, _was_enabled
    with _lock:
        if _paused == 0:
            _was_enabled = gc.isenabled()
            gc.disable()
        _paused += 1
    try:
        yield
    finally:
        with _lock:
            _paused -= 1
            if _paused == 0 and _was_enabled:
                gc.enable()
