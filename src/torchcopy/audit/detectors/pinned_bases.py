"""TC110: a small view outlives its base, and keeps all of its memory."""

from __future__ import annotations

import weakref
from collections import defaultdict

from torch import Tensor

from ... import _torch_private
from ..._tensors import format_bytes
from ..finding_log import FindingLog

_TIMES, _LEAST_BYTES = 16, 1 << 20
_LOOK_AFTER = 64


class PinnedBases:
    """Follows small views of large storages; now and then it looks which of them nobody else uses any more."""

    def __init__(self, findings: FindingLog) -> None:
        self._findings = findings
        self._views: dict[int, tuple[weakref.ref[Tensor], int]] = {}
        self._suspects: set[int] = set()
        self._told: set[int] = set()
        self._new = 0

    def viewed(self, base: Tensor, view: Tensor, site: int) -> None:
        """A part of `base` was taken."""
        stored = base.untyped_storage().nbytes()
        if stored < _LEAST_BYTES or view.nbytes * _TIMES > stored or id(view) in self._views:
            return
        identity = id(view)
        self._views[identity] = (weakref.ref(view, lambda _: self._views.pop(identity, None) and None), site)
        self._new += 1
        if self._new >= _LOOK_AFTER:
            self.look()

    def follows(self, tensor: Tensor) -> int:
        """The line that made `tensor`, if it is such a view; else 0."""
        return self._views.get(id(tensor), (None, 0))[1]

    def look(self, *, last: bool = False) -> None:
        """A view that is the only user of its storage now, and was when it was looked at before, pins it."""
        self._new = 0
        if not self._views:
            return
        by_storage: dict[int, list[tuple[Tensor, int]]] = defaultdict(list)
        for reference, site in list(self._views.values()):
            view = reference()
            if view is not None:
                by_storage[_torch_private.storage_id(view)].append((view, site))
            del view
        if not _torch_private.can_count_storage_uses():
            return
        alone = set()
        for storage, views in by_storage.items():
            own = sum(view.nbytes for view, _ in views)
            stored = views[0][0].untyped_storage().nbytes()  # which makes its Python object: one user more
            [uses] = _torch_private.storage_uses([storage])
            if uses - 1 > len(views) or own * _TIMES > stored:
                continue
            key = id(views[0][0])
            alone.add(key)
            if (last or key in self._suspects) and key not in self._told:
                self._told.add(key)
                view, site = views[0]
                self._findings.add(
                    "TC110",
                    "a small view keeps the memory of its whole base alive, which nobody else uses any more",
                    [("the view was taken here", site)],
                    fix="copy the part that is kept: `base[i].clone()`",
                    notes=[f"one view of {format_bytes(view.nbytes)} keeps {format_bytes(stored)}"],
                    size=stored - own,
                )
        self._told &= alone | self._told & {id(v) for views in by_storage.values() for v, _ in views}
        self._suspects = alone

    def clear(self) -> None:
        """Lets go of everything."""
        self._views.clear()
