"""Least-squares lines, also of logarithms: how one number depends on another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cophenet._common.checks import check_whole

__all__ = ["LineFit", "fit_line", "growth_exponent"]


@dataclass(frozen=True)
class LineFit:
    """A least-squares line.

    Attributes:
        slope: Change of y per unit of x.
        intercept: y at x = 0.
        correlation: Pearson's r; NaN where one side is constant.
    """

    slope: float
    intercept: float
    correlation: float


def fit_line(x: Sequence[float], y: Sequence[float]) -> LineFit:
    """The least-squares line through points.

    Raises:
        ValueError: If there are fewer than two different x, or a number is not finite.

    Example:
        >>> fit_line([0, 1, 2], [1, 3, 5])
        LineFit(slope=2.0, intercept=1.0, correlation=1.0)
    """
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if a.ndim != 1 or a.shape != b.shape:
        raise ValueError(f"x and y must have one length, got shapes {a.shape} and {b.shape}")
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise ValueError("x and y must be finite")
    if len(np.unique(a)) < 2:
        raise ValueError(f"x must have at least two different values, got {a.tolist()}")
    da, db = a - a.mean(), b - b.mean()
    slope = float(da @ db / (da @ da))
    spread = float(np.sqrt((da @ da) * (db @ db)))
    correlation = float(da @ db) / spread if spread > 0 else float("nan")
    return LineFit(slope, float(b.mean() - slope * a.mean()), correlation)


def growth_exponent(sizes: Sequence[float], costs: Sequence[float], last: int = 4) -> float:
    """The exponent p of a cost that grows as size^p, from the largest sizes, where overhead matters least.

    Args:
        sizes: Positive, ascending.
        costs: Positive, one for each size.
        last: How many of the largest sizes are used.

    Raises:
        ValueError: If fewer than two sizes are given, or a number is not positive.

    Example:
        >>> round(growth_exponent([1, 2, 4, 8], [3, 12, 48, 192]), 6)
        2.0
    """
    check_whole("last", last, 2)
    a, b = np.asarray(sizes[-last:], dtype=np.float64), np.asarray(costs[-last:], dtype=np.float64)
    if (np.concatenate([a, b]) <= 0).any():
        raise ValueError("sizes and costs must be positive")
    return fit_line(np.log(a).tolist(), np.log(b).tolist()).slope
