"""The mean of some tensors, a piece at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

import torch
from torch import Tensor

from ..comparing.named_states import same_memory

_CPU_PIECE = 1 << 17  # elements: a few of these in float64 stay in the cache
_DEVICE_PIECE = 1 << 24
_WITHOUT_DOUBLE = frozenset({"mps"})


def weighted_mean(tensors: Sequence[Tensor], weights: Sequence[float], *, like: Tensor) -> Tensor:
    """The mean, computed in float64 (float32 where a device has no other), as a new tensor like `like`.

    Args:
        tensors: of one shape and dtype. Not changed.
        weights: finite and positive.
        like: gives dtype, device and strides.
    """
    with torch.no_grad():
        mean = torch.empty_like(like, requires_grad=False)
        if len({same_memory(t) for t in tensors}) == 1:
            return mean.copy_(tensors[0].detach())
        # Each state is weighed against those before it: equal values stay equal, however many there are.
        steps = [w / total for w, total in zip(weights, accumulate(weights), strict=True)]
        total = sum(weights)
        for target, *pieces in _pieces([mean, *tensors], _CPU_PIECE if mean.is_cpu else _DEVICE_PIECE):
            target.copy_(_mean(pieces, steps, [w / total for w in weights], target.device))
    return mean


def _mean(pieces: Sequence[Tensor], steps: Sequence[float], weights: Sequence[float], on: torch.device) -> Tensor:
    wide = _wide(pieces[0].dtype, on)
    mean = pieces[0].to(on).to(wide, copy=True)
    for piece, step in zip(pieces[1:], steps[1:], strict=True):
        other = piece.to(on).to(wide)
        # Where both are equal nothing is added: -0.0 stays, and infinities do not cancel.
        mean = torch.where(mean == other, mean, torch.lerp(mean, other, step))
    finite = mean.isfinite()
    if not bool(finite.all()):
        # A difference overflowed, or infinities met: the sum of the parts says what they come to.
        plain = torch.zeros_like(mean)
        equal = torch.ones_like(finite)
        first = pieces[0].to(on).to(wide)
        for piece, weight in zip(pieces, weights, strict=True):
            other = piece.to(on).to(wide)
            plain += other * weight
            equal &= (other == first) | (other.isnan() & first.isnan())
        mean = torch.where(finite, mean, torch.where(equal, first, plain))
    return mean


def _wide(dtype: torch.dtype, on: torch.device) -> torch.dtype:
    if on.type in _WITHOUT_DOUBLE:
        return torch.complex64 if dtype.is_complex else torch.float32
    return torch.complex128 if dtype.is_complex else torch.float64


def _pieces(tensors: list[Tensor], size: int) -> Iterator[list[Tensor]]:
    """All in pieces of at most `size` elements, each a view."""
    first = tensors[0]
    if first.numel() == 0:
        return
    if first.numel() <= size:
        yield tensors
    elif all(map(Tensor.is_contiguous, tensors)):
        yield from map(list, zip(*(torch.split(t.view(-1), size) for t in tensors), strict=True))
    elif first.shape[0] == 1:
        yield from _pieces([t[0] for t in tensors], size)
    else:
        rows = max(1, size // (first.numel() // first.shape[0]))
        for some in zip(*(torch.split(t, rows) for t in tensors), strict=True):
            yield from _pieces(list(some), size)
