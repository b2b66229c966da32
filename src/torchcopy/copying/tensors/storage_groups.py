"""Tensors that view one storage, or only a part of one: what of it is copied, and how the views are rebuilt."""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from ... import _torch_private
from ..._tensors import span_bytes
from .strides import (
    flat_view,
    is_dense,
    overlaps_itself,
    repeat_as,
    squeeze_repeats,
    stretches,
    view_storage,
)

if TYPE_CHECKING:
    from ..request import Request

Early = Mapping[int, Sequence[tuple[Tensor, Tensor]]]
"""By storage: a tensor that was copied before, and its copy."""

_ALIGNMENT = 16  # bytes; a view of any dtype can start there
_KEPT_WASTE = 0.02  # of a storage: with less than this not viewed, it is copied as it is, offsets and all


class StorageGroup:
    """The views of one storage among the tensors that are copied together.

    `units` are the tensors to copy whole; `assemble` makes the members' copies from copies of them.
    """

    def __init__(self, members: Sequence[Tensor], request: Request) -> None:
        self._bits = [(t.is_conj(), t.is_neg()) for t in members]
        if _NO_BITS.issuperset(self._bits):
            self._plan = _plan(members, request)
        else:
            self._plan = _plan([_physical(t) for t in members], request)
        self.units = self._plan.units

    def assemble(self, copied_units: Sequence[Tensor]) -> list[Tensor]:
        """The members' copies, in order."""
        return [_with_bits(c, *b) for c, b in zip(self._plan.assemble(copied_units), self._bits, strict=True)]


class _Plan(Protocol):
    units: list[Tensor]

    def assemble(self, copied_units: Sequence[Tensor]) -> list[Tensor]: ...


def _plan(members: Sequence[Tensor], request: Request) -> _Plan:
    first, others = members[0], members[1:]
    of_one_kind = all(_geometry(t) == _geometry(first) for t in others)
    if not of_one_kind and _some_convert(members, request):
        return _Apart(members)
    if of_one_kind and (_fills_storage(first) or not _stays_lazy(first, span_bytes(first), request)):
        if is_dense(first) or not overlaps_itself(first):
            return _SameView(members, first)
        squeezed = squeeze_repeats(first)
        if not overlaps_itself(squeezed):
            return _SameView(members, squeezed)
    return _flat_plan(members, request)


def _some_convert(members: Sequence[Tensor], request: Request) -> bool:
    """Whether the copies cannot share a storage: views of several dtypes, of which some are converted."""
    wanted = request.dtype
    dtypes = {t.dtype for t in members}
    return wanted is not None and len(dtypes) > 1 and any(d.is_floating_point and d != wanted for d in dtypes)


def _fills_storage(t: Tensor) -> bool:
    return t.is_contiguous() and t.nbytes == t.untyped_storage().nbytes()


def _stays_lazy(member: Tensor, viewed_bytes: int, request: Request) -> bool:
    """Whether a lazy clone of the whole storage serves: a write will copy all of it, so most must be viewed."""
    return request.memory == "lazy" and 2 * viewed_bytes >= member.untyped_storage().nbytes()


class _Apart:
    """Each member gets a storage of its own."""

    def __init__(self, members: Sequence[Tensor]) -> None:
        self.members = members
        self.units = [squeeze_repeats(t) for t in members]

    def assemble(self, copied_units: Sequence[Tensor]) -> list[Tensor]:
        return [repeat_as(c, t) for c, t in zip(copied_units, self.members, strict=True)]


class _SameView:
    """All members view the same elements: one of them is copied, and seen by as many tensors."""

    def __init__(self, members: Sequence[Tensor], unit: Tensor) -> None:
        self.members = members
        self.units = [unit]

    def assemble(self, copied_units: Sequence[Tensor]) -> list[Tensor]:
        first = repeat_as(copied_units[0], self.members[0])
        return [first, *(view_storage(first, int(first.storage_offset()), first) for _ in self.members[1:])]


class _Flat:
    """The members are views of a flat tensor, which has one or several stretches of their storage."""

    def __init__(
        self,
        members: Sequence[Tensor],
        dtype: torch.dtype,
        places: Sequence[tuple[int, int]],
        unit: Tensor | None = None,
        packed: Tensor | None = None,
    ) -> None:
        self.members = members
        self.dtype = dtype
        self.places = places  # of each stretch, in order: first byte in the source, first byte in the flat tensor
        self.starts = [lo for lo, _ in places]
        self.units: list[Tensor] = [] if unit is None else [unit]
        self.packed = packed  # that tensor, where there are several

    def assemble(self, copied_units: Sequence[Tensor]) -> list[Tensor]:
        flat = copied_units[0] if self.packed is None else self.packed
        return [self._view(flat, t) for t in self.members]

    def _view(self, flat: Tensor, t: Tensor) -> Tensor:
        begin = int(t.storage_offset()) * t.element_size()
        lo, at = self.places[bisect.bisect_right(self.starts, begin) - 1]
        offset = (at + begin - lo) // t.element_size()
        dtype = flat.dtype if t.dtype == self.dtype else t.dtype
        return view_storage(flat, int(flat.storage_offset()) + offset if dtype == flat.dtype else offset, t, dtype)


def _flat_plan(members: Sequence[Tensor], request: Request) -> _Flat:
    """The viewed stretch of the storage as one flat tensor. Several stretches are packed into a new one."""
    stored_bytes = members[0].untyped_storage().nbytes()
    dtypes = {t.dtype for t in members}
    dtype = dtypes.pop() if len(dtypes) == 1 else torch.uint8
    item = dtype.itemsize
    parts = stretches(members, 1 if item > 1 else _ALIGNMENT)
    viewed = sum(hi - lo for lo, hi in parts)
    if stored_bytes - viewed <= _KEPT_WASTE * stored_bytes or _stays_lazy(members[0], viewed, request):
        parts = [(0, stored_bytes // item * item)]
    places, size = [], 0
    for lo, hi in parts:
        places.append((lo, size))
        size += -(-(hi - lo) // _ALIGNMENT) * _ALIGNMENT
    if len(parts) == 1:
        return _Flat(members, dtype, places, unit=flat_view(members[0], dtype, *parts[0]))
    wanted = request.dtype if request.dtype is not None and dtype.is_floating_point else dtype
    packed = torch.empty(size // item, dtype=wanted, device=request.device or members[0].device)
    for (lo, hi), (_, at) in zip(parts, places, strict=True):
        packed[at // item : (at + hi - lo) // item].copy_(flat_view(members[0], dtype, lo, hi))
    return _Flat(members, dtype, places, packed=packed)


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
        same = source.dtype == copied.dtype and source.stride() == copied.stride()
        same = same and (source.is_conj(), source.is_neg()) == (copied.is_conj(), copied.is_neg())
        if inside and same and is_dense(source):
            where = copied.storage_offset() * copied.element_size() + begin - start
            view = view_storage(copied, where // t.element_size(), t, t.dtype)
            return _with_bits(view, t.is_conj(), t.is_neg())
    return None


# --- lazily conjugated and negated tensors -------------------------------------------------------------------

_NO_BITS = frozenset({(False, False)})


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
