"""How a history and a comparison of two snapshots are shown in the terminal."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

from rich import box
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .._tensors import format_bytes
from ..history.comparing.comparison_records import Comparison, ModuleMoved, Moved
from ..history.overview import COUNTERS, HistoryOverview, SnapshotSummary
from .terminal import console

By = Literal["tensor", "module"]

_LONGEST_CELL = 24
_GAP = 1
_PIPED_WIDTH = 10_000  # who reads it by program gets the names whole

COMPARISON_LEGEND = (
    "relative: L2 of the change over L2 before. max: the largest change of an element. cosine: of the angle "
    "between before and after. changed: share of the elements."
)


# --- a history -----------------------------------------------------------------------------------------------


class _Column(NamedTuple):
    heading: str
    cells: list[str]
    is_numeric: bool

    @property
    def width(self) -> int:
        """In cells of the terminal."""
        return max(map(cell_len, (self.heading, *self.cells)))


def show(seen: HistoryOverview, where: str) -> None:
    """Prints a line for each kept snapshot, with as many of its labels as there is room for."""
    out = _console()
    taken, kept = len(seen.taken), len(seen.snapshots)
    out.print(Text(f"{printable(where)}: {kept} of {taken} snapshots kept, {format_bytes(seen.nbytes)}", "bold"))
    if not seen.snapshots:
        return
    parts = dict.fromkeys(each.parts for each in seen.snapshots)
    if len(parts) == 1:
        _dim(out, f"Parts: {', '.join(map(printable, next(iter(parts))))}.")
    fixed, labels = _columns(seen, with_parts=len(parts) > 1)
    shown, left_out = _that_fit(labels, out.width - sum(column.width + _GAP for column in fixed))
    columns = [fixed[0], *shown, *fixed[1:]]
    table = _table()
    for column in columns:
        table.add_column(Text(column.heading), justify="right" if column.is_numeric else "left", no_wrap=True)
    for row, each in enumerate(seen.snapshots):
        style = "bold" if each.best else ""
        table.add_row(*(Text(column.cells[row], style=style) for column in columns))
    out.print(table)
    if seen.keep_best:
        goals = (f"{printable(metric)} ({goal})" for metric, goal in seen.keep_best.items())
        _dim(out, f"Best by: {', '.join(goals)}.")
    if left_out:
        _dim(out, f"No room for: {', '.join(left_out)}; a wider terminal or --json has them.")


def _is_number(cell: str) -> bool:
    return cell in ("–", "None", "nan", "inf", "-inf") or cell[:1] in "-0123456789"


def _columns(seen: HistoryOverview, *, with_parts: bool) -> tuple[list[_Column], list[_Column]]:
    """The columns that are always there, and those of the labels, the most important first."""
    kept = seen.snapshots
    fixed = [
        _Column("no.", [str(each.number) for each in kept], is_numeric=True),
        _Column("tensors", [f"{each.tensors:,}" for each in kept], is_numeric=True),
        _Column("size", [format_bytes(each.nbytes) for each in kept], is_numeric=True),
    ]
    if with_parts:
        fixed.append(_Column("parts", [", ".join(map(printable, each.parts)) for each in kept], is_numeric=False))
    best = [", ".join(map(printable, each.best)) or "–" for each in kept]
    fixed.append(_Column("best by", best, is_numeric=False))
    names = dict.fromkeys(name for each in kept for name in each.labels)
    first = [*(name for name in COUNTERS if name in names), *(name for name in seen.keep_best if name in names)]
    labels = []
    for name in dict.fromkeys([*first, *names]):
        cells = [_label(each, name) for each in kept]
        labels.append(_Column(printable(name), cells, is_numeric=all(map(_is_number, cells))))
    return fixed, labels


def _that_fit(labels: Sequence[_Column], room: int) -> tuple[list[_Column], list[str]]:
    """The labels for which there is room in a line, and the names of the others."""
    shown: list[_Column] = []
    left_out: list[str] = []
    for column in labels:
        if column.width + _GAP <= room:
            shown.append(column)
            room -= column.width + _GAP
        else:
            left_out.append(column.heading)
    return shown, left_out


def _label(each: SnapshotSummary, name: str) -> str:
    if name not in each.labels:
        return "–"
    value = each.labels[name]
    text = f"{value:.5g}" if isinstance(value, float) else str(value)
    return _cut(printable(text), _LONGEST_CELL)


# --- a comparison --------------------------------------------------------------------------------------------


def show_comparison(compared: Comparison, *, by: By = "tensor", top: int = 20) -> None:
    """Prints what moved, what moved most first, and what could not be compared."""
    out = _console()
    for line in str(compared).splitlines()[:2]:  # from what to what, and how much moved
        _wrapped(out, printable(line), "bold")
    rows = moved_most(compared, by)
    if rows:
        _show_moved(out, rows[:top], by)
        if len(rows) > top:
            _dim(out, f"… and {len(rows) - top} more: --top {len(rows)} or --json.")
        _dim(out, COMPARISON_LEGEND)
    if compared.not_compared:
        out.print()
        out.print(Text(f"Not compared: {len(compared.not_compared)}", style="bold"))
        for each in compared.not_compared[:top]:
            _wrapped(out, printable(f"{each.name}: {each.why}"))
        if len(compared.not_compared) > top:
            _dim(out, f"… and {len(compared.not_compared) - top} more: --json.")


def moved_most(compared: Comparison, by: By) -> list[Moved]:
    """The tensors, or the modules, that moved, in the order of how far they did; relative to what they were."""
    found: Iterable[Moved] = compared.tensors if by == "tensor" else (compared.modules[1:] or compared.modules)
    return sorted((each for each in found if each.changed), key=lambda each: (-each.relative, -each.changed))


def _show_moved(out: Console, rows: Sequence[Moved], by: By) -> None:
    cells = [moved_cells(each) for each in rows]
    headings = ["relative", "L2", "max", "cosine", "changed"]
    sizes = [f"{each.tensors if isinstance(each, ModuleMoved) else each.numel:,}" for each in rows]
    size = "tensors" if by == "module" else "elements"
    widths = [max(len(h), *(len(row[k]) for row in cells)) + _GAP for k, h in enumerate(headings)]
    wanted = max(len(by), *(cell_len(printable(each.name)) for each in rows))
    with_size = wanted + sum(widths) + max(len(size), *map(len, sizes)) + _GAP <= out.width
    room = max(out.width - sum(widths), 12)
    table = _table()
    table.add_column(by, no_wrap=True)
    for heading in ([size] if with_size else []) + headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for each, own, count in zip(rows, cells, sizes, strict=True):
        name = Text(_cut(printable(each.name) or "(all of it)", room, end=True))
        table.add_row(name, *([count] if with_size else []), *own)
    out.print(table)


def moved_cells(each: Moved) -> tuple[str, ...]:
    """Relative, L2, max, cosine and changed, with the digits that `print(comparison)` gives them."""
    cosine = "–" if each.cosine is None else f"{each.cosine:.6f}"
    numbers = (f"{x:.3g}" for x in (each.relative, each.l2, each.max_abs))
    return (*numbers, cosine, f"{each.changed:.2%}")


# --- words ---------------------------------------------------------------------------------------------------


def printable(text: Any) -> str:
    """The text with what a terminal would obey, or not show, as escapes: names and labels may come from a file."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def _cut(text: str, width: int, *, end: bool = False) -> str:
    """The text, or as much of its beginning, or end, as there is room for in cells of the terminal."""
    if cell_len(text) <= width:
        return text
    if end:
        return "…" + set_cell_size(text[::-1], width - 1).rstrip()[::-1]
    return set_cell_size(text, width - 1).rstrip() + "…"


def _console() -> Console:
    """The console, with room for everything where no one has said how wide it is."""
    out = console()
    if not (out.is_terminal or "COLUMNS" in os.environ):
        out.width = _PIPED_WIDTH
    return out


def _table() -> Table:
    return Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=0, collapse_padding=True)


def _wrapped(out: Console, text: str, style: str = "") -> None:
    width = min(out.width, 100)
    out.print(Text(textwrap.fill(text, width=width, subsequent_indent="  ", break_on_hyphens=False), style=style))


def _dim(out: Console, text: str) -> None:
    out.print(Text(textwrap.fill(text, width=min(out.width, 100), break_on_hyphens=False), style="dim"))
