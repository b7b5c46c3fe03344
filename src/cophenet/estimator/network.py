"""The small network on top of vectors: a residual adapter and one linear head."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from cophenet.models.base import Backbone
from cophenet.models.heads import Network, build_heads
from cophenet.objectives import Objective
from cophenet.transport.grouping import unit_rows

__all__ = ["Adapter", "VectorNetwork", "final_network", "start_network"]


class Adapter(Backbone):
    """Vectors plus what two layers make of them; at the start the vectors themselves.

    Args:
        inputs: Size of a vector.
        hidden: Size of the layer between; 0 for a linear adapter, ``skip`` alone.
        outputs: Size of a reshaped vector. With another size than the inputs, or without a hidden layer,
            the vectors go through a matrix of their own.

    Example:
        >>> Adapter(5, 8, 5)(torch.zeros(3, 5)).shape
        torch.Size([3, 5])
    """

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.num_features = outputs
        straight = inputs == outputs and hidden > 0
        self.skip = nn.Identity() if straight else nn.Linear(inputs, outputs, bias=False)
        self.down = nn.Linear(inputs, hidden) if hidden else None
        self.up = nn.Linear(hidden, outputs) if hidden else None

    def forward_features(self, inputs: Tensor) -> Tensor:
        """(B, inputs) -> (B, outputs)."""
        features: Tensor = self.skip(inputs)
        if self.down is None or self.up is None:
            return features
        added: Tensor = self.up(gelu(self.down(inputs)))
        return features + added


class VectorNetwork(nn.Module):
    """Standardised vectors -> reshaped vectors and the logits of the classes.

    Args:
        adapter: Vectors to reshaped vectors.
        head: Reshaped vectors to logits.
    """

    def __init__(self, adapter: Adapter, head: nn.Linear) -> None:
        super().__init__()
        self.adapter, self.head = adapter, head
        self.eval().requires_grad_(False)

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """(B, inputs) -> (B, outputs), (B, classes)."""
        features = self.adapter(inputs)
        return features, self.head(features)


def start_network(objective: Objective, inputs: int, hidden: int, outputs: int, seed: int) -> Network:
    """An adapter with the heads of an objective; torch's global random numbers are left alone."""
    if any(head.scale is not None for head in objective.heads):
        raise ValueError(f"objective {objective.name!r} has cosine heads, which objective='auto' trains here")
    with torch.device("meta"):
        adapter = Adapter(inputs, hidden, outputs)
        network = Network(adapter, build_heads(objective.heads, outputs))
    network.to_empty(device="cpu").float()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for layer in network.modules():
            if isinstance(layer, nn.Linear):
                bound = layer.in_features**-0.5
                for parameter in layer.parameters(recurse=False):
                    parameter.uniform_(-bound, bound, generator=generator)
        if adapter.up is not None:
            adapter.up.weight.zero_()
            adapter.up.bias.zero_()
        if isinstance(adapter.skip, nn.Linear):
            adapter.skip.weight.copy_(_start_skip(inputs, outputs, generator))
    return network


def _start_skip(inputs: int, outputs: int, generator: torch.Generator) -> Tensor:
    """The identity, or random directions that keep lengths where the sizes differ."""
    if inputs == outputs:
        return torch.eye(inputs)
    drawn = np.random.default_rng(int(torch.randint(1 << 31, (), generator=generator)))
    long, short = max(inputs, outputs), min(inputs, outputs)
    basis = torch.from_numpy(np.linalg.qr(drawn.normal(size=(long, short)))[0]).float()
    return basis if outputs > inputs else basis.T


def final_network(network: Network, finest: str) -> VectorNetwork:
    """What predictions need of a trained network: the adapter and the head of the classes."""
    adapter, trained = network.backbone, network.heads[finest]
    assert isinstance(adapter, Adapter)
    with torch.device("meta"):
        head = nn.Linear(trained.in_features, trained.out_features)
    head = head.to_empty(device=trained.weight.device).to(trained.weight.dtype)
    with torch.no_grad():
        head.weight.copy_(unit_rows(trained.weight) if trained.normalize_rows else trained.weight)
        head.bias.copy_(trained.bias)
    return VectorNetwork(adapter, head)
