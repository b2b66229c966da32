"""Room for recursion: a walk needs more of Python's frames for some objects than `copy.deepcopy` does."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_FACTOR = 3
"""How many frames a level takes, at most, where `copy.deepcopy` takes one."""

_lock = threading.Lock()
_inside = 0
_limit = 0


@contextmanager
def more_recursion() -> Iterator[None]:
    """Raises Python's recursion limit while the body runs, on all threads; as it was when the last one leaves."""
    global _inside, _limit
    with _lock:
        if _inside == 0:
            _limit = sys.getrecursionlimit()
            sys.setrecursionlimit(_FACTOR * _limit)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                sys.setrecursionlimit(_limit)
