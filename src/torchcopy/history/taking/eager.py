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
from ...copying.tensors.strides import is_dense
from ...copying.tensors.tensor_copies import copy_tensors
from ..held_tensors import Layout

_PLAIN = frozenset({Tensor, torch.nn.Parameter})
_shape, _device, _dtype = attrgetter("shape"), attrgetter("device"), attrgetter("dtype")
_is_quantized = attrgetter("is_quantized")


def take_eager(live: Sequence[Tensor], buffers: list[Tensor] | None, device: torch.device | None) -> list[Tensor]:
    """A copy of each tensor, which nobody else has.

    Args:
        live: what to copy, each once. Not changed.
        buffers: copies of tensors of the same layout, to be written anew; or None.
        device: where the copies go; None for where each tensor is.
    """
    if not live:
        return []
    if buffers is None:
        return copy_tensors(live, Request(device=device))
    fill(buffers, live)
    return buffers


def layout_of(tensors: Sequence[Tensor]) -> Layout | None:
    """How the tensors lie in memory; None where one has no memory of the ordinary kind, or its elements overlap."""
    if not _PLAIN.issuperset(map(type, tensors)):
        return None
    try:
        storages, numbers = _torch_private.storages_and_ids(tensors)
        in_order = all(map(Tensor.is_contiguous, tensors))
        strides = None if in_order else list(map(Tensor.stride, tensors))
    except RuntimeError:  # one has no storage, or no strides
        return None
    if any(map(_is_quantized, tensors)) or any(map(Tensor.is_conj, tensors)) or any(map(Tensor.is_neg, tensors)):
        return None
    if not in_order and not all(map(is_dense, tensors)):
        return None
    sharing = _sharing(tensors, numbers) if len(set(numbers)) < len(storages) else None
    dtypes, devices = list(map(_dtype, tensors)), list(map(_device, tensors))
    return Layout(list(map(_shape, tensors)), strides, dtypes, devices, sharing)


def _sharing(tensors: Sequence[Tensor], storages: Sequence[int]) -> list[tuple[int, Any]]:
    first: dict[int, int] = {}
    firsts = [first.setdefault(s, k) for k, s in enumerate(storages)]
    return [(k, t.storage_offset() - tensors[k].storage_offset()) for k, t in zip(firsts, tensors, strict=True)]


def fill(buffers: Sequence[Tensor], live: Sequence[Tensor]) -> None:
    """Writes the values of each tensor into its buffer, many at once."""
    with torch.no_grad():
        if torch.accelerator.is_available():
            transfer(list(zip(buffers, live, strict=True)), non_blocking=False)
        else:
            _torch_private.foreach_copy_(buffers, live)
