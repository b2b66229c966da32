"""Pairs of tensors whose memory meets that of other pairs: what to write once, in order, or from a spare copy.

Most pairs have storages of their own, which a look at the addresses tells. The rest are looked at by the bytes
from a tensor's first element to its last: tensors that only interleave count as overlapping, which costs a spare
copy and no more.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence

import torch
from torch import Tensor

from ... import _torch_private
from ..._tensors import span_bytes
from .overlapping_targets import Memory, conflicts, same_values


@dataclasses.dataclass(frozen=True)
class Entanglement:
    """What to heed when pairs are written, by their positions.

    Attributes:
        done: nothing is to be written: the target is its source, or comes in an earlier pair.
        staged: the source has bytes that are written, so that it has to be copied first.
        in_order: the target has bytes of other targets: they are written one after another.
        contradictory: (earlier, later): one target, and sources of different values.
        conflicting: (earlier, later): targets that overlap, and sources of different values there.
    """

    done: frozenset[int]
    staged: frozenset[int]
    in_order: tuple[int, ...]
    contradictory: tuple[tuple[int, int], ...]
    conflicting: tuple[tuple[int, int], ...]


def meeting(dsts: Sequence[Tensor], srcs: Sequence[Tensor]) -> list[int]:
    """Positions of the pairs with a storage that comes up more than once, or has no bytes."""
    of_d, of_s = map(_torch_private.storage_addresses, (dsts, srcs))
    count = Counter(of_d)
    count.update(of_s)
    count[0] = 2
    return [k for k, (d, s) in enumerate(zip(of_d, of_s, strict=True)) if count[d] > 1 or count[s] > 1]


def any_borrowed(tensors: Iterable[Tensor]) -> bool:
    """Whether some memory is not PyTorch's own: `torch.from_numpy` can make two storages of the same bytes."""
    return not all(t.untyped_storage().resizable() for t in tensors)


def entanglement(dsts: Sequence[Tensor], srcs: Sequence[Tensor], positions: Iterable[int]) -> Entanglement:
    """How the pairs at `positions` meet in memory. All of them are strided tensors."""
    positions = [k for k in positions if dsts[k].numel() and not dsts[k].is_meta]
    of_d, of_s = ([tensors[k] for k in positions] for tensors in (dsts, srcs))
    targets, sources = (dict(zip(positions, _memory(tensors), strict=True)) for tensors in (of_d, of_s))
    first: dict[Hashable, int] = {}
    contradictory: list[tuple[int, int]] = []
    for k, target in targets.items():
        earlier = first.setdefault((target.view, target.lazy_storage), k)
        if sources[k].view != sources[earlier].view and not _written_alike(srcs[earlier], srcs[k], dsts[k]):
            contradictory.append((earlier, k))
    written = {k: targets[k] for k in first.values() if targets[k].view != sources[k].view}
    spans = _Spans(written)
    while more := {k: targets[k] for k in first.values() if k not in written and spans.touch(targets[k])}:
        written |= more  # its own source, but others write to it: it is to end with the values that it had
        spans = _Spans(written)
    return Entanglement(
        done=frozenset(targets.keys() - written.keys()),
        staged=frozenset(k for k in written if spans.touch(sources[k])),
        in_order=tuple(sorted(spans.overlapping)),
        contradictory=tuple(contradictory),
        conflicting=tuple(conflicts(dsts, srcs, {k: targets[k] for k in spans.overlapping})),
    )


def _memory(tensors: Sequence[Tensor]) -> list[Memory]:
    found = []
    for t, address in zip(tensors, _torch_private.storage_addresses(tensors), strict=True):
        start = address + int(t.storage_offset()) * t.element_size()
        view = (t.device, start, t.shape, t.stride(), t.dtype, t.is_conj(), t.is_neg())
        lazy_storage = _torch_private.storage_id(t) if _torch_private.is_lazy(t) else None
        found.append(Memory(t.device, start, start + span_bytes(t), view, lazy_storage))
    return found


def _written_alike(a: Tensor, b: Tensor, target: Tensor) -> bool:
    """Whether `target` holds the same values after a copy from `a` as after one from `b`."""
    with torch.no_grad():
        one, other = (t.to(target.device, target.dtype) for t in (a, b))
        return same_values(one, other)


class _Spans:
    """The spans of memory that are written, on each device; those that overlap merged into one."""

    def __init__(self, written: dict[int, Memory]) -> None:
        self.overlapping: set[int] = set()
        self._merged: dict[torch.device, tuple[list[int], list[int]]] = {}
        opened: dict[torch.device, int] = {}  # the position that began the last span
        for k, memory in sorted(written.items(), key=lambda item: item[1].start):
            starts, stops = self._merged.setdefault(memory.device, ([], []))
            if stops and memory.start < stops[-1]:
                self.overlapping.update((opened[memory.device], k))
                stops[-1] = max(stops[-1], memory.stop)
            else:
                opened[memory.device] = k
                starts.append(memory.start)
                stops.append(memory.stop)

    def touch(self, memory: Memory) -> bool:
        """Whether a byte of `memory`'s span is written."""
        starts, stops = self._merged.get(memory.device, ([], []))
        k = bisect.bisect_left(starts, memory.stop) - 1
        return k >= 0 and stops[k] > memory.start
