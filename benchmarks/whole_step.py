"""What 1 - CPCC adds to a whole training step of networks of three sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import cycle
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from cophenet import CPCCLoss
from cophenet.data.cifar import cifar100_split
from cophenet.models import create_backbone
from timing import best_ms, show_ms

DISTANCES = ("l2", "fastft", "emd")
IMAGE = (3, 32, 32)
# What one sample is, and the width of the features.
NETWORKS: dict[str, tuple[tuple[int, ...], int]] = {
    "ResNet-18, 32 x 32 pixels (d = 512)": (IMAGE, 512),
    "ResNet-18 with 16 channels (d = 128)": (IMAGE, 128),
    "one layer, 1,280 to 512, on vectors": ((1280,), 512),
}


def create(shape: tuple[int, ...], width: int) -> nn.Module:
    """A network from samples of a shape to features of a width."""
    if shape != IMAGE:
        return nn.Linear(shape[0], width)
    return create_backbone(f"resnet18-w{width // 8}", input_shape=IMAGE, stem="cifar")


def network_step(network: nn.Module, inputs: Tensor, labels: Iterator[Tensor]) -> Callable[[], None]:
    """Forward, backward and optimizer with cross entropy."""
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-4, momentum=0.9)

    def run() -> None:
        optimizer.zero_grad()
        cross_entropy(network(inputs), next(labels)).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return run


def loss_step(criterion: CPCCLoss, features: Tensor, labels: Iterator[Tensor]) -> Callable[[], None]:
    """Forward and backward of 1 - CPCC, down to the features."""

    def run() -> None:
        features.grad = None
        criterion(features, next(labels)).backward()

    return run


def measure(name: str, batch: int) -> dict[str, float]:
    """Milliseconds of a step of the network, and of 1 - CPCC by each distance."""
    tree, (shape, width) = cifar100_split().source, NETWORKS[name]
    some = [torch.randint(tree.num_classes, (batch,)) for _ in range(8)]
    network = nn.Sequential(create(shape, width), nn.Linear(width, tree.num_classes))
    features = torch.randn(batch, width, requires_grad=True)
    losses = {distance: loss_step(CPCCLoss(tree, distance), features, cycle(some)) for distance in DISTANCES}
    step = network_step(network, torch.randn(batch, *shape), cycle(some))
    return best_ms({"network": step}, 6 if shape == IMAGE else 40) | best_ms(losses, 40)


def share(times: dict[str, float], distance: str) -> float:
    """Percent of a whole step that 1 - CPCC takes."""
    return 100 * times[distance] / (times["network"] + times[distance])


def lines(networks: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the table."""
    rows = [
        [name, show_ms(times["network"]), *(f"{share(times, distance):.2g} %" for distance in DISTANCES)]
        for name, times in networks.items()
    ]
    return ["network", "step", *DISTANCES], rows
