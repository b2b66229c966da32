"""An audit in the terminal: each finding as a good compiler tells it, then the copies by line."""

from __future__ import annotations

import io
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import TextIO

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from .._tensors import format_bytes, format_seconds
from ..auditing.records import STATUSES, CopySite, Finding, Report, SourceLine
from .audit_snippets import Part, Snippet, snippets

_STYLES = {"1": "bold red", "2": "bold yellow", "3": "bold cyan"}
_MOST_ROWS = 12
_LEAST_ROOM = 12  # columns of source, in however narrow a terminal
_NARROW, _WIDE = 72, 100  # columns from which on there is a table, and one with a column a status


def show(report: Report, stream: TextIO | None = None, *, width: int | None = None) -> None:
    """Writes the report for people, to stderr: what the program prints stays its own."""
    stream = stream or sys.stderr
    console = Console(file=stream, highlight=False, soft_wrap=False, width=width)
    with console.capture() as captured:
        _print(console, _lines(report, console.width))
    text = captured.get()
    stream.write(text if console.is_terminal else "".join(f"{line.rstrip()}\n" for line in text.splitlines()))
    stream.flush()


def as_text(report: Report) -> str:
    """The report as plain text, as wide as the terminal."""
    stream = io.StringIO()
    width = shutil.get_terminal_size((100, 24)).columns
    show(report, stream, width=max(60, width))
    return stream.getvalue()


def finding_as_text(finding: Finding, width: int = 100) -> str:
    """One finding as plain text."""
    stream = io.StringIO()
    console = Console(file=stream, highlight=False, width=width)
    _print(console, _finding(finding, width))
    return stream.getvalue()


def _print(console: Console, lines: Iterable[Text | Table | Padding]) -> None:
    for line in lines:
        is_whole = isinstance(line, Text) and line.no_wrap  # a path that is too long is better not broken
        console.print(line, soft_wrap=True if is_whole else None)


def _lines(report: Report, width: int) -> list[Text | Table | Padding]:
    lines: list[Text | Table | Padding] = []
    for finding in report.findings:
        lines += _finding(finding, width)
    if report.copies:
        lines += [*_copies(report, width), Text()]
    lines += [Text(f"cannot be looked into: {what} ({_times(count)})") for what, count in report.opaque.items()]
    lines += [
        Text(f"{each}: this comment silences nothing: {_comment(each)}", style="yellow")
        for each in report.unused_ignores
    ]
    return [*lines, _summary(report)]


def _finding(finding: Finding, width: int) -> list[Text | Table | Padding]:
    style = _STYLES.get(finding.code[2:3], "bold")
    head = Text(f"{finding.code} ", style=style)
    head.append(finding.message, style="bold")
    found = snippets(finding.places, lambda _: None)
    gutter = " " * max((len(str(each.number)) for each in found), default=1)
    lines: list[Text | Table | Padding] = [head]
    path = None
    for each in found:
        if each.path != path:
            path = each.path
            lines.append(Text(f"{gutter}--> {each.path}:{each.number}", style="blue", no_wrap=True))
            lines.append(Text(f"{gutter} |", style="blue"))
        elif each.number:
            lines.append(Text(f"{gutter} ⋮", style="blue"))
        lines += _snippet(each, gutter, max(_LEAST_ROOM, width - len(gutter) - 3), style)
    facts = [_times(finding.count)]
    if finding.bytes:
        facts.append(format_bytes(finding.bytes))
    if finding.seconds:
        facts.append(format_seconds(finding.seconds))
    remarks = [", ".join(facts), *finding.notes]
    if finding.fix:
        remarks.append(f"fix: {finding.fix}")
    remarks.append(f"more: torchcopy explain {finding.code}")
    for remark in remarks:
        row = Table.grid(Column(no_wrap=True), Column(overflow="fold"))
        row.add_row(Text(f"{gutter} = "), Text(remark, style="green" if remark.startswith("fix:") else "default"))
        lines.append(row)
    lines.append(Text())
    return lines


