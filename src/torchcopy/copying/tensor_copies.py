"""Copies of many tensors at once, each with the memory structure of its source.

Tensors that view one storage get views of one new storage, with the same strides and the same distances; of a
storage that is only partly viewed, only that part is copied. All others get a storage of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .. import _torch_private
from .kept_graph import copy_in_graph
from .new_memory import copy_whole
from .opaque import copy_opaque, is_opaque
from .storage_groups import Group, is_dense, rejoin

if TYPE_CHECKING:
    from .request import Request
    from .storage_groups import Early


def copy_tensors(sources: Sequence[Tensor], request: Request, early: Early | None = None) -> list[Tensor]:
    """A copy of each source, in order; plain tensors that do not require grad yet, unless the graph is kept.

    `early` has what was copied before: views of the same storages join in.
    """
    if request.graph == "keep":
        return copy_in_graph(sources, request)
    with torch.no_grad():
        if request.memory == "share":
            return [t.detach() for t in sources]
        if early:
            return _copy_beside(sources, request, early)
        return _copy_fresh(sources, request)


def _copy_beside(sources: Sequence[Tensor], request: Request, early: Early) -> list[Tensor]:
    """Copies where some storages have been copied before."""
    copies = {k: joined for k, t in enumerate(sources) if (joined := rejoin(t, early)) is not None}
    rest = [k for k in range(len(sources)) if k not in copies]
    copies.update(zip(rest, _copy_fresh([sources[k] for k in rest], request), strict=True))
    return [copies[k] for k in range(len(sources))]


def _copy_fresh(sources: Sequence[Tensor], request: Request) -> list[Tensor]:
    try:
        storages = _torch_private.storage_ids(sources)
        odd = _odd_ones(sources, storages, lazy=request.memory == "lazy")
    except RuntimeError:  # some have no storage
        return _copy_around_opaque(sources, request)
    if not odd:
        return copy_whole(sources, request)
    if any(is_opaque(sources[k]) for k in odd):
        return _copy_around_opaque(sources, request)
    by_storage: dict[int, list[int]] = {}
    for k in odd:
        by_storage.setdefault(storages[k], []).append(k)
    groups = [Group([sources[k] for k in members], request) for members in by_storage.values()]
    is_odd = set(odd)
    units = [t for k, t in enumerate(sources) if k not in is_odd]
    first = len(units)
    for group in groups:
        units += group.units
    copied = copy_whole(units, request)
    whole = iter(copied)
    copies = [t if k in is_odd else next(whole) for k, t in enumerate(sources)]
    for members, group in zip(by_storage.values(), groups, strict=True):
        stop = first + len(group.units)
        for k, c in zip(members, group.assemble(copied[first:stop]), strict=True):
            copies[k] = c
        first = stop
    return copies


def _odd_ones(sources: Sequence[Tensor], storages: Sequence[int], *, lazy: bool) -> list[int]:
    """Which sources need more than a clone: views of one storage, and tensors with steps of 0 or gaps.

    A lazy clone takes the whole storage as it is, so there a tensor has to fill it, in any order.
    """
    if lazy:
        simple = [t.untyped_storage().nbytes() == t.nbytes for t in sources]
    else:
        simple = list(map(Tensor.is_contiguous, sources))
    alone = len(set(storages)) == len(sources)
    if alone and all(simple):
        return []
    shared = () if alone else {storage for storage, views in Counter(storages).items() if views > 1}
    return [
        k for k, t in enumerate(sources) if storages[k] in shared or not (simple[k] or (not lazy and is_dense(t)))
    ]


def _copy_around_opaque(sources: Sequence[Tensor], request: Request) -> list[Tensor]:
    opaque = {k: copy_opaque(t, request) for k, t in enumerate(sources) if is_opaque(t)}
    rest = [k for k in range(len(sources)) if k not in opaque]
    copies = dict(opaque)
    copies.update(zip(rest, _copy_fresh([sources[k] for k in rest], request), strict=True))
    return [copies[k] for k in range(len(sources))]
