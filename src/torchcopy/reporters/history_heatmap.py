"""How far the weights of each layer moved, as a heatmap that can be read for three layers and for hundreds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..history.comparing.movement import Movement
from ..history.overview import HistoryOverview
from .bench_plot import Palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_LABELS = 40  # of rows
_MOST_STEPS = 14  # of columns
_MOST_DECADES = 6
_LABEL_HEIGHT = 0.125  # inches
_STILL_COLOUR = "#b9bcc2"
_BAD_COLOUR = "#d62f4b"
_BAR_COLOUR = "#3a8fd0"


def heatmap_height(moved: Movement) -> float:
    """Inches for the heatmap and what is around it."""
    if len(moved.snapshots) < 2 or not moved.layers:
        return 1.0
    return 1.5 + _rows_height(len(moved.layers))


def _rows_height(rows: int) -> float:
    return min(max(0.2 * rows, 1.2), 6.6)


def draw_heatmap(part: Any, seen: HistoryOverview, moved: Movement, palette: Palette) -> None:
    """Draws a row for each layer and a column for each step from one snapshot to the next."""
    if len(moved.snapshots) < 2 or not moved.layers:
        few = "only one snapshot is kept" if moved.snapshots else "no snapshot is kept"
        why = "there is no part with weights" if moved.snapshots and not moved.layers else few
        text = f"How far the weights moved: {why}, so there is nothing to compare"
        part.text(0.012, 0.5, text, color=palette.ink, fontsize=10, va="center")
        return
    axes = part.subplots(1, 1)
    axes.set_facecolor(palette.paper)
    finite = [v for row in moved.relative for v in row if math.isfinite(v) and v > 0]
    if len(moved.snapshots) == 2:
        _draw_bars(axes, seen, moved, finite, palette)
    else:
        if finite:
            _draw_moved(part, axes, moved, finite, palette)
        _draw_cells(axes, moved, _is_still, _STILL_COLOUR)
        _draw_cells(axes, moved, _is_bad, _BAD_COLOUR)
        axes.set_xlim(0, len(moved.snapshots) - 1)
        _label_columns(axes, seen, moved, palette)
    axes.set_ylim(len(moved.layers), 0)
    _label_rows(axes, moved.layers, palette)
    shown, kept = len(moved.snapshots), len(seen.snapshots)
    which = "one kept snapshot" if shown == kept else f"one of {shown} (of the {kept} kept snapshots)"
    title = f"How far the weights moved from {which} to the next: L2 of the change / L2 before"
    axes.set_title(title, color=palette.ink, fontsize=10, loc="left")
    for spine in axes.spines.values():
        spine.set_visible(False)
    values = [value for row in moved.relative for value in row]
    kinds = [(_STILL_COLOUR, "did not move")] * any(map(_is_still, values))
    kinds += [(_BAD_COLOUR, "NaN, infinite, or not in both")] * any(map(_is_bad, values))
    if kinds:
        _explain(part, kinds, palette)


def _is_still(value: float) -> bool:
    return value == 0


def _is_bad(value: float) -> bool:
    return not math.isfinite(value)


def _range(finite: Sequence[float]) -> tuple[float, float]:
    """The scale's ends: at least a decade, so that noise does not look like a difference, and not too many."""
    high = max(finite)
    low = max(min(finite), high / 10**_MOST_DECADES)
    if high / low < 10:
        middle = math.sqrt(low * high)
        low, high = middle / math.sqrt(10), middle * math.sqrt(10)
    return low, high


def _draw_bars(
    axes: Axes, seen: HistoryOverview, moved: Movement, finite: Sequence[float], palette: Palette
) -> None:
    """A single step as bars: the heatmap would have one column."""
    from matplotlib.ticker import FuncFormatter

    low, high = _range(finite) if finite else (0.1, 1.0)
    axes.set_xscale("log")
    axes.set_xlim(low / 2, high * 1.3)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
    axes.grid(True, axis="x", color=palette.grid, linewidth=0.8)
    axes.set_axisbelow(True)
    for row, (value,) in enumerate(moved.relative):
        if _is_still(value) or _is_bad(value):
            colour, width = _BAD_COLOUR if _is_bad(value) else _STILL_COLOUR, low * 0.02
        else:
            colour, width = _BAR_COLOUR, value - low / 2
        axes.barh(row + 0.5, width, left=low / 2, height=0.8, color=colour)
    first, second = (_when(seen, number) for number in moved.snapshots)
    axes.set_xlabel(f"from {seen.counter or 'snapshot'} {first} to {second}", color=palette.ink, fontsize=9)
    axes.tick_params(axis="x", labelsize=8, colors=palette.ink, which="both")


def _when(seen: HistoryOverview, number: int) -> str:
    """When a snapshot was taken, as people write it: `100`."""
    return next(f"{seen.when(each):.10g}" for each in seen.snapshots if each.number == number)


