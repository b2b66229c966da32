"""A bench as one self-contained page: the figure, the times, the memory. It asks no server for anything."""

from __future__ import annotations

import dataclasses
from typing import Any

from markupsafe import Markup

from .._tensors import format_bytes, format_seconds
from ..bench.compare import Comparison
from ..bench.preflight import format_size, has_matplotlib
from ..bench.records import BenchReport, Measurement
from .bench import (
    LEGEND,
    change_cells,
    fastest_first,
    heading,
    memory_cells,
    notes,
    percent,
    ratio,
    source_name,
    spread,
    summary,
    unmatched,
)
from .pages import render_page


@dataclasses.dataclass(frozen=True)
class Cell:
    """One cell of a table.

    Attributes:
        text: what it shows.
        value: what it is sorted by; None sorts last.
    """

    text: str
    value: float | None = None


@dataclasses.dataclass(frozen=True)
class Row:
    """One row of the table of measurements.

    Attributes:
        method: id of the method.
        code: its expression.
        source: what was copied.
        numel: its number of elements.
        kind: `copy`, `free` for results that are no copy, `raises`, or `skipped`.
        cells: the rest.
        note: what it raised, or why it was not timed.
    """

    method: str
    code: str
    source: str
    numel: int
    kind: str
    cells: tuple[Cell, ...]
    note: str


COLUMNS = ("elements", "time", "spread", "× best", "% of limit", "allocated", "peak", "data_ptr differs", "memory")


def render(report: BenchReport, comparison: Comparison | None = None) -> str:
    """The page as text; the figure is left out where matplotlib is not installed."""
    return render_page("bench.html.j2", **_page(report, comparison))


def _page(report: BenchReport, comparison: Comparison | None) -> dict[str, Any]:
    sizes = sorted({m.numel for m in report.measurements})
    timed = [m.numel for m in report.measurements if m.timing is not None]
    return {
        "heading": heading(report),
        "report": report,
        "machine": str(report.machine),
        "figure": _figure(report),
        "notes": notes(report),
        "legend": LEGEND,
        "columns": COLUMNS,
        "rows": [_row(m) for m in _in_order(report)],
        "sources": [(source, source_name(report, source)) for source in report.sources],
        "sizes": [(numel, format_size(numel)) for numel in sizes],
        "size_shown": max(timed, default=sizes[-1]),
        "limits": _limits(report),
        "summary": None if comparison is None else summary(comparison),
        "unmatched": [] if comparison is None else unmatched(comparison),
        "changes": [] if comparison is None else _changes(comparison),
    }


def _in_order(report: BenchReport) -> list[Measurement]:
    places = dict.fromkeys((m.source, m.numel) for m in report.measurements)
    return [
        m
        for source, numel in places
        for m in fastest_first([one for one in report.of(source=source) if one.numel == numel])
    ]


def _figure(report: BenchReport) -> Markup | None:
    if not has_matplotlib():
        return None
    from .bench_plot import as_svg

    return Markup(as_svg(report))  # drawn here; matplotlib escapes the text in it


def _row(m: Measurement) -> Row:
    kind = "raises" if m.error else "skipped" if m.timing is None else "copy" if m.is_copy else "free"
    seconds = None if m.timing is None else m.timing.median_seconds
    allocated = None if m.allocation is None else m.allocation.allocated_bytes
    peak = None if m.allocation is None else m.allocation.peak_bytes
    words = memory_cells(m)
    cells = (
        Cell(format_size(m.numel), m.numel),
        Cell("–" if seconds is None else format_seconds(seconds), seconds),
        Cell("–" if m.timing is None else spread(m.timing)),
        Cell(ratio(m.ratio_to_best), m.ratio_to_best),
        Cell(percent(m.ratio_to_limit), m.ratio_to_limit),
        Cell(words[0], allocated),
        Cell(words[1], peak),
        Cell(words[2]),
        Cell(words[3]),
    )
    return Row(m.method, m.code, m.source, m.numel, kind, cells, m.error or m.skipped or "")


def _limits(report: BenchReport) -> list[tuple[str, ...]]:
    return [
        (
            limit.source,
            format_size(limit.numel),
            format_bytes(limit.bytes),
            format_seconds(limit.timing.median_seconds),
            spread(limit.timing),
            f"{limit.bytes_per_second / 1e9:.2f} GB/s",
        )
        for limit in report.limits
    ]


def _changes(comparison: Comparison) -> list[tuple[str, tuple[str, ...]]]:
    judged = ("slower", "faster", "raises")
    return [(change.verdict, change_cells(change)) for change in comparison.changes if change.verdict in judged]
