"""Copies that change device, dtype or layout on the way: one pass, and few transfers for many tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ... import _torch_private
from .device_waits import wait_for
from .huge_pages import advise_huge_pages
from .opaque import place_alone

if TYPE_CHECKING:
    from ..request import Request

_Pair = tuple[Tensor, Tensor]
"""What is written, and what is read."""

PACKED_BYTES = 1 << 18
"""Tensors below this travel between devices together, in one buffer."""

_ALIGNMENT = 16  # of a tensor in that buffer; no dtype needs more


def copy_placed(units: Sequence[Tensor], request: Request) -> list[Tensor]:
    """A copy of each unit where and as the request wants it."""
    odd = {k: place_alone(t, request) for k, t in enumerate(units) if t.is_nested or t.is_quantized}
    if odd:  # their dtype or place is for their own `to` to change
        rest = iter(copy_placed([t for k, t in enumerate(units) if k not in odd], request))
        return [odd[k] if k in odd else next(rest) for k in range(len(units))]
    copies = [_new_like(t, request) for t in units]
    if not request.pin_memory:
        advise_huge_pages(copies)
    transfer(list(zip(copies, units, strict=True)), non_blocking=request.non_blocking)
    return copies


def transfer(pairs: Sequence[_Pair], *, non_blocking: bool) -> None:
    """Fills the first of each pair from the second, whatever their devices and dtypes.

    Between devices all transfers are under way together, and waited for at the end: the host never sees a tensor
    before its bytes. With `non_blocking`, transfers to a device are ordered on its stream and not waited for.
    """
    staying: list[_Pair] = []
    moving: dict[tuple[torch.device, torch.device], list[_Pair]] = {}
    for pair in pairs:
        route = (pair[1].device, pair[0].device)
        if route[1].type == "meta":
            continue  # it holds no values
        if route[0] == route[1]:
            staying.append(pair)
        else:
            moving.setdefault(route, []).append(pair)
    waits: set[torch.device] = set()
    for (origin, target), some in moving.items():
        _move(some)
        if target.type == "cpu":
            waits.add(origin)
        elif not non_blocking:
            waits.add(target)
    if staying:
        _torch_private.foreach_copy_([c for c, _ in staying], [t for _, t in staying])
    wait_for(waits)


def _move(pairs: Sequence[_Pair]) -> None:
    """Between two devices, without waiting for the end."""
    small = [pair for pair in pairs if pair[1].nbytes < PACKED_BYTES]
    large = [pair for pair in pairs if pair[1].nbytes >= PACKED_BYTES]
    if len(small) > 1:
        move_packed(small)
    else:
        large += small
    if large:
        _torch_private.foreach_copy_([c for c, _ in large], [t for _, t in large], non_blocking=True)


def move_packed(pairs: Sequence[_Pair]) -> None:
    """Many small tensors as one buffer: packed on their device, moved once, unpacked on the other."""
    origin, target = pairs[0][1].device, pairs[0][0].device
    offsets, size = [], 0
    for _, t in pairs:
        offsets.append(size)
        size += -(-t.nbytes // _ALIGNMENT) * _ALIGNMENT
    on_host = origin if origin.type == "cpu" else target
    packed = _buffer(size, origin, pinned=on_host == origin and origin != target)
    _torch_private.foreach_copy_(_pieces(packed, pairs, offsets), [t for _, t in pairs])
    moved = _buffer(size, target, pinned=on_host == target and origin != target)
    moved.copy_(packed, non_blocking=True)
    if target.type == "cpu" and origin != target:
        wait_for((origin,))  # the host unpacks at once
    _torch_private.foreach_copy_([c for c, _ in pairs], _pieces(moved, pairs, offsets))


def _buffer(size: int, device: torch.device, *, pinned: bool) -> Tensor:
    return torch.empty(size, dtype=torch.uint8, device=device, pin_memory=pinned and device.type == "cpu")


def _pieces(buffer: Tensor, pairs: Sequence[_Pair], offsets: Sequence[int]) -> list[Tensor]:
    return [
        buffer[offset : offset + t.nbytes].view(t.dtype).view(t.shape)
        for offset, (_, t) in zip(offsets, pairs, strict=True)
    ]


def _new_like(t: Tensor, request: Request) -> Tensor:
    dtype = request.dtype if request.dtype is not None and t.is_floating_point() else t.dtype
    memory_format = request.memory_format
    if (memory_format is torch.channels_last and t.dim() != 4) or (
        memory_format is torch.channels_last_3d and t.dim() != 5
    ):
        memory_format = torch.preserve_format  # as `nn.Module.to` leaves those of other ranks
    return torch.empty_like(
        t,
        dtype=dtype,
        device=request.device,
        memory_format=memory_format,
        pin_memory=request.pin_memory,
        requires_grad=False,
    )
