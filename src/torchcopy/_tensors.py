"""Small facts about tensors and storages that every room needs. Reads only; nothing here writes or copies."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from . import _torch_private

_PACKED = frozenset({torch.quint4x2, torch.quint2x4})  # several elements have one byte
_BYTE_UNITS = ("B", "kB", "MB", "GB", "TB")


def describe(t: Tensor) -> str:
    """A tensor in a few characters, as errors and reports name it: `float32[2, 3] cpu`."""
    return f"{dtype_name(t.dtype)}[{', '.join(map(str, t.shape))}] {t.device}"


def dtype_name(dtype: torch.dtype) -> str:
    """`float32` for `torch.float32`."""
    return str(dtype).removeprefix("torch.")


def format_bytes(count: float) -> str:
    """A byte count for people, in powers of 1000: `4.00 kB`."""
    if abs(count) < 1000:
        return f"{count:.0f} B"
    exponent = min(int(math.log10(abs(count)) // 3), len(_BYTE_UNITS) - 1)
    scaled = count / 1000**exponent
    if abs(float(f"{scaled:.3g}")) >= 1000 and exponent < len(_BYTE_UNITS) - 1:
        exponent, scaled = exponent + 1, scaled / 1000
    digits = 0 if abs(scaled) >= 100 else 1 if abs(scaled) >= 10 else 2
    return f"{scaled:.{digits}f} {_BYTE_UNITS[exponent]}"


def format_seconds(seconds: float) -> str:
    """A duration for people: `3.20 µs`."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9)):
        if float(f"{seconds / scale:.3g}") >= 1 or unit == "ns":
            return f"{seconds / scale:.3g} {unit}"
    raise AssertionError("unreachable")


def has_storage(t: Tensor) -> bool:
    """Whether `t` has one storage of its own to look at (sparse, wrapper and uninitialised tensors have none)."""
    try:
        t.untyped_storage()
    except (RuntimeError, ValueError):
        return False
    return True


def span_bytes(t: Tensor) -> int:
    """Bytes from the first to behind the last element of a strided tensor, gaps included."""
    if t.numel() == 0:
        return 0
    last = sum((size - 1) * stride for size, stride in zip(t.shape, t.stride(), strict=True))
    return int((last + 1) * t.element_size())


def lacks_memory(t: Tensor) -> bool:
    """Whether a strided tensor reaches beyond its storage, because that was freed: to read it would crash."""
    if t.is_meta or t.is_nested:
        return False
    stored_bytes: object = t.untyped_storage().nbytes()
    if not isinstance(stored_bytes, int):  # a symbol, in a fake tensor
        return False
    if t.dtype in _PACKED:
        return t.numel() > 0 and stored_bytes == 0
    return stored_bytes < t.storage_offset() * t.element_size() + span_bytes(t)


def first_byte(t: Tensor) -> int:
    """Address of `t`'s first element, read without writing: a lazy tensor stays lazy."""
    return int(_torch_private.storage_address(t) + t.storage_offset() * t.element_size())


def same_storage(a: Tensor, b: Tensor) -> bool:
    """Whether both tensors view one storage object. Two lazy clones do not: they share bytes, not a storage."""
    return _torch_private.storage_id(a) == _torch_private.storage_id(b)
