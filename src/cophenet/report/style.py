"""How every figure looks: colours and markers for all eyes, and sizes for small screens.

Figures are made with matplotlib's object interface, without a backend or any global state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ParamSpec

import matplotlib
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import PercentFormatter

from cophenet.report.names import COLORS

__all__ = [
    "COLORS",
    "GRID",
    "INK",
    "MARKERS",
    "MUTED",
    "color_bar",
    "hide_axes",
    "look",
    "scatter_groups",
    "show_percent",
    "styled",
]

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
INK, MUTED, GRID = "#1b1f24", "#59626d", "#d5dae0"

_SETTINGS: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "text.parse_math": False,  # names may hold dollar signs
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
    """Decorator of a function that makes a figure: everything in it has the style of this module."""

    @wraps(make)
    def inside(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> Figure:
        with matplotlib.rc_context(_SETTINGS):
            return make(*args, **kwargs)

    return inside


def look(index: int) -> tuple[str, str]:
    """Colour and marker of the n-th group; 49 of them differ, and neighbours differ in both.

    Example:
        >>> look(0), look(1)
        (('#0072b2', 'o'), ('#e69f00', 's'))
        >>> len({look(i) for i in range(49)})
        49
    """
    return COLORS[index % len(COLORS)], MARKERS[(index + index // len(COLORS)) % len(MARKERS)]


def hide_axes(axes: Axes) -> None:
    """Take away ticks, grid and frame."""
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(False)


def show_percent(axis: Axis) -> None:
    """Write the fractions along an axis as percent."""
    axis.set_major_formatter(PercentFormatter(1.0, decimals=None))


def color_bar(figure: Figure, image: AxesImage, axes: Axes, **options: Any) -> None:
    """What the colours of an image mean, beside it and without a frame.

    Args:
        figure: The figure.
        image: The image.
        axes: Where it is.
        **options: Of `Figure.colorbar`.
    """
    figure.colorbar(image, ax=axes, pad=0.02, **options).outline.set_visible(False)


def scatter_groups(
    axes: Axes,
    points: npt.NDArray[np.floating],
    groups: npt.NDArray[np.int64],
    *,
    size: float,
    names: Sequence[str] | None = None,
) -> None:
    """Samples as points, with the colour and marker of their group.

    Args:
        axes: Where to.
        points: Places in the plane, shape (N, 2).
        groups: Groups of the samples, shape (N,).
        size: Of a point.
        names: Names of the groups, for a legend.
    """
    for group in np.unique(groups).tolist():
        color, marker = look(group)
        x, y = points[groups == group].T
        label = None if names is None else names[group]
        # Pixels instead of thousands of shapes.
        axes.scatter(x, y, s=size, c=color, marker=marker, linewidths=0, rasterized=True, label=label)
