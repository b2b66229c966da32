"""A bench as a figure: time against size, and how much of the memory's speed is reached.

matplotlib is imported when a figure is drawn. Figures are made without pyplot: the caller's backend, open
figures and settings stay as they are.
"""

from __future__ import annotations

import dataclasses
import io
import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._tensors import format_bytes, format_seconds
from ..bench.preflight import format_size
from ..bench.records import BenchReport, Limit, Measurement
from .bench import fastest_first, heading, notes, percent, source_name, timed_sizes
from .files import write_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HIGHLIGHTED = ("clone", "detach_clone", "empty_like_copy_", "tensor", "new_tensor", "deepcopy", "tc.copy")
_MOST_LINES = 8
_FEW_LINES = 3
_MOST_ROWS = 8
_COLOURS = ("#d55e00", "#3a8fd0", "#009e73", "#cc6fa5", "#b8860b", "#8a6fdf", "#4bb3b3", "#a0522d")
_MARKERS = "osD^vPXp"
_LIMIT_COLOUR = "#d62f4b"
_OTHER_COLOUR = "#9a9a9a"
_FREE_COLOUR = "#7f9fbf"


@dataclasses.dataclass(frozen=True)
class Palette:
    """The colours that depend on the page.

    Attributes:
        ink: text and axes.
        grid: grid lines.
        paper: what the figure lies on; `none` for transparent.
        halo: around labels that cross a line.
    """

    ink: str
    grid: str
    paper: str
    halo: str


LIGHT = Palette("#1c1c1c", "#dcdcdc", "#ffffff", "#ffffff")
# Colours that stand for the page's own; `as_svg` puts CSS in their place.
_STAND_IN = Palette("#010203", "#040506", "none", "#070809")


def write_plot(path: Path, report: BenchReport) -> None:
    """Draws the report into a .png or .svg file, whole or not at all.

    Raises:
        InputError: the file cannot be written.
    """
    content = io.BytesIO()
    kind = path.suffix.lower().removeprefix(".")
    figure = draw(report)
    metadata = {"Date": None} if kind == "svg" else None
    figure.savefig(content, format=kind, dpi=144, metadata=metadata, facecolor=figure.get_facecolor())
    write_bytes(path, content.getvalue())


def as_svg(report: BenchReport) -> str:
    """The figure as an `<svg>` element that takes text and grid colours from the page around it."""
    content = io.StringIO()
    draw(report, _STAND_IN, framed=False).savefig(content, format="svg", transparent=True, metadata={"Date": None})
    svg = content.getvalue()
    svg = svg[svg.index("<svg") :]
    for colour, css in (
        (_STAND_IN.ink, "currentColor"),
        (_STAND_IN.grid, "var(--grid)"),
        (_STAND_IN.halo, "var(--paper)"),
    ):
        svg = svg.replace(colour, css)
    return svg


def draw(report: BenchReport, palette: Palette = LIGHT, *, framed: bool = True) -> Figure:
    """The report as a figure: two panels for each source; with a title and the machine's name if it is `framed`."""
    from matplotlib.figure import Figure

    sources = [source for source in report.sources if timed_sizes(report, source)]
    shown = sources[:_MOST_ROWS]
    heights = [_row_height(report, source) for source in shown] or [2.0]
    figure = Figure(
        figsize=(11, sum(heights) + (1.1 if framed else 0.0)), facecolor=palette.paper, layout="constrained"
    )
    figure.get_layout_engine().set(h_pad=0.12, w_pad=0.12)  # type: ignore[union-attr,call-arg]
    if framed:
        foot = _foot(report, len(sources) - len(shown))
        figure.suptitle(heading(report), color=palette.ink, fontsize=13, fontweight="bold", x=0.01, ha="left")
        figure.supxlabel(foot, color=palette.ink, fontsize=8, x=0.01, ha="left")
    if not shown:
        figure.text(0.5, 0.5, "nothing was timed", color=palette.ink, ha="center")
        return figure
    parts = figure.subfigures(len(shown), 1, squeeze=False, height_ratios=heights)
    for part, source in zip(parts[:, 0], shown, strict=True):
        part.set_facecolor(palette.paper)
        left, right = part.subplots(1, 2)
        for axes in (left, right):
            _dress(axes, palette)
        if len(timed_sizes(report, source)) > 1:
            _draw_lines(part, left, right, report, source, palette)
        else:
            _draw_bars(left, right, report, source, palette)
        if len(report.sources) > 1:
            part.suptitle(source_name(report, source), color=palette.ink, fontsize=11, x=0.01, ha="left")
    return figure


