"""Style of all figures: colours and markers safe for colour blindness, and sizes for small screens.

Figures are made with matplotlib's object interface, without a backend or any global state.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec

import matplotlib
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from cophenet.report.names import COLORS

__all__ = ["COLORS", "GRID", "INK", "MARKERS", "MUTED", "look", "show_percent", "styled"]

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
INK, MUTED, GRID = "#1b1f24", "#59626d", "#d5dae0"

_SETTINGS: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "text.parse_math": False,  # names may contain dollar signs
    "text.color": INK,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": GRID,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 4,
    "image.cmap": "cividis",
    "image.interpolation": "none",
    "svg.fonttype": "none",
    "svg.hashsalt": "cophenet",
}
_Arguments = ParamSpec("_Arguments")


def styled(make: Callable[_Arguments, Figure]) -> Callable[_Arguments, Figure]:
    """Decorator of a function that makes a figure: applies the style of this module."""

    @wraps(make)
    def inside(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> Figure:
        with matplotlib.rc_context(_SETTINGS):
            return make(*args, **kwargs)

    return inside


def look(index: int) -> tuple[str, str]:
    """Colour and marker of the n-th group; 49 distinct pairs, and consecutive ones differ in both.

    Example:
        >>> look(0), look(1)
        (('#0072b2', 'o'), ('#e69f00', 's'))
        >>> len({look(i) for i in range(49)})
        49
    """
    return COLORS[index % len(COLORS)], MARKERS[(index + index // len(COLORS)) % len(MARKERS)]


def show_percent(axis: Axis) -> None:
    """Format the tick labels of an axis of fractions as percent."""
    axis.set_major_formatter(PercentFormatter(1.0, decimals=None))
