"""Features as points in the plane, by UMAP."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

__all__ = ["flat_picture"]


def flat_picture(features: NDArray[np.floating], seed: int = 0) -> NDArray[np.float64]:
    """Two-dimensional UMAP of features, with Euclidean distances as in the paper.

    Args:
        features: (N, d), at least four samples.
        seed: Of the embedding.

    Returns:
        (N, 2) points.

    Raises:
        ImportError: If the package umap-learn is not installed.
        ValueError: If there are too few samples.
    """
    if len(features) < 4:
        raise ValueError(f"features must have at least 4 samples for UMAP, got {len(features)}")
    with warnings.catch_warnings():
        # Notes to developers from the packages it uses.
        warnings.simplefilter("ignore")
        try:
            from umap import UMAP
        except ImportError as error:
            raise ImportError(
                "UMAP needs the package umap-learn, which is not installed: pip install cophenet[report]"
            ) from error
        fit = UMAP(n_neighbors=min(15, len(features) - 1), random_state=seed, n_jobs=1)
        return np.asarray(fit.fit_transform(np.asarray(features, dtype=np.float32)), dtype=np.float64)
