"""A history as a figure: its metrics over the steps, and how far the weights of each layer moved.

matplotlib is imported when a figure is drawn, and without pyplot: the caller's backend and settings stay as they
are.
"""

from __future__ import annotations

import dataclasses
import io
import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._errors import InputError
from .._output_files import check_writable
from .._tensors import format_bytes
from ..bench.preflight import PLOT_SUFFIXES, has_matplotlib
from ..history.comparing.movement import Movement, movement
from ..history.overview import HistoryOverview, TakenSnapshot, overview
from .bench_plot import LIGHT, Palette
from .files import write_bytes
from .history_heatmap import draw_heatmap, heatmap_height

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..history.history import History

_COLOURS = ("#3a8fd0", "#d55e00", "#009e73", "#cc6fa5", "#b8860b", "#8a6fdf")
_BAD_COLOUR = "#d62f4b"
_DARK = Palette("#e6e6e6", "#4a4a4a", "#1b1b1d", "#1b1b1d")
_MOST_PANELS = 6
_FEW_POINTS = 40
_DECADES = 1.7  # values that are all positive and further apart are drawn on a log scale


def plot(history: History, path: str | Path | None = None, *, part: str | None = None) -> Figure:
    """Draws a history, and writes the figure where a path is given.

    Raises:
        InputError: matplotlib is not installed, there is nothing to draw, no such part, or the file cannot be
            written.
    """
    if not has_matplotlib():
        raise InputError("a plot needs matplotlib, which is not installed: pip install 'torchcopy[plots]'")
    if path is not None:
        path = Path(path)
        if path.suffix.lower() not in PLOT_SUFFIXES:
            raise InputError(f"the name of a plot must end in .png or .svg; got {str(path)!r}")
        check_writable(path, "plot")
    if not history.records:
        raise InputError("there is nothing to draw: the history has taken no snapshot yet")
    figure = draw(overview(history), movement(tuple(history), part=part))
    if path is not None:
        write(figure, path)
    return figure


def write(figure: Figure, path: Path) -> None:
    """Writes the figure as .png or .svg, whole or not at all. An SVG follows its reader's light or dark scheme.

    Raises:
        InputError: the file cannot be written.
    """
    content = io.BytesIO()
    kind = path.suffix.lower().removeprefix(".")
    metadata = {"Date": None} if kind == "svg" else None
    figure.savefig(content, format=kind, dpi=144, metadata=metadata, facecolor=figure.get_facecolor())
    drawn = content.getvalue()
    write_bytes(path, _with_dark_scheme(drawn.decode()).encode() if kind == "svg" else drawn)


def _with_dark_scheme(svg: str) -> str:
    """The SVG with rules that turn ink, grid and paper over for a reader whose scheme is dark."""
    rules = "".join(
        f'[style*="{what}: {light}"]{{{what}:{dark} !important}}'
        for light, dark in ((LIGHT.ink, _DARK.ink), (LIGHT.grid, _DARK.grid), (LIGHT.paper, _DARK.paper))
        for what in ("fill", "stroke")
    )
    place = svg.index(">", svg.index("<svg")) + 1
    return f"{svg[:place]}<style>@media (prefers-color-scheme: dark){{{rules}}}</style>{svg[place:]}"


