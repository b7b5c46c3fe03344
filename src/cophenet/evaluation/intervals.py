"""Confidence intervals of metrics: over seeds, or over test samples if there is one seed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Interval", "mean_interval", "resampled_interval", "resampled_means"]

_CONFIDENCE = 0.95
_RESAMPLES = 400
_ROWS = 4096
_ROUNDING = 1e-9


class Interval(NamedTuple):
    """A mean with its 95 % interval.

    Attributes:
        mean: The mean.
        low: Lower end.
        high: Upper end.
    """

    mean: float
    low: float
    high: float

    @property
    def known(self) -> bool:
        """Whether it has a width; a single number, or equal numbers, do not allow an estimate of noise."""
        return self.high - self.low > _ROUNDING * abs(self.mean)

    @property
    def sign(self) -> int:
        """1 if the interval is above zero, -1 if it is below, else 0 (not significant, or width not known).

        Example:
            >>> Interval(0.2, 0.1, 0.3).sign, Interval(0.2, -0.1, 0.5).sign, Interval(0.2, 0.2, 0.2).sign
            (1, 0, 0)
        """
        return int(self.low > 0) - int(self.high < 0) if self.known else 0


def mean_interval(values: Sequence[float], floor: float = 0.0) -> Interval:
    """The mean of numbers with its 95 % interval by Student's t, which has no width for a single number.

        mean +- t(0.975, n - 1) s / sqrt(n)

    Args:
        values: The numbers, such as differences of two runs of the same seed; (0, 0, 0) is returned if empty.
        floor: Lower bound of half the width of the interval.

    Example:
        >>> [round(end, 3) for end in mean_interval([0.1, 0.2, 0.3])]
        [0.2, -0.048, 0.448]
    """
    from scipy.special import stdtrit

    if not values:
        return Interval(0.0, 0.0, 0.0)
    mean, half = statistics.fmean(values), 0.0
    if len(values) > 1:
        quantile = float(stdtrit(len(values) - 1, (1 + _CONFIDENCE) / 2))
        half = quantile * statistics.stdev(values) / math.sqrt(len(values))
    half = max(half, floor)
    return Interval(mean, mean - half, mean + half)


def resampled_means(scores: NDArray[np.floating]) -> NDArray[np.float64]:
    """Means of scores over samples drawn with replacement: the bootstrap of Efron (1979).

    The draw depends only on the number of samples, so that the means for two tables of the same samples are
    paired.

    Args:
        scores: (N, m), m scores of each sample.

    Returns:
        (400 + 1, m); the first row is the mean over the original samples.
    """
    rng, count = np.random.default_rng(0), len(scores)
    sums = np.zeros((_RESAMPLES + 1, scores.shape[1]))
    # The number of draws from a block is binomial; within a block all samples have the same probability.
    left = np.full(_RESAMPLES, count)
    for start in range(0, count, _ROWS):
        block = scores[start : start + _ROWS].astype(np.float64)
        drawn = rng.binomial(left, len(block) / (count - start))
        left -= drawn
        weights = rng.multinomial(drawn, np.full(len(block), 1 / len(block)))
        sums[0] += block.sum(0)
        sums[1:] += weights.astype(np.float64) @ block
    return sums / count


def resampled_interval(means: NDArray[np.float64]) -> Interval:
    """The 95 % interval of one score, or of a difference of two, from a column of `resampled_means`.

    Args:
        means: (400 + 1,), the first is the mean over the original samples.
    """
    tail = (1 - _CONFIDENCE) / 2
    low, high = np.quantile(means[1:], [tail, 1 - tail])
    return Interval(float(means[0]), float(low), float(high))
