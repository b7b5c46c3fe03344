"""Pictures of distances between classes, sorted by the tree."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cophenet.report.style import color_bar, hide_axes, styled
from cophenet.tree import Hierarchy

__all__ = ["matrix_figure", "square", "tree_order"]

_MOST_LABELS = 26
_LONGEST = 16
_DEEPEST_LINES = 3


def tree_order(tree: Hierarchy) -> npt.NDArray[np.int64]:
    """Labels of the classes in the order in which a drawing of the tree has them, shape (num_classes,).

    Example:
        >>> tree = Hierarchy.from_paths([("pet", "cat"), ("car", "van"), ("pet", "dog")])
        >>> tree_order(tree)
        array([0, 2, 1])
    """
    return np.argsort(tree.leaves)


def square(condensed: Sequence[float] | npt.NDArray[np.float64], size: int) -> npt.NDArray[np.float64]:
    """The symmetric (size, size) matrix of distances given for pairs as `itertools.combinations` has them.

    Raises:
        ValueError: If their number does not fit.

    Example:
        >>> square([1.0, 2.0, 3.0], 3)
        array([[0., 1., 2.],
               [1., 0., 3.],
               [2., 3., 0.]])
    """
    if len(condensed) != size * (size - 1) // 2:
        raise ValueError(f"{size} classes have {size * (size - 1) // 2} distances, got {len(condensed)}")
    upper = np.triu_indices(size, 1)
    matrix = np.zeros((size, size))
    matrix[upper] = matrix.T[upper] = condensed
    return matrix


@styled
def matrix_figure(matrix: npt.NDArray[np.float64], tree: Hierarchy, title: str) -> Figure:
    """Distances between the classes of a tree as colours, groups set apart by lines.

    Args:
        matrix: Distances in label order, shape (num_classes, num_classes).
        tree: The tree, whose order and groups are shown.
        title: What they are.
    """
    order = tree_order(tree)
    figure = Figure(figsize=(4.4, 4.0), layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(matrix[np.ix_(order, order)], vmin=0.0)
    axes.set_title(title, loc="left")
    hide_axes(axes)
    for depth in range(1, min(tree.height, _DEEPEST_LINES + 1)):
        _separate(axes, tree, order, depth)
    _label(axes, tree, order)
    color_bar(figure, image, axes, shrink=0.8, aspect=26)
    return figure


def _separate(axes: Axes, tree: Hierarchy, order: npt.NDArray[np.int64], depth: int) -> None:
    """Lines between the groups of a level, the thinner the deeper."""
    groups = tree.ancestors(depth)[order]
    cuts = np.flatnonzero(groups[1:] != groups[:-1]) + 0.5
    small_groups = len(order) > _MOST_LABELS and len(order) < 4 * (len(cuts) + 1)
    if depth > 1 and (small_groups or len(cuts) == len(order) - 1):
        return  # lines would hide the colours
    width = min(1.2, 110 / len(order)) / depth
    ends = (-0.5, len(order) - 0.5)
    axes.hlines(cuts, *ends, color="#ffffff", linewidth=width)
    axes.vlines(cuts, *ends, color="#ffffff", linewidth=width)


def _label(axes: Axes, tree: Hierarchy, order: npt.NDArray[np.int64]) -> None:
    """Names of the classes where there is room, else of the groups, else of some groups."""
    names = [tree.classes[label] for label in order]
    places = np.arange(len(order), dtype=np.float64)
    if len(order) > _MOST_LABELS:
        groups = tree.ancestors(1)[order]
        nodes, first, counts = np.unique(groups, return_index=True, return_counts=True)
        step = -(-len(nodes) // _MOST_LABELS)
        names = [tree.names[node] for node in nodes[::step]]
        places = (first + (counts - 1) / 2)[::step]
    short = [name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…" for name in names]
    size = 7 if len(short) > 12 else 8
    axes.set_xticks(places, short, rotation=90, fontsize=size)
    axes.set_yticks(places, short, fontsize=size)
