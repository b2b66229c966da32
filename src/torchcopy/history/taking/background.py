"""Bytes that a thread moves while the program trains on.

The call makes lazy clones. A thread copies from them into memory of the snapshot's own; it only reads. The clones
are let go by the thread that trains, at the next safe point: a `take`, a `wait`, the moment before an optimizer
writes. What has been let go by then is not copied by the write.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

import torch
from torch import Tensor

from ... import _torch_private
from ..._errors import StagingError
from ...copying.copy_on_write import anchors
from ...copying.request import Request
from ...copying.tensors.tensor_copies import copy_tensors
from ..held_tensors import HeldTensors
from .eager import fill
from .side_stream import on, recorded_event, side_stream, to_pinned
from .stager import stager

_CHUNK_BYTES = 32 << 20
_LAZY = Request(memory="lazy")


class StagingJob:
    """One snapshot's way from lazy clones to memory of its own.

    Attributes:
        error: what the thread ran into.
    """

    def __init__(self, live: Sequence[Tensor], held: HeldTensors, device: torch.device | None) -> None:
        self.error: BaseException | None = None
        self._held = held
        self._device = device
        self._thread = threading.get_ident()
        self._finished = threading.Event()
        self._lock = threading.Lock()
        clones = copy_tensors(live, _LAZY)
        held.tensors = clones
        # Copied at once are those that could not be lazy: they are where they belong, unless that is elsewhere.
        self._at_once = [not (_is_strided(c) and _torch_private.is_lazy(c)) for c in clones]
        held.at_once = {id(c) for c, own in zip(clones, self._at_once, strict=True) if own}
        self._clones: list[Tensor | None] = list(clones)
        self._live: list[Tensor | None] = list(live)
        self._staged: list[Tensor | None] = [None] * len(clones)
        self._buffers: list[Tensor] | None = None
        self._chunks = deque(_chunks(clones))
        self._done: deque[range] = deque()
        self._ready_event = recorded_event(live)

    def write_into(self, buffers: list[Tensor] | None) -> None:
        """Has the bytes go into copies of tensors of the same layout, if there are any."""
        self._buffers = buffers

    # --- on the thread -----------------------------------------------------------------------------------------

    def run(self) -> None:
        """Moves the bytes. On any thread, once; a forked child runs what its parent's thread had begun."""
        with self._lock:
            try:
                self._move()
            except BaseException as error:  # noqa: BLE001  # handed to the thread that trains
                self.error = error
                stager.untold[id(self)] = str(self._staging_error())
            finally:
                self._finished.set()

    def _move(self) -> None:
        stream = side_stream(self._ready_event)
        while self._chunks:
            chunk = self._chunks[0]
            sources = [self._clones[k] for k in chunk]
            copies = self._copied(chunk, [t for t in sources if t is not None], stream)
            for k, c in zip(chunk, copies, strict=True):
                self._staged[k] = c
            del sources  # the thread that trains is to let go of the last one
            self._chunks.popleft()
            self._done.append(chunk)

    def _copied(self, chunk: range, sources: list[Tensor], stream: torch.cuda.Stream | None) -> list[Tensor]:
        if self._buffers is not None:
            targets = [self._buffers[k] for k in chunk]
            with on(stream):
                fill(targets, sources)
            return targets
        moved = self._device
        with on(stream):
            if moved is None:
                lazy = [c for k, c in zip(chunk, sources, strict=True) if not self._at_once[k]]
                copies = iter(copy_tensors(lazy, Request()) if lazy else ())
                return [c if self._at_once[k] else next(copies) for k, c in zip(chunk, sources, strict=True)]
            if moved.type == "cpu" and any(t.is_cuda for t in sources):
                return to_pinned(sources)
            return copy_tensors(sources, Request(device=moved))

    def after_fork_in_child(self) -> None:
        """New locks: the parent's thread may have held the old ones."""
        self._lock = threading.Lock()
        finished, self._finished = self._finished, threading.Event()
        if finished.is_set():
            self._finished.set()

    # --- on the thread that trains -------------------------------------------------------------------------------

    @property
    def is_done(self) -> bool:
        """Whether the thread is through with it."""
        return self._finished.is_set()

    def wait(self) -> None:
        """Returns when the bytes are there; lets go of the lazy clones if this is the thread that trains.

        Raises:
            StagingError: the thread ran into an error.
        """
        if not self._finished.is_set() and not stager.is_running():
            self.run()  # in a forked process: the thread stayed with the parent
        self._finished.wait()
        stager.let_go()
        self.check()

    def check(self) -> None:
        """Raises the error that the thread ran into, if any.

        Raises:
            StagingError: there is one.
        """
        if self.error is not None:
            stager.untold.pop(id(self), None)
            raise self._staging_error() from self.error

    def _staging_error(self) -> StagingError:
        return StagingError(
            f"the bytes of a snapshot could not be moved: {type(self.error).__name__}: {self.error}"
        )

    def let_go(self) -> bool:
        """Lets go of the lazy clones that have been copied. True if none is left. For the thread that trains."""
        while self._done:
            chunk = self._done.popleft()
            free: list[Tensor] = []
            tensors = self._held.tensors
            for k in chunk:
                staged, live = self._staged[k], self._live[k]
                if staged is not None:
                    tensors[k] = staged
                if live is not None and not self._at_once[k]:
                    free.append(live)
                self._clones[k] = self._live[k] = None
            anchors.let_go(free)
        if not self._finished.is_set():
            return False
        if self.error is None:
            self._held.lazy = False  # from now on the memory is its own
        self._clones, self._live = [], []
        return True


def _chunks(clones: Sequence[Tensor]) -> list[range]:
    """Runs of tensors that are copied together."""
    found, start, size = [], 0, 0
    for k, t in enumerate(clones):
        size += t.nbytes if _is_strided(t) else 0
        if size >= _CHUNK_BYTES:
            found.append(range(start, k + 1))
            start, size = k + 1, 0
    if start < len(clones):
        found.append(range(start, len(clones)))
    return found


def _is_strided(t: Tensor) -> bool:
    return t.layout is torch.strided and not t.is_nested
