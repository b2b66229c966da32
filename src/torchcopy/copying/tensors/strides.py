"""How a strided tensor lies in its storage: densely, with gaps, or over itself."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..._tensors import span_bytes


def is_dense(t: Tensor) -> bool:
    """Whether `t`'s elements lie side by side, each once, in whatever order of dimensions."""
    if t.is_contiguous():
        return True
    expected = 1
    for stride, size in sorted(zip(t.stride(), t.shape, strict=True)):
        if size > 1:
            if stride != expected:
                return False
            expected *= size
    return True


def overlaps_itself(t: Tensor) -> bool:
    """Whether two indices may reach one element. False is certain."""
    reach = 0
    for stride, size in sorted(zip(t.stride(), t.shape, strict=True)):
        if size > 1:
            if stride <= reach:
                return True
            reach += stride * (size - 1)
    return False


def squeeze_repeats(t: Tensor) -> Tensor:
    """`t` with one element in each dimension of stride 0."""
    if 0 not in t.stride() or t.numel() == 0:
        return t
    sizes = [1 if stride == 0 else size for size, stride in zip(t.shape, t.stride(), strict=True)]
    return t.as_strided(sizes, t.stride())


def repeat_as(c: Tensor, like: Tensor) -> Tensor:
    """The copy of a squeezed tensor, with the dimensions of stride 0 as in `like`."""
    if c.shape == like.shape:
        return c
    steps = zip(like.stride(), like.shape, c.stride(), strict=True)
    strides = [0 if step == 0 and size > 1 else own for step, size, own in steps]
    empty = torch.empty(0, dtype=c.dtype, device=c.device)
    return empty.set_(c.untyped_storage(), c.storage_offset(), like.shape, strides)


def view_storage(holder: Tensor, offset: int, like: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """A tensor on `holder`'s storage with the sizes and strides of `like`; autograd does not know it as a view."""
    empty = torch.empty(0, dtype=dtype or holder.dtype, device=holder.device)
    return empty.set_(holder.untyped_storage(), offset, like.shape, like.stride())


def flat_view(t: Tensor, dtype: torch.dtype, first: int, stop: int) -> Tensor:
    """The bytes from `first` to before `stop` of `t`'s storage, as elements of `dtype`."""
    empty = torch.empty(0, dtype=dtype, device=t.device)
    return empty.set_(t.untyped_storage(), first // dtype.itemsize, ((stop - first) // dtype.itemsize,), (1,))


def stretches(tensors: Sequence[Tensor], alignment: int) -> list[tuple[int, int]]:
    """What the views of one storage reach, as (first byte, byte after the last), merged and in order."""
    stored_bytes = tensors[0].untyped_storage().nbytes()
    spans = []
    for t in tensors:
        lo = int(t.storage_offset()) * t.element_size()
        spans.append((lo // alignment * alignment, min(lo + span_bytes(t), stored_bytes)))
    merged: list[tuple[int, int]] = []
    for lo, hi in sorted(spans):
        if merged and lo <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(hi, merged[-1][1]))
        else:
            merged.append((lo, max(lo, hi)))
    return merged
