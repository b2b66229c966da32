"""What a rule reports: a code, a place in one source, and perhaps a fix."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Edit:
    """Characters `start` to `end` of the text that was parsed become `text`. Offsets are in characters, from 0."""

    start: int
    end: int
    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Fix:
    """What to write instead: all of the edits, or none.

    Attributes:
        edits: none overlaps another.
        safe: whether the program computes what it computed before.
        note: what may change, for one that is not safe; a sentence without its full stop.
    """

    edits: tuple[Edit, ...]
    safe: bool = True
    note: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """One mistake in one source.

    Attributes:
        code: `TC101`.
        message: what is wrong, a sentence without its full stop.
        line: from 1 on.
        column: in characters, from 1 on.
        end_line: the line of the last character.
        end_column: behind the last character.
        fix: what to write instead, where that can be said.
        also: other lines that have a part in it, each with what it does: `("overwritten here", 26)`.
    """

    code: str
    message: str
    line: int
    column: int
    end_line: int
    end_column: int
    fix: Fix | None = None
    also: tuple[tuple[str, int], ...] = ()
