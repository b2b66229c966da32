"""The mean of some tensors, a piece at a time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

from ..comparing.named_states import same_memory
from ..comparing.pieces import has_double, in_pieces


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
        for target, *pieces in in_pieces([mean, *tensors], mean.device):
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
    if not has_double(on):
        return torch.complex64 if dtype.is_complex else torch.float32
    return torch.complex128 if dtype.is_complex else torch.float64