def draw(seen: HistoryOverview, moved: Movement, palette: Palette = LIGHT) -> Figure:
    """The figure: a panel for each kind of metric, and the heatmap below them."""
    from matplotlib.figure import Figure

    panels = _panels(seen.metrics)
    shown = panels[:_MOST_PANELS]
    columns = {0: 1, 1: 1, 2: 2, 4: 2}.get(len(shown), 3)
    rows = math.ceil(len(shown) / columns)
    heights = [3.1 * rows + 0.35] * bool(shown) + [heatmap_height(moved)]
    figure = Figure(figsize=(11, sum(heights) + 0.7), facecolor=palette.paper, layout="constrained")
    figure.get_layout_engine().set(h_pad=0.1, w_pad=0.1)  # type: ignore[union-attr,call-arg]
    figure.suptitle(_heading(seen), color=palette.ink, fontsize=13, fontweight="bold", x=0.01, ha="left")
    parts = figure.subfigures(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
    for part in parts:
        part.set_facecolor(palette.paper)
    if shown:
        axes = list(parts[0].subplots(rows, columns, squeeze=False).flat)
        for spare in axes[len(shown) :]:
            spare.set_visible(False)
        for one, (title, metrics) in zip(axes, shown, strict=False):
            dress(one, palette)
            _draw_metrics(one, seen, metrics, title, palette)
        _explain(parts[0], seen, [name for _, names in panels[_MOST_PANELS:] for name in names], palette)
    draw_heatmap(parts[-1], seen, moved, palette)
    return figure


def _heading(seen: HistoryOverview) -> str:
    taken, kept = len(seen.taken), len(seen.snapshots)
    return f"{taken} snapshot{'s' * (taken != 1)} taken, {kept} kept: {format_bytes(seen.nbytes)}"


def plain(text: str) -> str:
    """The text as it is: matplotlib reads formulas between dollars, and leaves out labels that begin with `_`."""
    text = text.replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def dress(axes: Axes, palette: Palette) -> None:
    """Gives axes the colours of the page."""
    axes.set_facecolor(palette.paper)
    axes.grid(True, which="major", color=palette.grid, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=palette.ink, labelsize=9, which="both")
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(palette.ink)


# --- metrics -------------------------------------------------------------------------------------------------


def _panels(metrics: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Metrics that share a panel, as their names end alike: `train_loss` and `val_loss` under `loss`."""
    found: dict[str, list[str]] = {}
    for name in metrics:
        found.setdefault(name.replace("/", "_").rpartition("_")[2] or name, []).append(name)
    panels: list[tuple[str, list[str]]] = []
    for title, names in found.items():
        chunks = [names[k : k + len(_COLOURS)] for k in range(0, len(names), len(_COLOURS))]
        panels += [(title if len(chunk) > 1 else chunk[0], chunk) for chunk in chunks]
    return panels


@dataclasses.dataclass(frozen=True)
class _Point:
    when: float
    value: float
    number: int
    kept: bool


def _points(seen: HistoryOverview, metric: str) -> list[_Point]:
    """The snapshots that have a number for the metric."""
    return [
        _Point(seen.when(each), float(each.labels[metric]), each.number, each.kept)
        for each in seen.taken
        if _has_number(each, metric)
    ]


def _has_number(taken: TakenSnapshot, metric: str) -> bool:
    value = taken.labels.get(metric)
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _draw_metrics(axes: Axes, seen: HistoryOverview, metrics: Sequence[str], title: str, palette: Palette) -> None:
    values = [p.value for name in metrics for p in _points(seen, name) if math.isfinite(p.value)]
    if values and min(values) > 0 and math.log10(max(values) / min(values)) > _DECADES:
        axes.set_yscale("log")
    labels = [
        _draw_curve(axes, seen, name, colour, palette) for colour, name in zip(_COLOURS, metrics, strict=False)
    ]
    axes.set_title(labels[0] if len(labels) == 1 else plain(title), color=palette.ink, fontsize=10, loc="left")
    axes.set_xlabel(seen.counter or "snapshot", color=palette.ink, fontsize=9)
    axes.margins(x=0.03, y=0.08)
    _steps(axes, seen)
    if len(labels) > 1:
        axes.legend(fontsize=8, frameon=False, labelcolor=palette.ink)


def _draw_curve(axes: Axes, seen: HistoryOverview, name: str, colour: str, palette: Palette) -> str:
    """One metric: a line through all snapshots, dots where one is kept, a star on the best, crosses for NaN.

    Returns:
        What it is called.
    """
    points = _points(seen, name)
    # NaN and infinite values leave a gap in the line
    values = [p.value if math.isfinite(p.value) else math.nan for p in points]
    marks: dict[str, Any] = {"marker": "o", "markersize": 3.5, "markerfacecolor": palette.paper}
    marks = marks if len(points) <= _FEW_POINTS else {}
    best = next((each for each in seen.snapshots if name in each.best), None)
    label = plain(name)
    if best is not None:
        label = (
            f"{plain(name)}: best {best.labels[name]:.4g} at {seen.counter or 'snapshot'} {_whole(seen.when(best))}"
        )
    axes.plot([p.when for p in points], values, color=colour, linewidth=1.6, label=label, zorder=3, **marks)
    kept = [p for p in points if p.kept and math.isfinite(p.value)]
    size = 6 if len(kept) <= _FEW_POINTS else 3
    axes.plot([p.when for p in kept], [p.value for p in kept], "o", color=colour, markersize=size, zorder=4)
    bad = [p.when for p in points if not math.isfinite(p.value)]
    if bad:
        where = axes.get_xaxis_transform()
        axes.plot(bad, [0.03] * len(bad), "x", color=_BAD_COLOUR, markersize=6, transform=where, zorder=5)
    if best is not None:
        axes.plot(
            [seen.when(best)],
            [best.labels[name]],
            "*",
            color=colour,
            markersize=15,
            markeredgecolor=palette.ink,
            markeredgewidth=0.9,
            zorder=6,
        )
    return label


def _steps(axes: Axes, seen: HistoryOverview) -> None:
    """Ticks at whole numbers where all steps are whole."""
    from matplotlib.ticker import MaxNLocator

    steps = [float(seen.when(each)) for each in seen.taken]
    if min(steps) == max(steps):
        axes.set_xlim(steps[0] - 1, steps[0] + 1)
    whole = all(step.is_integer() for step in steps)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=whole))


def _whole(value: float) -> str:
    """A step as people write it: `100`, not `100.0`."""
    return str(int(value)) if float(value).is_integer() else f"{value:g}"


def _explain(part: Any, seen: HistoryOverview, left_out: Sequence[str], palette: Palette) -> None:
    """What the marks mean, those that there are; and which metrics have no panel."""
    from matplotlib.lines import Line2D

    def mark(marker: str, label: str, size: float, colour: str = palette.ink) -> Line2D:
        return Line2D([], [], color=colour, linestyle="", marker=marker, markersize=size, label=label)

    values = [p for name in seen.metrics for p in _points(seen, name)]
    handles = [mark("o", "kept", 6)]
    if any(not p.kept for p in values) and len(seen.taken) <= _FEW_POINTS:
        handles.append(mark("o", "taken, not kept any more", 3.5))
        handles[-1].set_markerfacecolor(palette.paper)
    elif any(not p.kept for p in values):
        handles.append(Line2D([], [], color=palette.ink, linewidth=1.6, label="all that were taken"))
    if any(each.best for each in seen.snapshots):
        handles.append(mark("*", "best", 12))
    if any(not math.isfinite(p.value) for p in values):
        handles.append(mark("x", "not finite", 6, _BAD_COLOUR))
    title = textwrap.fill(f"Not drawn: {', '.join(map(plain, left_out))}", 150) if left_out else None
    legend = part.legend(
        handles=handles,
        loc="outside lower left",
        ncols=len(handles),
        fontsize=8,
        frameon=False,
        labelcolor=palette.ink,
        title=title,
        title_fontsize=8,
        alignment="left",
    )
    legend.get_title().set_color(palette.ink)
