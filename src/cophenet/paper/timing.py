"""What the regularizer costs in a training step: forward and backward on one batch of features."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from cophenet._common.checks import check_whole
from cophenet._common.threads import torch_threads
from cophenet.cpcc.loss import CPCCLoss
from cophenet.paper.distances import dense_bures
from cophenet.tree import Hierarchy

__all__ = ["time_steps"]

_RIDGE = 1e-3


def time_steps(
    batch_size: int = 128,
    classes: int = 100,
    width: int = 512,
    distances: Sequence[str] = ("l2", "fastft", "swd", "sinkhorn", "emd", "bures"),
    repeats: int = 3,
    dense_pairs: int = 8,
    tell: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Seconds of the loss `1 - CPCC` and its gradient on random features, by class distance.

    The network's own time is not in it. The dense form of Bures, by d x d square roots, is timed on a few
    pairs of classes and multiplied by how many there are.

    Args:
        batch_size: Samples, B.
        classes: Classes that labels are drawn from, in groups of five.
        width: Dimension of the features, d.
        distances: Names of class distances.
        repeats: New batches for every distance.
        dense_pairs: Pairs that the dense form is timed on; 0 to leave it out.
        tell: Gets a line about every distance.

    Returns:
        The settings, and under "seconds" the times of every repeat by distance; "bures, dense" is projected.

    Example:
        >>> study = time_steps(16, 10, 4, ["l2", "fastft"], repeats=2, dense_pairs=1)
        >>> {name: len(values) for name, values in study["seconds"].items()}
        {'l2': 2, 'fastft': 2, 'bures, dense': 2}
    """
    check_whole("repeats", repeats, 1)
    check_whole("dense_pairs", dense_pairs, 0)
    tree = Hierarchy.from_paths([(f"g{c // 5}", f"c{c}") for c in range(classes)])
    generator = torch.Generator().manual_seed(0)
    batches = [
        (
            torch.randn(batch_size, width, generator=generator),
            torch.randint(0, classes, (batch_size,), generator=generator),
        )
        for _ in range(repeats)
    ]
    seconds: dict[str, list[float]] = {}
    with torch_threads(1):
        for name in distances:
            criterion = CPCCLoss(tree, name)
            _timed(criterion, *batches[0])
            seconds[name] = [_timed(criterion, *batch) for batch in batches]
            tell(f"step with {name}: {min(seconds[name]):.2g} s")
        if dense_pairs:
            seconds["bures, dense"] = [_projected(*batch, dense_pairs) for batch in batches]
            tell(f"step with dense Bures, projected: {min(seconds['bures, dense']):.2g} s")
    settings = {"batch_size": batch_size, "classes": classes, "width": width, "dense_pairs": dense_pairs}
    return {"settings": settings, "seconds": seconds}


def _timed(loss: Callable[[Tensor, Tensor], Tensor], features: Tensor, labels: Tensor) -> float:
    leaf = features.clone().requires_grad_()
    start = time.perf_counter()
    loss(leaf, labels).backward()  # type: ignore[no-untyped-call]
    return time.perf_counter() - start


def _projected(features: Tensor, labels: Tensor, pairs: int) -> float:
    """Time of some pairs, times the number of all; the correlation of the distances is not in it."""
    present = len(torch.unique(labels))
    total = present * (present - 1) // 2
    pairs = min(pairs, total)

    def loss(z: Tensor, y: Tensor) -> Tensor:
        return dense_bures(z, y, pairs, _RIDGE).sum()

    return _timed(loss, features, labels) * total / pairs
