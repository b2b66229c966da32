"""Tensors a piece at a time, so that what is computed in float64 needs little memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

_CPU_PIECE = 1 << 17  # elements: in float64 a few of these stay in the cache
_DEVICE_PIECE = 1 << 24
_WITHOUT_DOUBLE = frozenset({"mps"})


def has_double(device: torch.device) -> bool:
    """Whether a device computes in float64."""
    return device.type not in _WITHOUT_DOUBLE


def in_pieces(tensors: Sequence[Tensor], device: torch.device) -> Iterator[Sequence[Tensor]]:
    """Tensors of one shape in pieces, each a view, of as many elements as are good to compute with on a device."""
    return _split(tensors, _CPU_PIECE if device.type == "cpu" else _DEVICE_PIECE)


def _split(tensors: Sequence[Tensor], size: int) -> Iterator[Sequence[Tensor]]:
    first = tensors[0]
    if first.numel() == 0:
        return
    if first.numel() <= size:
        yield tensors
    elif all(map(Tensor.is_contiguous, tensors)):
        yield from zip(*(torch.split(t.view(-1), size) for t in tensors), strict=True)
    elif first.shape[0] == 1:
        yield from _split([t[0] for t in tensors], size)
    else:
        rows = max(1, size // (first.numel() // first.shape[0]))
        for some in zip(*(torch.split(t, rows) for t in tensors), strict=True):
            yield from _split(some, size)
