"""Conformal p-values of new vectors: error guarantees hold only for samples like the calibration samples.

The distance of a vector x to the training data is the distance to the nearest class mean,

    d(x) = min_c |W (x - mean_c)|,   W^T W the inverse of the covariance within classes,

where the covariance is shrunk towards a multiple of the identity (Chen et al. 2010, Shrinkage Algorithms for
MMSE Covariance Estimation, arXiv:0907.4698, eq. 23); for very wide vectors only variances are used. Means and
covariance are computed without the m held-out samples. A new vector of the same distribution is therefore as
likely as any of them to be the furthest, and its conformal p-value (1 + number of held-out samples at least
as far) / (m + 1) is at most 0.05 in 5 % of cases (Bates et al. 2023, Testing for outliers with conformal
p-values, arXiv:2104.08279).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cophenet._common.arrays import release_pages
from cophenet.estimator.samples import Scale, blocks

__all__ = ["UNLIKE", "Familiarity", "Unlike", "fit_familiarity"]

# A vector is unlike the training data if its p-value is at most this; so is this share of vectors of the same
# distribution.
UNLIKE = 0.05
# A shift is more than this share of unlike vectors, with a probability below _CHANCE to occur by chance.
_SHIFTED, _CHANCE = 1.5 * UNLIKE, 1e-3
# Largest width for which the full covariance is used: 16 MB.
_WIDEST = 2048
# Always by matrix products, so that a distance does not depend on how many are computed together.
_PRODUCTS = "use_mm_for_euclid_dist"


class Unlike(NamedTuple):
    """Share of samples that are unlike the training data.

    Attributes:
        share: The share; 0.05 on average for samples of the same distribution.
        is_shift: Whether it is larger than chance explains.
    """

    share: float
    is_shift: bool

    def message(self) -> str:
        """Warning about what a shift means for the error target."""
        return (
            f"{self.share:.1%} of the samples are unlike the training data, where {UNLIKE:.0%} are expected: "
            "the error target may not hold for them; calibrate on samples of their kind"
        )


@dataclass(frozen=True, eq=False)
class Familiarity:
    """Distances of vectors to the training data, compared with those of held-out samples.

    Attributes:
        scale: Standardises rows.
        means: (C, d) float32, class means, multiplied by W.
        whiten: (d, d) float32, W transposed; or (d,) its diagonal.
        held_out: (m,) float64, distances of held-out samples, ascending.
    """

    scale: Scale
    means: Tensor
    whiten: Tensor
    held_out: NDArray[np.float64]

    def distances(self, rows: NDArray[Any], chosen: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """d(x) of all or the chosen rows, (n, d) -> (n,)."""
        out = np.empty(len(rows) if chosen is None else len(chosen))
        for part in blocks(len(out), sum(self.means.shape)):
            block = rows[part if chosen is None else chosen[part]]
            values = _whitened(self.scale(block, torch.float32), self.whiten)
            out[part] = torch.cdist(values, self.means, compute_mode=_PRODUCTS).amin(1).double().numpy()
            release_pages(rows)
        return out

    def p_values(self, distances: NDArray[np.float64]) -> NDArray[np.float64]:
        """(1 + number of held-out samples at least as far) / (m + 1). (n,) -> (n,)."""
        further = len(self.held_out) - np.searchsorted(self.held_out, distances, side="left")
        return np.asarray((1 + further) / (1 + len(self.held_out)))

    def count(self, rows: NDArray[Any]) -> int:
        """Number of rows that are unlike the training data."""
        return int((self.p_values(self.distances(rows)) <= UNLIKE).sum())

    def judge(self, unlike: int, samples: int) -> Unlike | None:
        """Test whether a number of unlike samples is a shift; None without samples, or too few held-out ones.

        If the limit is the k-th furthest of m held-out samples, the number beyond it among n new samples of
        the same distribution is beta-binomial, with parameters k and m - k + 1.
        """
        from scipy.stats import betabinom

        known = len(self.held_out)
        rank = int(UNLIKE * (known + 1) + 1e-9)
        if rank < 1 or not samples:
            return None
        share = unlike / samples
        chance = float(betabinom.sf(unlike - 1, samples, rank, known - rank + 1))
        return Unlike(share, share > _SHIFTED and chance < _CHANCE)


def _whitened(values: Tensor, whiten: Tensor) -> Tensor:
    return values @ whiten if whiten.ndim == 2 else values * whiten


def fit_familiarity(
    rows: NDArray[Any], classes: NDArray[np.int64], chosen: NDArray[np.int64], scale: Scale
) -> Familiarity | None:
    """Fit class means and the covariance within classes of some rows, in one pass.

    Args:
        rows: (n, d).
        classes: (n,) class indices from 0.
        chosen: (m,) the rows to use, with samples of every class.
        scale: Standardises rows.

    Returns:
        The fitted object, without held-out samples; None if no class varies.

    Example:
        >>> rows = np.random.default_rng(0).normal(size=(300, 4)) + np.repeat(4 * np.eye(3, 4), 100, axis=0)
        >>> classes, scale = np.repeat(np.arange(3), 100), Scale(np.zeros(4), np.ones(4))
        >>> fitted = fit_familiarity(rows, classes, np.arange(300), scale)
        >>> near, far = fitted.distances(np.array([[4.0, 0, 0, 0], [0, 0, 0, 9.0]]))
        >>> bool(near < 0.5), bool(far > 5)
        (True, True)
    """
    count, width = int(classes[chosen].max()) + 1, rows.shape[1]
    full = width <= _WIDEST
    sums = torch.zeros(count, width, dtype=torch.float64)
    squares = torch.zeros((width, width) if full else (width,), dtype=torch.float64)
    for part in blocks(len(chosen), width):
        values = scale(rows[chosen[part]], torch.float32)
        sums.index_add_(0, torch.from_numpy(classes[chosen[part]]), values.double())
        squares += values.T @ values if full else values.double().square().sum(0)
        release_pages(rows)
    sizes = torch.from_numpy(np.bincount(classes[chosen], minlength=count)).double()
    means = sums / sizes[:, None]
    between = means.T @ (means * sizes[:, None]) if full else (means.square() * sizes[:, None]).sum(0)
    freedom = len(chosen) - count
    within = (squares - between) / max(freedom, 1)
    total = float(within.trace() if full else within.sum())
    # Rounding errors are not variance.
    if freedom < 1 or total <= 1e-6 * width:
        return None
    whiten = (_whiten(within, freedom) if full else _whiten_diagonal(within)).float()
    return Familiarity(scale, _whitened(means.float(), whiten), whiten, np.zeros(0))


def _whiten(covariance: Tensor, freedom: int) -> Tensor:
    """W transposed; the covariance is shrunk towards the mean variance by oracle approximating shrinkage."""
    width = len(covariance)
    trace, square = float(covariance.trace()), float(covariance.square().sum())
    mean = trace / width
    spread = square - trace * mean
    bound = ((1 - 2 / width) * square + trace**2) / ((freedom + 1 - 2 / width) * max(spread, 1e-300))
    # At least a little: float32 products leave rounding errors where nothing varies.
    share = min(1.0, max(1e-3, bound))
    shrunk = (1 - share) * covariance
    shrunk.diagonal().add_(share * mean)
    factor = torch.linalg.cholesky(shrunk)
    eye = torch.eye(width, dtype=factor.dtype)
    inverse: Tensor = torch.linalg.solve_triangular(factor, eye, upper=False)
    return inverse.T


def _whiten_diagonal(variance: Tensor) -> Tensor:
    """W from the mean of each variance and the average one: nearly constant inputs must not dominate."""
    return ((variance + variance.mean()) / 2).rsqrt()
