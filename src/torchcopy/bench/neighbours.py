"""How much other programs used the processors while something was measured."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

_STAT = Path("/proc/stat")
_SHORTEST_SECONDS = 0.2  # the kernel counts in hundredths of a second


def watch_neighbours() -> Callable[[], float | None]:
    """Starts watching; the returned function says what share of all processors' time other programs have used.

    It returns None where that cannot be told: where there is no /proc/stat, where it counts something else (in some
    sandboxes it stands still), or where too little time has passed. No tensor is touched, nothing is synchronised.
    """
    before, own_before, begun = _busy_seconds(), _own_seconds(), time.monotonic()

    def share() -> float | None:
        after, seconds = _busy_seconds(), time.monotonic() - begun
        own = _own_seconds() - own_before
        if before is None or after is None or seconds < _SHORTEST_SECONDS or after - before < 0.8 * own:
            return None
        others = after - before - own
        return min(max(others / seconds / (os.cpu_count() or 1), 0.0), 1.0)

    return share


def _own_seconds() -> float:
    times = os.times()
    return times.user + times.system


def _busy_seconds() -> float | None:
    """Seconds that the processors have worked since the start of the system, all of them together."""
    try:
        fields = _STAT.read_text(encoding="ascii").splitlines()[0].split()
        user, nice, system, _idle, _waiting, interrupts, soft, stolen = map(int, fields[1:9])
        return (user + nice + system + interrupts + soft + stolen) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return None
