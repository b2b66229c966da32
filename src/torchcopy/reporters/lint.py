"""What the linter found, for people: each finding with its line, then how much was read."""

from __future__ import annotations

import collections
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator
from typing import TextIO

from ..linting.records import LintReport, PlacedFinding, SkippedFile
from ..semantics.codes import CODES
from .clipped_lines import around, blank, clip, columns, without_tabs
from .visible_text import visible

# Plain text and a few codes for colours: a library for that takes as long to load as a small project to check.
_COLOURS = {"TC1": "1;31", "TC2": "1;33", "TC3": "1;36"}
_FRAME, _GOOD, _BOLD = "34", "32", "1"
_BY_CODE = {code.code: code for code in CODES}
_LEAST_WIDTH = 40
_BREAKS = {9: 0x2409, 10: 0x240A, 13: 0x240D}  # in a path, where they would break its line


class _Page:
    """Writes lines to a stream, with colours where that is a terminal."""

    def __init__(self, stream: TextIO, width: int | None) -> None:
        self._stream = stream
        self._in_colour = stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        self.width = max(_LEAST_WIDTH, width or shutil.get_terminal_size((80, 24)).columns)

    def line(self, *parts: tuple[str, str] | str) -> None:
        """Writes a line of parts, each a text or a text with its colour."""
        written = []
        for part in parts:
            text, colour = (part, "") if isinstance(part, str) else part
            written.append(f"\033[{colour}m{text}\033[0m" if colour and text and self._in_colour else text)
        self._stream.write("".join(written).rstrip(" ") + "\n")

    def wrapped(self, first: str, rest: str, text: str, colour: str = "") -> None:
        """Writes a text over as many lines as it takes, `first` before it and `rest` before its other lines."""
        for at, line in enumerate(
            textwrap.wrap(
                text,
                max(20, self.width - columns(first)),
                break_long_words=False,
                break_on_hyphens=False,  # of paths
            )
        ):
            self.line(rest if at else first, (line, colour))


def show(report: LintReport, stream: TextIO | None = None, *, width: int | None = None) -> None:
    """Writes the report."""
    page = _Page(stream or sys.stdout, width)
    for finding in report.findings:
        _finding(page, finding)
    for line in remarks(report):
        page.wrapped("", "  ", line, "33")
    for line in summary(report):
        page.wrapped("", "", line, _BOLD)


def show_statistics(report: LintReport, stream: TextIO | None = None, *, width: int | None = None) -> None:
    """Writes how often each code was found, the most frequent first."""
    page = _Page(stream or sys.stdout, width)
    rows = statistics(report)
    if rows:
        digits = max(len(f"{count:,}") for _, count, _ in rows)
        page.line((f"{'count':>{max(5, digits)}}  code   fixable  what is wrong", _BOLD))
        for code, count, fixable in rows:
            title = visible(_BY_CODE[code].title)
            page.line(
                f"{count:>{max(5, digits)},}  {code}  {fixable or '–':>7}  ", clip(title, [], page.width - 23)[0]
            )
        page.line()
    for line in (*remarks(report), *summary(report)):
        page.wrapped("", "  ", line)


def statistics(report: LintReport) -> list[tuple[str, int, int]]:
    """Each code that was found, how often, and how many of these can be fixed; the most frequent first."""
    counts = collections.Counter(finding.code for finding in report.findings)
    fixable = collections.Counter(finding.code for finding in report.findings if finding.fixable)
    return [
        (code, count, fixable[code]) for code, count in sorted(counts.items(), key=lambda row: (-row[1], row[0]))
    ]


def remarks(report: LintReport) -> Iterator[str]:
    """A line for each file that could not be checked, each comment of no use, and each fix that is not safe."""
    for skipped in report.skipped:
        yield visible(f"{_skipped_at(skipped)}: {skipped.reason}{'' if skipped.is_error else '; skipped'}")
    for comment in report.unused:
        where = _where(comment.path, comment.cell, comment.line, comment.column)
        yield visible(f"{where}: {comment.reason}: {comment.text}")
    for fixed in report.fixed:
        for fix in fixed.unsafe:
            yield visible(f"{_where(fixed.path, fix.cell, fix.line)}: fix of {fix.code} may change: {fix.note}")


