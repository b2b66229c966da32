"""Which line made which node of a graph: nodes are numbered in the order in which they are made."""

from __future__ import annotations

import bisect
from collections.abc import Callable

_MOST = 200_000
_FIRST_TOLD = 64


class NodeLines:
    """The lines of the newest nodes of one thread.

    Args:
        on_many: called when some more nodes were made, and then when twice as many were, and so on.
    """

    def __init__(self, on_many: Callable[[], None]) -> None:
        self._on_many = on_many
        self._told_at = _FIRST_TOLD
        self._count = 0
        self._firsts: list[int] = []
        self._sites: list[int] = []

    def made(self, first: int, site: int) -> None:
        """The nodes from `first` on, to the next that is told, were made by this line."""
        self._firsts.append(first)
        self._sites.append(site)
        self._count += 1
        if self._count >= self._told_at:
            self._told_at = 2 * self._count
            self._on_many()
        if len(self._firsts) > _MOST:
            del self._firsts[: _MOST // 2]
            del self._sites[: _MOST // 2]

    def line_of(self, number: int) -> int:
        """The line that made the node with this number; 0 where that is not known any more."""
        at = bisect.bisect_right(self._firsts, number) - 1
        return self._sites[at] if at >= 0 else 0
