"""TC110: a small view outlives its base, and keeps all of its memory."""

from __future__ import annotations

import sys
import weakref
from collections import defaultdict

from torch import Tensor

from ... import _torch_private
from ..._tensors import format_bytes
from ..finding_log import FindingLog
from ..tracking.weak_tables import forget_with

# References to a base that nothing but views of it, in C++, keeps: that, and the one of the question itself.
_ONLY_THE_VIEWS = 2
_TIMES, _LEAST_BYTES = 16, 1 << 20


class _View:
    """A small view of a large storage.

    Attributes:
        reference: to the view, weak.
        site: the line that took it.
        runs: how often that line had run by then.
        was_alone: whether nobody else used the storage when it was looked at last.
    """

    __slots__ = ("reference", "runs", "site", "told", "was_alone")

    def __init__(self, reference: weakref.ref[Tensor], site: int, runs: int) -> None:
        self.reference, self.site, self.runs = reference, site, runs
        self.was_alone = self.told = False


class PinnedBases:
    """Follows small views of large storages; now and then it looks which of them nobody else uses any more."""

    def __init__(self, findings: FindingLog) -> None:
        self._findings = findings
        self._views: dict[int, _View] = {}
        self._runs: dict[int, int] = defaultdict(int)
        self._new = 0

    def viewed(self, base: Tensor, view: Tensor, site: int) -> None:
        """A part of `base` was taken."""
        stored = base.untyped_storage().nbytes()
        if stored < _LEAST_BYTES or view.nbytes * _TIMES > stored or id(view) in self._views:
            return
        identity = id(view)
        self._runs[site] += 1
        self._views[identity] = _View(forget_with(view, self._views)[0], site, self._runs[site])
        self._new += 1
        if self._new * 8 >= len(self._views):
            self.look()

    def look(self, *, last: bool = False, at_step: bool = False) -> None:
        """A view pins its base if it is alone, and its line has run again and again; or at the end of the audit."""
        self._new = 0
        if not self._views or not _torch_private.can_count_storage_uses():
            return
        by_storage: dict[int, list[tuple[Tensor, _View]]] = defaultdict(list)
        for each in list(self._views.values()):
            view = each.reference()
            if view is not None:
                by_storage[_torch_private.storage_id(view)].append((view, each))
            del view
        for storage, views in by_storage.items():
            own = sum(view.nbytes for view, _ in views)
            stored = views[0][0].untyped_storage().nbytes()  # which makes its Python object: one user more
            [uses] = _torch_private.storage_uses([storage])
            view, first = views[0]
            bases = {id(each._base) for each, _ in views if each._base is not None}
            alone = (
                uses - 1 - len(bases) <= len(views)
                and own * _TIMES <= stored
                and not any(map(_has_users, (each for each, _ in views)))
            )
            kept = last or self._runs[first.site] - first.runs >= 2 or (at_step and first.was_alone)
            if alone and kept and not any(each.told for _, each in views):
                first.told = True
                self._findings.add(
                    "TC110",
                    "a small view keeps the memory of its whole base alive, which nobody else uses any more",
                    [("the view was taken here", first.site)],
                    fix="copy the part that is kept: `base[i].clone()`",
                    notes=[f"one view of {format_bytes(view.nbytes)} keeps {format_bytes(stored)}"],
                    size=stored - own,
                )
            if at_step:
                for _, each in views:
                    each.was_alone = alone

    def clear(self) -> None:
        """Lets go of everything."""
        self._views.clear()


def _has_users(view: Tensor) -> bool:
    """Whether the program has the base of a view too, or a graph that may have it."""
    return view.requires_grad or (view._base is not None and sys.getrefcount(view._base) > _ONLY_THE_VIEWS)
