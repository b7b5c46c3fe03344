"""How every picture looks: colours and markers for all eyes, sizes for small screens, SVG that never varies.

Figures are made with matplotlib's object interface, without a backend or any global state. In a page, ink
and grid take the colours of its scheme.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ParamSpec
from xml.etree import ElementTree

import matplotlib
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.markers import MarkerStyle
from matplotlib.ticker import PercentFormatter

__all__ = [
    "COLORS",
    "GRID",
    "INK",
    "MARKERS",
    "MUTED",
    "as_svg",
    "color_bar",
    "hide_axes",
    "look",
    "marker_svg",
    "scatter_groups",
    "show_percent",
    "styled",
]

# The palette of Okabe and Ito without black and yellow, which a dark or light page would swallow, and a grey.
COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#868e96")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
INK, MUTED, GRID = "#1b1f24", "#59626d", "#d5dae0"

_VARIABLES = {INK: "var(--ink)", MUTED: "var(--muted)", GRID: "var(--line)"}
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
_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
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
    alpha: float | None = None,
    names: Sequence[str] | None = None,
) -> None:
    """Samples as points, with the colour and marker of their group.

    Args:
        axes: Where to.
        points: Places in the plane, shape (N, 2).
        groups: Groups of the samples, shape (N,).
        size: Of a point.
        alpha: How opaque a point is.
        names: Names of the groups, for a legend.
    """
    for group in np.unique(groups).tolist():
        color, marker = look(group)
        x, y = points[groups == group].T
        label = None if names is None else names[group]
        # Pixels instead of thousands of shapes.
        axes.scatter(
            x, y, s=size, c=color, marker=marker, linewidths=0, alpha=alpha, rasterized=True, label=label
        )


def as_svg(figure: Figure, name: str, description: str) -> str:
    """A figure as an SVG element of a page, the same for the same figure.

    Args:
        figure: The figure.
        name: What no other figure of the page is called; its ids begin with it.
        description: What it shows, for those who cannot see it.
    """
    stream = io.BytesIO()
    with matplotlib.rc_context(_SETTINGS), warnings.catch_warnings():
        # Text stays text: the browser has fonts for signs that matplotlib's own lacks.
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from")
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    root = ElementTree.fromstring(stream.getvalue())
    for metadata in root.findall(f"{{{_SVG}}}metadata"):
        root.remove(metadata)
    for element in root.iter():
        _adapt(element, name)
    for size in ("width", "height"):
        del root.attrib[size]
    root.set("role", "img")
    root.set("aria-label", description)
    ElementTree.register_namespace("", _SVG)
    return ElementTree.tostring(root, encoding="unicode")


def _adapt(element: ElementTree.Element, name: str) -> None:
    """Make ids those of one figure, and the colours of ink those of the page."""
    link = element.attrib.pop(f"{{{_XLINK}}}href", None)
    if link is not None:
        element.set("href", f"#{name}-{link[1:]}" if link.startswith("#") else link)
    for key, value in element.attrib.items():
        if key == "id":
            element.set(key, f"{name}-{value}")
        elif key in ("style", "clip-path"):
            value = value.replace("url(#", f"url(#{name}-")
            element.set(key, re.sub("#[0-9a-f]{6}", lambda color: _VARIABLES.get(color[0], color[0]), value))


def marker_svg(color: str, marker: str) -> str:
    """A marker as a small SVG element, for a legend beside the picture."""
    style = MarkerStyle(marker)
    path = style.get_path().transformed(style.get_transform())
    low, high = path.get_extents().get_points()
    scale = 8 / max(high - low)
    steps = []
    for points, code in path.iter_segments():
        letter = {1: "M", 2: "L", 3: "Q", 4: "C", 79: "Z"}[int(code)]
        places = [] if letter == "Z" else (points.reshape(-1, 2) * [scale, -scale] + 5).ravel()
        steps.append(letter + " ".join(f"{place:.2f}" for place in places))
    return f'<svg viewBox="0 0 10 10" aria-hidden="true"><path fill="{color}" d="{"".join(steps)}"/></svg>'
