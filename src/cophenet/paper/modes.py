"""How many modes the features of a class have: the Gaussian mixture that Akaike's criterion likes best.

The criterion also finds several components in samples of a single Gaussian, the more the wider they are. So
the same is counted on such samples (a null model), and only what exceeds it shows modes.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from cophenet._common.checks import check_choice, check_whole
from cophenet._common.packages import require

__all__ = ["MODES", "Covariance", "ModeCounts", "best_components", "count_modes", "one_gaussian"]

Covariance = Literal["diag", "full"]
# The two ways of counting modes, with the options of `count_modes`; the first is the paper's.
MODES: dict[str, dict[str, Any]] = {
    "diagonal": {"covariance": "diag"},
    "full, PCA(32)": {"covariance": "full", "project": 32},
}


@dataclass(frozen=True)
class ModeCounts:
    """The best numbers of components of all classes.

    Attributes:
        components: One for each class present, in the order of labels.
        mean: Their mean.
        null: Mean of the same count on samples of one Gaussian for each class, see `one_gaussian`.
        unconverged: Fits that reached the limit of iterations; their criterion counts all the same.
    """

    components: tuple[int, ...]
    mean: float
    null: float
    unconverged: int


def best_components(
    rows: NDArray[np.floating], covariance: Covariance = "diag", most: int = 10, seed: int = 0
) -> tuple[int, int]:
    """The number of mixture components with the lowest AIC.

    Args:
        rows: (n, d) samples.
        covariance: Form of the components' covariances.
        most: Largest number tried; no more than there are samples.
        seed: Of the fits' starts.

    Returns:
        The number, and how many of the fits did not converge.

    Raises:
        ValueError: If there are fewer than two samples or an argument is wrong.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> two = np.concatenate([rng.normal(0, 1, (200, 2)), rng.normal(20, 1, (200, 2))])
        >>> best_components(two, "full", most=4)
        (2, 0)
    """
    require("sklearn", "counting modes needs", "cophenet[data]")
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    check_choice("covariance", covariance, get_args(Covariance))
    check_whole("most", most, 1)
    if len(rows) < 2:
        raise ValueError(f"a class needs at least 2 samples for a mixture, got {len(rows)}")
    values = np.asarray(rows, dtype=np.float64)
    scores, unconverged = [], 0
    for count in range(1, min(most, len(rows)) + 1):
        mixture = GaussianMixture(count, covariance_type=covariance, random_state=seed)
        with warnings.catch_warnings():
            # Counted and given back instead; few distinct samples also make k-means, the start, warn.
            warnings.simplefilter("ignore", ConvergenceWarning)
            mixture.fit(values)
        unconverged += not mixture.converged_
        scores.append(mixture.aic(values))
    return int(np.argmin(scores)) + 1, unconverged


def count_modes(
    features: NDArray[np.floating],
    labels: NDArray[np.integer],
    covariance: Covariance = "diag",
    project: int | None = None,
    most: int = 10,
    seed: int = 0,
) -> ModeCounts:
    """The best number of mixture components for every class.

    Args:
        features: (N, d).
        labels: (N,) integers.
        covariance: Form of the components' covariances.
        project: Principal components of all features to keep first; None for the raw features.
        most: Largest number tried.
        seed: Of the fits' starts.

    Raises:
        ValueError: If a class has fewer than two samples or an argument is wrong.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> rows = rng.normal(size=(900, 2)) + np.repeat([[0.0], [30.0], [60.0]], 300, axis=0)
        >>> count_modes(rows, np.repeat([0, 1, 1], 300), "full", most=3).components
        (1, 2)
    """
    values = np.asarray(features, dtype=np.float64)
    if values.ndim != 2 or values.shape[:1] != np.shape(labels):
        raise ValueError(
            f"features and labels must be (N, d) and (N,), got {values.shape} and {np.shape(labels)}"
        )
    if not np.isfinite(values).all():
        raise ValueError("features must be finite, got NaN or inf")
    if project is not None:
        check_whole("project", project, 1)
    classes = np.unique(labels).tolist()
    drawn = np.empty_like(values)
    rng = np.random.default_rng(seed)
    for label in classes:
        drawn[labels == label] = one_gaussian(values[labels == label], rng)
    if project is not None:
        values, drawn = _project(values, drawn, project)
    results, nulls = (
        [best_components(rows[labels == label], covariance, most, seed) for label in classes]
        for rows in (values, drawn)
    )
    counts = tuple(count for count, _ in results)
    null = float(np.mean([count for count, _ in nulls]))
    return ModeCounts(counts, float(np.mean(counts)), null, sum(failed for _, failed in results))


def one_gaussian(rows: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """As many samples of one Gaussian with the mean and the covariance of the given ones.

    Where features are rectified (never negative, and zero for some samples), the new ones are, too.

    Args:
        rows: (n, d).
        rng: Draws the samples.

    Returns:
        (n, d).

    Example:
        >>> rows = np.random.default_rng(0).normal(3.0, 2.0, (1500, 1))
        >>> drawn = one_gaussian(rows, np.random.default_rng(1))
        >>> round(float(drawn.mean()), 1), round(float(drawn.std()), 1)
        (3.0, 2.0)
    """
    mean = rows.mean(axis=0)
    # Mixtures of centred samples have their covariance, without a matrix of it.
    drawn: NDArray[np.float64] = mean + rng.normal(size=(len(rows), len(rows))) @ (rows - mean) / np.sqrt(
        len(rows)
    )
    rectified = (rows.min(axis=0) == 0) & (rows.max(axis=0) > 0)
    drawn[:, rectified] = drawn[:, rectified].clip(min=0)
    return drawn


def _project(
    values: NDArray[np.float64], others: NDArray[np.float64], count: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both in the leading principal components of the first."""
    from sklearn.decomposition import PCA

    components = PCA(min(count, *values.shape), random_state=0).fit(values)
    return components.transform(values), components.transform(others)
