"""TC301: `.data`, and writes through a detached alias, outside of `no_grad`: what autograd does not get to know."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from types import FrameType

import torch
from torch import Tensor

from ..finding_log import FindingLog
from ..naming.sites import Sites
from ..tracking.weak_tables import forget_with

_FIX = "read with `t.detach()`; write under `torch.no_grad()`, to the tensor itself"


class DataAttribute:
    """Counts the lines of the program's own that go around autograd. Looks only if it is asked to: see `is_on`.

    Attributes:
        is_on: whether anybody wants to know.
    """

    def __init__(self, findings: FindingLog, sites: Sites, *, is_on: bool) -> None:
        self._findings, self._sites, self.is_on = findings, sites, is_on
        self._detached: dict[int, tuple[weakref.ref[Tensor], int]] = {}

    def taken(self, frame: FrameType, made: Tensor) -> None:
        """`t.data` has made `made`, at the line that `frame` is at."""
        self._detached.pop(id(made), None)  # a detached alias too; a write to it is the same mistake
        site = self._own_line(frame)
        if site:
            self._tell(
                "`.data` goes around autograd: what is written through it is not noticed", [("taken here", site)]
            )

    def assigned(self, frame: FrameType) -> None:
        """`t.data = value` is called, by the line that `frame` is at."""
        site = self._own_line(frame)
        if site:
            self._tell(
                "`t.data = …` replaces the memory of a tensor, and autograd is not told", [("set here", site)]
            )

    def viewed(self, base: Tensor, views: Iterable[Tensor], *, is_detached: bool) -> None:
        """Views were made of `base`: detached ones, or of one that is detached already."""
        known = self._detached.get(id(base))
        if known is not None and known[0]() is base:
            site = known[1]
        elif is_detached and base.requires_grad:
            site = self._sites.here()
        else:
            return
        for view in views:
            self._detached[id(view)] = forget_with(view, self._detached)[0], site

    def written(self, targets: Sequence[Tensor], site: int) -> None:
        """An operation has written to `targets`."""
        if not self._detached or not torch.is_grad_enabled() or not self._sites.is_direct(site):
            return
        for t in targets:
            reference, made = self._detached.get(id(t), (None, 0))
            if reference is not None and reference() is t:
                self._tell(
                    "a write through a detached alias of a tensor that requires a gradient",
                    [("detached here", made), ("written here", site)],
                )

    def _own_line(self, frame: FrameType) -> int:
        return self._sites.of(frame) if self._sites.is_program_code(frame.f_code) else 0

    def _tell(self, message: str, places: list[tuple[str, int]]) -> None:
        self._findings.add("TC301", message, places, fix=_FIX)

    def clear(self) -> None:
        """Lets go of everything."""
        self._detached.clear()
