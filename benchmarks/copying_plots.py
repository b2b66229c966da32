"""The copying benchmark as figures: speeds against the limit of the memory, and how cost grows."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from copying_methods import METHODS, METHODS_FOR, named
from copying_results import Found, Growth, Spread
from copying_workloads import WORKLOADS
from matplotlib.figure import Figure

from torchcopy._tensors import format_bytes, format_seconds
from torchcopy.reporters.files import write_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CHARACTERS_PER_INCH = 16  # of the foot's small print
INK, GRID = "#1c1c1c", "#dcdcdc"
OURS, OTHERS, WARM, LIMIT = "#d55e00", "#7f9fbf", "#b9b9b9", "#d62f4b"
COLOURS = {"tc.copy_state": "#d55e00", "tc.fork_state": "#009e73", "deepcopy_state": "#3a8fd0", "clones": "#8a6fdf"}
MARKERS = {"tc.copy_state": "o", "tc.fork_state": "^", "deepcopy_state": "s", "clones": "D"}


def write_all(place: Path, found: Found, growths: Sequence[Growth], machine: str) -> Iterable[Path]:
    """Draws what there is, beside the JSON file `place`; the paths of the figures."""
    figures = {}
    if any(each.seconds("replaced") for each in found.values()):
        figures["speeds"] = draw_speeds(found, machine)
    if any(growth.sizes for growth in growths):
        figures["growth"] = draw_growth(growths, machine)
    for name, figure in figures.items():
        content = io.BytesIO()
        figure.savefig(content, format="png", dpi=144, facecolor="white")
        drawn = place.with_name(f"{place.stem}-{name}.png")
        write_bytes(drawn, content.getvalue())
        yield drawn


def _figure(title: str, foot: str, size: tuple[float, float]) -> Figure:
    figure = Figure(figsize=size, layout="constrained")
    figure.suptitle(title, color=INK, fontsize=13, fontweight="bold", x=0.01, ha="left")
    lines = (textwrap.fill(line, int(CHARACTERS_PER_INCH * size[0])) for line in foot.splitlines())
    figure.supxlabel("\n".join(lines), color=INK, fontsize=8, x=0.01, ha="left")
    return figure


def _dress(axes: Axes) -> None:
    axes.set_axisbelow(True)
    axes.tick_params(colors=INK, labelsize=9, which="both")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(GRID)


# --- speeds --------------------------------------------------------------------------------------------------


def draw_speeds(found: Found, machine: str) -> Figure:
    """A panel of bars for each workload: the speed of each way, as a share of the warm limit's."""
    panels = [(w, methods) for w in dict.fromkeys(w for w, _ in found) if (methods := _bars(found, w))]
    heights = [1.35 + 0.3 * len(methods) for _, methods in panels]
    rows = [max(heights[k : k + 2]) for k in range(0, len(heights), 2)]
    foot = (
        "The warm limit is torch._foreach_copy_ into memory that exists. Orange: torchcopy; grey: into memory that "
        "exists, too. Full bars: best = copy(x) in a loop, with quartiles of the rounds; pale: with memory from "
        "the system at each call. tc.fork copies nothing before a write: its time is in the panel's title.\n"
        f"{machine}"
    )
    figure = _figure("Speed of copying, against the warm limit of the memory", foot, (12, sum(rows) + 1.3))
    columns = min(2, len(panels))
    grid = figure.subplots(len(rows), columns, squeeze=False, gridspec_kw={"height_ratios": rows})
    for axes, (workload, methods) in zip(grid.flat, panels, strict=False):
        _draw_bars(axes, found, workload, methods)
    for axes in list(grid.flat)[len(panels) :]:
        axes.set_axis_off()
    return figure


def _bars(found: Found, workload: str) -> list[str]:
    """The methods that get a bar, the fastest first."""
    timed = []
    for method in METHODS_FOR[workload]:
        spread = found[workload, method].seconds("replaced")
        if spread is not None and method != "limit" and METHODS[method].makes in ("own", "in place"):
            timed.append((spread.median, method))
    return [method for _, method in sorted(timed)]


def _draw_bars(axes: Axes, found: Found, workload: str, methods: Sequence[str]) -> None:
    _dress(axes)
    axes.grid(True, axis="x", color=GRID, linewidth=0.8)
    axes.set_title(_panel_title(found, workload), color=INK, fontsize=9.5, loc="left")
    base_id = next((m for m in ("limit", "deepcopy", "deepcopy_state") if (workload, m) in found), methods[0])
    base = found[workload, base_id].seconds("replaced")
    if base is None:
        axes.text(0.5, 0.5, f"{base_id} was not measured", transform=axes.transAxes, ha="center", color=INK)
        return
    unit = 100.0 if base_id == "limit" else 1.0
    ends = [unit]
    for place, method in enumerate(methods):
        ends.append(_draw_bar(axes, found, (workload, method), place, unit * base.median))
    axes.axvline(unit, color=LIMIT, linestyle=(0, (5, 2)), linewidth=1.6)
    axes.set_yticks(range(len(methods)), [_bar_label(method, workload) for method in methods])
    axes.invert_yaxis()
    axes.set_xlim(0, 1.03 * max(ends))
    what = "% of the speed of the warm limit" if base_id == "limit" else "times as fast as copy.deepcopy"
    axes.set_xlabel(f"{what} ({format_seconds(base.median)})", color=INK, fontsize=9)
    axes.tick_params(axis="y", length=0)


