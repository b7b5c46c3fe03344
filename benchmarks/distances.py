"""Every distance against the strongest peers, and how its cost grows: one table, JSON, and the page of speed.

Forward and backward of the sum of all class distances, new random labels every time. What counts is processor
time on one thread, the best of several turns: other programs disturb the clock far more.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import peers
from cophenet import Hierarchy, class_distances
from timing import table, write_json

SETTINGS = {"B=128, k=60": (128, 60), "B=1024, k=100": (1024, 100)}
WIDTH = 512
REPEATS = {"ours": 12, "peers": 1}
# Seconds of a task after which it is not repeated.
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
GROWTH = {"n": (16, 32, 64), "d": (128, 256, 512), "k": (10, 20, 40)}
BASE = {"n": 32, "d": 256, "k": 20}
PAGE = Path(__file__).parent.parent / "docs" / "speed.md"
MARKS = ("<!-- written by benchmarks/distances.py -->", "<!-- end -->")


def flat_tree(classes: int) -> Hierarchy:
    """A tree of groups of five."""
    return Hierarchy.from_paths([(f"g{c // 5}", f"c{c}") for c in range(classes)])


def label_stream(size: int, classes: int) -> Iterator[Tensor]:
    """New random labels each step."""
    generator = torch.Generator().manual_seed(0)
    while True:
        yield torch.randint(0, classes, (size,), generator=generator)


def processor_ms(task: Callable[[], object], repeats: int) -> float:
    """Processor time of a task, best of several; the first one, which may compile, does not count."""
    task()
    best = math.inf
    for _ in range(repeats):
        start = time.process_time()
        task()
        best = min(best, time.process_time() - start)
        if best > PATIENCE:
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


def peer_ms(task: Callable[[], None]) -> float | None:
    """Processor time of a peer; None if its package is not installed."""
    try:
        return processor_ms(task, REPEATS["peers"])
    except ImportError:
        return None


def _shuffled(samples: int, classes: int) -> Iterator[Tensor]:
    while True:
        yield torch.randperm(samples * classes) % classes


def against_peers(size: int, classes: int) -> dict[str, dict[str, float | None]]:
    """Milliseconds of every distance and of its peers at one setting."""
    tree, labels = flat_tree(classes), label_stream(size, classes)
    features = torch.randn(size, WIDTH, requires_grad=True)
    results: dict[str, dict[str, float | None]] = {}
    for name, (distance, _) in OURS.items():
        row: dict[str, float | None] = {
            "ours": processor_ms(our_step(name, features, labels, tree), REPEATS["ours"])
        }
        for peer, step in peers.PEERS.get(name, {}).items():
            row[peer] = peer_ms(partial(_peer_step, step, features, labels))
        results[name] = row
        print(f"  {size:5d} {distance}: {row}", file=sys.stderr, flush=True)
    return results


def growth() -> dict[str, dict[str, float]]:
    """Exponent of the cost of every distance in samples per class n, width d and classes k."""
    exponents: dict[str, dict[str, float]] = {}
    for name in OURS:
        exponents[name] = {}
        for key, values in GROWTH.items():
            times = []
            for value in values:
                n, d, k = ({**BASE, key: value}[part] for part in "ndk")
                features = torch.randn(n * k, d, requires_grad=True)
                step = our_step(name, features, _shuffled(n, k), flat_tree(k))
                times.append(processor_ms(step, 3))
            exponents[name][key] = float(np.polyfit(np.log(values), np.log(times), 1)[0])
    return exponents


def cell(row: dict[str, float | None], who: str) -> str:
    """Milliseconds, and how many times ours."""
    value = row.get(who)
    if value is None:
        return "not installed" if who in row else ""
    ratio = value / (row["ours"] or 1)
    return f"{value:.1f} ms" if who == "ours" else f"{value:.1f} ms ({ratio:.{0 if ratio > 10 else 1}f}x)"


def lines(results: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the one table."""
    header = ["distance", "by", *SETTINGS, "grows with n, d, k"]
    rows = []
    first = next(iter(SETTINGS))
    for name, row in results["settings"][first].items():
        exponent = ", ".join(f"{results['growth'][name][key]:.1f}" for key in GROWTH)
        for who in row:
            cells = [cell(results["settings"][setting][name], who) for setting in SETTINGS]
            rows.append([name if who == "ours" else "", who, *cells, exponent if who == "ours" else ""])
    return header, rows


def write_page(results: dict[str, Any]) -> None:
    """Put the table between the marks of the page of speed."""
    header, rows = lines(results)
    written = ["| " + " | ".join(parts) + " |" for parts in (header, ["---"] * len(header), *rows)]
    said = (
        f"Processor time on one thread, torch {results['torch']}; load of the machine {results['load']:.0f}."
    )
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    middle = "\n".join([MARKS[0], "", said, "", *written, "", MARKS[1]])
    PAGE.write_text(before + middle + after, encoding="utf-8")


def main() -> None:
    """Print the table, write it as JSON and into the page."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    results: dict[str, Any] = {
        "torch": torch.__version__,
        "load": os.getloadavg()[0],
        "settings": {name: against_peers(*setting) for name, setting in SETTINGS.items()},
        "growth": growth(),
    }
    title = "Forward + backward of all class distances, d=512, float32, processor time on one thread"
    print(table(title, *lines(results)))
    write_json("distances", results)
    write_page(results)


if __name__ == "__main__":
    main()
