"""Prototype MAP against loops around scikit-learn, and every metric at 100,000 samples x 10,000 classes.

`python benchmarks/metrics.py` runs the comparison and each part of the scale study in a process of its own,
so that its peak memory is that part's; `python benchmarks/metrics.py PART` runs one of them.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import average_precision_score
from torch import Tensor
from torch.nn.functional import normalize

from cophenet import Hierarchy, metrics
from timing import best_times, in_new_process, peak_megabytes, show_ms, table, write_json

GOAL = 50
SAMPLES, CLASSES, WIDTH = 10_000, 100, 512
LARGE_SAMPLES, LARGE_CLASSES, LARGE_WIDTH, BATCH = 100_000, 10_000, 128, 1000


def clustered(samples: int, classes: int, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """Features around class centres, labels, and the centres."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randperm(samples, generator=generator) % classes
    centres = torch.randn(classes, width, generator=generator)
    return centres[labels] + 3 * torch.randn(samples, width, generator=generator), labels, centres


def by_class(features: Tensor, labels: Tensor, prototypes: Tensor) -> float:
    """All cosines at once, then scikit-learn once for each class."""
    scores = (normalize(features) @ normalize(prototypes).T).numpy()
    truth = labels.numpy()
    return float(np.mean([average_precision_score(truth == c, scores[:, c]) for c in range(len(prototypes))]))


def by_sample_then_class(features: Tensor, labels: Tensor, prototypes: Tensor) -> float:
    """Cosines one sample at a time, as the published evaluation does, then scikit-learn for each class."""
    rows = [torch.cosine_similarity(sample[None], prototypes).numpy() for sample in features]
    scores, truth = np.stack(rows), labels.numpy()
    return float(np.mean([average_precision_score(truth == c, scores[:, c]) for c in range(len(prototypes))]))


def by_sample(features: Tensor, labels: Tensor, prototypes: Tensor) -> float:
    """All cosines at once, then scikit-learn once for each sample, over its classes: another average."""
    scores = (normalize(features) @ normalize(prototypes).T).numpy()
    truth = np.eye(len(prototypes), dtype=np.int64)[labels.numpy()]
    return float(np.mean([average_precision_score(*pair) for pair in zip(truth, scores, strict=True)]))


def compare() -> dict[str, dict[str, float]]:
    """Seconds of the three loops and of ours on one thread, and how many times faster ours is."""
    torch.set_num_threads(1)
    features, labels, prototypes = clustered(SAMPLES, CLASSES, WIDTH)
    loops = {
        "scikit-learn for each sample": by_sample,
        "cosines for each sample, scikit-learn for each class": by_sample_then_class,
        "scikit-learn for each class": by_class,
    }
    ours = metrics.prototype_map(features, labels, prototypes).item()
    for name in list(loops)[1:]:
        if abs(loops[name](features, labels, prototypes) - ours) > 1e-5:
            raise AssertionError(f"{name} and prototype_map differ")
    seconds = best_times({"ours": lambda: metrics.prototype_map(features, labels, prototypes)}, 9)
    for name, loop in loops.items():
        start = time.perf_counter()
        loop(features, labels, prototypes)
        seconds[name] = time.perf_counter() - start
    return {name: {"seconds": s, "times slower": s / seconds["ours"]} for name, s in seconds.items()}


def large_tree() -> Hierarchy:
    """10,000 classes under four levels of ten nodes each."""
    digits = [f"{c:04d}" for c in range(LARGE_CLASSES)]
    return Hierarchy.from_paths([tuple(d[:n] for n in range(1, 5)) for d in digits])


def over_batches(name: str) -> Callable[[], object]:
    """A class of predictions, fed with batches of random probabilities that are made on the way."""
    tree = large_tree()
    metric = getattr(metrics, name)(tree)
    labels = torch.randperm(LARGE_SAMPLES, generator=torch.Generator().manual_seed(0)) % LARGE_CLASSES
    scores = torch.rand(BATCH, LARGE_CLASSES, generator=torch.Generator().manual_seed(1)) ** 20
    scores = scores / scores.sum(1, keepdim=True)

    def run() -> object:
        for part in torch.split(labels, BATCH):
            metric.update(scores, part)
        return metric.compute()

    return run


def large_part(name: str) -> Callable[[], object]:
    """What one part of the scale study runs."""
    if name in ("LevelAccuracy", "MistakeSeverity", "LevelCalibrationError", "DecisionCost"):
        return over_batches(name)
    features, labels, centres = clustered(LARGE_SAMPLES, LARGE_CLASSES, LARGE_WIDTH)
    tree = large_tree()
    return {
        "prototype_map": lambda: metrics.prototype_map(features, labels, centres),
        "map_at_r": lambda: metrics.map_at_r(features, labels),
        "hierarchical_precision_at_k": lambda: metrics.hierarchical_precision_at_k(
            features, labels, tree, 100
        ),
    }[name]


PARTS = (
    "LevelAccuracy",
    "MistakeSeverity",
    "LevelCalibrationError",
    "DecisionCost",
    "prototype_map",
    "map_at_r",
    "hierarchical_precision_at_k",
)


def measure_part(name: str) -> dict[str, float]:
    """Seconds of a part, its peak memory, and how much was in use before it began."""
    run = large_part(name)
    before = peak_megabytes()
    start = time.perf_counter()
    run()
    return {"seconds": time.perf_counter() - start, "peak MB": peak_megabytes(), "inputs MB": before}


def sentence(results: dict[str, Any]) -> str:
    """What was measured, for a page."""
    compared = results["prototype_map"]
    ours, times = compared["ours"]["seconds"], compared["scikit-learn for each sample"]["times slower"]
    return (
        f"Prototype MAP on {SAMPLES:,} samples x {CLASSES} classes takes {show_ms(1e3 * ours)} by the clock "
        f"on one core, {times:.0f} times less than one scikit-learn call per sample."
    )


def main() -> None:
    """Print both tables and write them."""
    # In processes of their own: a peak counts from that of the process which started it.
    compared = in_new_process(Path(__file__), "compare")
    rows = [[n, f"{v['seconds'] * 1e3:.1f}", f"{v['times slower']:.1f}"] for n, v in compared.items()]
    title = f"Prototype MAP, {SAMPLES} samples x {CLASSES} classes, d = {WIDTH}, one thread"
    print(table(title, ["way", "milliseconds", "times slower"], rows))
    reached = compared["scikit-learn for each sample"]["times slower"]
    print(f"goal against a loop over samples: {GOAL} times, reached {reached:.0f}\n")
    large = {}
    for name in PARTS:
        large[name] = in_new_process(Path(__file__), name)
        print(f"{name}: {large[name]['seconds']:.1f} s", flush=True)
    rows = [
        [n, f"{v['seconds']:.1f}", f"{v['peak MB']:.0f}", f"{v['inputs MB']:.0f}"] for n, v in large.items()
    ]
    title = f"{LARGE_SAMPLES} samples x {LARGE_CLASSES} classes, d = {LARGE_WIDTH}"
    print("\n" + table(title, ["metric", "seconds", "peak MB", "of these before"], rows))
    print(write_json("metrics", {"goal": GOAL, "prototype_map": compared, "large": large}))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(compare() if sys.argv[1] == "compare" else measure_part(sys.argv[1])))
    else:
        main()
