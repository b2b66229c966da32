"""Whether each tensor can be written from its source, found out before the first is written.

Nearly always all can, and a few questions to all tensors at once tell. Only where those find something is each
pair looked at, and put where it belongs: to the many that are written in a few calls, to the odd ones that are
written one by one (sparse and quantized tensors, subclasses), or to the NumPy arrays that PyTorch cannot view.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor

from ... import _torch_private
from ..._errors import InputError
from .difference_wording import described, path_text
from .matching import Matching
from .shared_memory import Entanglement, any_borrowed, entanglement, meeting
from .single_pairs import PairFaultError, Writing, odd_alike, repeats_bytes, sort_pair

# Tensors looked at in one go: few enough that what was read of one is still in the cache at the next question.
_GO = 128
# So many pairs are looked at by their bytes, except in modules: tensors on one NumPy array can have two storages.
_FEW = 64
_LISTED = 20

_dtype, _is_nested = attrgetter("dtype"), attrgetter("is_nested")


@dataclasses.dataclass
class TensorPairs:
    """What is to be written, sorted by how.

    Attributes:
        dsts: strided tensors to write to, on any device.
        srcs: what to write into them.
        one_dtype: the dtype of all of them where they are known to have one.
        memory: how they meet in memory; None where each has a storage of its own.
        in_order: (target, source): targets that share memory, filled by `stage`.
        odd: (target, spare): tensors to be written one by one, and what they are to hold.
        arrays: (target, source): NumPy arrays that PyTorch cannot view.
    """

    dsts: list[Tensor]
    srcs: list[Tensor]
    one_dtype: torch.dtype | None = None
    memory: Entanglement | None = None
    in_order: list[tuple[Tensor, Tensor]] = dataclasses.field(default_factory=list)
    odd: list[tuple[Any, Any]] = dataclasses.field(default_factory=list)
    arrays: list[tuple[Any, Any]] = dataclasses.field(default_factory=list)


def checked_pairs(matching: Matching, writing: Writing) -> TensorPairs:
    """The pairs of `matching`, every one of which can be written.

    Raises:
        InputError: one cannot, or the structures differ; the message lists the differences.
    """
    pairs = TensorPairs(matching.dsts, matching.srcs)
    own_storages = _quick_look(pairs, writing) if matching.ordinary else None
    positions: Sequence[int] = range(len(pairs.dsts))
    if own_storages is None:
        pairs, positions = _look_at_each(matching, writing)
    meet: Sequence[int] = () if own_storages else meeting(pairs.dsts, pairs.srcs)
    if not matching.only_modules and len(pairs.dsts) <= _FEW and any_borrowed((*pairs.dsts, *pairs.srcs)):
        meet = range(len(pairs.dsts))
    if meet:
        pairs.memory = entanglement(pairs.dsts, pairs.srcs, meet)
        for earlier, later in pairs.memory.contradictory:
            _note_contradiction(matching, positions[earlier], positions[later])
        for earlier, later in pairs.memory.conflicting:
            _note_conflict(matching, positions[earlier], positions[later])
    if matching.differences:
        raise InputError(_message(writing.call, matching.differences))
    return pairs


def _message(call: str, lines: list[str]) -> str:
    if len(lines) == 1:
        return f"`{call}` wrote nothing: {lines[0]}"
    listed = "".join(f"\n  {line}" for line in lines[:_LISTED])
    more = f"\n  … and {len(lines) - _LISTED} more" if len(lines) > _LISTED else ""
    return f"`{call}` wrote nothing, as dst and src differ in {len(lines)} places:{listed}{more}"


def _note_contradiction(matching: Matching, earlier: int, later: int) -> None:
    (at_d, at_s), (_, before) = matching.paths(later), matching.paths(earlier)
    first, second = path_text(matching.paths(earlier)[0]), path_text(at_d)
    matching.differences.append(
        f"{second}: expected the values of {path_text(before)}, as it is one tensor with {first}, found others in "
        f"{path_text(at_s)}: give both the same values, or tie them in src too"
    )


def _note_conflict(matching: Matching, earlier: int, later: int) -> None:
    (first, before), (second, after) = (map(path_text, matching.paths(k)) for k in (earlier, later))
    matching.differences.append(
        f"{second}: expected the values of {before} where it overlaps {first}, found others in {after}: give both "
        "the same values there"
    )


# --- all at once ---------------------------------------------------------------------------------------------


def _quick_look(pairs: TensorPairs, writing: Writing) -> bool | None:
    """Whether each pair has storages of its own; None where some pair cannot be written, or cannot be told."""
    addresses: list[int] = []
    dtypes_d: set[torch.dtype] = set()
    dtypes_s: set[torch.dtype] = set()
    try:
        for start in range(0, len(pairs.dsts), _GO):
            dsts, srcs = pairs.dsts[start : start + _GO], pairs.srcs[start : start + _GO]
            # Half as long as to make both `shape`s, and nested tensors have none.
            if not all(map(Tensor.is_same_size, dsts, srcs)) or any(map(_is_nested, dsts)):
                return None
            if not all(map(Tensor.is_contiguous, dsts)) and any(map(repeats_bytes, dsts)):
                return None
            dtypes_d.update(map(_dtype, dsts))
            dtypes_s.update(map(_dtype, srcs))
            addresses += _torch_private.storage_addresses(dsts)
            addresses += _torch_private.storage_addresses(srcs)
    except (RuntimeError, ValueError):  # no storage or no shape: sparse, nested, uninitialised
        return None
    if len(dtypes_d) == len(dtypes_s) == 1:
        dtypes = {(*dtypes_d, *dtypes_s)}
        pairs.one_dtype = next(iter(dtypes_d)) if dtypes_d == dtypes_s else None
    else:
        dtypes = set(zip(map(_dtype, pairs.dsts), map(_dtype, pairs.srcs), strict=True))
    if not all(writing.suits(d, s) for d, s in dtypes):
        return None
    storages = set(addresses)
    return None if 0 in storages else len(storages) == len(addresses)


# --- one by one ----------------------------------------------------------------------------------------------


def _look_at_each(matching: Matching, writing: Writing) -> tuple[TensorPairs, list[int]]:
    """The pairs that can be written, sorted, and where the strided ones were; notes what cannot be written."""
    pairs, positions = TensorPairs([], []), []
    odd_targets: dict[int, int] = {}  # by id, the position of the first
    for k, (d, s) in enumerate(zip(matching.dsts, matching.srcs, strict=True)):
        earlier = odd_targets.get(id(d))
        if earlier is not None:
            if matching.srcs[earlier] is not s and not odd_alike(matching.srcs[earlier], s):
                _note_contradiction(matching, earlier, k)
            continue
        try:
            kind, one, other = sort_pair(d, s, writing)
        except PairFaultError as fault:
            matching.differs(*matching.paths(k), described(d), described(s), str(fault))
            continue
        if kind == "strided":
            pairs.dsts.append(one)
            pairs.srcs.append(other)
            positions.append(k)
        else:
            odd_targets[id(d)] = k
            (pairs.odd if kind == "odd" else pairs.arrays).append((one, other))
    return pairs, positions
