"""Distances and similarities between classes, read off the tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cophenet.tree.parts import FloatArray, IntArray

if TYPE_CHECKING:
    from cophenet.tree.hierarchy import Hierarchy

ClassList = Sequence[int] | Sequence[str] | npt.NDArray[Any]

KINDS = ("path", "lca-height", "wu-palmer")


def to_labels(tree: Hierarchy, classes: ClassList | None) -> IntArray:
    """Labels of the chosen classes, given by label or by name; None for all. Shape: (k,)."""
    if classes is None:
        return np.arange(tree.num_classes)
    array = np.asarray(classes)
    if array.ndim != 1:
        raise ValueError(f"classes must be a one-dimensional list of labels or names, got {classes!r}")
    if array.size == 0:
        return np.zeros(0, dtype=np.int64)
    if not np.issubdtype(array.dtype, np.integer):
        return np.array([tree.index(name) for name in classes], dtype=np.int64)
    wrong = (array < 0) | (array >= tree.num_classes)
    if wrong.any():
        bad = array[np.argmax(wrong)]
        raise ValueError(f"classes must be labels from 0 to {tree.num_classes - 1}, got {bad}")
    return array.astype(np.int64)


def distances(tree: Hierarchy, classes: ClassList | None = None, *, kind: str = "path") -> FloatArray:
    """Distances between the chosen classes, from the tree alone.

    Time and memory are those of the (k, k) result, whatever the depth of the tree.

    Args:
        tree: This tree.
        classes: Labels or names, in any order; a repeated class gives a repeated row. None for all classes.
        kind: ``"path"`` is the weighted shortest path between two classes. ``"lca-height"`` is the number of
            edges from their lowest common ancestor down to its deepest class, 0 for a class and itself.
            ``"wu-palmer"`` is a similarity, twice the depth of the lowest common ancestor over the sum of the
            two depths, where the root has depth 1; it is 1 for a class and itself.

    Returns:
        Array of shape (k, k), float64, rows and columns in the order of ``classes``.

    Example:
        >>> from cophenet.tree import Hierarchy
        >>> tree = Hierarchy.from_paths([("animal", "cat"), ("animal", "dog"), ("vehicle", "car")])
        >>> tree.distances()
        array([[0., 2., 4.],
               [2., 0., 4.],
               [4., 4., 0.]])
        >>> tree.distances(["car", "dog"], kind="lca-height")
        array([[0., 2.],
               [2., 0.]])
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {KINDS}, got {kind!r}")
    labels = to_labels(tree, classes)
    lowest = common_ancestors(tree, labels)
    if kind == "lca-height":
        return tree.heights[lowest].astype(np.float64)
    depth = tree.weighted_depths if kind == "path" else tree.depths + 1.0
    own = depth[tree.leaves[labels]]
    shared = depth[lowest]
    if kind == "wu-palmer":
        return np.asarray(2.0 * shared / (own[:, None] + own[None, :]))
    result = own[:, None] - shared
    result += np.subtract(own[None, :], shared, out=shared)
    return result


def condensed(tree: Hierarchy, classes: ClassList | None = None, *, kind: str = "path") -> FloatArray:
    """The upper triangle of :meth:`distances`, pairs in the order of ``itertools.combinations``.

    Args:
        tree: This tree.
        classes: Labels or names, as for :meth:`distances`.
        kind: As for :meth:`distances`.

    Returns:
        Array of shape (k * (k - 1) / 2,), float64.

    Example:
        >>> from cophenet.tree import Hierarchy
        >>> tree = Hierarchy.from_paths([("animal", "cat"), ("animal", "dog"), ("vehicle", "car")])
        >>> tree.condensed()
        array([2., 4., 4.])
    """
    square = distances(tree, classes, kind=kind)
    return square[np.triu(np.ones(square.shape, dtype=bool), 1)]


def common_ancestors(tree: Hierarchy, labels: IntArray) -> npt.NDArray[np.int32]:
    """Lowest common ancestor of every pair of the chosen classes. Shapes: (k,) -> (k, k) node indices.

    Nodes are numbered depth first, so between two leaves the lowest common ancestor is the smallest number
    among the common ancestors of neighbouring leaves: a running minimum over the gaps.
    """
    nodes = tree.leaves[labels]
    order = np.argsort(nodes, kind="stable")
    lowest = np.full((len(nodes), len(nodes)), tree.num_nodes, dtype=np.int32)
    if len(nodes) == 0:
        return lowest
    lowest[:, 1:] = _neighbour_ancestors(tree, labels[order])
    lowest[np.tri(len(nodes), k=-1, dtype=bool)] = tree.num_nodes
    np.fill_diagonal(lowest, nodes[order])
    np.minimum.accumulate(lowest, axis=1, out=lowest)
    np.minimum(lowest, lowest.T, out=lowest)
    if (order[:-1] < order[1:]).all():
        return lowest
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return lowest[np.ix_(place, place)]


def _neighbour_ancestors(tree: Hierarchy, labels: IntArray) -> IntArray:
    """Lowest common ancestor of each class and the next, in tree order. Shapes: (k,) -> (k - 1,)."""
    ranks, gaps = tree.leaf_gaps
    rank = ranks[labels]
    # reduceat takes the range up to the next start, or one element where that is empty: a repeated class.
    minima = np.minimum.reduceat(gaps, rank)[:-1]
    return np.where(rank[:-1] == rank[1:], tree.leaves[labels[:-1]], minima)


def leaf_gaps(parents: IntArray, leaves: IntArray) -> tuple[IntArray, IntArray]:
    """Place of each class in tree order, and the lowest common ancestor of each leaf and the next one.

    Shapes: (num_nodes,), (num_classes,) -> (num_classes,), (num_classes,). The last gap has no right
    neighbour.
    """
    order = np.argsort(leaves)
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order))
    # The node after a leaf hangs on the lowest common ancestor of that leaf and the next leaf.
    gaps = np.append(parents[leaves[order[:-1]] + 1], len(parents))
    return ranks, gaps
