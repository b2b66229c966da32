"""Bytes that are shared until somebody writes: with the live tensors, and between snapshots.

Whether a tensor has changed since the last snapshot is read from where its bytes are. A lazy clone that a snapshot
holds is never written, so its bytes stay where they are; a live tensor that has them still has not been written,
and one that was written has others. Version counters would not tell: fused optimizers and `.data` leave them alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

import torch
from torch import Tensor

from ... import _torch_private
from ...copying.request import Request
from ...copying.tensors.tensor_copies import copy_tensors
from ..held_tensors import Geometry, HeldTensors

_LAZY = Request(memory="lazy")
_COMPLEX = frozenset({torch.complex32, torch.complex64, torch.complex128})
_shape, _dtype = attrgetter("shape"), attrgetter("dtype")


def take_lazy(live: Sequence[Tensor], before: HeldTensors | None, held: HeldTensors) -> None:
    """Fills `held` with lazy clones of `live`, and with those of the snapshot before where nothing was written.

    What cannot be lazy is copied.
    """
    if not live:
        return
    try:
        geometry = geometry_of(live)
    except RuntimeError:
        held.tensors = copy_tensors(live, _LAZY)
        return
    if before is None or before.geometry is None:
        held.tensors = copy_tensors(live, _LAZY)
        held.geometry = _of_clones(held.tensors, geometry)
        return
    if geometry == before.geometry:
        held.tensors, held.geometry = before.tensors, before.geometry
        return
    known = dict(zip(zip(*before.geometry, strict=True), before.tensors, strict=True))
    found = list(map(known.get, zip(*geometry, strict=True)))
    changed = [t for t, c in zip(live, found, strict=True) if c is None]
    made = iter(copy_tensors(changed, _LAZY) if changed else ())
    held.tensors = [next(made) if c is None else c for c in found]
    held.geometry = _of_clones(held.tensors, geometry)


def _of_clones(clones: Sequence[Tensor], sources: Geometry) -> Geometry:
    """As their sources lie; only what is no lazy clone, but a copy, has its bytes elsewhere."""
    return _torch_private.storage_addresses(clones), *sources[1:]


def geometry_of(tensors: Sequence[Tensor]) -> Geometry:
    """Where the bytes of each tensor are, and how it sees them: what a lazy clone has in common with its source.

    Raises:
        RuntimeError: one has no storage or no strides, or is a view that conjugates or negates.
    """
    dtypes = list(map(_dtype, tensors))
    if any(map(Tensor.is_neg, tensors)) or (not _COMPLEX.isdisjoint(dtypes) and any(map(Tensor.is_conj, tensors))):
        raise RuntimeError("views that conjugate or negate see other values in the same bytes")
    return (
        _torch_private.storage_addresses(tensors),
        list(map(_shape, tensors)),
        list(map(Tensor.stride, tensors)),
        list(map(Tensor.storage_offset, tensors)),
        dtypes,
    )
