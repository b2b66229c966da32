"""How far one tensor is from another, as sums that can be added up over the tensors of a module.

Computed in float64, a piece of the tensors at a time: memory stays bounded, and no dtype overflows.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import torch
from torch import Tensor

from .pieces import has_double, in_pieces


@dataclasses.dataclass(frozen=True)
class DifferenceSums:
    """Sums over pairs of elements.

    An element that is NaN or infinite on either side is in `numel` and `changed` alone, and, where the two sides
    are not equal, makes the difference infinite.

    Attributes:
        numel: how many pairs there are.
        changed: how many differ.
        difference: of the squares of the differences.
        a: of the squares of the first.
        b: of the squares of the second.
        product: of the products.
        largest: the largest difference, not a sum.
    """

    numel: int = 0
    changed: int = 0
    difference: float = 0.0
    a: float = 0.0
    b: float = 0.0
    product: float = 0.0
    largest: float = 0.0

    def __add__(self, other: DifferenceSums) -> DifferenceSums:
        return DifferenceSums(
            self.numel + other.numel,
            self.changed + other.changed,
            self.difference + other.difference,
            self.a + other.a,
            self.b + other.b,
            self.product + other.product,
            max(self.largest, other.largest),
        )

    def measures(self) -> dict[str, Any]:
        """The fields that `Moved` has of them."""
        l2, norm_a, norm_b = math.sqrt(self.difference), math.sqrt(self.a), math.sqrt(self.b)
        relative = l2 / norm_a if norm_a else (math.inf if l2 else 0.0)
        cosine: float | None = None
        if not self.changed:
            cosine = 1.0
        elif norm_a and norm_b and math.isfinite(l2) and math.isfinite(norm_a * norm_b):
            cosine = max(-1.0, min(1.0, self.product / norm_a / norm_b))
        return {
            "numel": self.numel,
            "l2": l2,
            "max_abs": self.largest,
            "relative": relative if not math.isnan(relative) else math.inf,
            "cosine": cosine,
            "changed": self.changed / self.numel if self.numel else 0.0,
        }


def difference_sums(a: Tensor, b: Tensor) -> DifferenceSums:
    """The sums over two tensors of one shape, on any devices, of any dtypes.

    Raises:
        RuntimeError: PyTorch cannot read one of them element by element.
    """
    total = DifferenceSums(numel=a.numel())
    with torch.no_grad():
        a, b = _dense(a), _dense(b)
        device = a.device if a.device == b.device and has_double(a.device) else torch.device("cpu")
        for one, other in in_pieces((a, b), device):
            total += _sums_of(one.to(device), other.to(device))
    return total


def sums_of_equal(a: Tensor) -> DifferenceSums:
    """The sums of a tensor and one that is known to be equal."""
    square = 0.0
    with torch.no_grad():
        dense = _dense(a)
        device = dense.device if has_double(dense.device) else torch.device("cpu")
        for (piece,) in in_pieces((dense,), device):
            square += _square(_real(piece.to(device).to(_wide(piece, piece))))
    return DifferenceSums(numel=a.numel(), a=square, b=square, product=square)


def _sums_of(a: Tensor, b: Tensor) -> DifferenceSums:
    wide = _wide(a, b)
    x, y = a.to(wide), b.to(wide)
    # float64 does not hold every int64: integers are compared as they are
    differ = a != b if a.dtype == b.dtype and not _is_inexact(a.dtype) else x != y
    changed = int(differ.count_nonzero())
    if not changed:
        square = _square(_real(x))
        return DifferenceSums(a=square, b=square, product=square)
    d = y - x
    flat = _real(d)
    difference = float(flat.dot(flat))
    if math.isfinite(difference):  # then every element is
        largest = float(d.abs().max() if d.is_complex() else torch.linalg.vector_norm(flat, math.inf))
    else:
        finite = x.isfinite() & y.isfinite()
        differ &= ~(x.isnan() & y.isnan())
        changed = int(differ.count_nonzero())
        became = bool((differ & ~finite).any())
        zero = torch.zeros((), dtype=wide, device=x.device)
        x, y = torch.where(finite, x, zero), torch.where(finite, y, zero)
        d = y - x
        flat = _real(d)
        difference = math.inf if became else float(flat.dot(flat))
        largest = math.inf if became else float(d.abs().max())
    p, q = _real(x), _real(y)
    return DifferenceSums(0, changed, difference, float(p.dot(p)), float(q.dot(q)), float(p.dot(q)), largest)


def _square(x: Tensor) -> float:
    """The sum of the squares of the elements that are finite."""
    square = float(x.dot(x))
    if math.isfinite(square):
        return square
    x = torch.where(x.isfinite(), x, torch.zeros((), dtype=x.dtype, device=x.device))
    return float(x.dot(x))


def _wide(a: Tensor, b: Tensor) -> torch.dtype:
    return torch.complex128 if a.is_complex() or b.is_complex() else torch.float64


def _is_inexact(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point or dtype.is_complex


def _real(x: Tensor) -> Tensor:
    """All numbers in one row, the parts of complex ones side by side."""
    return (torch.view_as_real(x.resolve_conj()) if x.is_complex() else x).reshape(-1)


def _dense(t: Tensor) -> Tensor:
    if t.is_quantized:
        return t.dequantize()
    return t if t.layout is torch.strided else t.to_dense()
