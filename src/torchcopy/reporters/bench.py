"""How a bench is shown in the terminal, and the words that the plot and the page use as well."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .._tensors import format_bytes, format_seconds
from ..bench.compare import Change, Comparison
from ..bench.preflight import format_size
from ..bench.records import BenchReport, Measurement
from ..semantics.sources import DESCRIPTIONS
from ..semantics.timing import Timing
from .terminal import console, yes_no

_MOST_CHANGES = 20
_FEW_NAMES = 4
_STYLES = {"slower": "red", "raises": "red", "faster": "green"}
_BUSY_SHARE = 0.1  # of the processors: when others use more than this, times cannot be trusted

LEGEND = (
    "Time: median of one call, with the giving back of its result; ± half the distance of the quartiles. "
    "× best: times the fastest copy's. % of limit: how much of the speed of a warm copy_ into existing memory is "
    "reached; above 100 % the caches helped. Results that share the source's memory are no copies: no ratios."
)


# --- words ---------------------------------------------------------------------------------------------------


def spread(timing: Timing) -> str:
    """Half the distance of the quartiles, in per cent of the median: `±3%`."""
    half = (timing.high_seconds - timing.low_seconds) / 2 / timing.median_seconds * 100
    return f"±{half:.0f}%" if half < 999.5 else "±>999%"


def ratio(value: float | None) -> str:
    """`1.25×`, `118×`; a dash for None."""
    if value is None:
        return "–"
    return f"{value:.2f}×" if value < 9.995 else f"{value:.1f}×" if value < 99.95 else f"{value:.0f}×"


def percent(value: float | None) -> str:
    """`98 %`, `0.4 %`; a dash for None."""
    if value is None:
        return "–"
    return f"{value * 100:.0f} %" if value >= 0.0095 else f"{value * 100:.2g} %"


def heading(report: BenchReport) -> str:
    """What was copied, in one line."""
    if report.kind == "model":
        first = report.measurements[0]
        size = f"{first.tensors:,} tensors, {format_bytes(first.bytes)}"
        return f"Copies of model {report.subject}: {size}, {report.dtype} on {report.device}"
    return f"Copies of {report.dtype} {report.subject} on {report.device}"


def source_name(report: BenchReport, source: str) -> str:
    """The source with a few words on it."""
    described = {str(kind): text for kind, text in DESCRIPTIONS.items()}
    return f"{source} ({described[source]})" if report.kind == "tensors" and source in described else source


def notes(report: BenchReport) -> list[str]:
    """What a reader has to know beside the figures, a line each."""
    lines = []
    if report.left_out:
        lines.append(
            f"{len(report.left_out)} of {len(report.measurements)} were not timed: `--max-seconds` gives more time."
        )
    if report.others_share is not None and report.others_share > _BUSY_SHARE:
        lines.append(f"Other programs used {report.others_share:.0%} of the processors: times may be far off.")
    lines += _raised(report.measurements)
    lines += _left_out(report)
    return lines


def _raised(measurements: Iterable[Measurement]) -> list[str]:
    places: dict[tuple[str, str], list[Measurement]] = {}
    for m in measurements:
        if m.error is not None:
            places.setdefault((m.method, m.error), []).append(m)
    lines = []
    for (method, error), raised in places.items():
        sources = ", ".join(dict.fromkeys(m.source for m in raised))
        lines.append(f"{method} raises on {sources}: {error}")
    return lines


def _left_out(report: BenchReport) -> list[str]:
    """What was not timed: sizes of which nothing was, then single methods, each under its reason."""
    whole: dict[tuple[str, str], list[str]] = {}
    single: dict[tuple[str, str], list[str]] = {}
    for source in report.sources:
        timed = set(timed_sizes(report, source))
        for m in report.of(source=source):
            if m.skipped is not None and m.numel in timed:
                single.setdefault((source, m.skipped), []).append(f"{m.method} on {format_size(m.numel)}")
            elif m.skipped is not None:
                sizes = whole.setdefault((source, m.skipped), [])
                if format_size(m.numel) not in sizes:
                    sizes.append(format_size(m.numel))
    if report.kind == "model":
        lines = [", ".join(m.method for m in report.left_out if m.skipped == why) for _, why in (*whole, *single)]
        return [f"Left out: {names}: {why}." for names, (_, why) in zip(lines, (*whole, *single), strict=True)]
    lines = [f"Left out: {source} of {', '.join(sizes)} elements: {why}." for (source, why), sizes in whole.items()]
    lines += [f"Left out: {source}: {', '.join(names)} elements: {why}." for (source, why), names in single.items()]
    return lines


def timed_sizes(report: BenchReport, source: str) -> list[int]:
    """The sizes at which anything of this source was timed, smallest first."""
    return sorted({m.numel for m in report.of(source=source) if m.timing is not None})


def _sizes_to_show(report: BenchReport, source: str) -> list[int]:
    """The smallest, a middle and the largest of the sizes at which the most methods were timed."""
    counts = Counter(m.numel for m in report.of(source=source) if m.timing is not None)
    full = [numel for numel in sorted(counts) if counts[numel] == max(counts.values())]
    return sorted({full[0], full[len(full) // 2], full[-1]})


def fastest_first(measurements: Sequence[Measurement]) -> list[Measurement]:
    """Copies by time, then what is no copy, then what was not timed."""
    return sorted(
        measurements,
        key=lambda m: (
            m.error is not None,
            m.timing is None,
            not m.is_copy,
            m.timing.median_seconds if m.timing else 0,
        ),
    )


# --- the report ----------------------------------------------------------------------------------------------


def show(report: BenchReport) -> None:
    """Prints the times, the memory and what there is to know about them."""
    out = console()
    out.print(Text(heading(report), style="bold"))
    _dim(out, str(report.machine))
    for source in report.sources:
        sizes = timed_sizes(report, source)
        if sizes:
            _show_times(out, report, source, sizes)
        _show_memory(out, report, source)
    for line in notes(report):
        _wrapped(out, f"! {line}", "yellow")
    out.print()
    _dim(out, LEGEND)
    _dim(out, f"{report.seconds:.1f} s of {report.max_seconds:g} s.")


def _show_times(out: Console, report: BenchReport, source: str, sizes: Sequence[int]) -> None:
    """Times at a small, a middle and the largest size."""
    shown = _sizes_to_show(report, source)
    out.print()
    out.print(Text(f"Time: {source_name(report, source)}", style="bold"))
    table = _table()
    table.add_column("elements\nbytes", no_wrap=True)
    by_size = {numel: {m.method: m for m in report.of(source=source) if m.numel == numel} for numel in shown}
    for numel in shown:
        size = format_bytes(next(iter(by_size[numel].values())).bytes)
        table.add_column(f"{format_size(numel)}\n{size}", justify="right", no_wrap=True)
    table.add_column("×\nbest", justify="right", no_wrap=True)
    table.add_column("% of\nlimit", justify="right", no_wrap=True)
    largest = fastest_first(list(by_size[shown[-1]].values()))
    section = True
    for m in largest:
        if section and not m.is_copy:
            table.add_section()
            section = False
        cells = [_time(by_size[numel].get(m.method)) for numel in shown]
        table.add_row(_name(m), *cells, ratio(m.ratio_to_best), percent(m.ratio_to_limit))
    table.add_section()
    limits = [report.limit(source, numel) for numel in shown]
    table.add_row(
        Text("limit: warm copy_", style="cyan"),
        *(_timing(limit.timing) if limit else Text("–") for limit in limits),
        "",
        Text("100 %", style="cyan"),
    )
    out.print(table)
    last = limits[-1]
    if last is not None:
        _dim(out, f"The limit at the largest size: {last.bytes_per_second / 1e9:.1f} GB/s copied.")
    if len(sizes) > len(shown):
        _dim(out, f"{len(sizes)} sizes were timed; all of them: --json FILE, --plot FILE or --html FILE.")


def _show_memory(out: Console, report: BenchReport, source: str) -> None:
    """Memory of every method at the largest size where it was counted."""
    looked_at = [m.numel for m in report.of(source=source) if m.memory is not None]
    if not looked_at:
        return
    rows = fastest_first([m for m in report.of(source=source) if m.numel == max(looked_at)])
    out.print()
    size = f"{format_size(rows[0].numel)} elements, {format_bytes(rows[0].bytes)}"
    out.print(Text(f"Memory: {source_name(report, source)}, {size}", style="bold"))
    table = _table()
    table.add_column("method", no_wrap=True)
    table.add_column("allocated", justify="right", no_wrap=True)
    table.add_column("peak", justify="right", no_wrap=True)
    table.add_column("data_ptr differs", no_wrap=True)
    table.add_column("memory", no_wrap=True)
    for m in rows:
        table.add_row(_name(m), *memory_cells(m))
    out.print(table)
    if report.kind == "model":
        for m in report.of(source=source):
            _dim(out, f"{m.method}: {m.code}")


def memory_cells(m: Measurement) -> tuple[str, str, str, str]:
    """Allocated, peak, the `data_ptr` check and whose memory the result has."""
    allocated, peak = ("–", "–")
    if m.allocation is not None:
        allocated, peak = format_bytes(m.allocation.allocated_bytes), format_bytes(m.allocation.peak_bytes)
    return allocated, peak, yes_no(m.data_ptr_differs), m.memory or "–"


def _table() -> Table:
    return Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=0, collapse_padding=True)


def _name(m: Measurement) -> Text:
    return Text(m.method, style="red" if m.error else "" if m.is_copy else "dim")


def _time(m: Measurement | None) -> Text:
    if m is None or (m.timing is None and m.error is None):
        return Text("–", style="dim")
    return Text("raises", style="red") if m.timing is None else _timing(m.timing)


def _timing(timing: Timing) -> Text:
    return Text.assemble(format_seconds(timing.median_seconds), (f" {spread(timing):>4}", "dim"))


def _wrapped(out: Console, text: str, style: str) -> None:
    width = min(out.width, 100)
    out.print(Text(textwrap.fill(text, width=width, subsequent_indent="  ", break_on_hyphens=False), style=style))


def _dim(out: Console, text: str) -> None:
    out.print(Text(textwrap.fill(text, width=min(out.width, 100), break_on_hyphens=False), style="dim"))


# --- the comparison ------------------------------------------------------------------------------------------


def show_comparison(comparison: Comparison) -> None:
    """Prints what got slower, faster, new or gone."""
    out = console()
    out.print()
    out.print(Text(summary(comparison), style="bold"))
    if not comparison.same_machine:
        _dim(out, "Another machine or other versions: only times relative to each run's own limit are compared.")
    judged = [change for change in comparison.changes if change.verdict in _STYLES]
    if judged:
        table = _table()
        for title in ("", "method", "source", "elements"):
            table.add_column(title, no_wrap=title != "source", overflow="fold")
        for title in ("then", "now", "change"):
            table.add_column(title, justify="right", no_wrap=True)
        for change in judged[:_MOST_CHANGES]:
            table.add_row(Text(change.verdict, style=_STYLES[change.verdict]), *change_cells(change))
        out.print(table)
        if len(judged) > _MOST_CHANGES:
            _dim(out, f"… and {len(judged) - _MOST_CHANGES} more; all of them: --json FILE.")
        _dim(out, "Slower, faster: by more than 10 %, quartiles apart, times as multiples of each run's own limit.")
    for line in unmatched(comparison):
        _dim(out, line)


def unmatched(comparison: Comparison) -> list[str]:
    """What only one of the two benches timed, a line for each reason, source and size; and what raises now."""
    lines = [f"{c.method} raises now on {c.source}: {c.note}" for c in comparison.changes if c.verdict == "raises"]
    groups: dict[tuple[str, str, int, str], list[str]] = {}
    for c in comparison.changes:
        if c.verdict in ("gone", "new"):
            groups.setdefault((c.verdict, c.source, c.numel, c.note or "not measured then"), []).append(c.method)
    for (verdict, source, numel, note), methods in groups.items():
        named = ", ".join(methods) if len(methods) <= _FEW_NAMES else f"{len(methods)} methods"
        lines.append(f"{verdict}: {named} on {source}, {format_size(numel)} elements: {note}")
    return list(dict.fromkeys(lines))


def summary(comparison: Comparison) -> str:
    """The comparison in one line: `3 slower, 1 faster, 540 the same`."""
    words = {"raises": "now raising", "same": "the same beyond noise"}
    counts: dict[str, int] = {}
    for change in comparison.changes:
        counts[change.verdict] = counts.get(change.verdict, 0) + 1
    return "Compared: " + ", ".join(f"{count} {words.get(verdict, verdict)}" for verdict, count in counts.items())


def change_cells(change: Change) -> tuple[str, ...]:
    """Method, source, size, time then, time now, and how many times as long."""
    times = ("–" if s is None else format_seconds(s) for s in (change.old_seconds, change.new_seconds))
    return change.method, change.source, format_size(change.numel), *times, ratio(change.ratio)
