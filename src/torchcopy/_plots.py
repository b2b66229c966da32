"""Figures that a record draws of itself: the reporter is loaded when it is called, and matplotlib with it.

The one way back from a room to the reporters, so that `history.plot()` can be written where people look for it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Figure

    from .history.history import History


def plot_history(history: History, path: str | Path | None, part: str | None) -> Figure:
    """What `History.plot` draws, and writes where a path is given."""
    from .reporters.history_plot import plot

    return plot(history, path, part=part)
