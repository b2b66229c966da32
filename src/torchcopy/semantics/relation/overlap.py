"""How many bytes two strided tensors share, counted exactly and without looking at the bytes.

A strided tensor occupies a `ByteSet`: runs of bytes, repeated at a stride, repeated at a larger stride, and so
on. Where every repetition leaves the ones inside it apart (`nested`: every ordinary view), two sets are compared
in a number of steps that depends on their strides, not on their size: a gigabyte costs what a kilobyte costs.
Sets that overlap themselves in a way that no merging of levels removes (exotic `as_strided`) are compared as bit
masks, a window at a time.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

Level = tuple[int, int]
"""(count, stride in bytes): what is inside is repeated `count` times, `stride` bytes apart."""

# What the closed form may take before bit masks are quicker; reached only by two sets with several levels of
# mutually prime strides.
_MAX_STEPS = 200_000
# Bits in one mask of the fallback: 16 MiB an integer, a handful of them alive at a time.
_WINDOW_BITS = 1 << 27
# Sets in one place up to which all pairs are compared; beyond that one pass of bit masks is quicker.
_MAX_PAIRWISE = 64


@dataclass(frozen=True, slots=True)
class ByteSet:
    """The bytes that a strided tensor reads, gaps and repetitions left out.

    Attributes:
        start: address of the first byte.
        levels: from the outermost level in; the last is (bytes in a run, 1). Empty where there are no bytes.
    """

    start: int
    levels: tuple[Level, ...]

    @property
    def span_bytes(self) -> int:
        """Bytes from the first to behind the last, gaps included."""
        return _span(self.levels)

    @property
    def stop(self) -> int:
        """Address behind the last byte."""
        return self.start + self.span_bytes

    @property
    def nested(self) -> bool:
        """Whether each level's repetitions lie apart, so that no byte is met twice."""
        return all(_span(self.levels[k + 1 :]) <= self.levels[k][1] for k in range(len(self.levels) - 1))

    @property
    def count(self) -> int:
        """How many different bytes there are."""
        if self.nested:
            return math.prod(count for count, _ in self.levels) if self.levels else 0
        return _count_by_masks([self], [self])

    def ranges(self, limit: int) -> tuple[tuple[int, int], ...]:
        """The bytes as at most `limit` ranges `[first, behind the last)`, counted from `start`.

        Where there are more runs than that, the innermost gaps are left out: good enough to draw.
        """
        if not self.levels:
            return ()
        depth, repeats = 0, 1
        while depth < len(self.levels) - 1 and repeats * self.levels[depth][0] <= limit:
            repeats *= self.levels[depth][0]
            depth += 1
        starts = [0]
        for count, stride in self.levels[:depth]:
            starts = [start + k * stride for start in starts for k in range(count)]
        width = _span(self.levels[depth:])
        merged: list[tuple[int, int]] = []
        for start in sorted(starts):
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], start + width))
            else:
                merged.append((start, start + width))
        return tuple(merged)


