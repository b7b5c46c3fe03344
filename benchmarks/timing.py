"""Timing on a noisy machine: interleaved, best of several, ratios within one run."""

from __future__ import annotations

import json
import os
import platform
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

RESULTS = Path(__file__).parent / "results"


def best_times(
    tasks: Mapping[str, Callable[[], object]],
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Seconds of each task, best of `repeats` rounds in which they take turns, in a new order every round."""
    best = dict.fromkeys(tasks, float("inf"))
    for task in tasks.values():
        task()
    for _ in range(repeats):
        for name in random.sample(list(tasks), len(tasks)):
            start = clock()
            tasks[name]()
            best[name] = min(best[name], clock() - start)
    return best


def best_ms(
    tasks: Mapping[str, Callable[[], object]],
    repeats: int,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, float]:
    """As `best_times`, in milliseconds of processor time, which other programs disturb far less."""
    return {name: 1e3 * seconds for name, seconds in best_times(tasks, repeats, clock).items()}


def by_threads(tasks: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, dict[str, float]]:
    """Milliseconds of tasks on one thread, of processor time, and on all cores, by the clock."""
    one = best_ms(tasks, repeats)
    torch.set_num_threads(os.cpu_count() or 1)
    every = best_ms(tasks, repeats, time.perf_counter)
    torch.set_num_threads(1)
    return {"one thread, processor time": one, "all cores, clock": every}


def show_ms(milliseconds: float) -> str:
    """Milliseconds in three digits or all before the point."""
    digits = 2 if milliseconds < 9.995 else 1 if milliseconds < 99.95 else 0
    return f"{milliseconds:,.{digits}f} ms"


def peak_megabytes() -> float:
    """Largest resident size of this process so far."""
    status = Path("/proc/self/status")
    if status.is_file():  # getrusage would also count the parent, before this program was started
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def processor() -> str:
    """Model of the processor, as the system names it."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.is_file() else []
    models = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or platform.machine())


def machine() -> dict[str, Any]:
    """What all times depend on."""
    return {"processor": processor(), "cores": os.cpu_count(), "torch": torch.__version__}


def in_new_process(script: Path, *arguments: str, **environment: str) -> Any:
    """Run a script whose last line of output is JSON, and read it."""
    command = [sys.executable, str(script), *arguments]
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, env={**os.environ, **environment}
    )
    return json.loads(done.stdout.strip().splitlines()[-1])


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A plain text table."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in (header, *rows)
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join([title, *lines, ""])


def write_json(name: str, content: Mapping[str, Any]) -> Path:
    """Write a result and the machine it is of beside the benchmarks, whole or not at all."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    part = path.with_suffix(".part")
    part.write_text(json.dumps({**content, "machine": machine()}, indent=2) + "\n")
    part.replace(path)
    return path
