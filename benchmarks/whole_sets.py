"""Whole test sets: time, peak memory and how both grow, each case in a process of its own."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import torch

from cophenet import class_distances
from timing import in_new_process, peak_megabytes, table, write_json

WIDTH = 512
# distance, samples, classes, with backward, goal in seconds, goal in MB of peak memory
CASES: list[tuple[str, int, int, bool, float | None, float | None]] = [
    ("fastft", 5_000, 100, True, None, None),
    ("fastft", 10_000, 100, True, 3.0, None),
    ("fastft", 20_000, 100, True, None, None),
    ("fastft", 40_000, 100, True, None, None),
    ("emd", 10_000, 100, False, 15.0, None),
    ("fastft", 100_000, 50, False, None, 1500.0),
    ("fastft", 100_000, 50, True, None, None),
]


def measure(distance: str, samples: int, classes: int, backward: bool) -> dict[str, float]:
    """Best of three calls in this process, and what they added to its memory."""
    torch.set_num_threads(2)
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(samples, WIDTH, generator=generator, requires_grad=backward)
    labels = torch.randint(0, classes, (samples,), generator=generator)
    small = torch.arange(6) % 3
    class_distances(torch.randn(6, 2), small, distance)
    loaded = peak_megabytes()
    best = float("inf")
    for _ in range(3):
        features.grad = None
        start = time.perf_counter()
        _, rho = class_distances(features, labels, distance)
        if backward:
            rho.sum().backward()  # type: ignore[no-untyped-call]
        best = min(best, time.perf_counter() - start)
    return {"seconds": best, "peak_mb": peak_megabytes(), "beyond_inputs_mb": peak_megabytes() - loaded}


def step_memory() -> dict[str, float]:
    """What a training step of fastft at B=1024, k=100 allocates at its peak beyond its inputs, in MB."""
    from torch.profiler import ProfilerActivity, profile

    features = torch.randn(1024, WIDTH, requires_grad=True)
    labels = torch.randint(0, 100, (1024,))
    class_distances(features, labels, "fastft")[1].sum().backward()  # type: ignore[no-untyped-call]
    features.grad = None
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        class_distances(features, labels, "fastft")[1].sum().backward()  # type: ignore[no-untyped-call]
    held = peak = 0
    for event in recorded.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            peak = max(peak, held)
    return {"peak_mb": peak / 2**20}


def main() -> None:
    """Print the table and write it."""
    script = Path(__file__)
    rows, results = [], []
    for distance, samples, classes, backward, seconds, megabytes in CASES:
        case = {"distance": distance, "samples": samples, "classes": classes, "backward": backward}
        found = in_new_process(script, json.dumps(case))
        results.append({**case, **found})
        rows.append(
            [
                distance,
                f"{samples:,}",
                str(classes),
                "forward + backward" if backward else "forward",
                f"{found['seconds']:.2f} s" + (f" (goal {seconds:g} s)" if seconds else ""),
                f"{found['peak_mb']:.0f} MB" + (f" (goal {megabytes:g} MB)" if megabytes else ""),
                f"{1e6 * found['seconds'] / samples:.0f} us",
            ]
        )
    header = ["distance", "N", "k", "what", "time", "peak memory, all in", "per sample"]
    print(table("Whole sets, d=512, float32, 2 threads", header, rows))
    memory = in_new_process(script, "step-memory")
    print(f"fastft step at B=1024, k=100: {memory['peak_mb']:.0f} MB beyond its inputs (goal 64 MB)")
    write_json("whole_sets", {"cases": results, "step_memory_mb": memory["peak_mb"]})


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    elif sys.argv[1] == "step-memory":
        print(json.dumps(step_memory()))
    else:
        print(json.dumps(measure(**json.loads(sys.argv[1]))))