def byte_set(start: int, sizes: Sequence[int], strides: Sequence[int], element_bytes: int) -> ByteSet:
    """The bytes of a strided tensor.

    Args:
        start: address of the first element, in bytes.
        sizes: the shape.
        strides: in elements, as PyTorch gives them; 0 where a dimension is expanded.
        element_bytes: bytes in an element.
    """
    if element_bytes == 0 or any(size == 0 for size in sizes):
        return ByteSet(start, ())
    levels: list[Level] = [(element_bytes, 1)]  # from the innermost out, while it is being built
    steps = sorted((stride * element_bytes, n) for n, stride in zip(sizes, strides, strict=True) if n > 1)
    for stride, size in steps:
        if stride == 0:
            continue
        count, inner = levels[-1]
        if stride % inner == 0 and stride <= count * inner:
            # Steps of `stride` reach no further than the level already does: together they are one longer level.
            # This is how contiguous dimensions become one run, and how `unfold` stops overlapping itself.
            levels[-1] = (count + (size - 1) * (stride // inner), inner)
        else:
            levels.append((size, stride))
    return ByteSet(start, tuple(reversed(levels)))


def shared_byte_count(a: ByteSet, b: ByteSet) -> int:
    """How many bytes are in both sets."""
    if not a.levels or not b.levels or a.start >= b.stop or b.start >= a.stop:
        return 0
    if a == b:
        return a.count
    if a.nested and b.nested:
        try:
            return _ClosedForm(a, b).count()
        except _TooManyStepsError:
            pass
    return _count_by_masks([a], [b])


def union_shared_byte_count(a: Iterable[ByteSet], b: Iterable[ByteSet]) -> int:
    """How many bytes are in some set of `a` and in some set of `b`, each byte counted once."""
    owned = [(s, "a") for s in dict.fromkeys(a) if s.levels] + [(s, "b") for s in dict.fromkeys(b) if s.levels]
    owned.sort(key=lambda entry: entry[0].start)
    total, stop = 0, -1
    group_a: list[ByteSet] = []
    group_b: list[ByteSet] = []
    for each, owner in owned:
        if each.start >= stop:  # a gap: nothing before it can share bytes with what follows
            total += _shared_in_group(group_a, group_b)
            group_a, group_b, stop = [], [], -1
        (group_a if owner == "a" else group_b).append(each)
        stop = max(stop, each.stop)
    return total + _shared_in_group(group_a, group_b)


def union_byte_count(sets: Iterable[ByteSet]) -> int:
    """How many different bytes the sets have together."""
    once = list(dict.fromkeys(sets))
    return once[0].count if len(once) == 1 else union_shared_byte_count(once, once)


def _shared_in_group(a: list[ByteSet], b: list[ByteSet]) -> int:
    if not a or not b:
        return 0
    if max(len(a), len(b)) <= _MAX_PAIRWISE:
        a, b = _without_contained(a), _without_contained(b)
        if _all_apart(a) and _all_apart(b):
            return sum(shared_byte_count(one, other) for one in a for other in b)
    return _count_by_masks(a, b)


def _without_contained(sets: list[ByteSet]) -> list[ByteSet]:
    """The sets less those whose bytes all lie in another: a base stays, the views of it go."""
    kept: list[ByteSet] = []
    for each in sorted(sets, key=lambda s: s.count, reverse=True):
        if all(shared_byte_count(each, bigger) < each.count for bigger in kept):
            kept.append(each)
    return kept


def _all_apart(sets: list[ByteSet]) -> bool:
    return all(shared_byte_count(one, other) == 0 for k, one in enumerate(sets) for other in sets[:k])


def _span(levels: Sequence[Level]) -> int:
    return sum((count - 1) * stride for count, stride in levels) + 1 if levels else 0


# --- the closed form -----------------------------------------------------------------------------------------


class _TooManyStepsError(Exception):
    pass


class _ClosedForm:
    """Counts what two nested sets share, level by level.

    The set with the larger outer stride is taken apart into its blocks. What a block shares with the other set
    depends only on where it falls in that set's period, save for the few blocks at its ends: so one block of each
    residue class is counted, and multiplied.
    """

    def __init__(self, a: ByteSet, b: ByteSet) -> None:
        self._a, self._b = a.levels, b.levels
        self._offset = b.start - a.start
        self._span_a = [_span(self._a[k:]) for k in range(len(self._a))]
        self._span_b = [_span(self._b[k:]) for k in range(len(self._b))]
        self._known: dict[tuple[int, int, int], int] = {}
        self._steps = 0

    def count(self) -> int:
        return self._count(0, 0, self._offset)

    def _count(self, i: int, j: int, offset: int) -> int:
        """Bytes shared by a from level `i` inwards and b from level `j` inwards, which starts `offset` later."""
        span_a, span_b = self._span_a[i], self._span_b[j]
        if offset >= span_a or -offset >= span_b:
            return 0
        if i == len(self._a) - 1:
            return _count_below(self._b[j:], span_a - offset) - _count_below(self._b[j:], -offset)
        if j == len(self._b) - 1:
            return _count_below(self._a[i:], offset + span_b) - _count_below(self._a[i:], offset)
        key = (i, j, offset)
        if key not in self._known:
            self._steps += 1
            if self._steps > _MAX_STEPS:
                raise _TooManyStepsError
            if self._b[j][1] >= self._a[i][1]:
                self._known[key] = _sum_over_blocks(
                    self._b[j], self._span_b[j + 1], self._a[i], self._span_a[i + 1], offset,
                    lambda start: self._count(i, j + 1, start),
                )  # fmt: skip
            else:
                self._known[key] = _sum_over_blocks(
                    self._a[i], self._span_a[i + 1], self._b[j], self._span_b[j + 1], -offset,
                    lambda start: self._count(i + 1, j, -start),
                )  # fmt: skip
        return self._known[key]


def _sum_over_blocks(
    blocks: Level, width: int, grid: Level, grid_width: int, offset: int, count_at: Callable[[int], int]
) -> int:
    """Sums `count_at(start)` over blocks `width` wide laid over a grid of smaller or equal stride.

    Args:
        blocks: how many blocks, and how far apart; the first starts at `offset` from the grid's start.
        width: bytes from a block's first to behind its last; at most the blocks' stride.
        grid: the grid's count and stride.
        grid_width: the same as `width`, of one repetition of the grid.
        offset: see `blocks`.
        count_at: what a block that starts there shares with the grid.
    """
    (count, step), (grid_count, period) = blocks, grid
    # Blocks first .. last - 1 touch the grid; whole_first .. whole_last - 1 meet it where it is periodic.
    first = max(0, (-width - offset) // step + 1)
    last = min(count, -((offset - (grid_count - 1) * period - grid_width) // step))
    whole_first = max(first, -((offset + period - grid_width) // step))
    whole_last = min(last, (grid_count * period - width - offset) // step + 1)
    if whole_first >= whole_last:
        return sum(count_at(offset + k * step) for k in range(first, last))
    total = sum(count_at(offset + k * step) for k in (*range(first, whole_first), *range(whole_last, last)))
    classes = period // math.gcd(period, step)
    for k in range(whole_first, min(whole_last, whole_first + classes)):
        total += ((whole_last - k - 1) // classes + 1) * count_at(offset + k * step)
    return total


def _count_below(levels: tuple[Level, ...], position: int) -> int:
    """How many bytes of a nested set lie before `position`, counted from the set's start."""
    total = 0
    for k, (count, stride) in enumerate(levels):
        if position <= 0:
            return total
        inside = math.prod(n for n, _ in levels[k + 1 :])
        whole = min(position // stride, count)
        total += whole * inside
        if whole == count:
            return total
        position -= whole * stride
    return total


# --- bit masks -----------------------------------------------------------------------------------------------


def _count_by_masks(a: Sequence[ByteSet], b: Sequence[ByteSet]) -> int:
    """Bytes in the union of `a` and in the union of `b`, by integers with a bit for each unit of memory."""
    low = max(min(s.start for s in a), min(s.start for s in b))
    high = min(max(s.stop for s in a), max(s.stop for s in b))
    unit = functools.reduce(math.gcd, (part for s in (*a, *b) for part in _unit_parts(s, low)))
    total = 0
    for first in range(low, high, _WINDOW_BITS * unit):
        last = min(high, first + _WINDOW_BITS * unit)
        masks = [0, 0]
        for k, sets in enumerate((a, b)):
            for s in sets:
                levels = (*((n, stride // unit) for n, stride in s.levels[:-1]), (s.levels[-1][0] // unit, 1))
                masks[k] |= _mask(levels, (first - s.start) // unit, (last - s.start) // unit)
        total += (masks[0] & masks[1]).bit_count() * unit
    return total


def _unit_parts(s: ByteSet, origin: int) -> tuple[int, ...]:
    return (s.start - origin, s.levels[-1][0], *(stride for _, stride in s.levels[:-1]))


def _mask(levels: tuple[Level, ...], low: int, high: int) -> int:
    """An integer whose bit k tells whether the set has `low + k`, for all places below `high`."""
    if high <= 0 or low >= _span(levels):
        return 0
    (count, stride), inner = levels[0], levels[1:]
    if not inner:
        first, last = max(low, 0), min(high, count)
        return ((1 << (last - first)) - 1) << (first - low)
    width = _span(inner)
    first_block, last_block = max(0, (low - width) // stride + 1), min(count - 1, (high - 1) // stride)
    if last_block - first_block < 2:  # a window inside large blocks: take no more of them than it shows
        mask = 0
        for k in range(first_block, last_block + 1):
            mask |= _mask(inner, low - k * stride, high - k * stride)
        return mask
    inner_low = max(0, low - last_block * stride)
    mask = _mask(inner, inner_low, min(width, high - first_block * stride))
    mask = _repeated(mask, last_block - first_block + 1, stride)
    shift = inner_low + first_block * stride - low
    mask = mask << shift if shift >= 0 else mask >> -shift
    return mask & ((1 << (high - low)) - 1)


def _repeated(mask: int, count: int, stride: int) -> int:
    """`mask` or-ed with itself, shifted by 0, 1, … `count - 1` strides; by doubling."""
    done = 1
    while done * 2 <= count:
        mask |= mask << (done * stride)
        done *= 2
    return mask | mask << ((count - done) * stride)
