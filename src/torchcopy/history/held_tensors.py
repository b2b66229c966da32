"""The tensors of a snapshot, and where their memory goes when the snapshot is gone."""

from __future__ import annotations

import dataclasses
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")
Geometry = tuple[list[int], list[torch.Size], list[tuple[int, ...]], list[Any], list[torch.dtype]]
"""Of many tensors: addresses of their storages, shapes, strides, offsets, dtypes."""


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """What decides how tensors are copied: a copy of some can be written from others of the same layout.

    Attributes:
        shapes: of each.
        strides: of each; None where all are contiguous.
        dtypes: of each.
        devices: of each.
        sharing: for each, the first that views the same storage and how far behind it that begins; None where
            none do.
    """

    shapes: list[torch.Size]
    strides: list[tuple[int, ...]] | None
    dtypes: list[torch.dtype]
    devices: list[torch.device]
    sharing: list[tuple[int, Any]] | None


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
        self._buffers: deque[HeldTensors] = deque(maxlen=1)
        self._lazy: deque[Sequence[Tensor]] = deque()

    def give_back(self, held: HeldTensors) -> None:
        """Takes the tensors of a snapshot that is gone. May be called from a finaliser, on any thread."""
        if not held.lazy:
            if held.layout is not None:
                self._buffers.append(HeldTensors(held.tensors, layout=held.layout))
        elif threading.get_ident() != self.thread:
            self._lazy.append(held.tensors)

    def buffers(self, layout: Layout | None) -> list[Tensor] | None:
        """Memory into which tensors of that layout may be written; what was given back and does not fit goes."""
        held = _popped(self._buffers)
        return held.tensors if held is not None and held.fits(layout) else None

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
        layout: of the tensors that these are copies of; None where that cannot be told.
        geometry: of lazy ones: where their bytes are tells whether the live tensors still have these.
        at_once: ids of those that were copied at once, though not the eager mode took them; found out when it is
            asked for, if the mode does not know them anyway.
    """

    __slots__ = ("__weakref__", "at_once", "geometry", "layout", "lazy", "returned", "tensors")

    def __init__(
        self,
        tensors: list[Tensor],
        returned: Returned | None = None,
        *,
        lazy: bool = False,
        layout: Layout | None = None,
    ) -> None:
        self.tensors = tensors
        self.lazy = lazy
        self.returned = returned
        self.geometry: Geometry | None = None
        self.layout = layout
        self.at_once: set[int] | None = None

    def fits(self, layout: Layout | None) -> bool:
        """Whether these are copies, and can be written from tensors of that layout."""
        return layout is not None and not self.lazy and self.layout == layout

    def __del__(self) -> None:
        returned = getattr(self, "returned", None)  # where Ctrl-C ended `__init__`
        if returned is not None:
            returned.give_back(self)
