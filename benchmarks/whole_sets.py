"""Whole test sets: time, peak memory and how both grow, each case in a process of its own."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch

from cophenet import class_distances
from cophenet.transport.warm_up import warm_up
from timing import in_new_process, peak_megabytes, table, write_json

WIDTH, THREADS = 512, 2


class Case(NamedTuple):
    """What is measured, in seconds and MB of peak memory, and what it should not exceed."""

    distance: str
    samples: int
    classes: int
    backward: bool
    even: bool = False
    goal_seconds: float | None = None
    goal_mb: float | None = None


CASES = (
    Case("fastft", 5_000, 100, True),
    Case("fastft", 10_000, 100, True, goal_seconds=3.0),
    Case("fastft", 20_000, 100, True),
    Case("fastft", 40_000, 100, True),
    Case("emd", 10_000, 100, False, goal_seconds=15.0),
    Case("emd", 10_000, 100, False, even=True),
    Case("fastft", 100_000, 50, False, goal_mb=1500.0),
    Case("fastft", 100_000, 50, True),
)


def measure(case: Case) -> dict[str, float]:
    """Best of three calls in this process, and what they added to its memory."""
    distance, samples, classes, backward, even, *_ = case
    torch.set_num_threads(THREADS)
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(samples, WIDTH, generator=generator, requires_grad=backward)
    labels = torch.randint(0, classes, (samples,), generator=generator)
    if even:
        labels = torch.randperm(samples, generator=generator) % classes
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


def lines(cases: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the table."""
    rows = [
        [
            case["distance"],
            f"{case['samples']:,}",
            f"{case['classes']}" + (f" of {case['samples'] // case['classes']}" if case["even"] else ""),
            "forward + backward" if case["backward"] else "forward",
            f"{case['seconds']:.2f} s",
            f"{case['peak_mb']:,.0f} MB",
            f"{1e6 * case['seconds'] / case['samples']:.0f} us",
        ]
        for case in cases
    ]
    return ["distance", "N", "k", "what", "time", "peak memory of the process", "per sample"], rows


def main() -> None:
    """Print the table and write it."""
    warm_up()
    script = Path(__file__)
    cases = [{**c._asdict(), **in_new_process(script, json.dumps(c))} for c in CASES]
    print(table(f"Whole sets, d={WIDTH}, float32, {THREADS} threads", *lines(cases)))
    for case in cases:
        for found, goal, unit in (("seconds", "goal_seconds", "s"), ("peak_mb", "goal_mb", "MB")):
            if case[goal] is not None:
                of = f"{case['distance']}, N={case['samples']:,}"
                print(f"goal of {of}: {case[goal]:g} {unit}, reached {case[found]:.2f}")
    memory = in_new_process(script, "step-memory")
    print(f"fastft step at B=1024, k=100: {memory['peak_mb']:.0f} MB beyond its inputs (goal 64 MB)")
    write_json("whole_sets", {"threads": THREADS, "cases": cases, "step_memory_mb": memory["peak_mb"]})


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    elif sys.argv[1] == "step-memory":
        print(json.dumps(step_memory()))
    else:
        print(json.dumps(measure(Case(*json.loads(sys.argv[1])))))
