"""Saved values back into live tensors: in place, or shared until the next write where nobody can tell."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import torch
from torch import Tensor

from .. import _torch_private
from ..copying.copy_on_write.lazy import lazy_clones
from ..copying.in_place import copy_

_PLAIN = frozenset({Tensor, torch.nn.Parameter})
_Pair = tuple[Tensor, Tensor]


def write_back(pairs: Sequence[_Pair]) -> None:
    """Gives each live tensor the values of the saved one: all of them, or none if this raises.

    - Those that still have the bytes of a lazy clone have its values: nothing is done.
    - Where both are lazy, and nobody but the live tensor has its storage, the two share the bytes from now on. To
      write a lazy tensor in place would copy its old bytes first.
    - All others are written in place.
    """
    changed = list({id(live): (live, saved) for live, saved in pairs}.values())
    shareable: list[_Pair] = []
    if _any_lazy([saved for _, saved in changed]):
        changed = [pair for pair in changed if not _has_its_bytes(*pair)]
        shareable = [pair for pair in changed if _can_share(*pair)]
    clones = lazy_clones([saved for _, saved in shareable])[0] if shareable else []
    shared = {id(live): c for (live, _), c in zip(shareable, clones, strict=True) if c is not None}
    written = [pair for pair in changed if id(pair[0]) not in shared]
    if written:
        copy_([_distinct(live) for live, _ in written], [_distinct(saved) for _, saved in written])
    for live, _ in shareable:
        clone = shared.get(id(live))
        if clone is not None:
            live.data = clone
            torch.autograd.graph.increment_version(live)  # a graph that needs the old values raises


def _distinct(t: Tensor) -> Tensor:
    """A view of each element once, where `expand` has repeated them."""
    if t.layout is torch.strided and not t.is_nested and 0 in t.stride():
        for dim, stride in enumerate(t.stride()):
            if stride == 0 and t.shape[dim] > 1:
                t = t.narrow(dim, 0, 1)
    return t


def _any_lazy(tensors: Sequence[Tensor]) -> bool:
    try:
        return True in _torch_private.are_lazy(tensors)
    except RuntimeError:  # one has no storage
        return True


def _has_its_bytes(live: Tensor, saved: Tensor) -> bool:
    """Whether `live` still shares the bytes of the lazy clone `saved`."""
    try:
        return (
            _torch_private.storage_address(live) == _torch_private.storage_address(saved) != 0
            and live.stride() == saved.stride()
            and live.storage_offset() == saved.storage_offset()
            and live.is_conj() == saved.is_conj()
            and live.is_neg() == saved.is_neg()
        )
    except RuntimeError:  # no storage, or no strides
        return False


def _can_share(live: Tensor, saved: Tensor) -> bool:
    """Whether `live` may get another storage: one with the bytes of `saved`, a lazy clone."""
    if type(live) not in _PLAIN or live.layout is not torch.strided or live.is_inference():
        return False
    if not (_torch_private.is_lazy(live) and _torch_private.is_lazy(saved)):
        return False
    if not _torch_private.can_count_storage_uses():
        return False
    return live.device == saved.device and live.stride() == saved.stride() and _users(live) == _alone()


def _users(t: Tensor) -> tuple[int, int]:
    """How many tensors, arrays, graphs and the like have the storage, and how many references its Python object."""
    storage = t.untyped_storage()
    (uses,) = _torch_private.storage_uses([_torch_private.storage_id(t)])
    return uses, sys.getrefcount(storage)


def _alone() -> tuple[int, int]:
    """What `_users` says of a tensor that nobody shares a storage with."""
    return _users(torch.empty(1))
