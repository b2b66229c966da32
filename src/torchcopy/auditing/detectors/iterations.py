"""The iterations of a program, told apart by its optimizers' steps: in which one a node of a graph was made."""

from __future__ import annotations

import bisect
import weakref
from typing import Any

from ... import _torch_private

_MOST_ENDS = 100_000


class Iterations:
    """An iteration ends when each optimizer that takes part in it has stepped; without any, with a backward.

    Several optimizers may step in one iteration, as those of a GAN do: it is over when one of them steps again.
    """

    def __init__(self) -> None:
        self._ends: list[int] = []  # the number of the next node, at the end of each of the latest iterations
        self._forgotten = 0
        self._by_step = False
        self._stepped: weakref.WeakSet[Any] = weakref.WeakSet()

    def __len__(self) -> int:
        return self._forgotten + len(self._ends)

    def stepped(self, optimizer: Any) -> bool:
        """An optimizer has taken a step. Returns whether that is the first one of an iteration."""
        if not self._by_step:
            self._by_step, self._forgotten = True, 0
            self._ends.clear()
        is_same = len(self._stepped) > 0 and optimizer not in self._stepped
        if not is_same:
            self._stepped.clear()
        self._stepped.add(optimizer)
        if is_same:
            self._ends[-1] = _torch_private.next_node_number()
        else:
            self._end()
        return not is_same

    def ran_backward(self) -> bool:
        """A backward was run. Returns whether an iteration has ended with it."""
        if not self._by_step:
            self._end()
        return not self._by_step

    def _end(self) -> None:
        self._ends.append(_torch_private.next_node_number())
        if len(self._ends) > _MOST_ENDS:
            self._forgotten += _MOST_ENDS // 2
            del self._ends[: _MOST_ENDS // 2]

    def of(self, number: int) -> int:
        """The iteration that a node was made in, from 0 on; as many as there were for one that came after them."""
        return self._forgotten + bisect.bisect_right(self._ends, number)
