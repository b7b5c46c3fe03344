"""Class dissimilarities, given to a loss in place of tree distances."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["check_target"]


def check_target(target: NDArray[np.float64] | Tensor, classes: int | None) -> NDArray[np.float64]:
    """Check a matrix of dissimilarities, and return it in float64.

    Args:
        target: (k, k), symmetric up to rounding, finite, with zeros on the diagonal.
        classes: The required k; None for any.

    Raises:
        ValueError: If it does not have these properties.

    Example:
        >>> check_target(np.array([[0.0, 2.0], [1.0, 0.0]]), None)
        Traceback (most recent call last):
        ValueError: target must be symmetric, got 2.0 and 1.0 for classes 0 and 1
    """
    if isinstance(target, Tensor):
        target = target.detach().cpu().numpy()
    try:
        matrix = np.array(target, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"target must be a matrix of numbers, got {type(target).__name__}") from error
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not len(matrix):
        raise ValueError(f"target must be a square matrix, one row for each class, got shape {matrix.shape}")
    if classes is not None and len(matrix) != classes:
        raise ValueError(
            f"target must have shape {(classes, classes)}, one row for each class, got {matrix.shape}"
        )
    if not np.isfinite(matrix).all():
        raise ValueError("target must be finite, got NaN or inf")
    if matrix.diagonal().any():
        place = int(matrix.diagonal().nonzero()[0][0])
        raise ValueError(f"target must be zero on its diagonal, got {matrix[place, place]} at class {place}")
    unequal = np.abs(matrix - matrix.T) > 1e-6 * np.abs(matrix).max()
    if unequal.any():
        row, column = (int(place) for place in np.argwhere(unequal)[0])
        values = f"{matrix[row, column]} and {matrix[column, row]} for classes {row} and {column}"
        raise ValueError(f"target must be symmetric, got {values}")
    return matrix
