"""What a user would take instead: loops over class pairs with torch and POT, and batched solvers of others.

These are what every speed-up in this folder is measured against. A step is forward and backward of the sum of
all class distances; packages that are not installed raise ImportError.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import ot
import ot.batch
import torch
from numpy.typing import NDArray
from torch import Tensor

Cost = Callable[[Tensor, Tensor], Tensor]
Step = Callable[[Tensor, Tensor], None]


def _with_plan(x: Tensor, y: Tensor, solve: Callable[..., NDArray[np.float64]]) -> Tensor:
    """Cost of POT's plan, in float64 numpy as POT likes it best; constant in the backward pass."""
    ground = torch.cdist(x, y)
    plan = solve(np.full(len(x), 1 / len(x)), np.full(len(y), 1 / len(y)), ground.detach().double().numpy())
    cost: Tensor = (torch.from_numpy(plan).to(ground) * ground).sum()
    return cost


def emd(x: Tensor, y: Tensor) -> Tensor:
    """Exact transport by POT's network simplex."""
    return _with_plan(x, y, ot.emd)


def sinkhorn(x: Tensor, y: Tensor) -> Tensor:
    """Entropic transport by POT. In float32 it would miss its own stopping rule and run a thousand rounds."""
    return _with_plan(x, y, partial(ot.sinkhorn, reg=10.0))


def swd(x: Tensor, y: Tensor) -> Tensor:
    """Sliced transport by POT."""
    value: Tensor = ot.sliced_wasserstein_distance(x, y, n_projections=10)
    return value


@cache
def _greedy(m: int, n: int) -> tuple[Tensor, Tensor, Tensor]:
    i, j, left, right = 0, 0, n, m
    entries = []
    while i < m and j < n:
        moved = min(left, right)
        entries.append((i, j, moved / (m * n)))
        left, right = left - moved, right - moved
        if left == 0:
            i, left = i + 1, n
        if right == 0:
            j, right = j + 1, m
    source, target, mass = zip(*entries, strict=True)
    return torch.tensor(source), torch.tensor(target), torch.tensor(mass)


def fastft(x: Tensor, y: Tensor) -> Tensor:
    """The greedy plan, kept per pair of sizes as the paper does, and a gather."""
    source, target, mass = _greedy(len(x), len(y))
    length: Tensor = (x[source] - y[target]).norm(dim=1)
    return (mass * length).sum()


def l2(x: Tensor, y: Tensor) -> Tensor:
    """Distance of the means."""
    distance: Tensor = (x.mean(0) - y.mean(0)).norm()
    return distance


def bures(x: Tensor, y: Tensor) -> Tensor:
    """The Gaussian distance by POT, with roots of (d, d) covariances."""
    means, covariances = zip(*((z.mean(0), torch.cov(z.T, correction=0)) for z in (x, y)), strict=True)
    value: Tensor = ot.gaussian.bures_wasserstein_distance(*means, *covariances)
    return value


def _clouds(features: Tensor, labels: Tensor) -> list[Tensor]:
    return [features[labels == c] for c in torch.unique(labels).tolist()]


def _loop(cost: Cost, pairs: int | None = None) -> Step:
    """All class pairs one after the other; or the first few, for what takes minutes."""

    def step(features: Tensor, labels: Tensor) -> None:
        features.grad = None
        chosen = itertools.islice(itertools.combinations(_clouds(features, labels), 2), pairs)
        torch.stack([cost(x, y) for x, y in chosen]).sum().backward()  # type: ignore[no-untyped-call]

    return step


