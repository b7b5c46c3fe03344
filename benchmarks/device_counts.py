"""What a step costs a GPU, counted without one: operations, waits, transfers and bytes of every distance."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor

from cophenet import CPCCLoss, Hierarchy
from cophenet.transport import distance_names
from pretend_device import Counts, PretendDevice
from timing import table, write_json

SETTINGS = {"B=128, k=60": (128, 60)}
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


def host_microseconds(criterion: CPCCLoss, labels: Tensor) -> float:
    """Processor time of planning a batch, which the host does while the device computes."""
    best = float("inf")
    for _ in range(_REPEATS):
        start = time.process_time()
        criterion.prepare(labels)
        best = min(best, time.process_time() - start)
    return 1e6 * best


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
            "planning_us": host_microseconds(criterion, labels),
        }
    return results


def main() -> None:
    """Print the tables and write them."""
    torch.set_num_threads(1)
    results = {name: measure(*setting) for name, setting in SETTINGS.items()}
    header = ["distance", "operations", "waits", "labels there", "uploads", "KB up", "MB moved", "plan us"]
    for setting, rows in results.items():
        lines = [
            [
                name,
                str(row["operations"]),
                str(row["waits"]),
                str(row["waits_with_labels_on_the_device"]),
                str(row["uploads"]),
                f"{row['uploaded_bytes'] / 1e3:.0f}",
                f"{row['moved_bytes'] / 1e6:.0f}",
                f"{row['planning_us']:.0f}",
            ]
            for name, row in rows.items()
        ]
        print(table(f"Forward + backward with labels on the host, {setting}, d=512, float32", header, lines))
    write_json("device_counts", results)


if __name__ == "__main__":
    main()
