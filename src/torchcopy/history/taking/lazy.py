"""Bytes that are shared until somebody writes: with the live tensors, and between snapshots.

Whether a tensor has changed since the last snapshot is read from where its bytes are. A lazy clone that a snapshot
holds is never written, so its bytes stay where they are; a live tensor that has them still has not been written,
and one that was written has others. Version counters would not tell: fused optimizers and `.data` leave them alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from torch import Tensor

from ... import _torch_private
from ...copying.request import Request
from ...copying.tensors.tensor_copies import copy_tensors
from ..held_tensors import HeldTensors

_LAZY = Request(memory="lazy")
_dtype = attrgetter("dtype")


def take_lazy(live: Sequence[Tensor], before: HeldTensors | None, held: HeldTensors) -> None:
    """Fills `held` with lazy clones of `live`, and with those of the snapshot before where nothing was written.

    What cannot be lazy is copied.
    """
    if not live:
        return
    try:
        addresses = _torch_private.storage_addresses(live)
    except RuntimeError:  # one has no storage
        held.tensors = copy_tensors(live, _LAZY)
        return
    known = before.addresses if before is not None else {}
    shared = [known[a] for a in addresses if a in known]
    if len(shared) == len(live) and _are_alike(live, shared):
        held.tensors = shared
    elif not shared:
        held.tensors = copy_tensors(live, _LAZY)
    else:
        there = map(known.get, addresses)
        found = [c if c is not None and _is_alike(t, c) else None for t, c in zip(live, there, strict=True)]
        made = iter(copy_tensors([t for t, c in zip(live, found, strict=True) if c is None], _LAZY))
        held.tensors = [next(made) if c is None else c for c in found]
    here = _torch_private.storage_addresses(held.tensors)
    held.addresses = dict(zip(here, held.tensors, strict=True))


def _are_alike(live: Sequence[Tensor], clones: Sequence[Tensor]) -> bool:
    """Whether each tensor sees its bytes as the clone does; False where that takes a closer look."""
    return (
        all(map(Tensor.is_same_size, live, clones))
        and all(map(Tensor.is_contiguous, live))
        and all(map(Tensor.is_contiguous, clones))
        and list(map(Tensor.storage_offset, live)) == list(map(Tensor.storage_offset, clones))
        and list(map(_dtype, live)) == list(map(_dtype, clones))
    )


def _is_alike(t: Tensor, clone: Tensor) -> bool:
    return (
        t.shape == clone.shape
        and t.stride() == clone.stride()
        and t.storage_offset() == clone.storage_offset()
        and t.dtype == clone.dtype
        and t.is_conj() == clone.is_conj()
        and t.is_neg() == clone.is_neg()
    )
