"""How tensors lay in memory, and how they get to lie so again.

A safetensors file has every tensor's elements in order and each tensor by itself. What lay otherwise
(channels last, views of one storage, repeated elements) is put together anew from them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

from ..._tensors import first_byte
from ...copying.tensors.strides import overlaps_itself
from .faults import Fault

_ALIGNMENT: Final = 16  # bytes; a view of any dtype can start there
_AS_REAL: Final = {torch.complex128: torch.float64, torch.complex32: torch.float16}


@dataclasses.dataclass(frozen=True)
class Layout:
    """How a tensor lies in memory.

    Attributes:
        dtype: of its elements.
        shape: its sizes.
        strides: None if its elements lie in order.
        storage: the number of the storage that it shares with others, or None.
        offset: bytes from the beginning of that storage.
        alias_of: the number of the tensor that has the very same place, or None.
    """

    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    storage: int | None = None
    offset: int = 0
    alias_of: int | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, each counted."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def span_bytes(self) -> int:
        """Bytes from the first element to behind the last one."""
        if self.strides is None or 0 in self.shape:
            return self.nbytes
        last = sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))
        return (last + 1) * self.dtype.itemsize


def in_file(layout: Layout) -> tuple[torch.dtype, tuple[int, ...]]:
    """Dtype and shape as they stand in the file, which has not all complex numbers: some are two real ones."""
    real = _AS_REAL.get(layout.dtype)
    return (layout.dtype, layout.shape) if real is None else (real, (*layout.shape, 2))


def to_file(t: Tensor) -> Tensor:
    """`t` as it goes into a file: in main memory, its elements in order; itself if it is so already."""
    if t.is_cpu and t.is_contiguous() and not t.is_complex() and not t.is_neg():
        return t
    t = t.detach().resolve_conj().resolve_neg().cpu().contiguous()
    return torch.view_as_real(t) if t.dtype in _AS_REAL else t


def describe(tensors: Sequence[Tensor], storage_ids: Sequence[int]) -> list[Layout]:
    """The layout of each tensor. Tensors of one storage refer to each other."""
    views: dict[int, list[int]] = {}
    for k, number in enumerate(storage_ids):
        views.setdefault(number, []).append(k)
    if len(views) == len(tensors):
        return [Layout(t.dtype, tuple(t.shape), _strides(t)) for t in tensors]
    found: list[Layout | None] = [None] * len(tensors)
    for shared, members in enumerate(views.values()):
        first: dict[object, int] = {}
        for k in members:
            first.setdefault(_geometry(tensors[k]), k)
        begin = min(int(tensors[k].storage_offset()) * tensors[k].element_size() for k in members)
        begin = begin // _ALIGNMENT * _ALIGNMENT
        for k in members:
            t = tensors[k]
            canonical = first[_geometry(t)]
            plain = Layout(t.dtype, tuple(t.shape), _strides(t))
            if len(first) > 1:
                offset = int(t.storage_offset()) * t.element_size() - begin
                plain = dataclasses.replace(plain, storage=shared, offset=offset)
            found[k] = plain if canonical == k else dataclasses.replace(plain, alias_of=canonical)
    return [layout for layout in found if layout is not None]


def _strides(t: Tensor) -> tuple[int, ...] | None:
    if t.is_contiguous() and t.numel() and 1 not in t.shape:
        return None
    strides = tuple(t.stride())
    return None if t.is_contiguous() and strides == _in_order(t.shape) else strides


def _in_order(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a new tensor."""
    strides = [1] * len(shape)
    for k in range(len(shape) - 2, -1, -1):
        strides[k] = strides[k + 1] * max(1, shape[k + 1])
    return tuple(strides)


def _geometry(t: Tensor) -> object:
    return t.storage_offset(), t.shape, t.stride(), t.dtype, t.is_conj(), t.is_neg()


def check_gaps(layouts: Sequence[Layout]) -> list[int]:
    """The tensors whose memory is mostly gaps: it would take far more than there is in the file."""
    spans, stored, members = _storages(layouts)
    refused = [k for g, span in spans.items() if _too_wide(span, stored[g]) for k in members[g]]
    alone = (k for k, layout in enumerate(layouts) if layout.storage is None and layout.alias_of is None)
    return [*refused, *(k for k in alone if _too_wide(layouts[k].span_bytes, layouts[k].nbytes))]


