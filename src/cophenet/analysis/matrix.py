"""Class distances as a square table in the order of the tree, where groups are blocks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cophenet.tree import Hierarchy

__all__ = ["distance_matrix", "tree_order"]


def tree_order(tree: Hierarchy) -> NDArray[np.int64]:
    """(k,) labels in the order of a walk through the tree, so that classes of one group stand together.

    Example:
        >>> tree = Hierarchy.from_paths([("pet", "cat"), ("car", "bus"), ("pet", "dog")])
        >>> tree_order(tree)
        array([0, 2, 1])
    """
    return np.argsort(tree.leaves, kind="stable")


def distance_matrix(condensed: NDArray[np.floating], order: NDArray[np.integer]) -> NDArray[np.float64]:
    """The table of all distances, rows and columns in some order.

    Args:
        condensed: (k(k-1)/2,) distances in the order of `itertools.combinations`.
        order: (k,) labels.

    Raises:
        ValueError: If the lengths do not fit.

    Example:
        >>> distance_matrix(np.array([1.0, 2.0, 3.0]), np.array([2, 0, 1]))
        array([[0., 2., 3.],
               [2., 0., 1.],
               [3., 1., 0.]])
    """
    size = len(order)
    if len(condensed) != size * (size - 1) // 2:
        raise ValueError(
            f"condensed must have {size * (size - 1) // 2} distances of {size} classes, got {len(condensed)}"
        )
    table = np.zeros((size, size))
    table[np.triu_indices(size, 1)] = condensed
    square: NDArray[np.float64] = (table + table.T)[np.ix_(order, order)]
    return square
