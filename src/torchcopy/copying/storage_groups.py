"""Tensors that view one storage, or only a part of one: what of it is copied, and how the views are rebuilt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .. import _torch_private
from .._tensors import span_bytes

if TYPE_CHECKING:
    from .request import Request

Early = Mapping[int, Sequence[tuple[Tensor, Tensor]]]
"""By storage: a tensor that was copied before, and its copy."""

_ALIGNMENT = 16  # bytes; a view of any dtype can start there
_KEPT_WASTE = 0.02  # of a storage: with less than this not viewed, it is copied as it is, offsets and all


class Group:
    """The views of one storage among the tensors that are copied together.

    `units` are the tensors to copy whole; `assemble` makes the members' copies from copies of them.
    """

    def __init__(self, members: Sequence[Tensor], request: Request) -> None:
        self.members = [_physical(t) for t in members]
        self.bits = [(t.is_conj(), t.is_neg()) for t in members]
        self.request = request
        stored_bytes = members[0].untyped_storage().nbytes()
        first = self.members[0]
        self.one_geometry = all(_geometry(t) == _geometry(first) for t in self.members[1:])
        self.separate = not self.one_geometry and self._must_be_separate()
        self.reduced = False  # whether the unit lacks the dimensions of stride 0
        if self.separate:
            self.units = [_squeezed(t) for t in self.members]
        elif self.one_geometry and not self._stays_lazy(stored_bytes, span_bytes(first)):
            if is_dense(first) or not _overlaps_itself(first):
                self.units = [first]
            elif _overlaps_itself(_squeezed(first)):
                self.units = self._flat_units(stored_bytes)
            else:
                self.units, self.reduced = [_squeezed(first)], True
        else:
            self.units = self._flat_units(stored_bytes)

    # --- what is copied ------------------------------------------------------------------------------------

    def _must_be_separate(self) -> bool:
        """Whether the copies cannot share a storage: views of several dtypes, of which some are converted."""
        wanted = self.request.dtype
        dtypes = {t.dtype for t in self.members}
        return wanted is not None and len(dtypes) > 1 and any(d.is_floating_point and d != wanted for d in dtypes)

    def _stays_lazy(self, stored_bytes: int, viewed_bytes: int) -> bool:
        """Whether a lazy clone of the whole storage serves: a write will copy all of it, so most must be viewed."""
        return self.request.memory == "lazy" and 2 * viewed_bytes >= stored_bytes

    def _flat_units(self, stored_bytes: int) -> list[Tensor]:
        """The viewed stretch of the storage as one flat tensor. Several stretches are packed into a new one."""
        dtypes = {t.dtype for t in self.members}
        self.flat_dtype = dtypes.pop() if len(dtypes) == 1 else torch.uint8
        self.item = self.flat_dtype.itemsize
        stretches = _stretches(self.members, stored_bytes, 1 if self.item > 1 else _ALIGNMENT)
        viewed = sum(hi - lo for lo, hi in stretches)
        if stored_bytes - viewed <= _KEPT_WASTE * stored_bytes or self._stays_lazy(stored_bytes, viewed):
            stretches = [(0, stored_bytes // self.item * self.item)]
        self.moves: list[tuple[int, int, int]] = []  # (first byte, last, where it is in the copy)
        place = 0
        for lo, hi in stretches:
            self.moves.append((lo, hi, place))
            place += -(-(hi - lo) // _ALIGNMENT) * _ALIGNMENT
        if len(stretches) == 1:
            lo, hi = stretches[0]
            return [self._flat(lo, hi)]
        self.packed = torch.empty(
            place // self.item, dtype=self._wanted_dtype(), device=self.request.device or self.members[0].device
        )
        for lo, hi, at in self.moves:
            self.packed[at // self.item : (at + hi - lo) // self.item].copy_(self._flat(lo, hi))
        return []

    def _flat(self, lo: int, hi: int) -> Tensor:
        source = self.members[0]
        empty = torch.empty(0, dtype=self.flat_dtype, device=source.device)
        return empty.set_(source.untyped_storage(), lo // self.item, ((hi - lo) // self.item,), (1,))

    def _wanted_dtype(self) -> torch.dtype:
        wanted = self.request.dtype
        return wanted if wanted is not None and self.flat_dtype.is_floating_point else self.flat_dtype

    # --- how the copies are put together -------------------------------------------------------------------

    def assemble(self, copied_units: Sequence[Tensor]) -> list[Tensor]:
        """The members' copies, in order."""
        if self.separate:
            made = [_spread(c, t) for c, t in zip(copied_units, self.members, strict=True)]
        elif hasattr(self, "moves"):
            flat = copied_units[0] if copied_units else self.packed
            made = [self._view_of(flat, t) for t in self.members]
        else:
            first = _spread(copied_units[0], self.members[0]) if self.reduced else copied_units[0]
            made = [first, *(view_storage(first, int(first.storage_offset()), first) for _ in self.members[1:])]
        return [_with_bits(c, *bits) for c, bits in zip(made, self.bits, strict=True)]

    def _view_of(self, flat: Tensor, t: Tensor) -> Tensor:
        begin = int(t.storage_offset()) * t.element_size()
        lo, _, at = next(move for move in self.moves if move[0] <= begin <= move[1])
        offset = (at + begin - lo) // t.element_size()
        dtype = flat.dtype if t.dtype == self.flat_dtype else t.dtype
        return view_storage(flat, int(flat.storage_offset()) + offset if dtype == flat.dtype else offset, t, dtype)


