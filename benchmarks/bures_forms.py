"""Forms of the Gaussian distance by size: the one chosen, the cross-Gram form, and d x d matrices."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import combinations
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from cophenet import class_distances
from cophenet.transport import bures
from cophenet.transport.batch import ClassBatch
from timing import best_ms, show_ms

Distances = Callable[[Tensor, Tensor], Tensor]
FORMS = ("chosen", "cross-Gram", "d x d")
_LARGE = 256  # samples per class from which one pair is enough to measure


def chosen(features: Tensor, labels: Tensor) -> Tensor:
    """As a user calls it."""
    return class_distances(features, labels, "bures")[1]


def _unreduced(rows: Tensor, batch: ClassBatch) -> tuple[Tensor, ClassBatch, dict[int, Any]]:
    return rows, batch, {}


def cross_gram(features: Tensor, labels: Tensor) -> Tensor:
    """From matrices between the samples of two classes, also if those are more than dimensions."""
    with patch.object(bures, "_triangles", _unreduced):
        return chosen(features, labels)


def _root(covariance: Tensor) -> Tensor:
    values, vectors = torch.linalg.eigh(covariance)
    root: Tensor = (vectors * values.clamp(min=0).sqrt()) @ vectors.T
    return root


def by_covariances(features: Tensor, labels: Tensor) -> Tensor:
    """The bare formula in float64, with the root of every class's covariance computed once."""
    clouds = [features[labels == c].double() for c in range(int(labels.max()) + 1)]
    means, covariances = [x.mean(0) for x in clouds], [torch.cov(x.T, correction=0) for x in clouds]
    roots = [_root(covariance) for covariance in covariances]
    squares = []
    for u, v in combinations(range(len(clouds)), 2):
        inner = torch.linalg.eigvalsh(roots[u] @ covariances[v] @ roots[u]).clamp(min=0).sqrt().sum()
        gap = (means[u] - means[v]).square().sum()
        squares.append(gap + covariances[u].trace() + covariances[v].trace() - 2 * inner)
    return torch.stack(squares).clamp(min=0).sqrt()


def _step(form: Distances, features: Tensor, labels: Tensor) -> None:
    features.grad = None
    form(features, labels).sum().backward()  # type: ignore[no-untyped-call]


def measure(samples: int, width: int) -> dict[str, float]:
    """Milliseconds of forward and backward: one pair of large classes, or 15 pairs of small ones."""
    classes = 2 if samples >= _LARGE else 6
    features = torch.randn(classes * samples, width, requires_grad=True)
    labels = torch.arange(len(features)) % classes

    def step(form: Distances) -> Callable[[], None]:
        return partial(_step, form, features, labels)

    times = best_ms({"chosen": step(chosen), "d x d": step(by_covariances)}, 10)
    if samples > width:  # else it is the one chosen; it takes seconds
        times |= best_ms({"cross-Gram": step(cross_gram)}, 1)
    return times


def lines(sizes: dict[str, dict[str, float]]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the table."""
    rows = [
        [size, *(show_ms(times[form]) if form in times else "chosen" for form in FORMS)]
        for size, times in sizes.items()
    ]
    return ["n, d", *FORMS], rows
