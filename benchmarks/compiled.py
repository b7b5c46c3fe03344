"""A training step whose network and loss are one compiled graph, against the same step as it is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from cophenet import CPCCLoss, Hierarchy

DISTANCES = ("l2", "fastft")
_INPUTS, _WIDTH, _STEPS = 256, 512, 20


def measure(distance: str, size: int, classes: int) -> dict[str, Any]:
    """Processor time of a step, best of several in turns, and seconds until it is compiled."""
    tree = Hierarchy.from_paths([(f"g{c // 5}", f"c{c}") for c in range(classes)])
    criterion, generator = CPCCLoss(tree, distance), torch.Generator().manual_seed(0)
    network = nn.Sequential(nn.Linear(_INPUTS, _WIDTH), nn.ReLU(), nn.Linear(_WIDTH, _WIDTH))

    def loss(x: Tensor, y: Any) -> Tensor:
        value: Tensor = criterion(network(x), y)
        return value

    torch.compiler.reset()
    whole: Callable[[Tensor, Any], Tensor] = torch.compile(loss, fullgraph=True)
    parts: Callable[[Tensor, Any], Tensor] = torch.compile(loss)
    ways = {"eager": loss, "network compiled": parts, "one graph": whole}
    best, first = dict.fromkeys(ways, float("inf")), dict.fromkeys(ways, 0.0)
    for step in range(_STEPS):
        x = torch.randn(size, _INPUTS, generator=generator)
        y = torch.randint(0, classes, (size,), generator=generator)
        for name, way in ways.items():
            start, clock = time.process_time(), time.perf_counter()
            way(x, criterion.prepare(y) if way is whole else y).backward()  # type: ignore[no-untyped-call]
            spent = time.process_time() - start
            if step < _STEPS // 4:  # shapes that change are compiled once more
                first[name] += time.perf_counter() - clock
            best[name] = min(best[name], spent)
    return {"ms": {name: 1e3 * value for name, value in best.items()}, "first_seconds": first["one graph"]}


def lines(settings: dict[str, dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the table: steps in milliseconds, and seconds of the first steps."""
    names = ["eager", "network compiled", "one graph"]
    rows = [
        [setting, distance, *(f"{row['ms'][name]:.1f}" for name in names), f"{row['first_seconds']:.0f}"]
        for setting, rows in settings.items()
        for distance, row in rows.items()
    ]
    return ["setting", "distance", *(f"{name}, ms" for name in names), "seconds to compile"], rows
