"""The tensors of a snapshot, and where their memory goes when the snapshot is gone."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")
Geometry = tuple[list[int], list[torch.Size], list[tuple[int, ...]], list[Any], list[torch.dtype]]
"""Of many tensors: addresses of their storages, shapes, strides, offsets, dtypes."""


class Returned:
    """What snapshots that are gone have left behind, for the thread that takes the next one.

    A snapshot may be dropped anywhere, by the garbage collector too. Memory of its own can be written again: it
    becomes the buffers of the next snapshot. Lazy clones are let go on the thread that trains: while it is here, it
    is not in the midst of a write to one of their siblings (docs/decisions/0007-copy-on-write-across-threads.md).

    Attributes:
        thread: the one that trains: the last one that has taken a snapshot.
    """

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self._buffers: deque[list[Tensor]] = deque(maxlen=1)
        self._lazy: deque[Sequence[Tensor]] = deque()

    def give_back(self, tensors: list[Tensor], *, lazy: bool) -> None:
        """Takes the tensors of a snapshot that is gone. May be called from a finaliser, on any thread."""
        if not lazy:
            self._buffers.append(tensors)
        elif threading.get_ident() != self.thread:
            self._lazy.append(tensors)

    def buffers(self) -> list[Tensor] | None:
        """Memory that may be written, the last that was given back; None where there is none."""
        return _popped(self._buffers)

    def let_go(self) -> None:
        """Lets go of the lazy clones that other threads have dropped. For the thread that trains."""
        while _popped(self._lazy) is not None:
            pass

    def waiting(self) -> int:
        """How many snapshots' lazy clones wait to be let go."""
        return len(self._lazy)

    def clear(self) -> None:
        """Lets go of all that is here."""
        self._buffers.clear()
        self.let_go()


def _popped(waiting: deque[T]) -> T | None:
    try:
        return waiting.popleft()
    except IndexError:  # another thread was faster, or there is none
        return None


class HeldTensors:
    """The tensors that one snapshot holds, never handed to anybody who might write them.

    Attributes:
        tensors: each once.
        lazy: whether they are lazy clones, or may be.
        geometry: of lazy ones: where their bytes are tells whether the live tensors still have these.
        at_once: ids of those that were copied at once, though not the eager mode took them; found out when it is
            asked for, if the mode does not know them anyway.
    """

    __slots__ = ("__weakref__", "at_once", "geometry", "lazy", "returned", "tensors")

    def __init__(self, tensors: list[Tensor], returned: Returned | None = None, *, lazy: bool = False) -> None:
        self.tensors = tensors
        self.lazy = lazy
        self.returned = returned
        self.geometry: Geometry | None = None
        self.at_once: set[int] | None = None

    def __del__(self) -> None:
        returned = self.returned
        if returned is not None:
            returned.give_back(self.tensors, lazy=self.lazy)
