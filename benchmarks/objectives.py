"""Forward and backward of each objective as a share of a ResNet-18 step on CIFAR images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from cophenet import Hierarchy
from cophenet.models import create_backbone
from cophenet.objectives import Objective, StepOutput, create_objective, objective_names
from timing import best_times, table, write_json

BATCH, CLASSES, WIDTH, THREADS = 128, 100, 512, 2
LIMITS = {"emd": 0.10, "twd": 0.10}
LIMIT = 0.03


def network_step(labels: Tensor) -> Callable[[], None]:
    """Forward and backward of the network with cross entropy."""
    backbone = create_backbone("resnet18", input_shape=(3, 32, 32), stem="cifar")
    network, images = nn.Sequential(backbone, nn.Linear(WIDTH, CLASSES)), torch.randn(BATCH, 3, 32, 32)

    def run() -> None:
        network.zero_grad()
        cross_entropy(network(images), labels).backward()  # type: ignore[no-untyped-call]

    return run


def objective_step(objective: Objective, labels: Tensor) -> Callable[[], None]:
    """Forward and backward of the last phase's loss, down to features and logits."""
    heads = {spec.name: nn.Linear(WIDTH, spec.num_outputs) for spec in objective.heads}
    features = torch.randn(BATCH, WIDTH, requires_grad=True)
    logits = {name: torch.randn(BATCH, head.out_features, requires_grad=True) for name, head in heads.items()}
    step = StepOutput(features, logits, labels, heads, phase=len(objective.phases) - 1)

    def run() -> None:
        loss = torch.stack(list(objective(step).values())).sum()
        loss.backward()  # type: ignore[no-untyped-call]

    return run


def sentence(results: dict[str, Any]) -> str:
    """What was measured, for a page."""
    network, times = results["network_ms"], results["ms"]
    share = {name: f"{100 * ms / network:.2g} %" for name, ms in times.items()}
    return (
        f"Forward and backward of an objective at B = {BATCH}, k = {CLASSES} takes at most "
        f"{share[max(times, key=times.__getitem__)]} of a ResNet-18 step on 32 x 32 images "
        f"({network / 1e3:.2g} s by the clock on {results['threads']} threads); "
        f"`fastft` {share['fastft']}, `emd` {share['emd']}."
    )


def main() -> None:
    """Print the table and write it."""
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    labels = torch.randint(CLASSES, (BATCH,))
    tree = Hierarchy.from_paths([(f"group{c // 5}", f"class{c}") for c in range(CLASSES)])
    network = best_times({"network": network_step(labels)}, repeats=2)["network"]
    tasks = {name: objective_step(create_objective(name, tree), labels) for name in objective_names()}
    seconds = best_times(tasks, repeats=10)
    rows = []
    for name, time in seconds.items():
        limit = LIMITS.get(name, LIMIT)
        verdict = "ok" if time / network < limit else "ABOVE"
        rows.append(
            [name, f"{1e3 * time:.2f}", f"{100 * time / network:.3f}", f"{100 * limit:.0f} {verdict}"]
        )
    title = f"Forward + backward, B={BATCH}, k={CLASSES}, d={WIDTH}, float32, {THREADS} threads"
    print(table(title, ["objective", "ms", "% of a step", "limit %"], rows))
    print(f"ResNet-18 step on 32 x 32 images: {1e3 * network:.0f} ms")
    milliseconds = {name: 1e3 * time for name, time in seconds.items()}
    write_json("objectives", {"threads": THREADS, "network_ms": 1e3 * network, "ms": milliseconds})


if __name__ == "__main__":
    main()
