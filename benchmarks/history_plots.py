"""What a hundred snapshots stall a training loop, and what they hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

COLOURS = {"deepcopy": "#7f9fbf", "eager": "#d55e00", "lazy": "#009e73", "background": "#0072b2"}


def draw(loop: dict[str, dict[str, Any]], path: Path) -> Path:
    """Draws the stall of each snapshot and the resident memory after it, a line a method."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    figure, (above, below) = plt.subplots(2, 1, figsize=(8, 8), sharex=True, layout="constrained")
    for method, found in loop.items():
        if "error" in found:
            continue
        name = "copy.deepcopy, the last ten" if method == "deepcopy" else f"History, {method}, keep=10"
        above.semilogy([1e3 * s for s in found["stalls"]], color=COLOURS[method], label=name, lw=1.4)
        below.plot([b / 1e6 for b in found["grown_bytes"]], color=COLOURS[method], label=name, lw=1.4)
    above.set_ylabel("the call, ms")
    above.set_title("A snapshot after each step: ResNet-50 with SGD and momentum, 204 MB", loc="left")
    below.set_ylabel("resident memory, more than before, MB")
    below.set_xlabel("snapshot")
    below.set_ylim(bottom=0)
    for axes in (above, below):
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    above.legend(frameon=False, ncols=2, fontsize=9)
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path
