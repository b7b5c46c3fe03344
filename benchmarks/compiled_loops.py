"""Steps of l2 and fastft with and without the loops that Numba compiles, and their two products alone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from against_peers import WIDTH, flat_tree, our_step
from cophenet.transport import differences, ground
from cophenet.transport.solvers import machine_code
from timing import by_threads, show_ms

DISTANCES = ("l2", "fastft")
_WORK = 50_000  # samples of all rounds together


def without_loops(task: Callable[[], object]) -> Callable[[], None]:
    """The task by torch and NumPy, as if Numba were not installed; `emd` and `ft` still plan with it."""

    def run() -> None:
        with (
            patch.object(machine_code, "_COLD_CALLS", sys.maxsize),
            patch.object(differences, "compiled_at_first_use", lambda: False),
        ):
            task()

    return run


def products(rows: Tensor) -> Callable[[], object]:
    """The Gram matrix of rows as distances compute it, and the product that gives gradients."""
    square = rows @ rows.T
    return lambda: (ground._products(rows), square @ rows)


def measure(distance: str, size: int, classes: int) -> dict[str, dict[str, float]]:
    """Milliseconds of a step, forward and backward, on one thread and on all cores."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(size, WIDTH, generator=generator, requires_grad=True)
    some = [torch.randint(0, classes, (size,), generator=generator) for _ in range(8)]
    step = partial(our_step, distance, features, tree=flat_tree(classes))
    labels: list[Iterator[Tensor]] = [cycle(some), cycle(some)]  # both ways have the same in a round
    tasks = {
        "with Numba": step(labels=labels[0]),
        "without": without_loops(step(labels=labels[1])),
        "its two products alone": products(features.detach()[: classes if distance == "l2" else size]),
    }
    return by_threads(tasks, min(400, _WORK // size))


def lines(settings: dict[str, dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the table."""
    ways = ["with Numba", "without", "its two products alone"]
    rows = [
        [setting, distance, threads, *(show_ms(times[way]) for way in ways)]
        for setting, distances in settings.items()
        for distance, found in distances.items()
        for threads, times in found.items()
    ]
    return ["setting", "distance", "on", *ways], rows
