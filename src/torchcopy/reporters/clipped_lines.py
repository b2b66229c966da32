"""Source lines that are too long for where they are shown, clipped so that what is underlined stays in sight."""

from __future__ import annotations

import bisect
import itertools
import unicodedata
from collections.abc import Sequence

Span = tuple[int, int]  # of characters in a line, from 0 on; the second is behind the last one
_AFTER, _BEFORE = 8, 4  # columns of text that are left beside what is underlined, where there is room
_ELLIPSIS = "…"


def columns(text: str) -> int:
    """How wide a text is in a monospaced font, in columns."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):  # is drawn upon its neighbour, or not at all
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def blank(text: str) -> str:
    """White space as wide as `text`; tabs stay tabs."""
    return "".join(c if c == "\t" else " " * _columns(c) for c in text)


def without_tabs(text: str, spans: Sequence[Span], size: int = 4) -> tuple[str, list[Span]]:
    """The line with white space up to the next multiple of `size` in place of each tab, and where the spans are."""
    parts, starts, column, length = [], [0], 0, 0
    for character in text:
        part = " " * (size - column % size) if character == "\t" else character
        parts.append(part)
        column += columns(part)
        length += len(part)
        starts.append(length)
    return "".join(parts), [(starts[start], starts[end]) for start, end in spans]


def around(text: str, span: Span, room: int) -> tuple[str, Span]:
    """The part of a very long line around a span: more on each side than `clip` leaves of it."""
    margin = 4 * room
    if len(text) <= 3 * margin:
        return text, span
    lo = max(0, span[0] - margin)
    part = text[lo : span[0] + margin]
    return part, (span[0] - lo, min(span[1] - lo, len(part)))


def clip(text: str, spans: Sequence[Span], room: int) -> tuple[str, list[Span]]:
    """A line in at most `room` columns, with `…` for what is left out, and where the spans are in it.

    All spans stay in sight if they fit together, else the beginning of the first in the line. Of one that goes on
    in what is left out, the `…` is a part.
    """
    edges = [0, *itertools.accumulate(map(_columns, text))]
    if edges[-1] <= room:
        return text, list(spans)
    lo = bisect.bisect_left(edges, _first_column(edges, spans, room))
    left = int(lo > 0)
    hi = bisect.bisect_right(edges, edges[lo] + room - left) - 1
    if hi < len(text):
        hi = max(lo, bisect.bisect_right(edges, edges[lo] + room - left - 1) - 1)
    right = hi < len(text)

    def moved(span: Span) -> Span:
        start, end = (min(max(at, lo), hi) - lo + left for at in span)
        return start, end + int(right and span[1] > hi)

    return _ELLIPSIS * left + text[lo:hi] + _ELLIPSIS * right, [moved(span) for span in spans]


def _first_column(edges: Sequence[int], spans: Sequence[Span], room: int) -> int:
    """The first column of a line that is shown."""
    begin = edges[min((start for start, _ in spans), default=0)]
    end = edges[max((end for _, end in spans), default=0)]
    if end < room:  # one column for the ellipsis at the end
        return 0
    slack = room - 2 - (end - begin)
    if slack < 0:
        return max(0, begin - _BEFORE)
    after = min(edges[-1] - end, _AFTER, slack)
    is_last = end + after == edges[-1]
    return min(begin, end + after - (room - (1 if is_last else 2)))
