"""Pictures of features as points in the plane, coloured by the tree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from cophenet.report.style import hide_axes, look, marker_svg, scatter_groups, styled
from cophenet.tree import Hierarchy

__all__ = ["Key", "cloud_figure", "cloud_keys"]


@dataclass(frozen=True)
class Key:
    """An entry of a legend.

    Attributes:
        name: Name of the group.
        svg: Its marker.
    """

    name: str
    svg: str


def _groups(tree: Hierarchy, level: str) -> tuple[npt.NDArray[np.int64], list[str]]:
    """The group of each class, numbered in tree order, and the groups' names."""
    nodes, groups = np.unique(tree.ancestors(level), return_inverse=True)
    return groups, [tree.names[node] for node in nodes]


@styled
def cloud_figure(
    points: npt.NDArray[np.floating], labels: npt.NDArray[np.int64], tree: Hierarchy, level: str
) -> Figure:
    """Samples as points, with the colour and marker of their group at a level.

    Args:
        points: Places in the plane, shape (N, 2).
        labels: Classes of the samples, shape (N,).
        tree: The tree.
        level: Name of a level of the tree.
    """
    figure = Figure(figsize=(4.4, 4.0), dpi=160, layout="constrained")
    axes = figure.add_subplot()
    groups, _ = _groups(tree, level)
    size = float(np.clip(9000 / max(len(points), 1), 5, 26))
    scatter_groups(axes, points, groups[labels], size=size, alpha=0.75)
    axes.margins(0.03)
    hide_axes(axes)
    return figure


def cloud_keys(tree: Hierarchy, level: str) -> list[Key]:
    """The legend of `cloud_figure`."""
    return [Key(name, marker_svg(*look(index))) for index, name in enumerate(_groups(tree, level)[1])]
