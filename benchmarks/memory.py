"""The cross-batch memory: what a step costs, and TestCPCC against its size at equal time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cophenet import CPCCLoss, Hierarchy, class_distances, cpcc
from cophenet.data.synthetic import Synthetic
from cophenet.objectives import StepOutput, create_objective
from objectives import BATCH, CLASSES, WIDTH, network_step
from timing import table, write_json

SIZES = (0, 60, 240)
SEEDS = (0, 1)
SECONDS = 2.0
SMALL_BATCH = 24
CLOUDS = Synthetic(branching=(4, 5), dims=32, samples_per_class=100, modes=4, mode_distance=3.0, spread=1.0)


def loss_step(memory: int, labels: Tensor) -> Callable[[], None]:
    """Forward and backward of CPCC on one batch, its memory full."""
    tree = Hierarchy.from_paths([(f"group{c // 5}", f"class{c}") for c in range(CLASSES)])
    criterion = CPCCLoss(tree, "fastft", memory=memory, memory_age=10**9)
    if criterion.memory is not None:
        rows = criterion.memory.num_classes * criterion.memory.places
        criterion.memory.store(torch.randn(rows, WIDTH), np.arange(rows) % CLASSES)
    z = torch.randn(BATCH, WIDTH, requires_grad=True)

    def run() -> None:
        criterion(z, labels).backward()

    return run


def overhead() -> dict[str, float]:
    """Milliseconds of CPCC without and with memory, and of a ResNet-18 step."""
    labels = torch.randint(CLASSES, (BATCH,))
    tasks = {f"memory {size}": loss_step(size, labels) for size in (0, 1024, 4096)}
    costs = {name: 1e3 * processor_seconds(task, repeats=5) for name, task in tasks.items()}
    return {**costs, "ResNet-18 step": 1e3 * processor_seconds(network_step(labels), repeats=1)}


def processor_seconds(task: Callable[[], None], repeats: int) -> float:
    """Best of several, of one thread's own time, which other programs do not lengthen."""
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        task()
        best = min(best, time.process_time() - start)
    return best


def train(memory: int, seed: int) -> tuple[int, list[float]]:
    """Steps made in the time given, and TestCPCC after it: fastft and emd on all of the test part."""
    clouds = CLOUDS.load(None)
    parts = [clouds.samples(part, "full") for part in ("train", "test")]
    (x, y), (test_x, test_y) = (part.take(np.arange(len(part))) for part in parts)
    torch.manual_seed(seed)
    encoder = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))
    head = nn.Linear(32, clouds.tree.num_classes)
    objective = create_objective("fastft", clouds.tree, memory=memory)
    optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.02, momentum=0.9)
    steps, start = 0, time.process_time()
    while time.process_time() - start < SECONDS:
        rows = torch.randint(len(y), (SMALL_BATCH,))
        z = encoder(x[rows])
        terms = objective(StepOutput(z, {objective.finest: head(z)}, y[rows]))
        optimizer.zero_grad()
        torch.stack(list(terms.values())).sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        steps += 1
    with torch.no_grad():
        z = encoder(test_x)
    t = torch.from_numpy(clouds.tree.condensed())
    return steps, [cpcc(class_distances(z, test_y, name)[1], t).item() for name in ("fastft", "emd")]


def main() -> None:
    """Print the tables and write them."""
    torch.set_num_threads(1)
    costs = overhead()
    network = costs["ResNet-18 step"]
    rows = [[name, f"{value:.1f}", f"{100 * value / network:.2f}"] for name, value in costs.items()]
    title = f"CPCC with memory, fastft, B={BATCH}, k={CLASSES}, d={WIDTH}, 1 thread"
    print(table(title, ["", "ms", "% of a step"], rows))
    study: list[dict[str, Any]] = []
    for size in SIZES:
        runs = [train(size, seed) for seed in SEEDS]
        steps, (fast, exact) = [made for made, _ in runs], zip(*(found for _, found in runs), strict=True)
        study.append({"memory": size, "steps": steps, "fastft": fast, "emd": exact})
    lines = [
        [
            str(found["memory"]),
            f"{np.mean(found['steps']):.0f}",
            *(
                f"{np.mean(found[key]):.3f} ({min(found[key]):.3f}..{max(found[key]):.3f})"
                for key in ("fastft", "emd")
            ),
        ]
        for found in study
    ]
    title = f"TestCPCC after {SECONDS:.0f} s of training: 20 classes of 4 modes, batches of {SMALL_BATCH}"
    print(table(title, ["memory", "steps", "TestCPCC fastft", "TestCPCC emd"], lines))
    write_json("memory", {"milliseconds": costs, "study": study})


if __name__ == "__main__":
    main()