def summary(report: LintReport, *, is_written: bool = True) -> Iterator[str]:
    """How much was found, fixed, read and skipped."""
    if report.fixed:
        counts = collections.Counter(code for fixed in report.fixed for code in fixed.codes)
        each = ", ".join(f"{count:,} {code}" for code, count in sorted(counts.items()))
        done = "Fixed" if is_written else "Would fix"
        yield f"{done} {_many(counts.total(), 'mistake')} in {_many(len(report.fixed), 'file')}: {each}."
    read = f"{_many(report.files_read, 'file')} read"
    if report.files_skipped:
        read += f", {report.files_skipped:,} skipped"
    if not report.findings:
        nothing = "Nothing is left" if report.fixed else "Nothing found"
        there_are_some = report.files_read or report.files_skipped
        yield f"{nothing}; {read}." if there_are_some else "No file to check: there is none, or it is excluded."
        return
    files = len({finding.path for finding in report.findings})
    left = " left" if report.fixed and is_written else ""
    yield f"{_many(len(report.findings), 'mistake')}{left} in {_many(files, 'file')}; {read}."
    safe = sum(finding.fixable and finding.safe for finding in report.findings)
    unsafe = sum(finding.fixable and not finding.safe for finding in report.findings)
    ways = [f"--fix mends {safe:,} of them"] if safe else []
    if unsafe:
        ways.append(f"--fix --unsafe-fixes {f'{unsafe:,} more' if safe else f'mends {unsafe:,} of them'}")
    code = report.findings[0].code
    yield "; ".join(
        [*ways, f"torchcopy explain {code} tells more" if not ways else f"more: torchcopy explain {code}"]
    )


def _many(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def _where(path: str, cell: int, line: int, column: int = 0) -> str:
    """`train.py:3:5`, `train.ipynb:cell 2:3:5`; what is not known is left out."""
    path = path.translate(_BREAKS)
    parts = [path, f"cell {cell}" if cell else "", str(line) if line else "", str(column) if column else ""]
    return ":".join(filter(None, parts))


def _skipped_at(skipped: SkippedFile) -> str:
    return _where(skipped.path, skipped.cell, skipped.line)


def _finding(page: _Page, finding: PlacedFinding) -> None:
    colour = _COLOURS.get(finding.code[:3], _BOLD)
    lines = textwrap.wrap(visible(finding.message), max(20, page.width - 6), break_long_words=False)
    page.line((finding.code, colour), " ", (lines[0] if lines else "", _BOLD))
    for line in lines[1:]:
        page.line("      ", (line, _BOLD))
    places = [(finding.line, finding.text, _span(finding), "", finding.cell)]
    places += [(also.line, also.text, _whole(also.text), also.role, also.cell) for also in finding.also]
    gutter = " " * max(len(str(line)) for line, *_ in places)
    where = _where(finding.path, finding.cell, finding.line, finding.column)
    page.line((f"{gutter}--> {visible(where)}", _FRAME))
    page.line((f"{gutter} |", _FRAME))
    shared = min((len(text) - len(text.lstrip(" \t")) for _, text, *_ in places if text.strip()), default=0)
    if len({text[:shared] for _, text, *_ in places}) > 1:  # tabs here, spaces there
        shared = 0
    cell = finding.cell
    for at, (number, text, (start, end), role, own_cell) in enumerate(places):
        if at:
            page.line((f"{gutter} ⋮{f' cell {own_cell}' if own_cell != cell else ''}", _FRAME))
            cell = own_cell
        left_out = min(shared, start)
        room = max(20, page.width - len(gutter) - 3)
        near, span = around(text[left_out:], (start - left_out, end - left_out), room)
        expanded, spans = without_tabs(visible(near), [span])
        shown, spans = clip(expanded, spans, room)
        page.line((f"{number:>{len(gutter)}} | ", _FRAME), shown)
        carets = blank(shown[: spans[0][0]]) + "^" * max(1, columns(shown[slice(*spans[0])]))
        _marks(page, f"{gutter} | ", carets, role, colour)
    for remark in _about_fix(finding):
        page.wrapped(f"{gutter} = ", f"{gutter}   ", remark, _GOOD)
    page.line()


def _marks(page: _Page, gutter: str, carets: str, role: str, colour: str) -> None:
    """The carets below a line, with what it does beside them, or below where that is too long."""
    if role and columns(f"{gutter}{carets} {role}") > page.width:
        page.line((gutter, _FRAME), (carets, colour))
        carets = ""
        for line in textwrap.wrap(role, max(20, page.width - len(gutter))):
            page.line((gutter, _FRAME), (line, colour))
        return
    page.line((gutter, _FRAME), (f"{carets} {role}", colour))


def _span(finding: PlacedFinding) -> tuple[int, int]:
    """What of the line is underlined, from 0 on."""
    length = len(finding.text.rstrip())
    start = min(finding.column - 1, length)
    end = min(finding.end_column - 1, length) if finding.end_line == finding.line else length
    return start, max(start, end)


def _whole(text: str) -> tuple[int, int]:
    code = text.rstrip()
    return len(text) - len(text.lstrip(" \t")), len(code)


def _about_fix(finding: PlacedFinding) -> Iterable[str]:
    code = _BY_CODE.get(finding.code)
    yield f"fix: {code.fix if code else ''}"
    if finding.fixable and not finding.safe:
        yield f"--fix --unsafe-fixes writes that, and may change: {finding.note}"
