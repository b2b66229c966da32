"""The bytes of a storage, as they are in memory: to see that somebody has written who asks nobody."""

from __future__ import annotations

import ctypes
from typing import Any

import torch

from .modes import below_autograd, outside_modes
from .storages import storage_address

_UntypedStorage: Any = torch.UntypedStorage
_WHOLE, _PARTS, _PART = 1 << 18, 64, 1 << 12  # bytes


def held_storage(weak: int) -> tuple[torch.UntypedStorage, int, int] | None:
    """The storage behind a weak reference, its address and size; None where it is gone, or not on the CPU."""
    with torch.inference_mode(False), outside_modes(), below_autograd():
        storage = _UntypedStorage._new_with_weak_ptr(weak)
        if storage is None or storage.device.type != "cpu":
            return None
        address = storage_address(torch.empty(0, dtype=torch.uint8, device="cpu").set_(storage))
        return storage, address, storage.nbytes()


def digest(address: int, size: int) -> int:
    """A number for the bytes from `address` on, which the caller holds: another number, other bytes.

    Of more than 256 kB only a part is looked at: 64 pieces of 4 kB.
    """
    if size <= _WHOLE:
        return hash(_bytes_at(address, size))
    step = (size - _PART) // (_PARTS - 1)
    return hash(b"".join(_bytes_at(address + k * step, _PART) for k in range(_PARTS)))


def is_constant(address: int, size: int, width: int) -> bool:
    """Whether all elements of `width` bytes there are equal, as far as the first 4 kB say."""
    looked_at = _bytes_at(address, min(size - size % width, _PART))
    return looked_at[width:] == looked_at[: len(looked_at) - width]


def _bytes_at(address: int, size: int) -> bytes:
    """The bytes there.

    Raises:
        RecursionError: the program has recursed too deep; of itself `ctypes` says then that an argument is wrong.
    """
    try:
        return ctypes.string_at(address, size)
    except ctypes.ArgumentError:
        raise RecursionError("maximum recursion depth exceeded") from None
