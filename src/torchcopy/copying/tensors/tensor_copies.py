"""Copies of many tensors at once, each with the memory structure of its source.

Tensors that view one storage get views of one new storage, with the same strides and the same distances; of a
storage that is only partly viewed, only that part is copied. All others get a storage of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from operator import and_, attrgetter, eq, not_, or_
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ... import _torch_private
from ..refusals import check_have_memory
from .new_memory import Unwritten, copy_whole
from .opaque import byte_views, check_can_be_placed, copy_opaque, is_opaque
from .storage_groups import StorageGroup, rejoin
from .strides import is_dense

if TYPE_CHECKING:
    from ..request import Request
    from .storage_groups import Early


def copy_tensors(
    sources: Sequence[Tensor],
    request: Request,
    early: Early | None = None,
    unwritten: Unwritten | None = None,
) -> list[Tensor]:
    """A copy of each source, in order, outside the graph: plain tensors that do not require grad yet.

    Args:
        sources: what to copy.
        request: how and where to.
        early: what was copied before: views of the same storages join in.
        unwritten: takes those whose values `write_values` is still to write; None where all are to be there.

    Raises:
        HasNoValues: a tensor on the meta device is wanted elsewhere.
        HasNoSuchKind: a tensor is wanted where, or of a dtype, that PyTorch has none of its kind.
        HasNoMemory: a tensor's storage was freed.
    """
    check_can_be_placed(sources, request)
    try:
        return _copy(sources, request, early, unwritten)
    except NotImplementedError:
        views = byte_views(sources)
        if views is None:
            raise
    return [c.view(t.dtype) for t, c in zip(sources, _copy(views, request, early, unwritten), strict=True)]


def _copy(
    sources: Sequence[Tensor], request: Request, early: Early | None, unwritten: Unwritten | None
) -> list[Tensor]:
    with _torch_private.no_grad():
        if request.memory == "share":
            return [t.detach() for t in sources]
        if early:
            return _copy_beside(sources, request, early, unwritten)
        return _copy_fresh(sources, request, unwritten)


def _copy_beside(
    sources: Sequence[Tensor], request: Request, early: Early, unwritten: Unwritten | None
) -> list[Tensor]:
    """Copies where some storages have been copied before."""
    copies = {k: joined for k, t in enumerate(sources) if (joined := rejoin(t, early)) is not None}
    rest = [k for k in range(len(sources)) if k not in copies]
    copies.update(zip(rest, _copy_fresh([sources[k] for k in rest], request, unwritten), strict=True))
    return [copies[k] for k in range(len(sources))]


def _copy_fresh(sources: Sequence[Tensor], request: Request, unwritten: Unwritten | None) -> list[Tensor]:
    try:
        storages, ids = _torch_private.storages_and_ids(sources)
        sizes, stored = list(map(_bytes_of, sources)), list(map(_stored_bytes, storages))
        simple = list(map(Tensor.is_contiguous, sources))
    except RuntimeError:  # some have no storage
        return _copy_around_opaque(sources, request, unwritten)
    if not all(simple):
        simple = list(map(is_dense, sources))
    if sizes != stored:
        check_have_memory([t for t, size, there in zip(sources, sizes, stored, strict=True) if size != there])
        if request.memory == "lazy":  # a lazy clone takes the whole storage as it is
            simple = list(map(and_, simple, map(eq, sizes, stored)))
    odd = _odd_ones(ids, simple)
    if not odd:
        return copy_whole(sources, request, sizes, len(sources), unwritten)
    if any(is_opaque(sources[k]) for k in odd):
        return _copy_around_opaque(sources, request, unwritten)
    by_storage: dict[int, list[int]] = {}
    for k in odd:
        by_storage.setdefault(ids[k], []).append(k)
    groups = [StorageGroup([sources[k] for k in members], request) for members in by_storage.values()]
    is_alone = [True] * len(sources)
    for k in odd:
        is_alone[k] = False
    units, sizes = list(compress(sources, is_alone)), list(compress(sizes, is_alone))
    full = len(units)
    for group in groups:
        units += group.units
        sizes += map(_bytes_of, group.units)
    copied = copy_whole(units, request, sizes, full, unwritten)
    copies = list(sources)
    for k, c in zip(compress(range(len(sources)), is_alone), copied, strict=False):
        copies[k] = c
    start = full
    for members, group in zip(by_storage.values(), groups, strict=True):
        stop = start + len(group.units)
        for k, c in zip(members, group.assemble(copied[start:stop]), strict=True):
            copies[k] = c
        start = stop
    return copies


def _odd_ones(storages: Sequence[int], simple: Sequence[bool]) -> list[int]:
    """Which sources need more than a clone: views of one storage, and what does not lie side by side."""
    if len(set(storages)) == len(storages):
        return [] if all(simple) else list(compress(range(len(simple)), map(not_, simple)))
    seen: set[int] = set()
    shared = {storage for storage in storages if storage in seen or seen.add(storage)}  # type: ignore[func-returns-value]
    is_odd = map(shared.__contains__, storages)
    if not all(simple):
        is_odd = map(or_, is_odd, map(not_, simple))
    return list(compress(range(len(storages)), is_odd))


_bytes_of = attrgetter("nbytes")
_stored_bytes = torch.UntypedStorage.nbytes


def _copy_around_opaque(sources: Sequence[Tensor], request: Request, unwritten: Unwritten | None) -> list[Tensor]:
    opaque = {k: copy_opaque(t, request) for k, t in enumerate(sources) if is_opaque(t)}
    rest = [k for k in range(len(sources)) if k not in opaque]
    copies = dict(opaque)
    copies.update(zip(rest, _copy_fresh([sources[k] for k in rest], request, unwritten), strict=True))
    return [copies[k] for k in range(len(sources))]
