"""What a step costs a GPU, counted without one: operations, waits, transfers and bytes of every distance."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from cophenet import CPCCLoss, Hierarchy
from cophenet.transport import distance_names
from pretend_device import Counts, PretendDevice

WIDTH = 512
_REPEATS = 5


def step(criterion: CPCCLoss, features: Tensor, labels: Tensor, host_labels: bool) -> Counts:
    """What one forward and backward pass counts."""
    counts = Counts()
    with PretendDevice() as device:
        z, one = device.upload(features), device.upload(torch.ones(()))
        y = labels if host_labels else device.upload(labels)
        device.counts = counts
        torch.autograd.grad(criterion(z, y), z, one)
    return counts


@contextmanager
def way_of_a_device() -> Iterator[None]:
    """Tensors of the host take the way that those of an accelerator take."""
    modules = [module for name, module in sys.modules.items() if name.startswith("cophenet.")]
    with ExitStack() as stack:
        for module in modules:
            if "is_host" in vars(module):
                stack.enter_context(patch.object(module, "is_host", lambda _: False))
        yield


def host_microseconds(task: Callable[[], object]) -> float:
    """Processor time of a task, best of several."""
    best = float("inf")
    for _ in range(_REPEATS):
        start = time.process_time()
        task()
        best = min(best, time.process_time() - start)
    return 1e6 * best


def host_step(criterion: CPCCLoss, labels: Tensor) -> None:
    """What the host does in a step: with features of width 1 little of it is the work of a device."""
    features = torch.arange(len(labels), dtype=torch.float32)[:, None].requires_grad_()
    criterion(features, criterion.prepare(labels)).backward()


def measure(size: int, classes: int) -> dict[str, dict[str, Any]]:
    """Counts of every distance at one setting."""
    tree = Hierarchy.from_paths([(f"g{c // 5}", f"c{c}") for c in range(classes)])
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(size, WIDTH, generator=generator).requires_grad_()
    labels = torch.randint(0, classes, (size,), generator=generator)
    results: dict[str, dict[str, Any]] = {}
    for name in distance_names():
        criterion = CPCCLoss(tree, name)
        counts = step(criterion, features, labels, host_labels=True)
        results[name] = {
            "operations": len(counts.operations),
            "waits": len(counts.waits),
            "waits_with_labels_on_the_device": len(step(CPCCLoss(tree, name), features, labels, False).waits),
            "uploads": len(counts.uploads),
            "uploaded_bytes": sum(counts.uploads),
            "downloaded_bytes": sum(counts.downloads),
            "moved_bytes": counts.moved,
            "planning_us": host_microseconds(partial(criterion.prepare, labels)),
        }
        with way_of_a_device():
            results[name]["step_us"] = host_microseconds(partial(host_step, CPCCLoss(tree, name), labels))
    return results


def lines(rows: dict[str, dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the table of one setting."""
    header = ["distance", "operations", "waits", "with labels on the device", "uploads", "KB up", "MB moved"]
    cells = [
        [
            name,
            f"{row['operations']:,}",
            str(row["waits"]),
            str(row["waits_with_labels_on_the_device"]),
            str(row["uploads"]),
            f"{row['uploaded_bytes'] / 1e3:,.0f}",
            f"{row['moved_bytes'] / 1e6:,.0f}",
            f"{row['planning_us']:,.0f}",
            f"{row['step_us']:,.0f}",
        ]
        for name, row in rows.items()
    ]
    return [*header, "us to plan", "us of the host"], cells
