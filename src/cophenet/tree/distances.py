"""Distances and similarities between classes, computed from the tree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cophenet.tree.nodes import Nodes, lowest_common_ancestors
from cophenet.tree.parts import FloatArray, IntArray

ClassList = Sequence[int] | Sequence[str] | Sequence[Sequence[str]] | npt.NDArray[Any]

KINDS = ("path", "lca-height", "wu-palmer")

# Matrix entries computed per block, so that the working memory fits in the CPU cache.
BLOCK = 1 << 16


class Distances(Nodes):
    """Distances and similarities between the classes of a tree."""

    @property
    def is_equidistant(self) -> bool:
        """Whether all pairs of classes are equally far apart, so that CPCC is undefined.

        This is so for two classes, and for a single branching node with all classes equally deep.

        Example:
            >>> from cophenet.tree import Hierarchy
            >>> Hierarchy.from_paths(["cat", "dog", "car"], sep="/").is_equidistant
            True
            >>> Hierarchy.from_paths(["pet/cat", "pet/dog", "car"], sep="/").is_equidistant
            False
        """
        branching = int((np.bincount(self.parents[1:]) > 1).sum())
        depths = self.weighted_depths[self.leaves]
        return self.num_classes == 2 or (branching == 1 and bool(np.ptp(depths) == 0))

    def distances(self, classes: ClassList | None = None, *, kind: str = "path") -> FloatArray:
        """Distances between the chosen classes, from the tree alone.

        Time and memory are O(k^2), independent of the depth of the tree.

        Args:
            classes: Labels or names, in any order; a repeated class gives a repeated row. None for all
                classes.
            kind: ``"path"`` is the weighted shortest path between two classes. ``"lca-height"`` is the number
                of edges from their lowest common ancestor down to its deepest class, 0 for a class and
                itself. ``"wu-palmer"`` is a similarity, twice the depth of the lowest common ancestor over
                the sum of the two depths, where the root has depth 1; it is 1 for a class and itself.

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
        _check_kind(kind)
        labels = to_labels(self, classes)
        order = np.argsort(self.leaves[labels], kind="stable")
        place = np.argsort(order)
        own, gaps = _depths_along(self, labels[order], kind)
        result = np.empty((len(labels), len(labels)))
        step = max(1, BLOCK // max(1, len(labels)))
        for start in range(0, len(labels), step):
            rows = slice(start, start + step)
            shared = _running_minima(own, gaps, start, min(start + step, len(labels)))
            result[order[rows]] = _combine(own[rows, None], own, shared, kind).take(place, axis=1)
        return result

    def condensed(self, classes: ClassList | None = None, *, kind: str = "path") -> FloatArray:
        """The upper triangle of :meth:`distances`, pairs in the order of ``itertools.combinations``.

        Args:
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
        square = self.distances(classes, kind=kind)
        return square[np.triu(np.ones(square.shape, dtype=bool), 1)]

    def pair_distances(self, first: ClassList, second: ClassList, *, kind: str = "path") -> FloatArray:
        """Distances of given pairs of classes, without computing the matrix of all pairs.

        With k classes in the tree and P pairs, the first call takes O(k log k) time and memory for a table
        cached on the tree, and every call O(P), independent of the depth of the tree.

        Args:
            first: Labels or names of the first classes of the pairs, with any repeats, shape (P,).
            second: Labels or names of the second classes, shape (P,).
            kind: As for :meth:`distances`.

        Returns:
            Array of shape (P,), float64, equal to ``distances(kind=kind)[first, second]``.

        Example:
            >>> import numpy as np
            >>> from cophenet.tree import Hierarchy
            >>> tree = Hierarchy.from_paths([("animal", "cat"), ("animal", "dog"), ("vehicle", "car")])
            >>> tree.pair_distances(np.array([0, 0, 2, 2]), np.array([1, 2, 1, 2]))
            array([2., 4., 4., 0.])
        """
        _check_kind(kind)
        one, other = _checked_labels(self, first, "first"), _checked_labels(self, second, "second")
        if len(one) != len(other):
            raise ValueError(
                f"first and second must have the same length, got {len(one)} and {len(other)} classes"
            )
        nodes, others = self.leaves[one], self.leaves[other]
        shared = lowest_common_ancestors(np, self._first_leaf, self._gap_minima, nodes, others)
        own, its, common = (_depths(self, given, kind) for given in (nodes, others, shared))
        return _combine(own, its, common, kind)


def to_labels(tree: Nodes, classes: ClassList | None) -> IntArray:
    """Labels of the chosen classes, given by label, name or path; None for all. Shape: (k,)."""
    if classes is None:
        return np.arange(tree.num_classes)
    return _checked_labels(tree, classes, "classes")


def _checked_labels(tree: Nodes, classes: ClassList, argument: str) -> IntArray:
    if isinstance(classes, (list, tuple)) and any(_is_path(entry) for entry in classes):
        return np.array([tree.index(entry) for entry in classes], dtype=np.int64)
    array = np.asarray(classes)
    if array.ndim != 1:
        raise ValueError(f"{argument} must be a one-dimensional list of labels or names, got {classes!r}")
    if array.size == 0:
        return np.zeros(0, dtype=np.int64)
    if not np.issubdtype(array.dtype, np.integer):
        # From the list itself, because numpy strips trailing NUL characters from strings.
        names: Iterable[Any] = classes
        return np.array([tree.index(name) for name in names], dtype=np.int64)
    wrong = (array < 0) | (array >= tree.num_classes)
    if wrong.any():
        bad = array[np.argmax(wrong)]
        raise ValueError(f"{argument} must be labels from 0 to {tree.num_classes - 1}, got {bad}")
    return array.astype(np.int64)


def _is_path(entry: object) -> bool:
    return isinstance(entry, (list, tuple)) and bool(entry) and all(isinstance(name, str) for name in entry)


def _check_kind(kind: str) -> None:
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {KINDS}, got {kind!r}")


def _combine(one: FloatArray, other: FloatArray, shared: FloatArray, kind: str) -> FloatArray:
    if kind == "path":
        return (one - shared) + (other - shared)
    return 2.0 * shared / (one + other) if kind == "wu-palmer" else np.abs(shared)


def _depths(tree: Nodes, nodes: IntArray, kind: str) -> FloatArray:
    """Depth-like value that grows from the root down: weighted depth, depth + 1, or negative height.

    Shapes: (n,) -> (n,).
    """
    if kind == "path":
        return tree.weighted_depths[nodes]
    return (tree.depths[nodes] + 1 if kind == "wu-palmer" else -tree.heights[nodes]).astype(np.float64)


def _depths_along(tree: Nodes, labels: IntArray, kind: str) -> tuple[FloatArray, FloatArray]:
    """Depth of each class and of its lowest common ancestor with the next one, for classes in tree order.

    Shapes: (k,) -> (k,), (k - 1,).
    """
    own = _depths(tree, tree.leaves[labels], kind)
    if len(labels) < 2:
        return own, own[:0]
    gaps, rank = tree._leaf_gaps, tree._first_leaf[tree.leaves[labels]]
    # reduceat covers the range up to the next start, or one element if it is empty (a repeated class).
    lowest = np.minimum.reduceat(gaps, rank)[:-1]
    return own, _depths(tree, np.where(rank[:-1] == rank[1:], tree.leaves[labels[:-1]], lowest), kind)


def _running_minima(own: FloatArray, gaps: FloatArray, start: int, stop: int) -> FloatArray:
    """Depth of the lowest common ancestor of classes ``start`` to ``stop`` with all classes, in tree order.

    Between two leaves it is the smallest depth among the common ancestors of neighbouring leaves: a running
    minimum over the gaps, to the right and to the left. Shapes: (k,), (k - 1,) -> (stop - start, k).
    """
    count = stop - start
    passed = np.tri(count, dtype=bool)
    right = np.tile(np.append(np.inf, gaps)[start:], (count, 1))
    right[:, :count][passed] = np.inf
    np.minimum.accumulate(right, axis=1, out=right)
    left = np.tile(np.append(gaps, np.inf)[:stop][::-1], (count, 1))
    left[:, :count][passed[::-1]] = np.inf
    np.minimum.accumulate(left, axis=1, out=left)
    left = left[:, ::-1]
    np.minimum(right[:, :count], left[:, start:], out=right[:, :count])
    np.fill_diagonal(right[:, :count], own[start:stop])
    return np.concatenate((left[:, :start], right), axis=1)
