"""Every distance against the strongest peers, its growth, and what a GPU would pay: the page of speed.

    python benchmarks/distances.py            # measure; what is interrupted goes on where it stopped
    python benchmarks/distances.py --page     # write docs/speed.md from what was measured
    python benchmarks/distances.py --tiny     # small sizes, to try the benchmark itself

Forward and backward of the sum of all class distances, new random labels every time. What counts is processor
time on one thread, the best of several turns: other programs disturb the clock far more. The time by the
clock on all cores, which wants an idle machine, stands beside it.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import compiled
import device_counts
import peers
from cophenet import Hierarchy, class_distances
from cophenet.transport.warm_up import warm_up
from timing import RESULTS, processor, table, write_json

SETTINGS = {"B=128, k=60": (128, 60), "B=1024, k=100": (1024, 100)}
WIDTH = 512
# New labels may have new shapes, for which JAX compiles again: the best of several is fair to it.
REPEATS = {"ours": 12, "peers": 5}
# Seconds of a task after which it is not repeated, not even to leave out the first time.
PATIENCE = 20.0
OURS: dict[str, tuple[str, dict[str, Any]]] = {
    "l2": ("l2", {}),
    "fastft": ("fastft", {}),
    "fastft, principal order": ("fastft", {"order": "principal"}),
    "swd": ("swd", {}),
    "emd": ("emd", {}),
    "emd, solver pot": ("emd", {"solver": "pot"}),
    "sinkhorn": ("sinkhorn", {}),
    "ft": ("ft", {}),
    "twd": ("twd", {}),
    "bures": ("bures", {}),
}
GROWTH = {"n": (16, 32, 64), "d": (128, 256, 512), "k": (10, 20, 40)}
BASE = {"n": 32, "d": 256, "k": 20}
ALL_CORES = "ours, all cores, by the clock"
PAGE = Path(__file__).parent.parent / "docs" / "speed.md"
MARKS = ("<!-- {} of benchmarks/distances.py -->", "<!-- end of {} -->")


def flat_tree(classes: int) -> Hierarchy:
    """A tree of groups of five."""
    return Hierarchy.from_paths([(f"g{c // 5}", f"c{c}") for c in range(classes)])


def label_stream(size: int, classes: int) -> Iterator[Tensor]:
    """New random labels each step."""
    generator = torch.Generator().manual_seed(0)
    while True:
        yield torch.randint(0, classes, (size,), generator=generator)


def best_ms(
    task: Callable[[], object], repeats: int, clock: Callable[[], float] = time.process_time
) -> float:
    """Time of a task, best of several; the first, which may compile, counts only if it is long."""
    best = math.inf
    for turn in range(repeats + 1):
        start = clock()
        task()
        seconds = clock() - start
        if turn or seconds > PATIENCE:
            best = min(best, seconds)
        if seconds > PATIENCE:
            break
    return 1e3 * best


def our_step(name: str, features: Tensor, labels: Iterator[Tensor], tree: Hierarchy) -> Callable[[], None]:
    """One forward and backward of a distance of this package."""
    distance, options = OURS[name]

    def step() -> None:
        features.grad = None
        _, rho = class_distances(features, next(labels), distance, tree=tree, **options)
        rho.sum().backward()

    return step


def _peer_step(step: peers.Step, features: Tensor, labels: Iterator[Tensor]) -> None:
    step(features, next(labels))


def peer_ms(task: Callable[[], None]) -> float | None:
    """Processor time of a peer; None if its package is not installed."""
    try:
        return best_ms(task, REPEATS["peers"])
    except ImportError:
        return None


def _shuffled(samples: int, classes: int) -> Iterator[Tensor]:
    while True:
        yield torch.randperm(samples * classes) % classes


def against_peers(name: str, size: int, classes: int) -> dict[str, float | None]:
    """Milliseconds of a distance and of its peers at one setting."""
    tree, labels = flat_tree(classes), label_stream(size, classes)
    features = torch.randn(size, WIDTH, requires_grad=True)
    step = our_step(name, features, labels, tree)
    row: dict[str, float | None] = {"ours": best_ms(step, REPEATS["ours"])}
    torch.set_num_threads(os.cpu_count() or 1)
    row[ALL_CORES] = best_ms(step, 2 * REPEATS["ours"], time.perf_counter)
    torch.set_num_threads(1)
    for peer, other in peers.PEERS.get(name, {}).items():
        row[peer] = peer_ms(partial(_peer_step, other, features, labels))
    return row


def growth(name: str) -> dict[str, float]:
    """Exponent of the cost of a distance in samples per class n, width d and classes k."""
    exponents = {}
    for key, values in GROWTH.items():
        times = []
        for value in values:
            n, d, k = ({**BASE, key: value}[part] for part in "ndk")
            features = torch.randn(n * k, d, requires_grad=True)
            times.append(best_ms(our_step(name, features, _shuffled(n, k), flat_tree(k)), 3))
        exponents[key] = float(np.polyfit(np.log(values), np.log(times), 1)[0])
    return exponents


def cell(row: dict[str, float | None], who: str) -> str:
    """Milliseconds, and how many times ours."""
    value = row.get(who)
    if value is None:
        return "not installed" if who in row else ""
    ratio = value / (row["ours"] or 1)
    return f"{value:.1f} ms" if who == "ours" else f"{value:.1f} ms ({ratio:.{0 if ratio > 10 else 1}f}x)"


def parts() -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """All that is measured: section, name and how."""
    for setting, sizes in SETTINGS.items():
        for name in OURS:
            yield setting, name, partial(against_peers, name, *sizes)
    for name in OURS:
        yield "growth", name, partial(growth, name)
    for setting, sizes in SETTINGS.items():
        yield "counts", setting, partial(device_counts.measure, *sizes)
        for distance in compiled.DISTANCES:
            yield f"compiled, {setting}", distance, partial(compiled.measure, distance, *sizes)


def measure(file: str) -> dict[str, Any]:
    """Measure what the file of results lacks, which is written after every part and is of one version."""
    here, ask = Path(__file__).parent, ["git", "rev-parse", "HEAD"]
    commit = subprocess.run(ask, capture_output=True, text=True, cwd=here).stdout.strip()
    key = {"torch": torch.__version__, "commit": commit, "processor": processor()}
    path = RESULTS / f"{file}.json"
    results = json.loads(path.read_text()) if path.is_file() else {}
    if {name: results.get(name) for name in key} != key:
        results = {**key, "load": 0.0}
    for section, name, part in parts():
        done = results.setdefault(section, {})
        if name not in done:
            results["load"] = max(results["load"], os.getloadavg()[0])
            done[name] = part()
            print(f"  {section}: {name}: {done[name]}", file=sys.stderr, flush=True)
            write_json(file, results)
    return results


def lines(results: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the one table."""
    header = ["distance", "by", *SETTINGS, "grows with n, d, k"]
    rows = []
    for name, row in results[next(iter(SETTINGS))].items():
        exponent = ", ".join(f"{results['growth'][name][key]:.1f}" for key in GROWTH)
        for who in row:
            cells = [cell(results[setting][name], who) for setting in SETTINGS]
            rows.append([name if who == "ours" else "", who, *cells, exponent if who == "ours" else ""])
    return header, rows


