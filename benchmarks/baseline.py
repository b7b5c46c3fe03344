"""The loops a user would write with torch and POT: one class pair at a time, autograd for the rest.

These are what every speed-up in this folder is measured against.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache, partial

import numpy as np
import ot
import torch
from numpy.typing import NDArray
from torch import Tensor

Cost = Callable[[Tensor, Tensor], Tensor]


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


COSTS: dict[str, Cost] = {"fastft": fastft, "swd": swd, "emd": emd, "sinkhorn": sinkhorn, "l2": l2}


def loop_loss(features: Tensor, labels: Tensor, tree_distances: Tensor, cost: Cost) -> Tensor:
    """1 - CPCC of a batch, pair by pair."""
    classes = torch.unique(labels).tolist()
    clouds = {c: features[labels == c] for c in classes}
    pairs = list(itertools.combinations(classes, 2))
    rho = torch.stack([cost(clouds[u], clouds[v]) for u, v in pairs])
    t = torch.stack([tree_distances[u, v] for u, v in pairs]).to(rho)
    return 1 - torch.corrcoef(torch.stack((rho, t)))[0, 1]
