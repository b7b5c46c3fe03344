"""Number of modes in the features of a class: that of the Gaussian mixture with the lowest AIC.

The criterion also selects several components for samples of a single Gaussian, more in more dimensions. So
the same is counted on such samples (a null model), and only an excess over it indicates modes.
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
    """The selected numbers of components of all classes.

    Attributes:
        components: One for each class present, in the order of labels.
        mean: Their mean.
        null: Mean of the same count on samples of one Gaussian for each class, see `one_gaussian`.
        unconverged: Number of fits that reached the limit of iterations; they are compared all the same.
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
        most: Largest number to try; the number of samples is a limit too.
        seed: Seed of the initialization of the fits.

    Returns:
        The number of components, and the number of fits that did not converge.

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
            # Counted and returned instead; k-means, the initialization, also warns of few distinct samples.
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
    """Select the number of mixture components of every class.

    Args:
        features: (N, d).
        labels: (N,) integers.
        covariance: Form of the components' covariances.
        project: Number of principal components to project all features to; None for the raw features.
        most: Largest number to try.
        seed: Seed of the null model and of the initialization of the fits.

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
    """Draw as many samples from one Gaussian with the mean and the covariance of the given samples.

    Features that are rectified (never negative, and zero for some samples) are rectified in the result, too.

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
    # Random combinations of the centred samples have their covariance, without computing its matrix.
    drawn: NDArray[np.float64] = mean + rng.normal(size=(len(rows), len(rows))) @ (rows - mean) / np.sqrt(
        len(rows)
    )
    rectified = (rows.min(axis=0) == 0) & (rows.max(axis=0) > 0)
    drawn[:, rectified] = drawn[:, rectified].clip(min=0)
    return drawn


def _project(
    values: NDArray[np.float64], others: NDArray[np.float64], count: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Project both arrays to the leading principal components of the first."""
    from sklearn.decomposition import PCA

    components = PCA(min(count, *values.shape), random_state=0).fit(values)
    return components.transform(values), components.transform(others)
