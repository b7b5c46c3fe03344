"""What the regularizer costs in a training step, and studies of time in a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from cophenet._common.checks import check_choice, check_whole
from cophenet._common.threads import torch_threads
from cophenet.cpcc.loss import CPCCLoss
from cophenet.paper.observations import Condition, Observation, Observations
from cophenet.paper.synthetic import StudySettings, synthetic_study
from cophenet.paper.timed_distances import dense_bures
from cophenet.tree import Hierarchy

__all__ = ["run_isolated", "step_observations", "time_steps"]

# What a study of steps calls the dense form of Bures.
_DENSE = "bures, dense"
_RIDGE = 1e-3
_HUGE = str(1 << 40)
# A C library that gives large blocks back to the system makes every call pay for fresh pages, in steps that
# have nothing to do with the work: glibc is told to keep them. Others do not read these.
_ENVIRONMENT = {
    "MALLOC_MMAP_THRESHOLD_": _HUGE,
    "MALLOC_TRIM_THRESHOLD_": _HUGE,
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
# Modules are looked for where this process does: not in the current folder, which may be anyone's.
_START = (
    "import sys; sys.path[:] = sys.argv.pop(1).split(chr(10)); "
    "from cophenet.paper.timing import _main; _main(*sys.argv[1:])"
)


def time_steps(
    batch_size: int = 128,
    classes: int = 100,
    width: int = 512,
    distances: Sequence[str] = ("l2", "fastft", "swd", "sinkhorn", "emd", "bures"),
    repeats: int = 3,
    dense_pairs: int = 8,
    tell: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Seconds of the loss `1 - CPCC` and its gradient on random features, by class distance.

    The network's own time is not in it. The dense form of Bures, by d x d square roots, is timed on a few
    pairs of classes and multiplied by how many there are.

    Args:
        batch_size: Samples, B.
        classes: Classes that labels are drawn from, in groups of five.
        width: Dimension of the features, d.
        distances: Names of class distances.
        repeats: New batches for every distance.
        dense_pairs: Pairs that the dense form is timed on; 0 to leave it out.
        tell: Gets a line about every distance.

    Returns:
        The settings, and under "seconds" the times of every repeat by distance; "bures, dense" is projected.

    Example:
        >>> study = time_steps(16, 10, 4, ["l2", "fastft"], repeats=2, dense_pairs=1)
        >>> {name: len(values) for name, values in study["seconds"].items()}
        {'l2': 2, 'fastft': 2, 'bures, dense': 2}
    """
    check_whole("repeats", repeats, 1)
    check_whole("dense_pairs", dense_pairs, 0)
    tree = Hierarchy.from_paths([(f"g{c // 5}", f"c{c}") for c in range(classes)])
    generator = torch.Generator().manual_seed(0)
    batches = [
        (
            torch.randn(batch_size, width, generator=generator),
            torch.randint(0, classes, (batch_size,), generator=generator),
        )
        for _ in range(repeats)
    ]
    seconds: dict[str, list[float]] = {}
    with torch_threads(1):
        for name in distances:
            criterion = CPCCLoss(tree, name)
            _timed(criterion, *batches[0])
            seconds[name] = [_timed(criterion, *batch) for batch in batches]
            tell(f"step with {name}: {min(seconds[name]):.2g} s")
        if dense_pairs:
            seconds[_DENSE] = [_projected(*batch, dense_pairs) for batch in batches]
            tell(f"step with dense Bures, projected: {min(seconds[_DENSE]):.2g} s")
    settings = {"batch_size": batch_size, "classes": classes, "width": width, "dense_pairs": dense_pairs}
    return {"settings": settings, "seconds": seconds}


def _timed(loss: Callable[[Tensor, Tensor], Tensor], features: Tensor, labels: Tensor) -> float:
    leaf = features.clone().requires_grad_()
    start = time.perf_counter()
    loss(leaf, labels).backward()  # type: ignore[no-untyped-call]
    return time.perf_counter() - start


def _projected(features: Tensor, labels: Tensor, pairs: int) -> float:
    """Time of some pairs, times the number of all; the correlation of the distances is not in it."""
    present = len(torch.unique(labels))
    total = present * (present - 1) // 2
    pairs = min(pairs, total)

    def loss(z: Tensor, y: Tensor) -> Tensor:
        return dense_bures(z, y, pairs, _RIDGE).sum()

    return _timed(loss, features, labels) * total / pairs


def step_observations(study: Mapping[str, Any]) -> Observations:
    """Observations of `time_steps`: "seconds_per_batch", and "times-l2" the time over that with l2."""
    conditions, rows = [], []
    l2 = study["seconds"].get("l2")
    for name, seconds in study["seconds"].items():
        # The paper timed updates on CIFAR-100.
        distance = "bures-dense" if name == _DENSE else name
        condition = Condition("", "cifar100", distance, comparable=True)
        conditions.append(condition)
        rows += [Observation(condition, seed, "seconds_per_batch", s) for seed, s in enumerate(seconds)]
        if l2:
            ratios = (own / other for own, other in zip(seconds, l2, strict=True))
            rows += [Observation(condition, seed, "times-l2", ratio) for seed, ratio in enumerate(ratios)]
    return Observations(tuple(conditions), tuple(rows))


def _synthetic(settings: dict[str, Any], tell: Callable[[str], None]) -> dict[str, Any]:
    given: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in settings.items()}
    return synthetic_study(StudySettings(**given), tell=tell)


def _steps(settings: dict[str, Any], tell: Callable[[str], None]) -> dict[str, Any]:
    return time_steps(**settings, tell=tell)


_RUNNERS = {"synthetic": _synthetic, "steps": _steps}


def run_isolated(
    study: str, settings: Mapping[str, Any] | None = None, tell: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """Run a study of time in a new process with one thread.

    Args:
        study: "synthetic" for `synthetic_study`, "steps" for `time_steps`.
        settings: Its settings by name; None for its own.
        tell: Gets a line about every step.

    Returns:
        What the study returns.

    Raises:
        RuntimeError: If the process fails; says why.
        ValueError: If there is no such study.

    Example:
        >>> run_isolated("speed")
        Traceback (most recent call last):
        ValueError: study must be one of synthetic, steps, got 'speed'
    """
    check_choice("study", study, _RUNNERS)
    path, given = "\n".join(sys.path), json.dumps(dict(settings or {}))
    command = [sys.executable, "-c", _START, path, study, given]
    lines: list[str] = []
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **_ENVIRONMENT},
    ) as child:
        assert child.stdout is not None
        for line in child.stdout:
            lines.append(line.rstrip("\n"))
            if line.startswith("- "):
                tell(lines[-1][2:])
    if child.returncode:
        raise RuntimeError(f"the study {study!r} failed: {lines[-1] if lines else 'it said nothing'}")
    result: dict[str, Any] = json.loads(lines[-1])
    return result


def _main(study: str, settings: str) -> None:
    """The study in the new process: lines about what is done, then the result as one line of JSON."""
    result = _RUNNERS[study](json.loads(settings), lambda line: print(f"- {line}", flush=True))
    print(json.dumps(result, allow_nan=False))
