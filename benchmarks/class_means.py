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
_WORK = 4_000_000  # samples of all rounds together


def float32_sums(z: Tensor, labels: Tensor, classes: int) -> Tensor:
    """Distances of class means, if labels are known to be 0..classes-1 and features to be finite."""
    counts = torch.bincount(labels, minlength=classes)
    sums = z.new_zeros(classes, z.shape[1]).index_add_(0, labels, z)
    return torch.pdist(sums / counts[:, None])


def ways(z: Tensor, some: list[Tensor], classes: int) -> dict[str, Callable[[], object]]:
    """The three ways, which go through the same labels."""
    first, second, third = cycle(some), cycle(some), cycle(some)
    return {
        "float32 sums": lambda: float32_sums(z, next(first), classes),
        "ours": lambda: class_distances(z, next(second), "l2"),
        "ours without Numba": without_loops(lambda: class_distances(z, next(third), "l2")),
    }


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
    names = ["float32 sums", "ours", "ours without Numba"]
    rows = [
        [size, order, threads, *(show_ms(times[name]) for name in names)]
        for size, orders in sizes.items()
        for order, found in orders.items()
        for threads, times in found.items()
    ]
    return ["N, k", "labels", "on", *names], rows