def _too_wide(span_bytes: int, stored_bytes: int) -> bool:
    return span_bytes > 256 * stored_bytes + (64 << 10)


def _storages(layouts: Sequence[Layout]) -> tuple[dict[int, int], dict[int, int], dict[int, list[int]]]:
    """Of each shared storage: its bytes, the bytes that are in the file, its views."""
    spans: dict[int, int] = {}
    stored: dict[int, int] = {}
    members: dict[int, list[int]] = {}
    for k, layout in enumerate(layouts):
        g = layout.storage
        if g is not None:
            spans[g] = max(spans.get(g, 0), layout.offset + layout.span_bytes)
            stored[g] = stored.get(g, 0) + (layout.nbytes if layout.alias_of is None else 0)
            members.setdefault(g, []).append(k)
    return spans, stored, members


def check(layouts: Sequence[Layout]) -> None:
    """Sees to it that `build` can do what the layouts say.

    Raises:
        Fault: it cannot.
    """
    for k, layout in enumerate(layouts):
        if layout.strides is not None and len(layout.strides) != len(layout.shape):
            raise Fault(f"tensor {k} has {len(layout.shape)} sizes and {len(layout.strides)} strides")
        if layout.offset % max(1, layout.dtype.itemsize):
            raise Fault(f"tensor {k} begins within an element")
        if layout.alias_of is not None:
            other = layouts[layout.alias_of]
            if layout.alias_of >= k or dataclasses.replace(layout, alias_of=None) != other:
                raise Fault(f"tensor {k} is not what tensor {layout.alias_of} is")
    if wide := check_gaps(layouts):
        raise Fault(f"tensor {wide[0]} reaches over far more memory than it has elements")


def build(layouts: Sequence[Layout], stored: Sequence[Tensor | None]) -> list[Tensor]:
    """The tensors. Those that lie as they do in the file are views of it, all others have memory of their own.

    Args:
        layouts: of each tensor, checked.
        stored: each tensor as it is in the file; None for aliases.
    """
    spans, _, _ = _storages(layouts)
    shared = {g: torch.zeros(span, dtype=torch.uint8).untyped_storage() for g, span in spans.items()}
    built: list[Tensor] = []
    for layout, t in zip(layouts, stored, strict=True):
        if t is None:
            assert layout.alias_of is not None  # `check` has seen it
            built.append(built[layout.alias_of].detach())
            continue
        if first_byte(t) % layout.dtype.itemsize:  # PyTorch crashes there, and not every file is aligned
            t = t.clone()
        if layout.dtype in _AS_REAL:
            t = torch.view_as_complex(t)
        if layout.storage is not None:
            storage, offset = shared[layout.storage], layout.offset // layout.dtype.itemsize
        elif layout.strides is None:
            built.append(t)
            continue
        elif _moves_nothing(layout.shape, layout.strides):
            storage, offset = t.untyped_storage(), int(t.storage_offset())
            built.append(torch.empty(0, dtype=layout.dtype).set_(storage, offset, layout.shape, layout.strides))
            continue
        else:
            storage, offset = torch.zeros(layout.span_bytes, dtype=torch.uint8).untyped_storage(), 0
        strides = t.stride() if layout.strides is None else layout.strides
        view = torch.empty(0, dtype=layout.dtype).set_(storage, offset, layout.shape, strides)
        _write(view, t)
        built.append(view)
    return built


def _moves_nothing(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether elements lie in order, though the strides of dimensions without a second element are unusual."""
    usual = zip(shape, strides, _in_order(shape), strict=True)
    return 0 in shape or all(size == 1 or stride == expected for size, stride, expected in usual)


def _write(view: Tensor, t: Tensor) -> None:
    """Writes `t` into `view`; elements that lie on one place have one value."""
    for dimension, stride in enumerate(view.stride()):
        if stride == 0 and view.shape[dimension] > 1:
            view, t = view.narrow(dimension, 0, 1), t.narrow(dimension, 0, 1)
    if not overlaps_itself(view):
        view.copy_(t)
        return
    for target, source in zip(view.unbind(), t.unbind(), strict=True):
        _write(target, source)
