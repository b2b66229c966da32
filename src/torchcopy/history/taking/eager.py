"""Bytes that are copied before the call returns: into the buffers of a snapshot that is gone, or new ones."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor

from ... import _torch_private
from ...copying.request import Request
from ...copying.tensors.placement import transfer
from ...copying.tensors.tensor_copies import copy_tensors

_device, _dtype, _layout = attrgetter("device"), attrgetter("dtype"), attrgetter("layout")


def take_eager(live: Sequence[Tensor], buffers: list[Tensor] | None, device: torch.device | None) -> list[Tensor]:
    """A copy of each tensor, which nobody else has.

    Args:
        live: what to copy, each once. Not changed.
        buffers: memory that may be written, or None.
        device: where the copies go; None for where each tensor is.
    """
    if not live:
        return []
    if buffers is not None and suit(buffers, live, device):
        fill(buffers, live)
        return buffers
    return copy_tensors(live, Request(device=device))


def suit(buffers: Sequence[Tensor], live: Sequence[Tensor], device: torch.device | None) -> bool:
    """Whether each buffer is what a new copy of its tensor would be, and they share memory in the same way."""
    if len(buffers) != len(live):
        return False
    try:
        return (
            all(map(Tensor.is_same_size, buffers, live))
            and list(map(_dtype, buffers)) == list(map(_dtype, live))
            and list(map(_device, buffers)) == ([device] * len(live) if device else list(map(_device, live)))
            and (
                (all(map(Tensor.is_contiguous, buffers)) and all(map(Tensor.is_contiguous, live)))
                or list(map(Tensor.stride, buffers)) == list(map(Tensor.stride, live))
            )
            and set(map(_layout, live)) == {torch.strided} == set(map(_layout, buffers))
            and not any(map(_torch_private.is_lazy, buffers))
            and _sharing(buffers) == _sharing(live)
        )
    except RuntimeError:  # one has no storage, or no shape
        return False


def _sharing(tensors: Sequence[Tensor]) -> list[tuple[int, Any]] | None:
    """Which view one storage, and how far from the first of these; None where none do."""
    storages = _torch_private.storage_ids(tensors)
    if len(set(storages)) == len(storages):
        return None
    first: dict[int, int] = {}
    return [
        (k0 := first.setdefault(s, k), t.storage_offset() - tensors[k0].storage_offset())
        for k, (s, t) in enumerate(zip(storages, tensors, strict=True))
    ]


def fill(buffers: Sequence[Tensor], live: Sequence[Tensor]) -> None:
    """Writes the values of each tensor into its buffer, many at once."""
    with torch.no_grad():
        if torch.accelerator.is_available():
            transfer(list(zip(buffers, live, strict=True)), non_blocking=False)
        else:
            _torch_private.foreach_copy_(buffers, live)