def _snippet(snippet: Snippet, gutter: str, room: int, style: str) -> list[Text]:
    """A line of the program, and below it what its parts did."""
    shown = snippet.clipped(room)
    lines = []
    if shown.text:
        lines.append(Text(f"{shown.number:>{len(gutter)}} | ", style="blue"))
        lines[0].append(shown.text, style="default")
    for part in shown.parts:
        for marks in _marks(shown, part, room):
            line = Text(f"{gutter} | ", style="blue")
            line.append(marks, style=style)
            lines.append(line)
    return lines


def _marks(snippet: Snippet, part: Part, room: int) -> list[str]:
    """Carets below a part, and its role beside them, or below them where it does not fit."""
    role = part.role + part.by
    carets = snippet.indent(part) + (snippet.carets(part) or "^" * bool(snippet.text))
    indent = snippet.role_indent(part, room)
    if indent is None:
        return [f"{carets} {role}" if carets else role]
    return [carets, *(indent + line for line in textwrap.wrap(role, room, break_long_words=False))]


def _copies(report: Report, width: int) -> list[Text | Table | Padding]:
    rows, left = report.copies[:_MOST_ROWS], report.copies[_MOST_ROWS:]
    told: list[Text | Table | Padding] = [Text("Copies by line", style="bold")]
    told += _list(rows) if width < _NARROW else [Text(), _table(rows, width)]
    if left:
        more = f"and {len(left)} lines more, {format_bytes(sum(site.bytes for site in left))}: see --html"
        told.append(Text(more, style="dim"))
    return told


def _list(rows: Iterable[CopySite]) -> list[Text | Table | Padding]:
    """The copies where there is no room for a table."""
    lines: list[Text | Table | Padding] = []
    for site in rows:
        facts = (
            site.kind,
            _times(site.count),
            format_bytes(site.bytes),
            format_seconds(site.seconds),
            _judged(site),
        )
        lines += [Text(str(site.line), no_wrap=True), Padding(Text(", ".join(facts)), (0, 0, 0, 2))]
    return lines


def _table(rows: Sequence[CopySite], width: int) -> Table:
    wide = width >= _WIDE
    names = ("line", "kind", "count", "bytes", "time", *(STATUSES if wide else ("of them",)))
    cells = [_cells(site, wide=wide) for site in rows]
    taken = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    room = width - sum(taken[1:]) - 2 * len(taken)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, show_edge=False)
    for name in names:
        table.add_column(name, justify="left" if name in ("line", "kind", "of them") else "right", no_wrap=True)
    for place, *rest in cells:
        table.add_row(place if len(place) <= room else f"…{place[len(place) - max(room - 1, 8) :]}", *rest)
    return table


def _cells(site: CopySite, *, wide: bool) -> list[str]:
    counts = [site.counts.get(status, 0) for status in STATUSES]
    return [
        str(site.line),
        site.kind,
        str(site.count),
        format_bytes(site.bytes),
        format_seconds(site.seconds),
        *([str(n) if n else "–" for n in counts] if wide else [_judged(site)]),
    ]


def _judged(site: CopySite) -> str:
    """How many of the copies were not needed, or could not be told."""
    counts = ((status, site.counts.get(status, 0)) for status in STATUSES if status != "needed")
    return ", ".join(f"{count} {status}" for status, count in counts if count) or "needed"


def _summary(report: Report) -> Text:
    hazards, waste = len(report.hazards), len(report.waste)
    found = [
        f"{hazards} {'hazard' if hazards == 1 else 'hazards'}",
        f"{waste} {'copy that was' if waste == 1 else 'kinds of copies that were'} not needed",
    ]
    total = sum(site.bytes for site in report.copies)
    steps = f", {report.audited_steps} optimizer steps" if report.audited_steps else ""
    text = Text(f"torchcopy audit: {', '.join(found)}", style="bold red" if hazards else "bold")
    text.append(f" ({format_bytes(total)} copied in {format_seconds(report.seconds)}{steps})", style="default")
    if report.ended_by:
        text.append(f"; the program ended with {report.ended_by}", style="default")
    return text


def _comment(line: SourceLine) -> str:
    return line.text[(line.column or 1) - 1 : None if line.end_column is None else line.end_column - 1].strip()


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
