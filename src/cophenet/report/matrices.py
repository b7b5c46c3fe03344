"""The order of classes in distance matrices, under its earlier name."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cophenet.tree import Hierarchy

__all__ = ["tree_order"]


def tree_order(tree: Hierarchy) -> npt.NDArray[np.int64]:
    """The same as `tree.class_order`, which new code should use.

    Example:
        >>> tree = Hierarchy.from_paths([("pet", "cat"), ("car", "van"), ("pet", "dog")])
        >>> tree_order(tree)
        array([0, 2, 1])
    """
    return tree.class_order
