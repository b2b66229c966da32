"""An audit as one self-contained page: findings, bytes, copies by line, the source. It asks no server."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from typing import Any

from markupsafe import Markup, escape

from .._tensors import format_bytes, format_seconds
from ..auditing.records import STATUSES, CopySite, Finding, Report, SourceLine, Status
from .audit_snippets import Snippet, snippets
from .audit_source_view import Mark, SourceView, visible
from .audit_timeline import timeline
from .diagnostics import Level, level_of
from .pages import render_page

ROWS_AT_FIRST = 200  # of the table; the script shows the rest when it is asked for
SNIPPET_COLUMNS = 130  # of a finding's lines: what a page of 1,200 pixels shows without scrolling
_MOST_SOURCE = 160  # characters of a line that the table shows
_FAMILIES: dict[Level, str] = {"error": "hazard", "warning": "waste", "note": "idiom"}
_MEANINGS: dict[Status, str] = {
    "needed": "one side was written while the other was in use",
    "redundant": "neither side was written while the copy lived",
    "repeated": "the same unchanged tensor had been copied before",
    "unknown": "something that cannot be looked into had one of the sides",
}
_COLUMNS = ("place", "kind", "count", "bytes", "time", *STATUSES)


@dataclasses.dataclass(frozen=True)
class Card:
    """A finding as the page shows it.

    Attributes:
        anchor: of it in the page.
        family: `hazard`, `waste` or `idiom`.
        code: of it.
        message: what happened.
        numbers: how often, how many bytes, how long.
        snippets: its lines.
        notes: what else is known.
        fix: what to write instead, None where there is nothing to say.
    """

    anchor: str
    family: str
    code: str
    message: Markup
    numbers: str
    snippets: tuple[Snippet, ...]
    notes: tuple[Markup, ...]
    fix: Markup | None


@dataclasses.dataclass(frozen=True)
class Row:
    """One row of the table of copies.

    Attributes:
        place: path and number of the line.
        anchor: of the line in the page, None where it is not in it.
        kind: of the copies.
        cells: text and value of each number.
        statuses: those that occur, to search for.
        source: the line's text.
        context: the function that it belongs to, and that of a library that did it.
    """

    place: str
    anchor: str | None
    kind: str
    cells: tuple[tuple[str, float], ...]
    statuses: str
    source: str
    context: str


@dataclasses.dataclass(frozen=True)
class Share:
    """One part of the bar of all copied bytes.

    Attributes:
        status: which.
        bytes: of it.
        cells: bytes, share and number of copies for people.
        meaning: when a copy counts as such.
    """

    status: Status
    bytes: int
    cells: tuple[str, str, str]
    meaning: str


def render(report: Report) -> str:
    """The page as text."""
    text = render_page("audit.html.j2", script="audit.js", **_page(report))
    return text.encode("utf-8", "replace").decode("utf-8")  # half a surrogate pair cannot be written


def _page(report: Report) -> dict[str, Any]:
    anchors = [f"f{at}" for at in range(1, len(report.findings) + 1)]
    view = SourceView(report, _marks(report, anchors))
    cards = [_card(finding, anchor, view) for finding, anchor in zip(report.findings, anchors, strict=True)]
    rows = [_row(site, view) for site in report.copies]
    return {
        "report": report,
        "program": visible(report.program),
        "sentence": sentence(report),
        "circumstances": _circumstances(report),
        "remarks": _remarks(report),
        "families": [(family, [card for card in cards if card.family == family]) for family in _FAMILIES.values()],
        "shares": _shares(report),
        "copied": format_bytes(sum(report.status_bytes().values())),
        "timeline": timeline(report.timeline, report.seconds),
        "columns": _COLUMNS,
        "snippet_columns": SNIPPET_COLUMNS,
        "rows": rows[:ROWS_AT_FIRST],
        "more_rows": rows[ROWS_AT_FIRST:],
        "view": view,
        "opaque": sorted(report.opaque.items(), key=lambda item: (-item[1], item[0])),
        "ignores": [(line, view.anchor(line)) for line in report.unused_ignores],
    }


def sentence(report: Report) -> str:
    """What was found."""
    hazards = len(report.hazards)
    wrong = ("No hazard was found", "1 hazard makes results wrong")[hazards] if hazards < 2 else ""
    wrong = wrong or f"{hazards:,} hazards make results wrong"
    sizes = report.status_bytes()
    copied, not_needed = sum(sizes.values()), sizes["redundant"] + sizes["repeated"]
    if not report.copies:
        return f"{wrong}, and nothing was copied."
    if not not_needed:
        wasted = f"none of the {format_bytes(copied)} copied is known to be wasted"
    else:
        share = f"{format_bytes(not_needed)} of the {format_bytes(copied)} copied ({not_needed / copied:.0%})"
        wasted = f"{share} were not needed"
    return f"{wrong}, and {wasted}."


def _circumstances(report: Report) -> str:
    """How long, how many steps, which versions."""
    parts = [f"audited for {_duration(report.seconds)}"]
    if report.steps:
        parts.append(f"{report.steps:,} optimizer {'step' if report.steps == 1 else 'steps'}")
    return " · ".join([*parts, *(f"{name} {version}" for name, version in report.versions.items())])


def _remarks(report: Report) -> list[str]:
    """What a reader has to know before the findings."""
    remarks = []
    if report.ended_by:
        remarks.append(f"The program ended with {visible(report.ended_by)}. This is what was found until then.")
    if report.audited_steps < report.steps:
        remarks.append(f"The first {report.audited_steps:,} of {report.steps:,} optimizer steps were audited.")
    if report.opaque:
        remarks.append("Some of what ran could not be looked into: it is listed at the end.")
    return remarks


def _marks(report: Report, anchors: Iterable[str]) -> dict[str, dict[int, list[Mark]]]:
    """The findings of each line, by path and number."""
    marks: dict[str, dict[int, list[Mark]]] = {}
    for finding, anchor in zip(report.findings, anchors, strict=True):
        roles: dict[tuple[str, int], list[str]] = {}
        for place in finding.places:
            roles.setdefault((place.line.path, place.line.line), []).append(place.role)
        for (path, line), parts in roles.items():
            mark = Mark(anchor, finding.code, _family(finding.code), ", ".join(parts))
            marks.setdefault(path, {}).setdefault(line, []).append(mark)
    return marks


def _family(code: str) -> str:
    return _FAMILIES[level_of(code)]


def _card(finding: Finding, anchor: str, view: SourceView) -> Card:
    return Card(
        anchor=anchor,
        family=_family(finding.code),
        code=finding.code,
        message=_prose(finding.message),
        numbers=_numbers(finding),
        snippets=snippets(finding.places, view.anchor, SNIPPET_COLUMNS),
        notes=tuple(map(_prose, finding.notes)),
        fix=_prose(finding.fix) if finding.fix else None,
    )


def _numbers(finding: Finding) -> str:
    parts = ["once" if finding.count == 1 else f"{finding.count:,} times"]
    if finding.bytes:
        at_risk = _family(finding.code) == "hazard"
        parts.append(f"{format_bytes(finding.bytes)} {'at risk' if at_risk else 'not needed'}")
    if finding.seconds:
        parts.append(f"{_duration(finding.seconds)} spent")
    return " · ".join(parts)


def _prose(text: str) -> Markup:
    """Text in which single backticks mark code."""
    parts = re.split(r"`([^`\n]+)`", visible(text))
    shown = [Markup("<code>{}</code>").format(part) if at % 2 else escape(part) for at, part in enumerate(parts)]
    return Markup("").join(shown)


def _shares(report: Report) -> list[Share]:
    sizes = report.status_bytes()
    total = sum(sizes.values())
    shares = []
    for status, size in sizes.items():
        count = sum(site.counts.get(status, 0) for site in report.copies)
        part = f"{100 * size / total:.1f} %" if total else "–"
        shares.append(Share(status, size, (format_bytes(size), part, f"{count:,}"), _MEANINGS[status]))
    return shares


def _row(site: CopySite, view: SourceView) -> Row:
    numbers: list[tuple[str, float]] = [
        (f"{site.count:,}", site.count),
        (format_bytes(site.bytes), site.bytes),
        (_duration(site.seconds), site.seconds),
    ]
    for status in STATUSES:
        size, count = site.status_bytes.get(status, 0), site.counts.get(status, 0)
        numbers.append((format_bytes(size) if count else "–", size))
    return Row(
        place=str(site.line),
        anchor=view.anchor(site.line),
        kind=site.kind,
        cells=tuple(numbers),
        statuses=" ".join(status for status in STATUSES if site.counts.get(status, 0)),
        source=_shortened(visible(site.line.text.strip())),
        context=_context(site.line),
    )


def _context(line: SourceLine) -> str:
    function = "" if line.function in ("", "<module>") else f"in {line.function}"
    return ", ".join(filter(None, [function, f"through {line.through}" if line.through else ""]))


def _shortened(text: str) -> str:
    return text if len(text) <= _MOST_SOURCE else f"{text[:_MOST_SOURCE]}…"


def _duration(seconds: float) -> str:
    """A time for people, from nanoseconds to hours."""
    if seconds <= 0:
        return "–"
    if seconds < 100:
        return format_seconds(seconds)
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