def _row_height(report: BenchReport, source: str) -> float:
    if len(timed_sizes(report, source)) > 1:
        return 6.2
    return 1.3 + 0.27 * sum(1 for m in report.of(source=source) if m.timing is not None)


def _foot(report: BenchReport, rows_left_out: int) -> str:
    lines = [str(report.machine)]
    if rows_left_out:
        lines.append(f"{rows_left_out} more sources are in the JSON and on the page.")
    lines += [line for line in notes(report) if line.startswith("Other programs")]
    return "\n".join(textwrap.fill(line, 150) for line in lines)


def _dress(axes: Axes, palette: Palette) -> None:
    axes.set_facecolor(palette.paper)
    axes.grid(True, which="major", color=palette.grid, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=palette.ink, labelsize=9, which="both")
    axes.tick_params(which="minor", length=0)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(palette.ink)


# --- many sizes ----------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Style:
    colour: str
    marker: str
    width: float
    order: int


def _draw_lines(part: Any, left: Axes, right: Axes, report: BenchReport, source: str, palette: Palette) -> None:
    by_method = {method: _timed(report, method, source) for method in report.methods}
    copies = [method for method, points in by_method.items() if points and all(m.is_copy for m in points)]
    free = [method for method, points in by_method.items() if points and not any(m.is_copy for m in points)]
    mixed = [method for method, points in by_method.items() if points and method not in copies + free]
    chosen = _choose(copies + mixed, by_method)
    others = [method for method in copies + mixed if method not in chosen]
    handles: dict[str, Any] = {}
    limits = sorted((limit for limit in report.limits if limit.source == source), key=lambda limit: limit.bytes)
    handles["limit: a warm copy_"] = _limit_line(left, right, limits)
    for position, method in enumerate(chosen):
        style = _Style(_COLOURS[position], _MARKERS[position], 1.8, 4)
        handles[method] = _method_line(left, right, by_method[method], style)
    for method in others:
        line = _method_line(left, right, by_method[method], _Style(_OTHER_COLOUR, "", 0.9, 3))
        handles[f"{len(others)} more copies"] = line
    if len(free) <= _FEW_LINES:
        for position, method in enumerate(free):
            style = _Style(_FREE_COLOUR, _MARKERS[position], 1.4, 3)
            handles[f"{method} (copies nothing)"] = _method_line(left, right, by_method[method], style)
    else:
        handles[f"{len(free)} that copy nothing"] = _free_band(
            left, [m for method in free for m in by_method[method]]
        )
    shares = [m.ratio_to_limit or 0.0 for points in by_method.values() for m in points]
    _size_axes(left, right, top=min(max(1.0, *shares), 1.6))
    _titles(left, right, palette)
    named = [f"{len(others)} more copies: {', '.join(others)}"] if others else []
    if len(free) > _FEW_LINES:
        named.append(f"{len(free)} that copy nothing (memory shared, or lazy): {', '.join(free)}")
    legend = part.legend(
        list(handles.values()),
        list(handles),
        loc="outside lower left",
        ncols=min(len(handles), 6),
        fontsize=9,
        frameon=False,
        labelcolor=palette.ink,
        title="\n".join(textwrap.fill(line, 160, subsequent_indent="    ") for line in named) or None,
        title_fontsize=8,
        alignment="left",
    )
    legend.get_title().set_color(palette.ink)


