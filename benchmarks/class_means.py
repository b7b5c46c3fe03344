"""Forward of l2 in large batches against float32 sums without any check, with and without Numba's loops."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import Any

import torch
from torch import Tensor

from compiled_loops import without_loops
from cophenet import class_distances
from timing import by_threads, show_ms

WIDTH = 128
NAMES = ("class by class", "float32, known classes", "float32, any labels", "ours", "ours without Numba")
_WORK = 4_000_000  # samples of all rounds together


def float32_sums(z: Tensor, labels: Tensor, counts: Tensor) -> Tensor:
    """Distances of class means, for labels 0, 1, ... and features that are known to be finite."""
    sums = z.new_zeros(len(counts), z.shape[1]).index_add_(0, labels, z)
    return torch.pdist(sums / counts[:, None])


def class_by_class(z: Tensor, labels: Tensor, classes: int) -> Tensor:
    """Means of float32 features class by class, as one writes them first."""
    return torch.pdist(torch.stack([z[labels == c].mean(0) for c in range(classes)]))


def of_known_classes(z: Tensor, labels: Tensor, classes: int) -> Tensor:
    """Float32 sums, if labels are known to be 0..classes-1."""
    return float32_sums(z, labels, torch.bincount(labels, minlength=classes))


def of_any_labels(z: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Float32 sums, and the classes present, which ours returns too."""
    present, position, counts = torch.unique(labels, return_inverse=True, return_counts=True)
    return present, float32_sums(z, position, counts)


def ways(z: Tensor, some: list[Tensor], classes: int) -> dict[str, Callable[[], object]]:
    """The ways, which go through the same labels."""
    first, known, unknown, ours, without = (cycle(some) for _ in NAMES)
    tasks = (
        lambda: class_by_class(z, next(first), classes),
        lambda: of_known_classes(z, next(known), classes),
        lambda: of_any_labels(z, next(unknown)),
        lambda: class_distances(z, next(ours), "l2"),
        without_loops(lambda: class_distances(z, next(without), "l2")),
    )
    return dict(zip(NAMES, tasks, strict=True))


def measure(samples: int, classes: int) -> dict[str, dict[str, dict[str, float]]]:
    """Milliseconds for labels in random order and sorted, on one thread and on all cores."""
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(samples, WIDTH, generator=generator)
    shuffled = [torch.randint(0, classes, (samples,), generator=generator) for _ in range(8)]
    orders = {"random": shuffled, "sorted": [labels.sort().values for labels in shuffled]}
    rounds = min(400, max(12, _WORK // samples))
    return {order: by_threads(ways(z, some, classes), rounds) for order, some in orders.items()}


def lines(sizes: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the table."""
    rows = [
        [size, order, threads, *(show_ms(times[name]) for name in NAMES)]
        for size, orders in sizes.items()
        for order, found in orders.items()
        for threads, times in found.items()
    ]
    return ["N, k", "labels", "on", *NAMES], rows
