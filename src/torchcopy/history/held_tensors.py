"""The tensors of a snapshot, and where their memory goes when the snapshot is gone."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import sys
import threading
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from .._tensors import has_storage
from ..copying.copy_on_write import anchors
from .taking.before_step import before_step

T = TypeVar("T")
Geometry = tuple[list[int], list[torch.Size], list[tuple[int, ...]], list[Any], list[torch.dtype]]
"""Of many tensors: addresses of their storages, shapes, strides, offsets, dtypes."""
_is_finalizing = sys.is_finalizing  # a name of its own: those of modules go when the interpreter goes down
# References to a list of which the one who asks has the last, and to a tensor that is in no other list.
_ONLY_HERE, _ONLY_IN_A_LIST = 2, 3


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
        self._is_later = False
        self._buffers: deque[HeldTensors] = deque(maxlen=1)
        self._lazy: deque[Sequence[Tensor]] = deque()

    def give_back(self, held: HeldTensors) -> None:
        """Takes the tensors of a snapshot that is gone. May be called from a finaliser, on any thread."""
        if not held.lazy:
            if held.layout is not None:
                self._buffers.append(HeldTensors(held.tensors, layout=held.layout))
            return
        self._lazy.append(held.tensors)
        held.tensors = []
        if self._is_later:
            before_step.do(id(self), functools.partial(_let_go, weakref.ref(self)))
        elif threading.get_ident() == self.thread:
            self.let_go()

    @contextlib.contextmanager
    def at_next_step(self) -> Iterator[None]:
        """Lazy clones that are dropped here stay until an optimizer is about to write, or the next safe point.

        A `take` is quicker without that, and the write is the next to get their memory.
        """
        self._is_later = True
        try:
            yield
        finally:
            self._is_later = False

    def buffers(self, layout: Layout | None) -> list[Tensor] | None:
        """Memory into which tensors of that layout may be written; what was given back and does not fit goes."""
        held = _popped(self._buffers)
        return held.tensors if held is not None and held.fits(layout) else None

    def let_go(self) -> None:
        """Lets go of the lazy clones that have been dropped, and of their bytes. For the thread that trains."""
        while (tensors := _popped(self._lazy)) is not None:
            if sys.getrefcount(tensors) == _ONLY_HERE:
                mine = [t for t in tensors if sys.getrefcount(t) <= _ONLY_IN_A_LIST]
                anchors.let_go(list(filter(has_storage, mine)))

    def clear(self) -> None:
        """Lets go of all that is here."""
        self._buffers.clear()
        self.let_go()


def _let_go(returned: weakref.ref[Returned]) -> bool:
    """Before a step, on whatever thread takes it: whether nothing is left to do."""
    there = returned()
    if there is None:
        return True
    if threading.get_ident() != there.thread:
        return False
    there.let_go()
    return True


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
        if (
            returned is not None and not _is_finalizing()
        ):  # else the memory goes anyway, and nothing can be imported
            returned.give_back(self)
