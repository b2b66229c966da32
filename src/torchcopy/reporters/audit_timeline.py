"""When the bytes were copied: a report's timeline as bars of equal width."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from .._tensors import format_bytes, format_seconds

_MOST_BARS = 160


@dataclasses.dataclass(frozen=True)
class Bar:
    """One bar.

    Attributes:
        height: of 100.
        text: when, and how much.
    """

    height: float
    text: str


@dataclasses.dataclass(frozen=True)
class Tick:
    """A label on an axis.

    Attributes:
        percent: where on it.
        text: what it says.
    """

    percent: float
    text: str


@dataclasses.dataclass(frozen=True)
class Timeline:
    """What is drawn.

    Attributes:
        bars: from the beginning of the audit to its end.
        times: labels below.
        sizes: labels beside, from the ground up.
        caption: what one bar is, and which is the highest.
    """

    bars: tuple[Bar, ...]
    times: tuple[Tick, ...]
    sizes: tuple[Tick, ...]
    caption: str


def timeline(points: Sequence[tuple[float, int]], seconds: float) -> Timeline | None:
    """The bars, or None where nothing was copied.

    Args:
        points: seconds since the audit began, and bytes copied since the point before.
        seconds: how long the audit ran.
    """
    end = max([seconds, *(at for at, _ in points)])
    if end <= 0 or not any(size for _, size in points):
        return None
    count = max(1, min(_MOST_BARS, 4 * len(points)))
    width = end / count
    heights = _spread_over_bars(points, width, count)
    peak = max(heights)
    top = _round_up(peak)
    bars = tuple(
        Bar(100 * size / top, f"{_clock(i * width, end)} to {_clock((i + 1) * width, end)} s: {format_bytes(size)}")
        for i, size in enumerate(heights)
    )
    at = heights.index(peak) * width
    caption = (
        f"Each bar is {format_seconds(width)}; the highest, {format_bytes(peak)}, begins at {_clock(at, end)} s."
    )
    return Timeline(bars, _times(end), tuple(Tick(p, format_bytes(top * p / 100)) for p in (0, 50, 100)), caption)


def _spread_over_bars(points: Sequence[tuple[float, int]], width: float, count: int) -> list[float]:
    """Bytes in each bar; those between two points are taken as copied evenly between them."""
    bars = [0.0] * count
    before = 0.0
    for at, size in points:
        first = min(int(before / width), count - 1)
        last = min(int(at / width), count - 1)
        if last <= first:
            bars[last] += size
        else:
            for bar in range(first, last + 1):
                overlap = min(at, (bar + 1) * width) - max(before, bar * width)
                bars[bar] += size * max(0.0, overlap) / (at - before)
        before = at
    return bars


def _round_up(value: float) -> float:
    """The next of 1, 2, 5, 10, 20, … at or above `value`."""
    power: float = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value * (1 - 1e-9))


def _times(end: float) -> tuple[Tick, ...]:
    step = _round_up(end / 6)
    return tuple(Tick(100 * i * step / end, f"{i * step:g} s") for i in range(int(end / step * (1 + 1e-9)) + 1))


def _clock(at: float, end: float) -> str:
    """Seconds with as many digits as a bar of the timeline needs."""
    return f"{at:.{max(0, 2 - math.floor(math.log10(end)))}f}"
