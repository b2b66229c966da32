"""The source lines of a finding, underlined as a compiler does it."""

from __future__ import annotations

import dataclasses
import unicodedata
from collections.abc import Callable, Sequence

from ..auditing.records import Place, SourceLine
from .audit_source_view import visible

_MOST_CHARACTERS = 240  # of a line; generated code has longer ones
_BEFORE_UNDERLINED = 40


@dataclasses.dataclass(frozen=True)
class Snippet:
    """One line, and what part it has.

    Attributes:
        path: of the file.
        number: of the line.
        anchor: of the line in the page, None where it is not in it.
        function: that the line belongs to; empty outside of any.
        through: the function of a library that did it for the line; empty where it was none.
        before: the text left of what is underlined; the whole text where nothing is.
        underlined: the expression.
        after: the text right of it.
        indent: white space as wide as `before`.
        carets: as wide as `underlined`.
        role: what the line did.
    """

    path: str
    number: int
    anchor: str | None
    function: str
    through: str
    before: str
    underlined: str
    after: str
    indent: str
    carets: str
    role: str


def snippets(places: Sequence[Place], anchor: Callable[[SourceLine], str | None]) -> tuple[Snippet, ...]:
    """The lines of `places`, without the indentation that they share; `anchor` tells where in the page one is."""
    indents = [_indent(place.line.text) for place in places if place.line.text.strip()]
    shared = min(map(len, indents), default=0)
    if len({indent[:shared] for indent in indents}) > 1:  # tabs here, spaces there
        shared = 0
    return tuple(_snippet(place, anchor(place.line), shared) for place in places)


def _snippet(place: Place, anchor: str | None, indent: int) -> Snippet:
    line = place.line
    text = visible(line.text)
    start, end = _underlined(text, line.column, line.end_column)
    before, underlined, after = text[min(indent, start) : start], text[start:end], text[end:]
    if len(text) > _MOST_CHARACTERS:
        before, underlined, after = _shortened(before, underlined, after)
    return Snippet(
        path=line.path,
        number=line.line,
        anchor=anchor,
        function="" if line.function == "<module>" else line.function,
        through=line.through,
        before=before,
        underlined=underlined,
        after=after,
        indent=_blank(before if underlined else before[: len(before) - len(before.lstrip())]),
        carets="^" * _width(underlined),
        role=place.role,
    )


def _indent(text: str) -> str:
    return text[: len(text) - len(text.lstrip(" \t"))]


def _shortened(before: str, underlined: str, after: str) -> tuple[str, str, str]:
    """The parts of a long line: what is underlined, and the text near it."""
    if underlined and len(before) > _BEFORE_UNDERLINED:
        before = f"…{before[-_BEFORE_UNDERLINED:]}"
    room = _MOST_CHARACTERS
    parts = []
    for part in (before, underlined, after):
        parts.append(part if len(part) <= room else f"{part[: max(0, room - 1)]}…" if room else "")
        room -= len(parts[-1])
    return parts[0], parts[1], parts[2]


def _underlined(text: str, column: int | None, end_column: int | None) -> tuple[int, int]:
    """Where the expression begins and ends; both at the end where it is not known."""
    if column is None or not 1 <= column <= len(text):
        return len(text), len(text)
    end = len(text.rstrip()) if end_column is None else min(end_column - 1, len(text))
    return (column - 1, end) if end >= column else (len(text), len(text))


def _width(text: str) -> int:
    """Columns of a monospaced font; East Asian characters take two."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _blank(text: str) -> str:
    """White space as wide as `text`; tabs stay tabs."""
    return "".join(c if c == "\t" else " " * _width(c) for c in text)
