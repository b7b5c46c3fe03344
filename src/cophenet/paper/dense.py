"""The Bures-Wasserstein distance by covariance matrices and their square roots, as the paper describes it.

Only to measure what it costs: `cophenet.transport.Bures` gives the same without any (d, d) matrix.
"""

from __future__ import annotations

from itertools import combinations, islice

import torch
from torch import Tensor

__all__ = ["dense_bures"]


def _root(matrix: Tensor) -> Tensor:
    """Square root of a symmetric matrix without negative eigenvalues but for rounding."""
    values, vectors = torch.linalg.eigh(matrix)
    root: Tensor = (vectors * values.clamp(min=0).sqrt()) @ vectors.T
    return root


def dense_bures(features: Tensor, labels: Tensor, pairs: int | None = None, ridge: float = 0.0) -> Tensor:
    """Bures-Wasserstein distances, one pair of classes after the other, O(n d^2 + d^3) each.

    Args:
        features: (B, d) floating point.
        labels: (B,) integers.
        pairs: Only that many of the pairs, in the order of `itertools.combinations`; None for all.
        ridge: Added to the diagonals of the covariances: without it the gradient of a root of a singular
            matrix is not finite.

    Returns:
        (P,) distances.

    Example:
        >>> z = torch.tensor([[0.0], [2.0], [3.0], [7.0]])
        >>> dense_bures(z, torch.tensor([0, 0, 1, 1]))  # means 1, 5; deviations 1, 2
        tensor([4.1231])
    """
    clouds = [features[labels == label] for label in torch.unique(labels).tolist()]
    chosen = list(islice(combinations(range(len(clouds)), 2), pairs))
    moments = {c: _moments(clouds[c], ridge) for c in sorted({c for pair in chosen for c in pair})}
    found = []
    for u, v in chosen:
        (mean_u, cov_u), (mean_v, cov_v) = moments[u], moments[v]
        root = _root(cov_u)
        spread = cov_u.trace() + cov_v.trace() - 2 * _root(root @ cov_v @ root).trace()
        found.append(((mean_u - mean_v).square().sum() + spread.clamp(min=0)).sqrt())
    return torch.stack(found) if found else features.new_zeros(0)


def _moments(rows: Tensor, ridge: float) -> tuple[Tensor, Tensor]:
    """Mean (d,) and covariance (d, d) of a class."""
    mean = rows.mean(0)
    centred = rows - mean
    return mean, centred.T @ centred / len(rows) + ridge * torch.eye(rows.shape[1]).to(rows)
