"""A training step of every distance against the strongest peers, and how its cost grows.

Forward and backward of the sum of all class distances, new random labels every time. What counts is processor
time on one thread, the best of several turns: other programs disturb the clock far more. The time by the
clock on all cores, which wants an idle machine, stands beside it.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

import peers
from cophenet import Hierarchy, class_distances
from timing import show_ms

WIDTH = 512
# Seconds of a task after which it is not repeated, not even to leave out the first time.
PATIENCE = 20.0
OURS: dict[str, tuple[str, dict[str, Any]]] = {
    "l2": ("l2", {}),
    "fastft": ("fastft", {}),
    "fastft, principal order": ("fastft", {"order": "principal"}),
    "swd": ("swd", {}),
    "emd": ("emd", {}),
    "emd, solver pot": ("emd", {"solver": "pot"}),
    "sinkhorn": ("sinkhorn", {}),
    "ft": ("ft", {}),
    "twd": ("twd", {}),
    "bures": ("bures", {}),
}
ALL_CORES = "ours, all cores, by the clock"


def flat_tree(classes: int) -> Hierarchy:
    """A tree of groups of five."""
    return Hierarchy.from_paths([(f"g{c // 5}", f"c{c}") for c in range(classes)])


def label_stream(size: int, classes: int) -> Iterator[Tensor]:
    """New random labels each step."""
    generator = torch.Generator().manual_seed(0)
    while True:
        yield torch.randint(0, classes, (size,), generator=generator)


def alone_ms(
    task: Callable[[], object], repeats: int, clock: Callable[[], float] = time.process_time
) -> float:
    """Time of a task, best of several; the first, which may compile, counts only if it is long."""
    best = math.inf
    for turn in range(repeats + 1):
        start = clock()
        task()
        seconds = clock() - start
        if turn or seconds > PATIENCE:
            best = min(best, seconds)
        if seconds > PATIENCE:
            break
    return 1e3 * best


def our_step(name: str, features: Tensor, labels: Iterator[Tensor], tree: Hierarchy) -> Callable[[], None]:
    """One forward and backward of a distance of this package."""
    distance, options = OURS[name]

    def step() -> None:
        features.grad = None
        _, rho = class_distances(features, next(labels), distance, tree=tree, **options)
        rho.sum().backward()

    return step


def _peer_step(step: peers.Step, features: Tensor, labels: Iterator[Tensor]) -> None:
    step(features, next(labels))


def peer_ms(task: Callable[[], None], repeats: int) -> float | None:
    """Processor time of a peer; None if its package is not installed."""
    try:
        return alone_ms(task, repeats)
    except ImportError:
        return None


def measure(name: str, size: int, classes: int, repeats: int) -> dict[str, float | None]:
    """Milliseconds of a distance and of its peers at one setting."""
    tree, labels = flat_tree(classes), label_stream(size, classes)
    features = torch.randn(size, WIDTH, requires_grad=True)
    step = our_step(name, features, labels, tree)
    row: dict[str, float | None] = {"ours": alone_ms(step, repeats)}
    torch.set_num_threads(os.cpu_count() or 1)
    row[ALL_CORES] = alone_ms(step, 2 * repeats, time.perf_counter)
    torch.set_num_threads(1)
    for peer, other in peers.PEERS.get(name, {}).items():
        # New labels may have new shapes, for which JAX compiles again: the best of several is fair to it.
        row[peer] = peer_ms(partial(_peer_step, other, features, labels), min(repeats, 5))
    return row


def _shuffled(samples: int, classes: int) -> Iterator[Tensor]:
    while True:
        yield torch.randperm(samples * classes) % classes


def growth(name: str, values: Mapping[str, Sequence[int]]) -> dict[str, float]:
    """Exponents of a cost in samples per class n, width d and classes k; the others are their second."""
    middle, exponents = {key: those[1] for key, those in values.items()}, {}
    for key, those in values.items():
        times = []
        for value in those:
            n, d, k = ({**middle, key: value}[part] for part in "ndk")
            features = torch.randn(n * k, d, requires_grad=True)
            times.append(alone_ms(our_step(name, features, _shuffled(n, k), flat_tree(k)), 3))
        exponents[key] = float(np.polyfit(np.log(those), np.log(times), 1)[0])
    return exponents


def _cell(row: dict[str, float | None], who: str) -> str:
    """Milliseconds, and how many times ours."""
    value = row.get(who)
    if value is None:
        return "not installed" if who in row else ""
    ratio = value / (row["ours"] or 1)
    return show_ms(value) if who == "ours" else f"{show_ms(value)} ({ratio:.{0 if ratio > 10 else 1}f}x)"


def lines(
    settings: dict[str, dict[str, Any]], exponents: dict[str, dict[str, float]]
) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the table."""
    rows = []
    for name, row in next(iter(settings.values())).items():
        grows = ", ".join(f"{value:.1f}" for value in exponents[name].values())
        for who in row:
            cells = [_cell(rows_of[name], who) for rows_of in settings.values()]
            rows.append([name if who == "ours" else "", who, *cells, grows if who == "ours" else ""])
    return ["distance", "by", *settings, "grows with n, d, k"], rows
