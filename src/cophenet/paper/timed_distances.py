"""The distances that studies of time compare, each with its settings, and the dense form of Bures."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations, islice
from typing import Any

import torch
from torch import Tensor

from cophenet.paper.variants import label_of
from cophenet.transport import class_distances
from cophenet.tree import Hierarchy

__all__ = ["VARIANTS", "DistanceVariant", "dense_bures"]


@dataclass(frozen=True)
class DistanceVariant:
    """A distance with its settings.

    Attributes:
        distance: Its registered name; "" for the dense form of Bures, which is no distance of the library.
        options: Its own options.
        largest: Samples per class beyond which it is not tried, for its memory grows as their square.
        complexity: What the paper's table says of it, for k classes of n samples; "" if nothing.
        note: What its label says beside its name.
    """

    distance: str
    options: dict[str, Any] = field(default_factory=dict)
    largest: int = 1 << 12
    complexity: str = ""
    note: str = ""

    @property
    def label(self) -> str:
        """What results call it."""
        return ", ".join(filter(None, (label_of(self.name), self.note)))

    @property
    def name(self) -> str:
        """What observations call it: the distance, with what tells variants of it apart.

        Example:
            >>> [variant.name for variant in VARIANTS[-4:]]
            ['emd', 'emd-pot', 'bures', 'bures-dense']
        """
        if not self.distance:
            return "bures-dense"
        return "-".join([self.distance, *(str(value) for value in self.options.values())])

    def measure(self, features: Tensor, labels: Tensor, tree: Hierarchy) -> Tensor:
        """(P,) distances of all pairs of classes.

        Args:
            features: (B, d) floating point.
            labels: (B,) positions in the tree's classes.
            tree: The label tree, for distances that need it.
        """
        if not self.distance:
            return dense_bures(features, labels)
        rho: Tensor = class_distances(features, labels, self.distance, tree=tree, **self.options)[1]
        return rho


_LINEAR = 1 << 17

VARIANTS: tuple[DistanceVariant, ...] = (
    DistanceVariant("l2", largest=_LINEAR, complexity="(nk + k^2) d"),
    DistanceVariant("fastft", largest=_LINEAR, complexity="k^2 n d"),
    DistanceVariant("fastft", {"order": "principal"}, largest=_LINEAR),
    DistanceVariant("swd", largest=_LINEAR, complexity="k^2 n p (d + log n)"),
    DistanceVariant("ft", largest=1 << 13, complexity="k^2 n d log(d Phi)"),
    DistanceVariant("twd", complexity="k^2 n^2 d I"),
    DistanceVariant("sinkhorn", complexity="k^2 n^2 (d + I)", note="reg 10"),
    DistanceVariant("emd", complexity="k^2 n (d + n^2 log n)"),
    DistanceVariant("emd", {"solver": "pot"}),
    DistanceVariant("bures", largest=1 << 11),
    DistanceVariant("", largest=1 << 13),
)


def _root(matrix: Tensor) -> Tensor:
    """Square root of a symmetric matrix without negative eigenvalues but for rounding."""
    values, vectors = torch.linalg.eigh(matrix)
    root: Tensor = (vectors * values.clamp(min=0).sqrt()) @ vectors.T
    return root


def dense_bures(features: Tensor, labels: Tensor, pairs: int | None = None, ridge: float = 0.0) -> Tensor:
    """Bures-Wasserstein distances by covariance matrices and their square roots, as the paper describes it.

    Only to measure what it costs, O(n d^2 + d^3) for each pair of classes: `cophenet.transport.Bures` gives
    the same without any (d, d) matrix.

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
    distances = []
    for u, v in chosen:
        (mean_u, cov_u), (mean_v, cov_v) = moments[u], moments[v]
        root = _root(cov_u)
        spread = cov_u.trace() + cov_v.trace() - 2 * _root(root @ cov_v @ root).trace()
        distances.append(((mean_u - mean_v).square().sum() + spread.clamp(min=0)).sqrt())
    return torch.stack(distances) if distances else features.new_zeros(0)


def _moments(rows: Tensor, ridge: float) -> tuple[Tensor, Tensor]:
    """Mean (d,) and covariance (d, d) of a class."""
    mean = rows.mean(0)
    centred = rows - mean
    return mean, centred.T @ centred / len(rows) + ridge * torch.eye(rows.shape[1]).to(rows)
