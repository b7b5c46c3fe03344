"""The order of classes in distance matrices, under its earlier name."""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt

from cophenet.tree import Hierarchy

__all__ = ["tree_order"]


def tree_order(tree: Hierarchy) -> npt.NDArray[np.int64]:
    """The same as `tree.class_order`, which is its name now.

    Example:
        >>> tree = Hierarchy.from_paths([("pet", "cat"), ("car", "van"), ("pet", "dog")])
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     tree_order(tree)
        array([0, 2, 1])
    """
    own = "cophenet.report.matrices.tree_order is now cophenet.tree.Hierarchy.class_order"
    warnings.warn(own, DeprecationWarning, stacklevel=2)
    return tree.class_order
