"""The order of classes in matrices of their distances, which is that of the tree."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cophenet.tree import Hierarchy

__all__ = ["tree_order"]


def tree_order(tree: Hierarchy) -> npt.NDArray[np.int64]:
    """Labels of the classes in the order in which a drawing of the tree has them, shape (num_classes,).

    Example:
        >>> tree = Hierarchy.from_paths([("pet", "cat"), ("car", "van"), ("pet", "dog")])
        >>> tree_order(tree)
        array([0, 2, 1])
    """
    return np.argsort(tree.leaves)
