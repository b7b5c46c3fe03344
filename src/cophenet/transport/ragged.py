"""Runs of whole numbers of different lengths, end to end."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["ragged_range"]


def ragged_range(lengths: NDArray[np.int64], begin: NDArray[np.int64] | int = 0) -> NDArray[np.int64]:
    """begin, begin + 1, ... for each length.

    Example:
        >>> ragged_range(np.array([2, 3]), np.array([7, 0]))
        array([7, 8, 0, 1, 2])
    """
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    numbers: NDArray[np.int64] = np.arange(total) + np.repeat(begin - (ends - lengths), lengths)
    return numbers