def _timed(report: BenchReport, method: str, source: str) -> list[Measurement]:
    return [m for m in report.of(method=method, source=source) if m.timing is not None]


def _choose(methods: Sequence[str], by_method: dict[str, list[Measurement]]) -> list[str]:
    """The methods that get a colour: all when they are few, else the best known, the fastest and the slowest."""
    if len(methods) <= _MOST_LINES:
        return list(methods)
    ranked = [m.method for m in fastest_first([by_method[method][-1] for method in methods])]
    wanted = [*(method for method in _HIGHLIGHTED if method in methods), ranked[0], ranked[-1], *ranked]
    chosen = list(dict.fromkeys(wanted))[:_MOST_LINES]
    return [method for method in ranked if method in chosen]


def _limit_line(left: Axes, right: Axes, limits: Sequence[Limit]) -> Any:
    sizes = [limit.bytes for limit in limits]
    times = [limit.timing for limit in limits]
    (line,) = left.plot(
        sizes,
        [t.median_seconds for t in times],
        color=_LIMIT_COLOUR,
        linestyle=(0, (5, 2)),
        linewidth=2.2,
        zorder=6,
    )
    low, high = [t.low_seconds for t in times], [t.high_seconds for t in times]
    left.fill_between(sizes, low, high, color=_LIMIT_COLOUR, alpha=0.2, linewidth=0, zorder=2)
    right.axhline(100, color=_LIMIT_COLOUR, linestyle=(0, (5, 2)), linewidth=2.2, zorder=6)
    return line


def _method_line(left: Axes, right: Axes, points: Sequence[Measurement], style: _Style) -> Any:
    timed = [(m.bytes, m.timing) for m in points if m.timing is not None]
    sizes = [size for size, _ in timed]
    look: dict[str, Any] = {
        "color": style.colour,
        "marker": style.marker,
        "markersize": 4,
        "linewidth": style.width,
        "zorder": style.order,
    }
    (line,) = left.plot(sizes, [t.median_seconds for _, t in timed], **look)
    low, high = [t.low_seconds for _, t in timed], [t.high_seconds for _, t in timed]
    left.fill_between(sizes, low, high, color=style.colour, alpha=0.2, linewidth=0, zorder=2)
    shares = [(m.bytes, m.ratio_to_limit, m.timing) for m in points if m.ratio_to_limit is not None and m.timing]
    sizes = [size for size, _, _ in shares]
    right.plot(sizes, [100 * share for _, share, _ in shares], **look)
    right.fill_between(
        sizes,
        [100 * share * t.median_seconds / t.high_seconds for _, share, t in shares],
        [100 * share * t.median_seconds / t.low_seconds for _, share, t in shares],
        color=style.colour,
        alpha=0.15,
        linewidth=0,
        zorder=2,
    )
    return line


def _free_band(left: Axes, points: Sequence[Measurement]) -> Any:
    """One band from the fastest to the slowest of the methods that copy nothing."""
    times: dict[int, list[float]] = {}
    for m in points:
        if m.timing is not None:
            times.setdefault(m.bytes, []).append(m.timing.median_seconds)
    sizes = sorted(times)
    return left.fill_between(
        sizes,
        [min(times[size]) for size in sizes],
        [max(times[size]) for size in sizes],
        color=_FREE_COLOUR,
        alpha=0.3,
        linewidth=0,
        zorder=1,
    )


def _size_axes(left: Axes, right: Axes, *, top: float) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for axes in (left, right):
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(base=10, numticks=12))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: _short(format_bytes(size))))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel("bytes copied")
        axes.margins(x=0.02)
    left.set_yscale("log")
    _time_ticks(left, "y")
    right.set_ylim(0, 108 * top)


