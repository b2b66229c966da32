"""The copying benchmark in a terminal of 80 columns."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from copying_floors import Row, tally
from copying_methods import METHODS, METHODS_FOR, named
from copying_results import Found, Growth, Spread
from copying_worker import State
from copying_workloads import WORKLOADS
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from torchcopy._tensors import format_bytes, format_seconds

_LEGEND = """\
How many times as fast, in the same round: median of the rounds, ± half of what
lies between their quartiles. replaced: best = copy(x), the old copy being
dropped when the new one is there. settled: the same from the eighth turn of a
loop on. dropped: the old copy is dropped before. fresh: the copy's memory comes
from the system; for a fork, the source was written since the last one.
"""
_NOISY = 0.1


def _console() -> Console:
    return Console(highlight=False)


def _table(*columns: tuple[str, bool]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=0)
    for heading, right in columns:
        table.add_column(heading, no_wrap=True, justify="right" if right else "left")
    return table


def show_legend() -> None:
    """Prints what the columns mean."""
    _console().print(Text(_LEGEND, style="dim"))


# --- a workload ----------------------------------------------------------------------------------------------


def show_workload(workload: str, found: Found, rows: Sequence[Row]) -> None:
    """Prints one workload: ratios against their floors, what is missing, and the times behind the ratios."""
    out = _console()
    table = _table(("what", False), ("against", False), ("floor", True), ("replaced", True), ("settled", True),
                   ("dropped", True), ("fresh", True))  # fmt: skip
    notes: dict[str, list[str]] = {}
    last = None
    for row in rows:
        what = "" if row.what == last else row.what
        last = row.what
        if row.note is not None:
            notes.setdefault(row.note, []).append(row.against)
        first: State = "replaced" if "replaced" in row.found else "warm"
        table.add_row(
            what,
            row.against,
            _floor(row),
            _cell(row, first, quartiles=True) if row.found else Text("–"),
            _cell(row, "settled"),
            _cell(row, "dropped"),
            _cell(row, "fresh"),
        )
    out.print(Text(title(workload, found), style="bold"))
    out.print(table, Text())
    for note, names in notes.items():
        out.print(Text(f"Not measured: {', '.join(dict.fromkeys(names))}: {note}.", style="yellow"))
    out.print(Text(_times(workload, found) + "\n", style="dim"))


def title(workload: str, found: Found) -> str:
    """The workload with its size."""
    each = next((m for (w, _), m in found.items() if w == workload and m.bytes), None)
    size = f": {format_bytes(each.bytes)} in {each.tensors:,} tensors" if each is not None else ""
    return f"{workload}  {WORKLOADS[workload].title}{size}"


def _floor(row: Row) -> str:
    if row.floor is None:
        return ""
    return f"{'≤' if row.at_most else '≥'} {row.floor:g}"


def _cell(row: Row, state: State, *, quartiles: bool = False) -> Text:
    spread = row.found.get(state)
    if spread is None:
        return Text("")
    text = _value(row, spread)
    if quartiles and spread.low != spread.high:
        text += f"±{50 * (spread.high - spread.low) / spread.median:.0f}%"
    reached = row.reached(state)
    if reached is None:
        return Text(f"{text}  ")
    return Text(f"{text} ✓", style="green") if reached else Text(f"{text} ✗", style="bold red")


def _value(row: Row, spread: Spread) -> str:
    if row.unit == "B":
        return format_bytes(spread.median)
    if row.unit == "×" and row.at_most:
        return f"{spread.median:.3f}"
    return _number(spread.median)


def _number(x: float) -> str:
    return f"{x:.0f}" if x >= 100 else f"{x:.1f}" if x >= 10 else f"{x:.2f}"


def _times(workload: str, found: Found) -> str:
    """The medians behind the ratios, a line for what is copied whole, one for its dict of tensors."""
    lines = []
    for of, heading in (("whole", "whole"), ("state", "dict")):
        told = []
        for method_id in METHODS_FOR[workload]:
            method = METHODS[method_id]
            spread = found[workload, method_id].seconds("replaced")
            if method.of == of and spread is not None:
                told.append(f"{named(method.label, method, workload)} {format_seconds(spread.median)}")
        if told:
            lines.append(f"Time, {heading}: {'; '.join(told)}.")
    return "\n".join(lines)


# --- growth, and the end -------------------------------------------------------------------------------------


def show_growth(growths: Sequence[Growth]) -> None:
    """Prints the slopes."""
    out = _console()
    out.print(Text("How the time grows (1 is linear, 0 is not at all)", style="bold"))
    table = _table(("with", False), ("method", False), ("sizes", True), ("slope", True), ("of all", True),
                   ("largest", True))  # fmt: skip
    for g in growths:
        label = METHODS[g.method].label.format(x="dict")
        if g.error is not None or not g.sizes:
            table.add_row(g.kind, label, Text((g.error or "–")[:30], style="red"), "", "", "")
            continue
        ends = (g.sizes[0], g.sizes[-1])
        sizes = "…".join(f"{n:,}" if g.kind == "tensors" else format_bytes(n) for n in ends)
        slopes = ["–" if s is None else f"{s:.2f}" for s in (g.slope, g.slope_of_all)]
        table.add_row(g.kind, label, sizes, *slopes, format_seconds(g.seconds[-1]))
    out.print(table, Text())
    out.print(Text("slope: of log(time) against log(size), in the upper half of the sizes.\n", style="dim"))


def show_end(rows: Sequence[Row], found: Found, absent: Mapping[str, str]) -> None:
    """Prints how many floors are reached, what is not installed, and whether others disturbed the run."""
    out = _console()
    if any(row.floor is not None for row in rows):
        counts = tally(list(rows))
        told = (f"{state} {count['reached']} of {sum(count.values())}" for state, count in counts.items())
        out.print(Text(f"Floors reached: {', '.join(told)}.", style="bold"))
    for reason in dict.fromkeys(absent.values()):
        names = ", ".join(method for method, why in absent.items() if why == reason)
        out.print(Text(f"Not measured: {names}: {reason}."))
    shares = [share for each in found.values() for share in each.others_share if share is not None]
    if shares and statistics.median(shares) > _NOISY:
        share = round(100 * statistics.median(shares))
        out.print(Text(f"Noisy: other programs used {share} % of the processors meanwhile.", style="yellow"))
