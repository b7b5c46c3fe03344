"""What class distances cost: all tables of the page of speed that are about them.

python benchmarks/distances.py            # measure; what is interrupted goes on where it stopped
python benchmarks/distances.py --page     # write docs/speed.md from what all benchmarks measured
python benchmarks/distances.py --tiny     # small sizes, to try the benchmark itself
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

import against_peers
import bounds
import bures_forms
import class_means
import compiled
import compiled_loops
import device_counts
import page
import whole_step
from cophenet import class_distances
from cophenet.transport.warm_up import warm_up
from timing import RESULTS, machine, table, write_json

Sizes = dict[str, tuple[int, int]]


class Plan(NamedTuple):
    """How large everything is.

    Attributes:
        settings: Samples and classes of a batch.
        growth: Samples per class n, widths d and numbers of classes k, around the second of each.
        repeats: Times a distance is measured.
        bures: Samples per class and widths.
        means: Samples and classes.
        batch: Samples of a whole step.
    """

    settings: Sizes
    growth: dict[str, tuple[int, ...]]
    repeats: int
    bures: Sizes
    means: Sizes
    batch: int


def _named(*sizes: tuple[int, int]) -> Sizes:
    return {f"{a:,}, {b:,}": (a, b) for a, b in sizes}


FULL = Plan(
    settings={"B=128, k=60": (128, 60), "B=1024, k=100": (1024, 100)},
    growth={"n": (16, 32, 64), "d": (128, 256, 512), "k": (10, 20, 40)},
    repeats=12,
    bures=_named((32, 128), (32, 512), (2048, 128), (2048, 512)),
    means=_named((8192, 8), (32_768, 8), (131_072, 2), (1_000_000, 10)),
    batch=128,
)
TINY = Plan(
    settings={"B=24, k=6": (24, 6), "B=32, k=8": (32, 8)},
    growth={"n": (2, 4, 8), "d": (4, 8, 16), "k": (3, 6, 9)},
    repeats=1,
    bures=_named((4, 8), (16, 8)),
    means=_named((400, 2)),
    batch=8,
)


def parts(plan: Plan) -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """All that is measured: section, name and how."""
    for setting, sizes in plan.settings.items():
        for name in against_peers.OURS:
            yield f"peers, {setting}", name, partial(against_peers.measure, name, *sizes, plan.repeats)
    for name in against_peers.OURS:
        yield "growth", name, partial(against_peers.growth, name, plan.growth)
    for setting, sizes in plan.settings.items():
        yield "counts", setting, partial(device_counts.measure, *sizes)
        for name in compiled.DISTANCES:
            yield f"compiled, {setting}", name, partial(compiled.measure, name, *sizes)
        for name in compiled_loops.DISTANCES:
            yield f"loops, {setting}", name, partial(compiled_loops.measure, name, *sizes)
    for name in bounds.PARTS:
        yield "bounds", name, partial(bounds.measure, name, *sizes)
    for name, sizes in plan.bures.items():
        yield "bures", name, partial(bures_forms.measure, *sizes)
    for name, sizes in plan.means.items():
        yield "means", name, partial(class_means.measure, *sizes)
    for name in whole_step.NETWORKS:
        yield "whole step", name, partial(whole_step.measure, name, plan.batch)


def missing(results: dict[str, Any], plan: Plan) -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """The parts that are not among the results."""
    return (part for part in parts(plan) if part[1] not in results.get(part[0], {}))


def measure(file: str, plan: Plan) -> dict[str, Any]:
    """Measure what the file of results lacks, which is written after every part and is of one version."""
    here, ask = Path(__file__).parent, ["git", "rev-parse", "HEAD"]
    commit = subprocess.run(ask, capture_output=True, text=True, cwd=here).stdout.strip()
    key = {"machine": machine(), "commit": commit}
    path = RESULTS / f"{file}.json"
    results = json.loads(path.read_text()) if path.is_file() else {}
    if {name: results.get(name) for name in key} != key:
        results = {**key, "load": 0.0}
    for section, name, part in missing(results, plan):
        results["load"] = max(results["load"], os.getloadavg()[0])
        found = results.setdefault(section, {})[name] = part()
        print(f"  {section}: {name}: {found}", file=sys.stderr, flush=True)
        write_json(file, results)
    return results


def main(arguments: list[str] | None = None) -> None:
    """Measure, print the tables and write JSON; or write the page from it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--page", action="store_true", help="write docs/speed.md from what was measured")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the benchmark itself")
    chosen = parser.parse_args([] if arguments is None else arguments)
    if chosen.page:
        results = page.read_results()
        for section, name, _ in missing(results["speed"], FULL):
            raise SystemExit(f"speed.json lacks {section}: {name}; run benchmarks/distances.py again")
        page.write_page(results)
        return
    torch.set_num_threads(1)
    torch.manual_seed(0)
    warm_up()
    for _ in range(100):  # compiled loops are used once they are asked for often, as in a training
        class_distances(torch.eye(4), torch.tensor([0, 0, 1, 1]), "l2")
    results = measure("speed_tiny", TINY) if chosen.tiny else measure("speed", FULL)
    for tables in page.tables_of_distances(results).values():
        for one in tables:
            print(table(*one))


if __name__ == "__main__":
    main(sys.argv[1:])
