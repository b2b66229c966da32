"""The source of an audited program with what its lines have copied beside it."""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Container, Mapping, Sequence

from .._tensors import format_bytes
from ..auditing.records import STATUSES, CopySite, Report, SourceLine, Status
from .visible_text import visible as visible

_MOST_LINES = 20_000  # of all files together; above that, lines far from any copy are left out
_NEIGHBOURS = 5
_IN_CHUNK = 100  # lines that the browser lays out together, when they come into sight
_NEWLINE = re.compile("\r\n|\r|\n")  # where Python counts a new line; `splitlines` knows more of them


@dataclasses.dataclass(frozen=True)
class Mark:
    """A finding that a line has a part in.

    Attributes:
        anchor: of the finding in the page.
        code: of the finding.
        family: `hazard`, `waste` or `idiom`.
        role: the line's part in it.
    """

    anchor: str
    code: str
    family: str
    role: str


@dataclasses.dataclass(frozen=True)
class Line:
    """A line of a file.

    Attributes:
        number: from 1 on; the first that is left out, where `left_out` is not 0.
        text: without its newline.
        copied: bytes for people; empty where nothing was copied.
        title: how many copies, by status.
        bar: width of each status in percent of the file's line with the most bytes.
        marks: the findings.
        left_out: how many lines stand for this one.
    """

    number: int
    text: str = ""
    copied: str = ""
    title: str = ""
    bar: tuple[tuple[Status, float], ...] = ()
    marks: tuple[Mark, ...] = ()
    left_out: int = 0


@dataclasses.dataclass(frozen=True)
class File:
    """A file of the program.

    Attributes:
        anchor: of it in the page; that of line n is `{anchor}-{n}`.
        path: of it.
        chunks: its lines.
        summary: what was copied and found in it.
        shown: whether it is unfolded at first.
    """

    anchor: str
    path: str
    chunks: tuple[tuple[Line, ...], ...]
    summary: str
    shown: bool


class SourceView:
    """The files of a report, and which anchors their lines have.

    Args:
        report: of the audit.
        marks: the findings of each line, by path and number.
    """

    def __init__(self, report: Report, marks: Mapping[str, Mapping[int, Sequence[Mark]]]) -> None:
        self._marks = marks
        self._copied = _copied_by_line(report)
        texts = {path: _lines(text) for path, text in report.sources.items()}
        names = sorted(texts, key=lambda path: (path not in marks, -self._bytes(path), path))
        self._anchors = {path: f"s{at}" for at, path in enumerate(names, 1)}
        self._whole = sum(map(len, texts.values())) <= _MOST_LINES
        self._kept = {path: self._keep(path, len(texts[path])) for path in names}
        self.files = tuple(
            self._file(path, texts[path], shown=path in marks or at == 0) for at, path in enumerate(names)
        )

    @property
    def lines_left_out(self) -> int:
        """How many lines are not in the page, because the program has too many of them."""
        return sum(line.left_out for file in self.files for chunk in file.chunks for line in chunk)

    def anchor(self, line: SourceLine) -> str | None:
        """Where in the page a line is; None where it is not."""
        return f"{self._anchors[line.path]}-{line.line}" if line.line in self._kept.get(line.path, ()) else None

    def _bytes(self, path: str) -> int:
        return sum(copied.bytes for copied in self._copied.get(path, {}).values())

    def _keep(self, path: str, count: int) -> Container[int]:
        if self._whole:
            return range(1, count + 1)
        told = [*self._marks.get(path, ()), *self._copied.get(path, ())]
        near = {near for line in told for near in range(line - _NEIGHBOURS, line + _NEIGHBOURS + 1)}
        return {line for line in near if 1 <= line <= count}

    def _file(self, path: str, texts: Sequence[str], *, shown: bool) -> File:
        most = max((copied.bytes for copied in self._copied.get(path, {}).values()), default=0)
        lines: list[Line] = []
        left_out = 0
        for number, text in enumerate(texts, 1):
            if number not in self._kept[path]:
                left_out += 1
                continue
            if left_out:
                lines.append(Line(number - left_out, left_out=left_out))
                left_out = 0
            lines.append(self._line(path, number, text, most))
        if left_out:
            lines.append(Line(len(texts) + 1 - left_out, left_out=left_out))
        chunks = tuple(tuple(lines[at : at + _IN_CHUNK]) for at in range(0, len(lines), _IN_CHUNK))
        return File(self._anchors[path], path, chunks, self._summary(path), shown)

    def _line(self, path: str, number: int, text: str, most: int) -> Line:
        marks = tuple(self._marks.get(path, {}).get(number, ()))
        copied = self._copied.get(path, {}).get(number)
        if copied is None:
            return Line(number, visible(text), marks=marks)
        bar = tuple((s, round(100 * size / most, 2)) for s, size in copied.sizes() if size and most)
        return Line(number, visible(text), format_bytes(copied.bytes), copied.in_words(), bar, marks)

    def _summary(self, path: str) -> str:
        copying = len(self._copied.get(path, ()))
        found = len({mark.anchor for marks in self._marks.get(path, {}).values() for mark in marks})
        words = [f"{format_bytes(self._bytes(path))} copied in {copying:,} {'line' if copying == 1 else 'lines'}"]
        if found:
            words.append(f"{found:,} {'finding' if found == 1 else 'findings'}")
        return ", ".join(words)


class _Copied:
    """What one line has copied."""

    def __init__(self) -> None:
        self._sizes: collections.Counter[Status] = collections.Counter()
        self._counts: collections.Counter[Status] = collections.Counter()
        self.bytes = 0

    def add(self, site: CopySite) -> None:
        self._sizes.update(site.status_bytes)
        self._counts.update(site.counts)
        self.bytes += site.bytes

    def sizes(self) -> list[tuple[Status, int]]:
        return [(status, self._sizes[status]) for status in STATUSES]

    def in_words(self) -> str:
        """How many copies, by status."""
        told = [(s, self._counts[s], format_bytes(self._sizes[s])) for s in STATUSES if self._counts[s]]
        return ", ".join(f"{count:,} {status} ({size})" for status, count, size in told)


def _copied_by_line(report: Report) -> dict[str, dict[int, _Copied]]:
    copied: dict[str, dict[int, _Copied]] = {}
    for site in report.copies:
        copied.setdefault(site.line.path, {}).setdefault(site.line.line, _Copied()).add(site)
    return copied


def _lines(text: str) -> list[str]:
    lines = _NEWLINE.split(text)
    return lines[:-1] if lines and lines[-1] == "" else lines