def _time_ticks(axes: Axes, which: str) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis = axes.yaxis if which == "y" else axes.xaxis
    axis.set_major_locator(LogLocator(base=10, numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda seconds, _: format_seconds(seconds * (1 + 1e-9))))
    axis.set_minor_formatter(NullFormatter())


def _short(text: str) -> str:
    """`1 kB` for `1.00 kB`: ticks lie on whole numbers."""
    number, unit = text.split(" ")
    return f"{float(number):g} {unit}"


def _titles(left: Axes, right: Axes, palette: Palette) -> None:
    left.set_title("Time of one call (median, band: quartiles)", color=palette.ink, fontsize=10, loc="left")
    right.set_title("Share of the memory's speed (warm copy_ = 100 %)", color=palette.ink, fontsize=10, loc="left")
    for axes in (left, right):
        axes.xaxis.label.set_color(palette.ink)
        axes.xaxis.label.set_fontsize(9)


# --- one size ------------------------------------------------------------------------------------------------


def _draw_bars(left: Axes, right: Axes, report: BenchReport, source: str, palette: Palette) -> None:
    from matplotlib.patheffects import withStroke

    numel = timed_sizes(report, source)[0]
    rows = fastest_first([m for m in report.of(source=source) if m.timing is not None])[::-1]
    limit = report.limit(source, numel)
    places = range(len(rows))
    times = [m.timing for m in rows if m.timing is not None]
    medians = [t.median_seconds for t in times]
    errors = [
        [t.median_seconds - t.low_seconds for t in times],
        [t.high_seconds - t.median_seconds for t in times],
    ]
    colours = [_COLOURS[1] if m.is_copy else _FREE_COLOUR for m in rows]
    bars = left.barh(places, medians, xerr=errors, color=colours, height=0.65, ecolor=palette.ink, zorder=3)
    left.set_xscale("log")
    lowest = min([*medians, *([limit.timing.median_seconds] if limit else [])])
    highest = max(t.high_seconds for t in times)
    left.set_xlim(10 ** math.floor(math.log10(lowest) - 0.1), highest * 4)
    _time_ticks(left, "x")
    left.set_yticks(list(places), [m.method for m in rows])
    halo = [withStroke(linewidth=2.5, foreground=palette.halo)]
    label: dict[str, Any] = {"padding": 4, "fontsize": 8, "color": palette.ink, "path_effects": halo, "zorder": 6}
    left.bar_label(bars, [format_seconds(t) for t in medians], **label)
    shares = [100 * (m.ratio_to_limit or 0.0) for m in rows]
    shown = [min(share, 160.0) for share in shares]
    bars = right.barh(places, shown, color=colours, height=0.65, zorder=3)
    labels = [percent(m.ratio_to_limit) if m.is_copy else "no copy" for m in rows]
    right.bar_label(bars, labels, **label)
    right.set_yticks(list(places), [])
    right.set_xlim(0, max(118.0, *(share * 1.15 for share in shown)))
    right.set_xlabel("% of a warm copy_")
    for axes in (left, right):
        axes.grid(False, axis="y")
        axes.set_ylim(-0.7, len(rows) - 0.3)
    if limit is not None:
        place = limit.timing.median_seconds
        left.axvline(place, color=_LIMIT_COLOUR, linestyle=(0, (5, 2)), linewidth=1.8, zorder=4)
        right.axvline(100, color=_LIMIT_COLOUR, linestyle=(0, (5, 2)), linewidth=1.8, zorder=4)
        size = f"{format_size(numel)} elements, {format_bytes(limit.bytes)}"
        left.set_xlabel(f"{size}; dashed: limit {format_seconds(place)} ({limit.bytes_per_second / 1e9:.1f} GB/s)")
    _titles(left, right, palette)
    left.set_title("Time of one call (median, quartiles)", color=palette.ink, fontsize=10, loc="left")
