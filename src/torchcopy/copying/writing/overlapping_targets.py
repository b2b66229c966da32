"""Whether targets that overlap are given the same values where they do: tried out on a memory of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable, Mapping, Sequence

import torch
from torch import Tensor

from ..tensors.strides import overlaps_itself

_ALIGNED_BYTES = 16  # the largest element


@dataclasses.dataclass(frozen=True, slots=True)
class Memory:
    """Where a strided tensor lies.

    Attributes:
        device: on which device.
        start: address of the first element.
        stop: address behind the last element.
        view: equal for two tensors exactly where they are the same elements of the same bytes.
        lazy_storage: the storage of a copy-on-write tensor, which leaves the bytes to the others when it is
            written; None for other tensors.
    """

    device: torch.device
    start: int
    stop: int
    view: Hashable
    lazy_storage: int | None

    @property
    def owner(self) -> Hashable:
        """Equal for two tensors that see each other's writes where they overlap."""
        return self.device, self.lazy_storage


def conflicts(
    dsts: Sequence[Tensor], srcs: Sequence[Tensor], memories: Mapping[int, Memory]
) -> list[tuple[int, int]]:
    """(earlier, later): targets that overlap, and sources that disagree there.

    Args:
        dsts: strided tensors.
        srcs: `srcs[k]` is for `dsts[k]`.
        memories: by position, those of the targets that are to be looked at.
    """
    found: list[tuple[int, int]] = []
    with torch.no_grad():
        for group in _overlapping(memories):
            found += _conflicts_within(dsts, srcs, {k: memories[k] for k in sorted(group)})
    return sorted(found)


def same_values(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors of one dtype, shape and device hold the same values; NaN is equal to NaN."""
    a, b = _comparable(a), _comparable(b)
    return torch.equal(a, b) or bool(((a == b) | ((a != a) & (b != b))).all())


def _comparable(t: Tensor) -> Tensor:
    if t.dtype.is_floating_point and t.dtype.itemsize == 1:  # PyTorch does not compare float8
        return t.to(torch.float32)
    return t.to(torch.complex64) if t.dtype is torch.complex32 else t


def _overlapping(memories: Mapping[int, Memory]) -> Iterable[list[int]]:
    """Positions in groups of two or more whose spans hang together."""
    by_owner: dict[Hashable, list[int]] = {}
    for k in sorted(memories, key=lambda k: memories[k].start):
        by_owner.setdefault(memories[k].owner, []).append(k)
    for positions in by_owner.values():
        group: list[int] = []
        stop = 0
        for k in positions:
            if group and memories[k].start >= stop:
                yield group
                group = []
            group.append(k)
            stop = max(stop, memories[k].stop)
        yield group


def _conflicts_within(
    dsts: Sequence[Tensor], srcs: Sequence[Tensor], group: Mapping[int, Memory]
) -> Iterable[tuple[int, int]]:
    if len(group) < 2:
        return
    order = list(group)
    trial = _Trial(dsts, group)
    for k in order:
        trial.write(k, srcs[k])
    for k in [k for k in order if not trial.holds(k, srcs[k])]:
        trial.write(k, srcs[k])
        for later in order[order.index(k) + 1 :]:
            trial.write(later, srcs[later])
            if not trial.holds(k, srcs[k]):
                yield k, later
                break


class _Trial:
    """Memory in which some targets lie as they do in theirs."""

    def __init__(self, dsts: Sequence[Tensor], group: Mapping[int, Memory]) -> None:
        widest = max(group, key=lambda k: dsts[k].element_size())
        low, high = min(m.start for m in group.values()), max(m.stop for m in group.values())
        base = low - (low - group[widest].start) % _ALIGNED_BYTES
        self._views: dict[int, Tensor] = {}
        room = torch.empty(high - base, dtype=torch.uint8, device=dsts[widest].device).untyped_storage()
        for k, memory in group.items():
            offset, rest = divmod(memory.start - base, dsts[k].element_size())
            if not rest:  # two NumPy views of one memory can lie a part of an element apart
                self._views[k] = _laid_out(dsts[k], room, offset)
        self._dsts = dsts

    def write(self, k: int, source: Tensor) -> None:
        if k in self._views:
            _write(self._views[k], self._dsts[k], source)

    def holds(self, k: int, source: Tensor) -> bool:
        """Whether the target at `k` holds what it does after a write from `source` alone."""
        if k not in self._views:
            return True
        d, view = self._dsts[k], self._views[k]
        if overlaps_itself(d):
            size = 1 + sum((n - 1) * stride for n, stride in zip(d.shape, d.stride(), strict=True))
            alone = _laid_out(d, torch.empty(size, dtype=d.dtype, device=d.device).untyped_storage(), 0)
        else:
            alone = torch.empty(d.shape, dtype=d.dtype, device=d.device)
        _write(alone, d, source)
        return same_values(view, alone)


def _laid_out(like: Tensor, room: torch.UntypedStorage, offset: int) -> Tensor:
    return torch.empty(0, dtype=like.dtype, device=like.device).set_(room, offset, like.shape, like.stride())


def _write(view: Tensor, target: Tensor, source: Tensor) -> None:
    """Puts the bytes into `view` that a copy from `source` puts into `target`."""
    values = source.detach()
    values = values.conj() if target.is_conj() else values
    view.copy_(-values if target.is_neg() else values)
