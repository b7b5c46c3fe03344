"""Maps of reproduced items: distance matrices, clouds of features and coloured tables.

Every map is made from plain data, as `figures` gives it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from cophenet.report.style import INK, color_bar, hide_axes, scatter_groups, styled

__all__ = ["clouds_figure", "heat_figure", "matrices_figure"]


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
            # The zeros of the diagonal, left white, would take most of the colours.
            np.fill_diagonal(matrix, np.nan)
            image = axes.imshow(matrix)
            for cut in panel["cuts"]:
                axes.axhline(cut - 0.5, color="#ffffff", linewidth=0.3)
                axes.axvline(cut - 0.5, color="#ffffff", linewidth=0.3)
            axes.set_title(f"{row['name']}, {panel['title']}", loc="left")
            hide_axes(axes)
            color_bar(figure, image, axes, shrink=0.75)
    return figure


@styled
def clouds_figure(data: Mapping[str, Any]) -> Figure:
    """Features in the plane, coloured by group.

    Args:
        data: "groups" (names), and "panels" of "title", "points" (n, 2) and "group" (n,).
    """
    panels = data["panels"]
    figure = Figure(figsize=(3.9 * max(len(panels), 1), 4.3), layout="constrained", dpi=160)
    for place, panel in enumerate(panels):
        axes = figure.add_subplot(1, len(panels), place + 1)
        points, groups = np.asarray(panel["points"]), np.asarray(panel["group"])
        scatter_groups(axes, points, groups, size=7, names=None if place else data["groups"])
        axes.set_title(panel["title"], loc="left")
        hide_axes(axes)
    if panels:
        figure.legend(loc="outside lower left", ncols=2 * len(panels), markerscale=2, fontsize=7)
    return figure


@styled
def heat_figure(data: Mapping[str, Any]) -> Figure:
    """A table whose cells are coloured by where a number stands in its column, from least to most.

    Args:
        data: "columns", "rows" (names) and "values", (rows, columns) fractions shown as percent, or None.
    """
    values = np.array(
        [[np.nan if v is None else v for v in row] for row in data["values"]], dtype=np.float64
    ).reshape(len(data["rows"]), len(data["columns"]))
    figure = Figure(
        figsize=(1.6 + 0.85 * len(data["columns"]), 0.9 + 0.34 * max(len(data["rows"]), 1)),
        layout="constrained",
    )
    axes = figure.add_subplot()
    shade = np.full_like(values, np.nan)  # what is missing stays white
    for column in range(values.shape[1]):
        known = np.isfinite(values[:, column])
        low, high = (values[known, column].min(), values[known, column].max()) if known.any() else (0.0, 0.0)
        shade[known, column] = (values[known, column] - low) / (high - low) if high > low else 0.5
    # The darker part of the map is too dark for dark digits.
    if values.size:
        axes.imshow(0.6 + 0.4 * shade, vmin=0.0, vmax=1.0, aspect="auto")
    for (i, j), value in np.ndenumerate(values):
        text = "-" if np.isnan(value) else f"{100 * value:.2f}"
        axes.text(j, i, text, ha="center", va="center", color=INK)
    hide_axes(axes)
    axes.set_xticks(range(len(data["columns"])), data["columns"])
    axes.set_yticks(range(len(data["rows"])), data["rows"])
    axes.xaxis.tick_top()
    return figure
