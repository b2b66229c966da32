"""Whether two tensors hold the same numbers, read in pieces so that nothing large is ever built."""

from __future__ import annotations

import torch
from torch import Tensor

from .parts import flattened, wraps_tensors

# Elements compared at a time: small enough to stay in the cache; on an accelerator, large enough to keep it busy.
_PIECE_CPU, _PIECE_ELSEWHERE = 1 << 20, 1 << 24

_UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)


def same_values(a: Tensor, b: Tensor) -> tuple[bool | None, str]:
    """Whether `a` and `b` are numerically equal, NaN equal to NaN; None and the reason where that cannot be told.

    Different dtypes are compared as PyTorch promotes them, different devices on the CPU. Reads only: a lazy tensor
    stays lazy. Synchronises where a tensor is on an accelerator.
    """
    try:
        with torch.no_grad():
            return _equal(a, b), ""
    except (RuntimeError, TypeError, ValueError) as error:  # what PyTorch raises for dtypes that cannot be compared
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return None, f"The values cannot be compared: {reason}"


def _equal(a: Tensor, b: Tensor) -> bool:
    if a.is_nested or b.is_nested:
        if a.dim() != b.dim() or a.size(0) != b.size(0):
            return False
        return all(_equal(x, y) for x, y in zip(a.unbind(), b.unbind(), strict=True))
    if a.shape != b.shape:
        return False
    if wraps_tensors(a) or wraps_tensors(b):
        return _equal_inside(a, b)
    a, b = (t.dequantize() if t.is_quantized else t for t in (a, b))
    if a.layout != torch.strided or b.layout != torch.strided:
        return _equal_sparse(a, b)
    return _equal_strided(a, b)


def _equal_inside(a: Tensor, b: Tensor) -> bool:
    """Wrapper tensors hold the same values where they wrap the same ones, in the same way."""
    if type(a) is not type(b):
        raise TypeError(f"{type(a).__name__} and {type(b).__name__} hold them in different ways")
    (names_a, context_a), (names_b, context_b) = flattened(a), flattened(b)
    if names_a != names_b or context_a != context_b:
        raise TypeError(f"the two {type(a).__name__} are laid out in different ways")
    return all(_equal_component(getattr(a, name), getattr(b, name)) for name in names_a)


def _equal_component(a: object, b: object) -> bool:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return _equal(a, b)
    return bool(a == b)


def _equal_sparse(a: Tensor, b: Tensor) -> bool:
    if a.layout == torch.strided or b.layout == torch.strided:
        return _equal_strided(*(t if t.layout == torch.strided else t.to_dense() for t in (a, b)))
    a, b = (t if t.layout == torch.sparse_coo else t.to_sparse() for t in (a, b))
    if a.sparse_dim() != b.sparse_dim():
        return _equal_strided(a.to_dense(), b.to_dense())
    (indices_a, values_a), (indices_b, values_b) = _nonzeros(a), _nonzeros(b)
    return _equal(indices_a, indices_b) and _equal(values_a, values_b)


def _nonzeros(t: Tensor) -> tuple[Tensor, Tensor]:
    """Indices and values of a COO tensor, sorted, added up, and less the zeros that are stored."""
    t = t.coalesce()
    values = t.values()
    keep = (
        (values != 0).reshape(values.shape[0], -1).any(1)
        if values.numel()
        else values.new_zeros(0, dtype=torch.bool)
    )
    return (t.indices()[:, keep], values[keep]) if values.numel() else (t.indices()[:, :0], values[:0])


def _equal_strided(a: Tensor, b: Tensor) -> bool:
    for dim in range(a.dim()):
        if a.size(dim) > 1 and a.stride(dim) == 0 and b.stride(dim) == 0:  # expanded: every index is the same
            a, b = a.narrow(dim, 0, 1), b.narrow(dim, 0, 1)
    at_once = _PIECE_CPU if a.device.type == "cpu" or b.device.type == "cpu" else _PIECE_ELSEWHERE
    pieces = [(a, b)]
    while pieces:
        x, y = pieces.pop()
        if x.numel() <= at_once:
            if not _equal_piece(x, y):
                return False
            continue
        dim = next(d for d in range(x.dim()) if x.size(d) > 1)
        half = x.size(dim) // 2
        for start, length in ((half, x.size(dim) - half), (0, half)):  # the first half is compared first
            pieces.append((x.narrow(dim, start, length), y.narrow(dim, start, length)))
    return True


def _equal_piece(x: Tensor, y: Tensor) -> bool:
    if x.device != y.device:
        x, y = x.cpu(), y.cpu()
    if x.dtype != y.dtype:
        if any(t.dtype == torch.uint64 and bool((t.to(torch.int64) < 0).any()) for t in _integers(x, y)):
            return False  # 2**63 and more: no other integer dtype holds that
        x, y = _promoted(x, y)
    x, y = _comparable(x), _comparable(y)
    if torch.equal(x, y):
        return True
    if not (x.is_floating_point() or x.is_complex()):
        return False
    nan_x, nan_y = x != x, y != y
    return torch.equal(nan_x, nan_y) and torch.equal(x.masked_fill(nan_x, 0), y.masked_fill(nan_y, 0))


def _comparable(t: Tensor) -> Tensor:
    """`t` in a dtype that `torch.equal` and `masked_fill` are there for."""
    if t.dtype == torch.complex32:
        return t.to(torch.complex64)
    return t.to(torch.float32) if _is_float8(t.dtype) else t


def _integers(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """Both, where both are integers; nothing otherwise."""
    return () if any(t.is_floating_point() or t.is_complex() for t in (x, y)) else (x, y)


def _promoted(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    wide = torch.int64 if _integers(x, y) else torch.float32
    # PyTorch promotes neither float8 nor, among integers, the unsigned dtypes it added last.
    of_x, of_y = (wide if _unpromoted(t.dtype) else t.dtype for t in (x, y))
    dtype = torch.promote_types(of_x, of_y)
    return x.to(dtype), y.to(dtype)


def _unpromoted(dtype: torch.dtype) -> bool:
    return dtype in _UNSIGNED or _is_float8(dtype)


def _is_float8(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point and dtype.itemsize == 1
