"""An audit in the terminal: each finding as a good compiler tells it, then the copies by line."""

from __future__ import annotations

import io
import shutil
import sys
from typing import TextIO

from rich import box
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from .._tensors import format_bytes, format_seconds
from ..auditing.records import STATUSES, Finding, Report
from .audit_snippets import snippets

_STYLES = {"1": "bold red", "2": "bold yellow", "3": "bold cyan"}
_MOST_ROWS = 12


def show(report: Report, stream: TextIO | None = None, *, width: int | None = None) -> None:
    """Writes the report for people, to stderr: what the program prints stays its own."""
    stream = stream or sys.stderr
    console = Console(file=stream, highlight=False, soft_wrap=False, width=width)
    with console.capture() as captured:
        for line in _lines(report, console.width):
            console.print(line)
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
    for line in _finding(finding):
        console.print(line)
    return stream.getvalue()


def _lines(report: Report, width: int) -> list[Text | Table]:
    lines: list[Text | Table] = []
    for finding in report.findings:
        lines += _finding(finding)
    if report.copies:
        lines += [_copies(report, width), Text()]
    lines += [Text(f"cannot be looked into: {what} ({_times(count)})") for what, count in report.opaque.items()]
    lines += [
        Text(f"{line}: this comment silences nothing: {line.text.strip()}", style="yellow")
        for line in report.unused_ignores
    ]
    return [*lines, _summary(report)]


def _finding(finding: Finding) -> list[Text | Table]:
    head = Text(f"{finding.code} ", style=_STYLES.get(finding.code[2:3], "bold"))
    head.append(finding.message, style="bold")
    found = snippets(finding.places, lambda _: None)
    gutter = " " * max((len(str(each.number)) for each in found), default=1)
    lines: list[Text | Table] = [head]
    path = None
    for each in found:
        if each.path != path:
            path = each.path
            lines.append(Text(f"{gutter}--> {each.path}:{each.number}", style="blue"))
            lines.append(Text(f"{gutter} |", style="blue"))
        elif lines and each.number:
            lines.append(Text(f"{gutter} ⋮", style="blue"))
        source = Text(f"{each.number:>{len(gutter)}} | ", style="blue")
        source.append(each.before + each.underlined + each.after, style="default")
        lines.append(source)
        marks = Text(f"{gutter} | ", style="blue")
        marks.append(
            f"{each.indent}{each.carets or '^'} {each.role}{_by(each.through)}",
            style=_STYLES.get(finding.code[2:3], "bold"),
        )
        lines.append(marks)
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


def _by(through: str) -> str:
    """How a library's function that did it is named; that of a backward goes without saying."""
    if not through or through.startswith("torch.autograd."):
        return ""
    return ", by `optimizer.step`" if through.startswith("torch.optim.") else f", in {through}"


def _copies(report: Report, width: int) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, title="Copies by line", title_justify="left", title_style="bold"
    )
    table.add_column("line", overflow="fold", ratio=1)
    table.add_column("kind")
    for name in ("count", "bytes", "time"):
        table.add_column(name, justify="right", no_wrap=True)
    wide = width >= 100
    for status in STATUSES if wide else ():
        table.add_column(status, justify="right")
    if not wide:
        table.add_column("of them", no_wrap=True)
    for site in report.copies[:_MOST_ROWS]:
        counts = [site.counts.get(status, 0) for status in STATUSES]
        shares = ", ".join(f"{n} {s}" for s, n in zip(STATUSES, counts, strict=True) if n and s != "needed")
        cells = [str(n) if n else "–" for n in counts] if wide else [shares or "needed"]
        table.add_row(
            str(site.line),
            site.kind,
            str(site.count),
            format_bytes(site.bytes),
            format_seconds(site.seconds),
            *cells,
        )
    left = report.copies[_MOST_ROWS:]
    if left:
        table.caption = f"and {len(left)} lines more, {format_bytes(sum(site.bytes for site in left))}: see --html"
        table.caption_justify = "left"
    return table


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


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