def _padded(features: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Clouds (P, m, d) of both classes of every pair, padded to the largest, and their masses (P, m)."""
    clouds = _clouds(features, labels)
    z = torch.nn.utils.rnn.pad_sequence(clouds, batch_first=True)
    mass = torch.nn.utils.rnn.pad_sequence(
        [x.detach().new_full((len(x),), 1 / len(x)) for x in clouds], batch_first=True
    )
    first, second = torch.triu_indices(len(clouds), len(clouds), 1)
    return z[first], z[second], mass[first], mass[second]


def pot_batch(features: Tensor, labels: Tensor) -> None:
    """POT's own batched Sinkhorn on padded clouds."""
    features.grad = None
    x, y, a, b = _padded(features, labels)
    # It takes logarithms of masses.
    a, b = a.clamp(min=1e-30), b.clamp(min=1e-30)
    ot.batch.solve_batch(torch.cdist(x, y), reg=10.0, a=a, b=b).value.sum().backward()


def geomloss(features: Tensor, labels: Tensor) -> None:
    """Sinkhorn's divergence without its self terms, on padded clouds."""
    from geomloss import SamplesLoss

    features.grad = None
    x, y, a, b = _padded(features, labels)
    loss = SamplesLoss("sinkhorn", p=1, blur=10.0, debias=False, backend="tensorized")
    loss(a, x, b, y).sum().backward()


@cache
def _ott(sliced: bool) -> Callable[..., Any]:
    import jax
    from ott.geometry import costs, pointcloud
    from ott.solvers import linear
    from ott.tools import sliced as slices

    def sinkhorn_cost(x: Any, y: Any, a: Any, b: Any) -> Any:
        geometry = pointcloud.PointCloud(x, y, cost_fn=costs.Euclidean(), epsilon=10.0)
        return linear.solve(geometry, a, b).reg_ot_cost

    def sliced_cost(x: Any, y: Any, a: Any, b: Any) -> Any:
        return slices.sliced_wasserstein(x, y, a, b, n_proj=10)[0]

    cost = sliced_cost if sliced else sinkhorn_cost

    def total(x: Any, y: Any, a: Any, b: Any) -> Any:
        return jax.vmap(cost)(x, y, a, b).sum()

    compiled: Callable[..., Any] = jax.jit(jax.value_and_grad(total, argnums=(0, 1)))
    return compiled


def _ott_step(sliced: bool) -> Step:
    def step(features: Tensor, labels: Tensor) -> None:
        # One set of labels: other shapes would be compiled anew every time.
        fixed = torch.arange(len(labels)) % len(torch.unique(labels))
        parts = (part.detach().numpy() for part in _padded(features, fixed))
        _, gradients = _ott(sliced)(*parts)
        np.asarray(gradients[0])

    return step


def metric_learning(features: Tensor, labels: Tensor) -> None:
    """Distances of class means by pytorch-metric-learning."""
    from pytorch_metric_learning.distances import LpDistance

    features.grad = None
    means = torch.stack([x.mean(0) for x in _clouds(features, labels)])
    LpDistance(normalize_embeddings=False)(means).triu(1).sum().backward()


def scikit_learn(features: Tensor, labels: Tensor) -> None:
    """Distances of class means by scikit-learn, which has no gradient."""
    from sklearn.metrics import pairwise_distances
    from sklearn.neighbors import NearestCentroid
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):  # other threads would spin on, in the time of what is measured next
        pairwise_distances(NearestCentroid().fit(features.detach().numpy(), labels.numpy()).centroids_)


def plain(features: Tensor, labels: Tensor) -> None:
    """Class sums in float32 and all distances of the means."""
    features.grad = None
    classes, position, counts = torch.unique(labels, return_inverse=True, return_counts=True)
    sums = features.new_zeros(len(classes), features.shape[1]).index_add(0, position, features)
    torch.pdist(sums / counts[:, None]).sum().backward()  # type: ignore[no-untyped-call]


PEERS: dict[str, dict[str, Step]] = {
    "l2": {
        "plain float32": plain,
        "loop": _loop(l2),
        "pytorch-metric-learning": metric_learning,
        "scikit-learn, forward": scikit_learn,
    },
    "fastft": {"loop": _loop(fastft)},
    "swd": {"ot.sliced loop": _loop(swd), "OTT-JAX vmap": _ott_step(True)},
    "emd": {"POT loop": _loop(emd)},
    "sinkhorn": {
        "POT loop": _loop(sinkhorn),
        "ot.batch": pot_batch,
        "geomloss": geomloss,
        "OTT-JAX vmap": _ott_step(False),
    },
    "bures": {"POT, three pairs": _loop(bures, 3)},
}
