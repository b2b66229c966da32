"""Writes tensors that were checked before: many in one call, those that share memory with care, odd ones alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ... import _torch_private
from ..tensors.device_waits import wait_for
from .tensor_pairs import TensorPairs

# Dtypes that `lerp_` computes in; the others are taken to a wider one and back.
_INTERPOLATED = frozenset(
    (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128)
)
# How much of the sources is held in another dtype or on another device at one time.
_BLOCK_BYTES = 16_000_000


def stage(pairs: TensorPairs, weight: float | None = None) -> None:
    """Copies, before anything is written, the sources that a write would reach, and drops what needs no write.

    Args:
        pairs: changed in place.
        weight: how far the targets are to move; None where they are to become as their sources.
    """
    pairs.arrays = [(d, _new_array(d, s, weight)) for d, s in pairs.arrays]
    memory = pairs.memory
    if memory is None:
        return
    in_order = frozenset(memory.in_order)
    todo = [k for k in range(len(pairs.dsts)) if k not in memory.done]
    with torch.inference_mode():
        new = {k: pairs.srcs[k].clone() if k in memory.staged else pairs.srcs[k] for k in todo}
        if weight is not None:  # each from the values before the call: no element moves twice
            new |= {k: _interpolated(pairs.dsts[k], new[k], weight) for k in in_order}
    pairs.in_order = [(pairs.dsts[k], new[k]) for k in memory.in_order]
    together = [k for k in todo if k not in in_order]
    pairs.dsts, pairs.srcs = [pairs.dsts[k] for k in together], [new[k] for k in together]


def write(pairs: TensorPairs, weight: float | None = None, *, non_blocking: bool = False) -> None:
    """Writes what `stage` has prepared."""
    _write_odd(pairs.odd)  # first: nobody knows what `copy_` of a subclass may raise
    # Inference mode records no graph, as `no_grad` does; it counts versions, takes inference tensors, and is
    # quicker.
    with torch.inference_mode():
        if weight is None:
            _copy(pairs.dsts, pairs.srcs, non_blocking=non_blocking)
        elif pairs.one_dtype in _INTERPOLATED and not torch.accelerator.is_available():
            _torch_private.foreach_lerp_(pairs.dsts, pairs.srcs, weight)
        else:
            _interpolate(pairs.dsts, pairs.srcs, weight)
        for d, s in pairs.in_order:
            d.copy_(s, non_blocking=non_blocking)
    for array, new in pairs.arrays:
        np.copyto(array, new, casting="same_kind")
    if non_blocking:
        wait_for(devices_to_wait_for((*zip(pairs.dsts, pairs.srcs, strict=True), *pairs.in_order)))


def _write_odd(pairs: Sequence[tuple[Any, Any]]) -> None:
    """Writes one after another; where one refuses, those before it get back what they held."""
    before: list[tuple[Any, Any]] = []
    try:
        for k, (d, spare) in enumerate(pairs, 1):
            if k < len(pairs):
                before.append((d, _copy_of(d)))
            _write_alone(d, spare)
    except BaseException:
        for d, old in before:
            _write_alone(d, old)
        raise


def _copy_of(d: Any) -> Any:
    with torch.no_grad():
        return d.clone()


def _write_alone(d: Any, spare: Any) -> None:
    # An inference tensor is written in that mode alone.
    with torch.inference_mode() if d.is_inference() else torch.no_grad():
        d.copy_(spare)


def devices_to_wait_for(pairs: Iterable[tuple[Any, Any]]) -> set[torch.device]:
    """Where copies to the host may still be on their way: the host would read them too early."""
    return {s.device for d, s in pairs if d.is_cpu and not s.is_cpu}


def _batches(dsts: list[Tensor], srcs: list[Tensor]) -> Iterator[tuple[list[Tensor], list[Tensor]]]:
    """All pairs at once on the CPU; elsewhere those together that one kernel can take."""
    if not torch.accelerator.is_available():
        if dsts:
            yield dsts, srcs
        return
    alike: dict[Any, tuple[list[Tensor], list[Tensor]]] = {}
    for d, s in zip(dsts, srcs, strict=True):
        key = (d.device, s.device, d.dtype, s.dtype, d.stride() == s.stride())
        batch = alike.setdefault(key, ([], []))
        batch[0].append(d)
        batch[1].append(s)
    yield from alike.values()


def _copy(dsts: list[Tensor], srcs: list[Tensor], *, non_blocking: bool = False) -> None:
    for some_dsts, some_srcs in _batches(dsts, srcs):
        _torch_private.foreach_copy_(some_dsts, some_srcs, non_blocking=non_blocking)


def _interpolate(dsts: Sequence[Tensor], srcs: Sequence[Tensor], weight: float) -> None:
    """Moves each target as its dtype needs it."""
    as_they_are: tuple[list[Tensor], list[Tensor]] = [], []
    copied: tuple[list[Tensor], list[Tensor]] = [], []
    converted: list[tuple[Tensor, Tensor]] = []
    for d, s in zip(dsts, srcs, strict=True):
        dtype = d.dtype
        if dtype in _INTERPOLATED:
            if s.dtype != dtype or s.device != d.device:
                converted.append((d, s))
                continue
            kind = as_they_are
        elif dtype.is_floating_point or dtype.is_complex:
            d.copy_(_interpolated(d, s, weight))
            continue
        else:
            kind = copied
        kind[0].append(d)
        kind[1].append(s)
    for batch in _batches(*as_they_are):
        _torch_private.foreach_lerp_(*batch, weight)
    for block in _blocks(converted):
        targets = [d for d, _ in block]
        sources = [torch.empty_like(d) for d in targets]
        _copy(sources, [s for _, s in block])
        for batch in _batches(targets, sources):
            _torch_private.foreach_lerp_(*batch, weight)
    _copy(*copied)


def _blocks(pairs: Iterable[tuple[Tensor, Tensor]]) -> Iterator[list[tuple[Tensor, Tensor]]]:
    """The pairs in runs of at most `_BLOCK_BYTES`, or of one."""
    block: list[tuple[Tensor, Tensor]] = []
    held = 0
    for d, s in pairs:
        if block and held + d.nbytes > _BLOCK_BYTES:
            yield block
            block, held = [], 0
        block.append((d, s))
        held += d.nbytes
    if block:
        yield block


def _interpolated(d: Tensor, s: Tensor, weight: float) -> Tensor:
    """What `d` is to hold, as a new tensor where it moves; integers become as their source."""
    dtype = d.dtype
    if not (dtype.is_floating_point or dtype.is_complex):
        return s
    wide = dtype if dtype in _INTERPOLATED else torch.complex64 if dtype.is_complex else torch.float32
    return d.to(wide, copy=True).lerp_(s.to(d.device, wide), weight).to(dtype)


def _new_array(d: Any, s: Any, weight: float | None) -> Any:
    if weight is None or not np.issubdtype(d.dtype, np.inexact):
        return s.copy()  # arrays that PyTorch cannot view are rare: not worth finding out which share memory
    return d + d.dtype.type(weight) * (s.astype(d.dtype) - d)
