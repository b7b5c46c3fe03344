"""Charts of reproduced items: lines, dots beside published numbers, scatter with fits, matrices and maps.

Every chart is made from plain data, as returned by `figures`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from cophenet.report.style import COLORS, INK, MARKERS, MUTED, look, show_percent, styled

__all__ = ["clouds_figure", "dots_figure", "heat_figure", "lines_figure", "matrices_figure", "scatter_figure"]

_WIDTH, _ALONE = 3.6, 5.2
_SCATTER_COLUMNS = 2
_LEGEND_COLUMNS = 7


@styled
def lines_figure(data: Mapping[str, Any]) -> Figure:
    """Panels of lines.

    Args:
        data: "panels", each with "title", "x", "y" (labels), "log" (whether both axes are logarithmic),
            "percent", and "series" of "name", "x", "y" and "std" (None for no band); x may be text. A series
            with "of", the name of another series, is the control of that: thin, dotted, in the same colour.
    """
    panels = data["panels"]
    width = _WIDTH * len(panels) if len(panels) > 1 else _ALONE
    figure = Figure(figsize=(width, 4.0), layout="constrained")
    names = list(dict.fromkeys(s.get("of", s["name"]) for panel in panels for s in panel["series"]))
    for place, panel in enumerate(panels):
        axes = figure.add_subplot(1, len(panels), place + 1)
        for series in panel["series"]:
            _line(axes, series, names.index(series.get("of", series["name"])))
        if panel.get("log"):
            axes.set_xscale("log")
            axes.set_yscale("log")
        if panel.get("percent"):
            show_percent(axes.yaxis)
        _name(axes, panel)
    _legend(figure, loc="outside lower left", ncols=max(2, 2 * len(panels)))
    return figure


def _line(axes: Axes, series: Mapping[str, Any], index: int) -> None:
    color, marker = look(index)
    y = np.array(series["y"], dtype=np.float64)
    # Colours repeat after as many series as there are colours; lines are then dashed.
    style: dict[str, Any] = {"linestyle": "-" if index < len(COLORS) else "--"}
    if "of" in series:
        style = {"linestyle": ":", "linewidth": 1.0, "markerfacecolor": "none"}
    axes.plot(series["x"], y, color=color, marker=marker, label=series["name"], **style)
    if series.get("std") is not None:
        std = np.array([value or 0.0 for value in series["std"]], dtype=np.float64)
        axes.fill_between(series["x"], y - std, y + std, color=color, alpha=0.15, linewidth=0)


def _name(axes: Axes, panel: Mapping[str, Any]) -> None:
    """Set the title and the labels of the axes."""
    axes.set_title(panel["title"], loc="left")
    axes.set_xlabel(panel["x"])
    axes.set_ylabel(panel.get("y", ""))


def _legend(figure: Figure, **options: Any) -> None:
    """Draw one legend for all panels: names beside the points would overlap for close points."""
    handles: dict[str, Any] = {}
    for axes in figure.axes:
        handles.update(zip(*axes.get_legend_handles_labels()[::-1], strict=True))
    if handles:
        figure.legend(handles.values(), handles.keys(), **options)


@styled
def dots_figure(data: Mapping[str, Any]) -> Figure:
    """Panels of numbers by row: measured numbers with their spread, and below them published numbers.

    Published numbers have separate axes: beside numbers of another scale, the differences between rows could
    not be seen.

    Args:
        data: "panels", each with "title", "x" (label), "percent", "log", "rows" (names), and "series" of
            "name", "values" and "std", with None where there is no number. A series with "published" has the
            colour of the series named in "of"; in a panel with "together" both are in the same axes.
    """
    panels = [panel for panel in data["panels"] if panel["rows"]]
    lines = [[_part(panel, published) for panel in panels] for published in (False, True)]
    if not any(panel["series"] for panel in lines[1]):
        del lines[1]
    rows = max((len(panel["rows"]) for panel in panels), default=0)
    height = (1.0 + 0.24 * max(rows, 4)) * len(lines) + 0.4
    figure = Figure(figsize=(_WIDTH * max(len(panels), 1), height), layout="constrained")
    names = list(dict.fromkeys(s["name"] for panel in panels for s in panel["series"]))
    for line, drawn in enumerate(lines):
        for place, panel in enumerate(drawn):
            if line and not panel["series"]:
                continue
            axes = figure.add_subplot(len(lines), max(len(panels), 1), line * len(panels) + place + 1)
            _dots_panel(axes, panel, names)
    _legend(figure, loc="outside lower left", ncols=max(2, 2 * len(panels)))
    return figure


def _part(panel: Mapping[str, Any], published: bool) -> dict[str, Any]:
    """A panel with only the published series, or without them; with "together", all are in the latter."""
    apart = not panel.get("together")
    series = [s for s in panel["series"] if (apart and s.get("published", False)) == published]
    return {**panel, "title": panel["title"] + ", paper" * published, "series": series}


def _dots_panel(axes: Axes, panel: Mapping[str, Any], names: Sequence[str]) -> None:
    heights = np.arange(len(panel["rows"]))
    for series in panel["series"]:
        # In the colour of the series to compare it with.
        _dots(axes, series, heights, names.index(series.get("of", series["name"])))
    axes.set_yticks(heights, panel["rows"])
    axes.set_ylim(max(len(heights), 1) - 0.5, -0.5)
    _name(axes, panel)
    if panel.get("log"):
        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        axes.locator_params(axis="x", nbins=4)
    if panel.get("percent"):
        show_percent(axes.xaxis)


def _dots(axes: Axes, series: Mapping[str, Any], heights: Any, index: int) -> None:
    values = np.array(series["values"], dtype=np.float64)
    if not np.isfinite(values).any():
        return
    std = np.array([v or 0.0 for v in series["std"]], dtype=np.float64)
    color, marker = look(index)
    fill = "none" if series.get("published") else color
    style: dict[str, Any] = {"marker": marker, "markerfacecolor": fill, "markersize": 6, "linestyle": "none"}
    axes.errorbar(values, heights, xerr=std, color=color, label=series["name"], **style)


@styled
def scatter_figure(data: Mapping[str, Any]) -> Figure:
    """Panels of named points, each with a fitted line; a name has the same style in all panels.

    Args:
        data: "panels", each with "title", "x", "y" (labels), "points" of "name", "x" and "y" (and "x_std" and
            "y_std" for bars, and "group", whose points share a colour), and "fit" with "slope", "intercept"
            and "correlation", or None; all are fractions, shown as percent.
    """
    panels = data["panels"]
    columns = min(len(panels), _SCATTER_COLUMNS)
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(4.2 * columns, 3.6 * rows + 0.5), layout="constrained")
    looks = _looks([point for panel in panels for point in panel["points"]])
    for place, panel in enumerate(panels):
        axes = figure.add_subplot(rows, columns, place + 1)
        for point in panel["points"]:
            color, marker, fill = looks[point["name"]]
            shape: dict[str, Any] = {"marker": marker, "facecolors": fill, "edgecolors": color}
            axes.scatter(point["x"], point["y"], s=36, label=point["name"], **shape)
            spread = {"xerr": point.get("x_std"), "yerr": point.get("y_std")}
            axes.errorbar(point["x"], point["y"], **spread, fmt="none", ecolor=color, elinewidth=0.8)
        _fitted(axes, panel)
        _name(axes, panel)
        axes.margins(0.12)
        for axis in (axes.xaxis, axes.yaxis):
            show_percent(axis)
    fitting = 100 // (max(map(len, looks), default=0) + 5)  # number of columns that fit the longest name
    _legend(figure, loc="outside lower center", ncols=max(2, min(_LEGEND_COLUMNS, fitting)))
    return figure


def _looks(points: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, str, str]]:
    """Colour, marker and filling of every name: names of a group share the colour."""
    groups: dict[str, dict[str, None]] = {}
    for point in points:
        groups.setdefault(point.get("group", ""), {})[point["name"]] = None
    if len(groups) < 2:
        pairs = ((name, look(place)) for names in groups.values() for place, name in enumerate(names))
        return {name: (color, marker, color) for name, (color, marker) in pairs}
    looks, used = {}, dict.fromkeys(COLORS, 0)
    for names, color in zip(groups.values(), cycle(COLORS)):
        for name in names:
            place, used[color] = used[color], used[color] + 1
            looks[name] = color, MARKERS[place % len(MARKERS)], color if place < len(MARKERS) else "none"
    return looks


def _fitted(axes: Axes, panel: Mapping[str, Any]) -> None:
    fit, points = panel["fit"], panel["points"]
    if fit is None:
        return
    ends = [min(p["x"] for p in points), max(p["x"] for p in points)]
    line = [fit["intercept"] + fit["slope"] * x for x in ends]
    axes.plot(ends, line, color=INK, linewidth=1, linestyle="--")
    text = f"r = {fit['correlation']:.2f}, n = {len(points)}"
    axes.text(0.02, 0.02, text, transform=axes.transAxes, color=MUTED)


def _hide_axes(axes: Axes) -> None:
    """Remove ticks, grid and frame."""
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(False)


@styled
def matrices_figure(data: Mapping[str, Any]) -> Figure:
    """Class distances in the order of the tree, a row of panels for each objective.

    Args:
        data: "rows" of "name" and "panels", each with "title", "matrix" (k, k) sorted by the tree, and
            "cuts", the places where a group of the first level ends.
    """
    rows = data["rows"]
    columns = max((len(row["panels"]) for row in rows), default=1)
    figure = Figure(figsize=(2.9 * columns, 2.8 * max(len(rows), 1)), layout="constrained", dpi=160)
    for i, row in enumerate(rows):
        for j, panel in enumerate(row["panels"]):
            axes = figure.add_subplot(len(rows), columns, i * columns + j + 1)
            matrix = np.array(panel["matrix"], dtype=np.float64)
            # The zeros of the diagonal are left white: they would take up most of the colour range.
            np.fill_diagonal(matrix, np.nan)
            image = axes.imshow(matrix)
            for cut in panel["cuts"]:
                axes.axhline(cut - 0.5, color="#ffffff", linewidth=0.3)
                axes.axvline(cut - 0.5, color="#ffffff", linewidth=0.3)
            axes.set_title(f"{row['name']}, {panel['title']}", loc="left")
            _hide_axes(axes)
            figure.colorbar(image, ax=axes, pad=0.02, shrink=0.75).outline.set_visible(False)
    return figure


@styled
def clouds_figure(data: Mapping[str, Any]) -> Figure:
    """Two-dimensional projections of features, coloured by group.

    Args:
        data: "groups" (names), and "panels" of "title", "points" (n, 2) and "group" (n,).
    """
    panels = data["panels"]
    figure = Figure(figsize=(3.9 * max(len(panels), 1), 4.3), layout="constrained", dpi=160)
    for place, panel in enumerate(panels):
        axes = figure.add_subplot(1, len(panels), place + 1)
        points, groups = np.asarray(panel["points"]), np.asarray(panel["group"])
        for group in np.unique(groups).tolist():
            (color, marker), (x, y) = look(group), points[groups == group].T
            label = None if place else data["groups"][group]
            # Rasterized instead of thousands of vector shapes.
            axes.scatter(x, y, s=7, c=color, marker=marker, linewidths=0, rasterized=True, label=label)
        axes.set_title(panel["title"], loc="left")
        _hide_axes(axes)
    if panels:
        figure.legend(loc="outside lower left", ncols=2 * len(panels), markerscale=2, fontsize=7)
    return figure


@styled
def heat_figure(data: Mapping[str, Any]) -> Figure:
    """A table whose cells are coloured by the place of a number between the extremes of its column.

    Args:
        data: "columns", "rows" (names) and "values", (rows, columns) fractions shown as percent, or None.
    """
    rows, columns = data["rows"], data["columns"]
    values = np.array(data["values"], dtype=np.float64).reshape(len(rows), len(columns))
    size = (1.6 + 0.85 * len(columns), 0.9 + 0.34 * max(len(rows), 1))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    shade = np.full_like(values, np.nan)  # missing values stay white
    for shades, numbers in zip(shade.T, values.T, strict=True):
        known = np.isfinite(numbers)
        low, high = (numbers[known].min(), numbers[known].max()) if known.any() else (0.0, 0.0)
        shades[known] = (numbers[known] - low) / (high - low) if high > low else 0.5
    # Only the lighter part of the colour map: the rest is too dark for dark digits.
    if values.size:
        axes.imshow(0.6 + 0.4 * shade, vmin=0.0, vmax=1.0, aspect="auto")
    for (i, j), value in np.ndenumerate(values):
        text = "-" if np.isnan(value) else f"{100 * value:.2f}"
        axes.text(j, i, text, ha="center", va="center", color=INK)
    _hide_axes(axes)
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.xaxis.tick_top()
    return figure
