"""Fast FlowTree in batch order and in principal order: error against exact EMD, and what it costs."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from cophenet import class_distances
from timing import best_times, table, write_json

WIDTH = 128
SIZES = (100, 200, 500)
VARIANTS: dict[str, dict[str, Any]] = {
    "batch order": {},
    "principal order": {"order": "principal"},
    "3 principal orders": {"order": "principal", "n_orders": 3},
}


def two_modes(size: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Two classes as in the paper's synthetic study: modes at 0 and 5 against modes at 2 and 3."""
    clouds = []
    for centres in ((0.0, 5.0), (2.0, 3.0)):
        mode = torch.randint(0, 2, (size, 1), generator=generator)
        centre = torch.where(mode == 0, centres[0], centres[1])
        clouds.append(centre + torch.randn(size, WIDTH, generator=generator))
    return torch.cat(clouds), torch.arange(2).repeat_interleave(size)


def main() -> None:
    """Print the table and write it."""
    torch.set_num_threads(2)
    generator = torch.Generator().manual_seed(0)
    rows, results = [], {}
    for size in SIZES:
        batches = [two_modes(size, generator) for _ in range(10)]
        exact = [class_distances(z, y, "emd")[1].item() for z, y in batches]
        errors = {}
        for name, options in VARIANTS.items():
            found = [class_distances(z, y, "fastft", **options)[1].item() for z, y in batches]
            errors[name] = [100 * (f / e - 1) for f, e in zip(found, exact, strict=True)]
        tasks = {name: partial(class_distances, *batches[0], "fastft", **o) for name, o in VARIANTS.items()}
        times = best_times({**tasks, "emd": partial(class_distances, *batches[0], "emd")}, 15)
        results[size] = {"error_percent": errors, "seconds": times}
        for name in VARIANTS:
            mean = sum(errors[name]) / len(errors[name])
            share = times["emd"] / times[name]
            rows.append([str(size), name, f"{mean:.1f} %", f"{1e3 * times[name]:.2f} ms", f"{share:.0f}x"])
    header = ["n", "plan", "mean error against emd", "time", "faster than emd"]
    print(table("Two-mode mixtures, d=128, ten draws: Fast FlowTree against exact EMD", header, rows))
    write_json("orders", results)


if __name__ == "__main__":
    main()
