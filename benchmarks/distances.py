"""Forward and backward of the loss against the loop a user would write, at two batch sizes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

import baseline
from cophenet import CPCCLoss, Hierarchy
from timing import best_times, table, write_json

SETTINGS = {"B=128, k=60": (128, 60), "B=1024, k=100": (1024, 100)}
WIDTH = 512
GOALS = {
    "fastft": (80, 35),
    "swd": (200, 150),
    "emd": (80, 20),
    "emd without numba": (10, 10),
    "sinkhorn": (50, 30),
    "l2": (5, 5),
}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "fastft": ("fastft", {}),
    "fastft principal": ("fastft", {"order": "principal"}),
    "fastft 3 orders": ("fastft", {"order": "principal", "n_orders": 3}),
    "swd": ("swd", {}),
    "emd": ("emd", {"solver": "numba"}),
    "emd without numba": ("emd", {"solver": "pot"}),
    "sinkhorn": ("sinkhorn", {}),
    "l2": ("l2", {}),
}


def label_stream(size: int, classes: int) -> Iterator[Tensor]:
    """New random labels each step."""
    generator = torch.Generator().manual_seed(0)
    while True:
        yield torch.randint(0, classes, (size,), generator=generator)


def training_step(
    features: Tensor, labels: Iterator[Tensor], loss: Callable[[Tensor, Tensor], Tensor]
) -> None:
    """One forward and backward."""
    features.grad = None
    loss(features, next(labels)).backward()  # type: ignore[no-untyped-call]


def compile_seconds() -> float:
    """First call of the numba solver in this process: compiling it, or loading what was compiled before."""
    tree = Hierarchy.from_paths([("a", "1"), ("a", "2"), ("b", "3")])
    start = time.perf_counter()
    CPCCLoss(tree, "emd", solver="numba")(torch.randn(9, 4), torch.arange(9) % 3)
    return time.perf_counter() - start


def measure(size: int, classes: int, loops: int, repeats: int) -> dict[str, dict[str, float]]:
    """Seconds and ratios of every variant at one setting."""
    tree = Hierarchy.from_paths([(f"g{c // 5}", f"c{c}") for c in range(classes)])
    metric = torch.from_numpy(tree.distances().copy())
    features = torch.randn(size, WIDTH, requires_grad=True)
    products = torch.randn(size, size)
    labels = label_stream(size, classes)

    def two_products() -> None:
        with torch.no_grad():
            torch.mm(features, features.T)
            torch.mm(products, features)

    results: dict[str, dict[str, float]] = {}
    for name, (distance, options) in VARIANTS.items():
        criterion = CPCCLoss(tree, distance, **options)
        cost = baseline.COSTS[distance]

        def ours(criterion: CPCCLoss = criterion) -> None:
            training_step(features, labels, criterion)

        def loop(cost: baseline.Cost = cost) -> None:
            training_step(features, labels, lambda z, y: baseline.loop_loss(z, y, metric, cost))

        slow = best_times({"loop": loop, "ours": ours}, loops)
        fast = best_times({"ours": ours, "two products": two_products}, repeats)
        best = min(slow["ours"], fast["ours"])
        results[name] = {
            "loop_ms": 1e3 * slow["loop"],
            "ours_ms": 1e3 * best,
            "ratio": slow["loop"] / best,
            "over_two_products": best / fast["two products"],
        }
    return results


def main() -> None:
    """Print the table and write it."""
    torch.set_num_threads(2)
    torch.manual_seed(0)
    compiled = compile_seconds()
    results = {name: measure(*setting, loops=3, repeats=20) for name, setting in SETTINGS.items()}
    rows = []
    for name in VARIANTS:
        row = [name]
        for position, setting in enumerate(SETTINGS):
            r = results[setting][name]
            goal = f" (goal {GOALS[name][position]}x)" if name in GOALS else ""
            row.append(f"{r['loop_ms']:.0f} / {r['ours_ms']:.2f} ms = {r['ratio']:.0f}x{goal}")
        row.append(f"{results['B=1024, k=100'][name]['over_two_products']:.2f}")
        rows.append(row)
    header = ["distance", *SETTINGS, "x two products (B=1024)"]
    print(table("Forward + backward, loop / ours, d=512, float32, 2 threads", header, rows))
    print(f"numba solver: {compiled:.2f} s to compile or load, once per process, not in the table")
    write_json("distances", {"settings": results, "numba_first_call_s": compiled})


if __name__ == "__main__":
    main()
