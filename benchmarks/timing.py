"""Timing on a noisy machine: interleaved, best of several, ratios within one run."""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def best_times(tasks: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Seconds of each task, best of `repeats` rounds in which they take turns."""
    best = dict.fromkeys(tasks, float("inf"))
    for task in tasks.values():
        task()
    for _ in range(repeats):
        for name, task in tasks.items():
            start = time.perf_counter()
            task()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


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


def write_json(name: str, content: Any) -> Path:
    """Write a result beside the benchmarks, whole or not at all."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    part = path.with_suffix(".part")
    part.write_text(json.dumps(content, indent=2) + "\n")
    part.replace(path)
    return path