def _panel_title(found: Found, workload: str) -> str:
    text = f"{workload}  {WORKLOADS[workload].title}"
    first = next((m for (w, _), m in found.items() if w == workload and m.bytes), None)
    if first is not None:
        text += f"\n{format_bytes(first.bytes)} in {first.tensors:,} tensors"
    forks = []
    for method in ("tc.fork", "tc.fork_state"):
        spread = found[workload, method].seconds("replaced") if (workload, method) in found else None
        if spread is not None:
            forks.append(
                f"{named(METHODS[method].label, METHODS[method], workload)} {format_seconds(spread.median)}"
            )
    return f"{text}\n{'; '.join(forks)}" if forks else text


_MODELS = ("W1", "W2", "W3", "tiny")
"""Where both a model and its state_dict are copied, the label says which."""


def _bar_label(method_id: str, workload: str) -> str:
    method = METHODS[method_id]
    label = named(method.label, method, workload)
    if workload in _MODELS and method.id in ("deepcopy", "copium"):
        label += " of model"
    elif workload in _MODELS and method.id in ("deepcopy_state", "copium_state"):
        label += " of dict"
    return label


def _draw_bar(axes: Axes, found: Found, key: tuple[str, str], place: int, numerator: float) -> float:
    """Draws `numerator` over the times of one method; how far to the right it reaches."""
    each, method = found[key], METHODS[key[1]]
    spread = each.seconds("replaced")
    fresh: Spread | None = each.seconds("fresh") if method.makes == "own" else None
    if spread is None:
        return 0.0
    colour = OURS if method.is_ours else WARM if method.makes == "in place" else OTHERS
    thick, at = (0.42, place - 0.18) if fresh else (0.7, place)
    value, low, high = (numerator / s for s in (spread.median, spread.high, spread.low))
    axes.barh(at, value, height=thick, color=colour)
    axes.errorbar(value, at, xerr=[[value - low], [high - value]], color=INK, linewidth=0.9, capsize=2)
    # In a column of their own: beside the bars, the times would be written across the line of the limit.
    column = axes.get_yaxis_transform()
    axes.text(1.01, place, format_seconds(spread.median), transform=column, va="center", fontsize=8, color=INK)
    if fresh is None:
        return high
    share = numerator / fresh.median
    axes.barh(place + 0.2, share, height=0.26, color=colour, alpha=0.45)
    return max(high, share)


# --- growth --------------------------------------------------------------------------------------------------

_TITLES = {
    "tensors": "a dict of n tensors of 16×16",
    "bytes": "a dict of one tensor of n bytes",
    "bytes in 100 tensors": "a dict of 100 tensors, n bytes together",
}


def draw_growth(growths: Sequence[Growth], machine: str) -> Figure:
    """Time against size on logarithmic axes, a panel for each kind of growth, with the slopes in the legends."""
    kinds = list(dict.fromkeys(g.kind for g in growths if g.sizes))
    foot = "Slopes are fitted to the upper half of the sizes: 1 is linear, 0 is constant. Dotted: slope 1."
    figure = _figure(
        "Cost grows linearly with tensors and bytes", f"{foot}\n{machine}", (4.6 * len(kinds) + 0.6, 5.6)
    )
    panels = figure.subplots(1, len(kinds), squeeze=False)
    for axes, kind in zip(panels.flat, kinds, strict=True):
        _dress(axes)
        axes.grid(True, which="major", color=GRID, linewidth=0.8)
        axes.set_xscale("log")
        axes.set_yscale("log")
        for g in (g for g in growths if g.kind == kind and g.sizes):
            slope = "" if g.slope is None else f": slope {g.slope:.2f}"
            label = METHODS[g.method].label.format(x="dict") + slope
            axes.plot(g.sizes, g.seconds, color=COLOURS[g.method], marker=MARKERS[g.method], markersize=4,
                      linewidth=1.6, label=label)  # fmt: skip
        _draw_guide(axes, [g for g in growths if g.kind == kind and g.sizes])
        axes.set_title(_TITLES[kind], color=INK, fontsize=10, loc="left")
        axes.set_xlabel("tensors" if kind == "tensors" else "bytes", color=INK, fontsize=9)
        axes.yaxis.set_major_formatter(lambda seconds, _: format_seconds(seconds))
        if kind != "tensors":
            axes.xaxis.set_major_formatter(lambda count, _: _short(format_bytes(count)))
        axes.legend(fontsize=8, frameon=False, loc="upper left", labelcolor=INK)
        low, high = axes.get_ylim()
        axes.set_ylim(low, high * (high / low) ** 0.28)  # room for the legend
    panels.flat[0].set_ylabel("time of a call", color=INK, fontsize=9)
    return figure


def _short(size: str) -> str:
    number, _, unit = size.partition(" ")
    return f"{float(number):g} {unit}"


def _draw_guide(axes: Axes, growths: Sequence[Growth]) -> None:
    """A line of slope 1 through the last point of the first method."""
    sizes, end = np.asarray(growths[0].sizes, dtype=float), growths[0].seconds[-1]
    axes.plot(sizes, end * sizes / sizes[-1], color="#555555", linestyle=":", linewidth=1.0, zorder=1)
