"""Matrices of distances between classes, sorted by the tree."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from cophenet.tree import Hierarchy

__all__ = ["square", "tree_order"]


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
