"""Which dtypes can be written from which, and how far `lerp_` can move each."""

from __future__ import annotations

import numpy as np
import torch

from ..._tensors import dtype_name

QUANTIZED = frozenset(
    getattr(torch, name) for name in ("qint8", "quint8", "qint32", "quint4x2", "quint2x4") if hasattr(torch, name)
)
# PyTorch converts each of these to each other one. It has more dtypes, for others to compute with: it only holds
# those (`torch.int4`, `torch.bits8`, `torch.float4_e2m1fn_x2`), and their bytes can be copied.
_CONVERTED_NAMES = (
    "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex32 complex64 "
    "complex128 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu"
)
CONVERTED = frozenset(getattr(torch, name) for name in _CONVERTED_NAMES.split() if hasattr(torch, name))

_DOUBLE = (torch.float64, torch.complex128)
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def fault_of_copy(d: torch.dtype, s: torch.dtype) -> str:
    """Why `copy_` cannot write a strided tensor of dtype `d` from one of `s`; empty if it can."""
    if d is not s and (d not in CONVERTED or s not in CONVERTED):
        held = d if d not in CONVERTED else s
        return f"PyTorch converts nothing to or from {dtype_name(held)}: give both one dtype"
    if s.is_complex and not d.is_complex:
        return f"{dtype_name(d)} has no room for the imaginary part: give `src.real` or `src.abs()`"
    return ""


def fault_of_lerp(d: torch.dtype, s: torch.dtype) -> str:
    """Why `lerp_` cannot move a strided tensor of dtype `d` towards one of `s`; empty if it can."""
    interpolates = d.is_floating_point or d.is_complex
    if interpolates and d not in CONVERTED:
        return f"PyTorch does not compute with {dtype_name(d)}: convert both first"
    if not interpolates and (s.is_floating_point or s.is_complex):
        return f"{dtype_name(d)} cannot lie between: make dst floating, or src {dtype_name(d)}"
    return fault_of_copy(d, s)


def integer_of(dtype: torch.dtype) -> torch.dtype:
    """The dtype of integers as large as elements of `dtype`, which PyTorch only holds."""
    return _INTEGERS[dtype.itemsize]


def largest_weight(dtype: torch.dtype | np.dtype) -> float:
    """The largest weight that `lerp_` can move tensors, or arrays, of this dtype by."""
    if isinstance(dtype, np.dtype):
        return float(np.finfo(dtype).max) if np.issubdtype(dtype, np.inexact) else float("inf")
    if dtype in _DOUBLE or not (dtype.is_floating_point or dtype.is_complex):
        return float("inf")
    return torch.finfo(torch.float32).max
