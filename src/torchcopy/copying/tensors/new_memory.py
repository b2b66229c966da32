"""Whole tensors into new memory, many at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ... import _torch_private
from ..copy_on_write.lazy import lazy_clones
from .huge_pages import advise_huge_pages
from .memory_cache import SMALLEST_BYTES, Block, cache, fits, is_in_use
from .opaque import byte_views, clone
from .placement import copy_placed

if TYPE_CHECKING:
    from ..request import Request


Unwritten = list[tuple[Sequence[Tensor], Sequence[Tensor]]]
"""New tensors whose values are still to be written, and where those are."""


def copy_whole(
    units: Sequence[Tensor], request: Request, sizes: Sequence[int], full: int, unwritten: Unwritten | None = None
) -> list[Tensor]:
    """A new tensor for each unit, with the same strides where the unit is dense. Runs under `no_grad`.

    Args:
        units: what to copy, each with a storage that no other one has.
        request: how and where to.
        sizes: of the units, in bytes.
        full: how many of the first units fill their storages.
        unwritten: takes what is left for `write_values` to do; None where all is to be done at once.
    """
    if not units:
        return []
    if request.memory == "lazy":
        return _lazy(units, sizes, full, unwritten)
    if request.places:
        return copy_placed(units, request)
    return _copy_here(units, sizes, unwritten)


def write_values(unwritten: Unwritten) -> None:
    """Writes what `copy_whole` has left over: most of the time of a large copy."""
    with _torch_private.no_grad():
        for copies, units in unwritten:
            _write(copies, units)


def _write(copies: Sequence[Tensor], units: Sequence[Tensor]) -> None:
    try:
        _torch_private.foreach_copy_(copies, units)
    except NotImplementedError:
        targets, values = byte_views(copies), byte_views(units)
        if targets is None or values is None:
            raise
        _torch_private.foreach_copy_(targets, values)


def _copy_here(units: Sequence[Tensor], sizes: Sequence[int], unwritten: Unwritten | None) -> list[Tensor]:
    """A copy of each unit on its own device, in its own dtype."""
    if max(sizes) < SMALLEST_BYTES:
        return _copy_small(units)
    if min(sizes) >= SMALLEST_BYTES:
        return _copy_large(units, unwritten)
    large = [k for k, size in enumerate(sizes) if size >= SMALLEST_BYTES]
    small = [k for k, size in enumerate(sizes) if size < SMALLEST_BYTES]
    copies: list[Tensor] = [units[0]] * len(units)
    for k, c in zip(large, _copy_large([units[k] for k in large], unwritten), strict=True):
        copies[k] = c
    for k, c in zip(small, _copy_small([units[k] for k in small]), strict=True):
        copies[k] = c
    return copies


def _copy_small(units: Sequence[Tensor]) -> list[Tensor]:
    try:
        return _torch_private.foreach_clone(units)
    except RuntimeError:  # a quantized one of a kind that it does not know
        return [clone(t) for t in units]


def _copy_large(units: Sequence[Tensor], unwritten: Unwritten | None) -> list[Tensor]:
    if any(t.is_nested or t.is_quantized for t in units):
        return [clone(t) for t in units]
    kept = [k for k, t in enumerate(units) if fits(t)] if is_in_use() else []
    if not kept:
        copies = list(map(torch.empty_like, units))
        advise_huge_pages(copies)
        _write_or_leave(copies, units, unwritten)
        return copies
    blocks: list[Block | None] = [None] * len(units)
    for k, block in zip(kept, cache.take([units[k] for k in kept]), strict=True):
        blocks[k] = block
    try:
        copies = _uninitialised(units, blocks)
    except RuntimeError:  # no memory, perhaps: then none of it may lie idle
        if not cache.empty():
            raise
        copies = _uninitialised(units, blocks)
    advise_huge_pages(c for c, b in zip(copies, blocks, strict=True) if b is None)
    cache.lend([copies[k] for k in kept], [blocks[k] for k in kept])
    _write_or_leave(copies, units, unwritten)
    return copies


def _write_or_leave(copies: Sequence[Tensor], units: Sequence[Tensor], unwritten: Unwritten | None) -> None:
    if unwritten is None:
        _write(copies, units)
    else:
        unwritten.append((copies, units))


def _uninitialised(units: Sequence[Tensor], blocks: Sequence[Block | None]) -> list[Tensor]:
    return [torch.empty_like(t) if b is None else b.tensor_like(t) for t, b in zip(units, blocks, strict=True)]


def _lazy(units: Sequence[Tensor], sizes: Sequence[int], full: int, unwritten: Unwritten | None) -> list[Tensor]:
    """Lazy clones; copies of what PyTorch cannot share, and of views that a write would cost more for."""
    small = {k for k in range(full, len(units)) if 2 * sizes[k] < units[k].untyped_storage().nbytes()}
    if small:
        made = iter(lazy_clones([t for k, t in enumerate(units) if k not in small])[0])
        clones = [None if k in small else next(made) for k in range(len(units))]
    else:
        clones = lazy_clones(units)[0]
    missing = [k for k, c in enumerate(clones) if c is None]
    if missing:
        copies = _copy_here([units[k] for k in missing], [sizes[k] for k in missing], unwritten)
        for k, c in zip(missing, copies, strict=True):
            clones[k] = c
    return clones  # type: ignore[return-value]  # none is missing any more
