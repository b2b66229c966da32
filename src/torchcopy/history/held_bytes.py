"""How much memory tensors hold: bytes that are shared count once, and not at all where a live tensor has them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from torch import Tensor

from .. import _torch_private
from .._tensors import has_storage


def held_bytes(holders: Iterable[Iterable[Tensor]], elsewhere: Collection[int]) -> int:
    """Bytes that all holders have together, without those at the addresses `elsewhere`."""
    held: dict[int, int] = {}
    for tensors in holders:
        held.update(storages_of(tensors))
    return sum(size for address, size in held.items() if address not in elsewhere)


def storages_of(tensors: Iterable[Tensor]) -> dict[int, int]:
    """The bytes of each memory that is held, by its address."""
    held: dict[int, int] = {}
    for t in tensors:
        if has_storage(t):
            address = _torch_private.storage_address(t)
            if address:
                held[address] = t.untyped_storage().nbytes()
        else:
            for part in _parts_of(t):
                held.update(storages_of((part,)))
    return held


def _parts_of(t: Tensor) -> list[Tensor]:
    """The strided tensors that a sparse one consists of."""
    try:
        if t.is_sparse:
            return [t._indices(), t._values()]
        return [t.crow_indices(), t.col_indices(), t.values()]
    except RuntimeError:
        return []
