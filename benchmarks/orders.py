"""Fast FlowTree in batch order and in principal order: error against exact EMD, and what it costs."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from cophenet import class_distances
from cophenet.transport.warm_up import warm_up
from timing import best_times, show_ms, table, write_json

WIDTH, THREADS = 128, 2
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


def measure(size: int, generator: torch.Generator) -> dict[str, Any]:
    """Errors in percent of ten draws, and seconds of the first one by the clock."""
    batches = [two_modes(size, generator) for _ in range(10)]
    exact = [class_distances(z, y, "emd")[1].item() for z, y in batches]
    errors = {}
    for name, options in VARIANTS.items():
        found = [class_distances(z, y, "fastft", **options)[1].item() for z, y in batches]
        errors[name] = [100 * (f / e - 1) for f, e in zip(found, exact, strict=True)]
    tasks = {name: partial(class_distances, *batches[0], "fastft", **o) for name, o in VARIANTS.items()}
    seconds = best_times({**tasks, "emd": partial(class_distances, *batches[0], "emd")}, 15)
    return {"error_percent": errors, "seconds": seconds}


def lines(sizes: dict[str, dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the table."""
    rows = []
    for size, found in sizes.items():
        seconds, errors = found["seconds"], found["error_percent"]
        for name in VARIANTS:
            mean = sum(errors[name]) / len(errors[name])
            share = seconds["emd"] / seconds[name]
            rows.append([size, name, f"{mean:.1f} %", show_ms(1e3 * seconds[name]), f"{share:.1f}x"])
        rows.append([size, "exact emd", "", show_ms(1e3 * seconds["emd"]), ""])
    return ["n per class", "plan", "above emd", "time", "faster than emd"], rows


def main() -> None:
    """Print the table and write it."""
    torch.set_num_threads(THREADS)
    warm_up()
    generator = torch.Generator().manual_seed(0)
    sizes = {str(size): measure(size, generator) for size in SIZES}
    print(table("Two-mode mixtures, d=128, ten draws: Fast FlowTree against exact EMD", *lines(sizes)))
    write_json("orders", {"threads": THREADS, "sizes": sizes})


if __name__ == "__main__":
    main()