def view_storage(holder: Tensor, offset: int, like: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """A tensor on `holder`'s storage with the sizes and strides of `like`; autograd does not know it as a view."""
    empty = torch.empty(0, dtype=dtype or holder.dtype, device=holder.device)
    return empty.set_(holder.untyped_storage(), offset, like.shape, like.stride())


def rejoin(t: Tensor, early: Early) -> Tensor | None:
    """A view of the storage that was made for `t`'s storage before, where `t` lies in what was copied."""
    try:
        known = early.get(_torch_private.storage_id(t), ())
    except RuntimeError:
        return None
    begin, size = t.storage_offset() * t.element_size(), span_bytes(t)
    for source, copied in known:
        start = source.storage_offset() * source.element_size()
        inside = start <= begin and begin + size <= start + span_bytes(source)
        if inside and source.dtype == copied.dtype and source.stride() == copied.stride() and is_dense(source):
            where = copied.storage_offset() * copied.element_size() + begin - start
            view = view_storage(copied, where // t.element_size(), t, t.dtype)
            return _with_bits(view, t.is_conj(), t.is_neg())
    return None


# --- geometry ------------------------------------------------------------------------------------------------


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


def _overlaps_itself(t: Tensor) -> bool:
    """Whether two indices may reach one element. False is certain."""
    reach = 0
    for stride, size in sorted(zip(t.stride(), t.shape, strict=True)):
        if size > 1:
            if stride <= reach:
                return True
            reach += stride * (size - 1)
    return False


def _squeezed(t: Tensor) -> Tensor:
    """`t` with one element in each dimension of stride 0."""
    if 0 not in t.stride() or t.numel() == 0:
        return t
    sizes = [1 if stride == 0 else size for size, stride in zip(t.shape, t.stride(), strict=True)]
    return t.as_strided(sizes, t.stride())


def _spread(c: Tensor, like: Tensor) -> Tensor:
    """The copy of a squeezed tensor, with the dimensions of stride 0 as in `like`."""
    if c.shape == like.shape:
        return c
    steps = zip(like.stride(), like.shape, c.stride(), strict=True)
    strides = [0 if step == 0 and size > 1 else own for step, size, own in steps]
    empty = torch.empty(0, dtype=c.dtype, device=c.device)
    return empty.set_(c.untyped_storage(), c.storage_offset(), like.shape, strides)


def _stretches(members: Sequence[Tensor], stored_bytes: int, alignment: int) -> list[tuple[int, int]]:
    """What of the storage the members reach, as (first byte, byte after the last), merged and in order."""
    spans = []
    for t in members:
        lo = int(t.storage_offset()) * t.element_size()
        spans.append((lo // alignment * alignment, min(lo + span_bytes(t), stored_bytes)))
    merged: list[tuple[int, int]] = []
    for lo, hi in sorted(spans):
        if merged and lo <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(hi, merged[-1][1]))
        else:
            merged.append((lo, max(lo, hi)))
    return merged


def _geometry(t: Tensor) -> tuple[object, ...]:
    return t.storage_offset(), t.shape, t.stride(), t.dtype


def _physical(t: Tensor) -> Tensor:
    """`t` without its lazily conjugated and negated bits: what lies in memory."""
    if t.is_neg():
        t = _torch_private.flip_negation(t)
    return t.conj() if t.is_conj() else t


def _with_bits(c: Tensor, conjugated: bool, negated: bool) -> Tensor:
    if conjugated:
        c = c.conj()
    return _torch_private.flip_negation(c) if negated else c