def _markdown(header: list[str], rows: list[list[str]]) -> list[str]:
    return ["| " + " | ".join(cells) + " |" for cells in (header, ["---"] * len(header), *rows)]


def page_parts(results: dict[str, Any]) -> dict[str, list[str]]:
    """What stands between the marks of the page, by mark."""
    said = (
        f"Processor time on one thread of {results['processor']}, torch {results['torch']}, all in one run; "
        f"largest load of the machine in it {results['load']:.1f}."
    )
    counts = []
    for setting in SETTINGS:
        counts += [f"{setting}:", "", *_markdown(*device_counts.lines(results["counts"][setting])), ""]
    steps = {setting: results[f"compiled, {setting}"] for setting in SETTINGS}
    return {
        "peers": [said, "", *_markdown(*lines(results))],
        "counts": counts[:-1],
        "compiled": _markdown(*compiled.lines(steps)),
    }


def write_page(results: dict[str, Any], page: Path = PAGE) -> None:
    """Put the tables between the marks of the page of speed."""
    text = page.read_text(encoding="utf-8")
    for name, written in page_parts(results).items():
        begin, end = (mark.format(name) for mark in MARKS)
        before, rest = text.split(begin)
        text = "\n".join([f"{before}{begin}", "", *written, "", f"{end}{rest.split(end)[1]}"])
    page.write_text(text, encoding="utf-8")


def main(arguments: list[str] | None = None) -> None:
    """Measure, print the table and write JSON; or write the page from it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--page", action="store_true", help="write docs/speed.md from what was measured")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the benchmark itself")
    chosen = parser.parse_args([] if arguments is None else arguments)
    if chosen.page:
        write_page(json.loads((RESULTS / "speed.json").read_text()))
        return
    if chosen.tiny:
        SETTINGS.update({"B=128, k=60": (24, 6), "B=1024, k=100": (32, 8)})
        GROWTH.update(n=(2, 4, 8), d=(4, 8, 16), k=(3, 6, 9))
        BASE.update(n=3, d=8, k=4)
        REPEATS["ours"] = 1
    torch.set_num_threads(1)
    torch.manual_seed(0)
    warm_up()
    for _ in range(100):  # compiled loops are used once they are asked for often, as in a training
        class_distances(torch.eye(4), torch.tensor([0, 0, 1, 1]), "l2")
    results = measure("speed_tiny" if chosen.tiny else "speed")
    title = "Forward + backward of all class distances, d=512, float32, processor time on one thread"
    print(table(title, *lines(results)))
    for setting, counts in results["counts"].items():
        print(table(f"On a GPU: counted, not measured, {setting}", *device_counts.lines(counts)))
    print(table("One compiled graph", *compiled.lines({s: results[f"compiled, {s}"] for s in SETTINGS})))


if __name__ == "__main__":
    main(sys.argv[1:])
