"""Where the storage of a tensor is and which one it is, without a write to it; another view of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from .self_checks import works

_C: Any = torch._C


def storage_address(t: Tensor) -> int:
    """Address of the first byte of `t`'s storage; 0 where there are no bytes (meta). Never materialises."""
    if works("torch._C._data_address"):
        return int(_C._data_address(t))
    return int(t.data_ptr() - t.storage_offset() * t.element_size()) if t.numel() else 0


def storage_addresses(tensors: Iterable[Tensor]) -> list[int]:
    """`storage_address` of each tensor; raises where one has no storage."""
    return list(map(_C._data_address if works("torch._C._data_address") else storage_address, tensors))


def storage_id(t: Tensor) -> int:
    """A number that two live tensors share exactly when they view the same storage object."""
    if works("torch._C._storage_id"):
        return int(_C._storage_id(t))
    return storage_address(t)


def storage_ids(tensors: Iterable[Tensor]) -> list[int]:
    """`storage_id` of each tensor."""
    if works("torch._C._storage_id"):
        return list(map(_C._storage_id, tensors))
    return list(map(storage_id, tensors))


def storages_and_ids(tensors: Sequence[Tensor]) -> tuple[list[torch.UntypedStorage], list[int]]:
    """The storage of each tensor, and numbers that tell them apart as long as these are held.

    Raises:
        RuntimeError: one has no storage.
    """
    storages = list(map(Tensor.untyped_storage, tensors))
    if works("torch.Tensor.untyped_storage"):
        return storages, list(map(id, storages))
    return storages, storage_ids(tensors)


def can_count_storage_uses() -> bool:
    """Whether `storage_uses` tells the truth."""
    return all(map(works, ("torch._C._storage_Use_Count", "torch._C._storage_id", "torch._C._data_address")))


def storage_uses(numbers: Iterable[int]) -> Iterator[int]:
    """How many tensors, arrays and the like have the storages with these `storage_id`s, which must be alive.

    Each is asked when its number is taken from the iterator, without any Python code in between.

    The Python object of a storage counts as one, once it was made, however many references there are to that.
    """
    return map(_C._storage_Use_Count, numbers)


def flip_negation(t: Tensor) -> Tensor:
    """A view of `t` with its lazy-negation bit flipped (see `torch.Tensor.is_neg`)."""
    flipped: Tensor = torch._neg_view(t)
    return flipped