def _draw_moved(part: Any, axes: Axes, moved: Movement, finite: Sequence[float], palette: Palette) -> None:
    """The cells of what moved, with a colour bar."""
    import numpy as np
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = _range(finite)
    values = np.array(moved.relative)
    shown = np.ma.masked_where(~(np.isfinite(values) & (values > 0)), values)
    edges = np.arange(values.shape[1] + 1), np.arange(values.shape[0] + 1)
    mesh = axes.pcolormesh(*edges, shown, norm=LogNorm(low, high), cmap="viridis", rasterized=values.size > 2000)
    bar = part.colorbar(mesh, ax=axes, pad=0.012, fraction=0.03, aspect=30)
    bar.ax.tick_params(colors=palette.ink, labelsize=8, which="both")
    near = high / low < 100
    bar.ax.yaxis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5) if near else (1,), numticks=8))
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
    bar.ax.yaxis.set_minor_formatter(NullFormatter())
    bar.outline.set_visible(False)


def _draw_cells(axes: Axes, moved: Movement, which: Callable[[float], bool], colour: str) -> None:
    """Paints the cells whose value is as `which` says."""
    import numpy as np
    from matplotlib.colors import ListedColormap

    chosen = np.array([[which(value) for value in row] for row in moved.relative])
    if not chosen.any():
        return
    cells = np.ma.masked_where(~chosen, np.ones(chosen.shape))
    edges = np.arange(chosen.shape[1] + 1), np.arange(chosen.shape[0] + 1)
    axes.pcolormesh(*edges, cells, cmap=ListedColormap([colour]), rasterized=chosen.size > 2000)


def _label_rows(axes: Axes, layers: Sequence[str], palette: Palette) -> None:
    groups = spaced(row_groups(layers), rows_apart=_LABEL_HEIGHT * len(layers) / _rows_height(len(layers)))
    size = 8 if len(groups) <= 30 else 7
    axes.set_yticks([(first + end) / 2 for first, end, _ in groups], [_short(name) for _, _, name in groups])
    axes.tick_params(axis="y", length=0, labelsize=size, colors=palette.ink)
    axes.set_ylabel("layer", color=palette.ink, fontsize=9)
    if len(groups) < len(layers) and not groups[0][2].endswith("…"):
        for first, _, _ in groups[1:]:
            axes.axhline(first, color=palette.paper, linewidth=0.6)


def _short(name: str) -> str:
    name = name if len(name) <= 44 else "…" + name[-43:]
    return name.replace("$", r"\$")  # no formulas


def row_groups(layers: Sequence[str]) -> list[tuple[int, int, str]]:
    """First row, row behind the last, and label of each run of layers that gets one label.

    Every layer has its own where there is room; else those share one that begin alike, as deep into their names as
    there is room for; and where names do not help, one stands for as many as it must.
    """
    count = len(layers)
    if count <= _MOST_LABELS:
        return [(k, k + 1, name) for k, name in enumerate(layers)]
    best: list[tuple[int, int, str]] = []
    for depth in range(1, 1 + max(name.count(".") for name in layers)):
        starts = [".".join(name.split(".")[:depth]) for name in layers]
        firsts = [k for k in range(count) if k == 0 or starts[k] != starts[k - 1]]
        if len(firsts) > _MOST_LABELS:
            break
        best = [(a, b, starts[a]) for a, b in zip(firsts, [*firsts[1:], count], strict=True)]
    if len(best) >= 3:
        return best
    step = math.ceil(count / _MOST_LABELS)
    return [(k, min(k + step, count), f"{layers[k]} …") for k in range(0, count, step)]


def spaced(groups: Sequence[tuple[int, int, str]], *, rows_apart: float) -> list[tuple[int, int, str]]:
    """The groups, those joined whose labels would lie upon each other."""
    found: list[tuple[int, int, str]] = []
    for first, end, name in groups:
        if found and (first + end - found[-1][0] - found[-1][1]) / 2 < rows_apart:
            found[-1] = (found[-1][0], end, f"{found[-1][2]}, {name}")
        else:
            found.append((first, end, name))
    return found


def _label_columns(axes: Axes, seen: HistoryOverview, moved: Movement, palette: Palette) -> None:
    """The snapshots stand between the columns: a column is the way from one to the next."""
    count = len(moved.snapshots)
    step = math.ceil((count - 1) / _MOST_STEPS)
    places = sorted({*range(0, count, step), count - 1})
    if len(places) > 1 and places[-1] - places[-2] < step:
        del places[-2]
    axes.set_xticks(places, [_when(seen, moved.snapshots[k]) for k in places])
    axes.tick_params(axis="x", labelsize=8, colors=palette.ink, color=palette.ink)
    axes.set_xlabel(f"kept snapshots, by {seen.counter or 'number'}", color=palette.ink, fontsize=9)


def _explain(part: Any, kinds: Sequence[tuple[str, str]], palette: Palette) -> None:
    from matplotlib.patches import Patch

    part.legend(
        handles=[Patch(color=colour, label=label) for colour, label in kinds],
        loc="outside lower left",
        ncols=2,
        fontsize=8,
        frameon=False,
        labelcolor=palette.ink,
    )
