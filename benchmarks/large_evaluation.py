"""CPCC, MAP and accuracy of up to a million mapped features: time and memory, each size in its own process.

Memory is the anonymous part of what is resident, the largest of many samples in time: pages of the mapped
file, which the system may take back at any moment, are left out. Processor time, of all threads together,
shows how the work grows where other programs disturb the clock.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from cophenet import Hierarchy
from cophenet.metrics.streaming import (
    FeatureShards,
    stream_accuracy,
    stream_cpcc,
    stream_distances,
    stream_map,
    stream_prototypes,
)
from timing import in_new_process, table, write_json

WIDTH, CLASSES = 512, 100
SIZES = (125_000, 250_000, 500_000, 1_000_000)
GOAL_SECONDS, GOAL_MB = 120.0, 4096.0
TREE = Hierarchy.from_paths([(f"group{c // 5}", f"class{c}") for c in range(CLASSES)])


def write(folder: Path, samples: int) -> Path:
    """Half-precision features around class centres, in random order of classes."""
    rng = np.random.default_rng(0)
    path = folder / "features.npy"
    labels = rng.integers(CLASSES, size=samples)
    np.save(folder / "labels.npy", labels)
    centres = rng.standard_normal((CLASSES, WIDTH), dtype=np.float32)
    file = np.lib.format.open_memmap(path, "w+", np.float16, (samples, WIDTH))
    for start in range(0, samples, 1 << 14):
        own = labels[start : start + (1 << 14)]
        file[start : start + len(own)] = centres[own] + rng.standard_normal((len(own), WIDTH), np.float32)
    file.flush()
    return path


def anonymous_megabytes() -> float:
    """Resident memory of this process that is no page of a file."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("RssAnon")).split()[1]) / 1024


def watched(task: Callable[[], object]) -> tuple[float, float]:
    """Seconds of a task, and the most memory seen meanwhile."""
    peak, done = anonymous_megabytes(), threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.02):
            peak = max(peak, anonymous_megabytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    start = time.perf_counter()
    task()
    seconds = time.perf_counter() - start
    done.set()
    watcher.join()
    return seconds, peak


def measure(path: str, samples: int) -> dict[str, float]:
    """Seconds of every metric on the first samples of the file, and the peak of all of them."""
    torch.set_num_threads(2)
    whole = FeatureShards.open(path)
    shards = FeatureShards([whole.features[0][:samples]], whole.labels[:samples].clone())
    small = FeatureShards([torch.randn(200, 8)], torch.arange(200) % 5)
    stream_distances(small)  # compiles, or loads what an earlier run has compiled
    found: dict[str, float] = {}
    peak = 0.0
    prototypes = stream_prototypes(shards)[1]
    tasks: dict[str, Callable[[], object]] = {
        "fastft": lambda: stream_cpcc(shards, TREE, "fastft"),
        "l2": lambda: stream_cpcc(shards, TREE, "l2"),
        "map": lambda: stream_map(shards, prototypes),
        "accuracy": lambda: stream_accuracy(shards, TREE, head=lambda z: z @ prototypes.T),
    }
    start = time.process_time()
    for name, task in tasks.items():
        found[name], highest = watched(task)
        peak = max(peak, highest)
    return {**found, "all": sum(found.values()), "processor": time.process_time() - start, "peak_mb": peak}


def main() -> None:
    """Print the table and write it."""
    results, rows = [], []
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder), SIZES[-1])
        for samples in SIZES:
            found = in_new_process(Path(__file__), str(path), str(samples))
            results.append({"samples": samples, **found})
            times = [
                f"{found[name]:.1f} s" for name in ("fastft", "l2", "map", "accuracy", "all", "processor")
            ]
            per_sample = f"{1e6 * found['processor'] / samples:.0f} us"
            rows.append([f"{samples:,}", *times, per_sample, f"{found['peak_mb']:.0f} MB"])
    header = [
        "N",
        "CPCC fastft",
        "CPCC l2",
        "MAP",
        "accuracy",
        "all",
        "processor",
        "per sample",
        "peak beside mapped pages",
    ]
    goals = f"goals at 1,000,000: {GOAL_SECONDS:.0f} s, {GOAL_MB:.0f} MB"
    print(table(f"Mapped float16 features, d={WIDTH}, k={CLASSES}, 2 threads ({goals})", header, rows))
    write_json("large_evaluation", {"cases": results})


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
