"""Which line made which node of a graph: nodes are numbered in the order in which they are made."""

from __future__ import annotations

import bisect

_MOST = 200_000


class NodeLines:
    """The lines of the newest nodes of one thread."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._sites: list[int] = []

    def made(self, first: int, site: int) -> None:
        """The nodes from `first` on, to the next that is told, were made by this line."""
        self._firsts.append(first)
        self._sites.append(site)
        if len(self._firsts) > _MOST:
            del self._firsts[: _MOST // 2]
            del self._sites[: _MOST // 2]

    def line_of(self, number: int) -> int:
        """The line that made the node with this number; 0 where that is not known any more."""
        at = bisect.bisect_right(self._firsts, number) - 1
        return self._sites[at] if at >= 0 else 0
