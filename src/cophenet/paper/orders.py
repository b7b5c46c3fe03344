"""Fast FlowTree serves samples in some order: what that matters, and how far its plans are from the best."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cophenet._common.checks import check_whole
from cophenet.cpcc.loss import cpcc
from cophenet.transport import class_distances
from cophenet.tree import Hierarchy

__all__ = ["ORDERS", "order_study"]

ORDERS: dict[str, dict[str, Any]] = {
    "batch order": {},
    "principal order": {"order": "principal"},
    "three principal orders": {"order": "principal", "n_orders": 3},
}


def order_study(
    features: Tensor, labels: Tensor, tree: Hierarchy, repeats: int = 5, seed: int = 0
) -> dict[str, dict[str, float]]:
    """Distances by Fast FlowTree in each kind of order, against the exact EMD, over random orders of samples.

    Args:
        features: (N, d) floating point.
        labels: (N,) positions in the tree's classes.
        tree: The label tree.
        repeats: Random orders of the samples.
        seed: Of these orders.

    Returns:
        By kind of order: "error", the mean of value / EMD - 1 over pairs and orders; "spread", the standard
        deviation over orders relative to the mean, averaged over pairs; "cpcc" and "cpcc_spread", mean and
        standard deviation of the CPCC over orders. Under "emd" its own "cpcc".

    Example:
        >>> tree = Hierarchy.from_paths([("pet", "cat"), ("pet", "dog"), ("car", "bus")])
        >>> z = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
        >>> results = order_study(z, torch.arange(60) % 3, tree)
        >>> results["principal order"]["error"] < results["batch order"]["error"]
        True
        >>> results["principal order"]["spread"] < 1e-6
        True
    """
    check_whole("repeats", repeats, 2)
    generator = torch.Generator().manual_seed(seed)
    shuffles = [torch.randperm(len(labels), generator=generator) for _ in range(repeats)]
    classes, exact = class_distances(features, labels, "emd")
    t = tree.condensed(classes.tolist())
    results: dict[str, dict[str, float]] = {"emd": {"cpcc": cpcc(exact.double(), t).item()}}
    for name, options in ORDERS.items():
        rho = torch.stack(
            [class_distances(features[s], labels[s], "fastft", **options)[1].double() for s in shuffles]
        )
        correlations = torch.stack([cpcc(row, t) for row in rho])
        results[name] = {
            "error": (rho / exact - 1).mean().item(),
            "spread": (rho.std(0, correction=0) / rho.mean(0)).mean().item(),
            "cpcc": correlations.mean().item(),
            "cpcc_spread": correlations.std(correction=0).item(),
        }
    return results
