"""Standardised inputs, computed block by block so that a memory map is never copied whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["Scale", "blocks", "fit_scale", "float_type"]

# Numbers that are copied out of the rows at once: 8 MB in float64.
_BLOCK = 1 << 20


def float_type(rows: NDArray[Any]) -> np.dtype[Any]:
    """The type of results computed from rows: their own, or float64 if they are no floats."""
    return rows.dtype if rows.dtype.kind == "f" else np.dtype(np.float64)


def blocks(count: int, width: int) -> Iterator[slice]:
    """Slices of rows of a bounded size.

    Example:
        >>> list(blocks(5, 1 << 19))
        [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    step = max(1, _BLOCK // max(1, width))
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


@dataclass(frozen=True)
class Scale:
    """What brings every input to mean 0 and a like variance.

    Attributes:
        mean: (d,) float64.
        deviation: (d,) float64, positive.
    """

    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]

    def __call__(self, rows: NDArray[Any], dtype: torch.dtype) -> Tensor:
        """Standardised rows, computed in float64 so that a large offset costs no digits. (n, d) -> (n, d)."""
        values = rows.astype(np.float64)
        values -= self.mean
        values /= self.deviation
        return torch.from_numpy(values).to(dtype)


def fit_scale(rows: NDArray[Any], chosen: NDArray[np.int64], *, shrink: bool = False) -> Scale:
    """Mean and deviation of the chosen rows, in two passes of bounded memory.

    Args:
        rows: (n, d).
        chosen: (m,) positions.
        shrink: Whether to take the mean of each variance and the median one, so that inputs that hardly vary
            are not blown up to the size of the others. Otherwise the deviation of a constant input is 1.

    Example:
        >>> rows = np.array([[0.0, 0.0, 5.0], [8.0, 2.0, 5.0]])
        >>> fit_scale(rows, np.arange(2)).deviation, fit_scale(rows, np.arange(2), shrink=True).deviation ** 2
        (array([4., 1., 1.]), array([12.25,  4.75,  4.25]))
    """
    parts = [chosen[part] for part in blocks(len(chosen), rows.shape[1])]
    mean = sum(rows[part].sum(0, dtype=np.float64) for part in parts) / len(chosen)
    squares = sum(np.square(rows[part].astype(np.float64) - mean).sum(0) for part in parts)
    deviation = np.sqrt(squares / len(chosen))
    # What varies by rounding alone is constant.
    constant = deviation <= 1e-12 * np.maximum(np.abs(mean), 1e-300)
    if shrink and not constant.all():
        variance = np.where(constant, 0.0, deviation) ** 2
        deviation = np.sqrt((variance + np.median(variance[~constant])) / 2)
        constant[:] = False
    return Scale(np.asarray(mean), np.where(constant, 1.0, deviation))
