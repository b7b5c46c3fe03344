"""Backbones for vectors; inputs of any shape are flattened."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

from torch import Tensor, nn

from cophenet._common.checks import wrong_argument
from cophenet.models.base import Backbone
from cophenet.models.registry import register_backbone

__all__ = ["MLP", "Identity"]


@register_backbone("identity")
class Identity(Backbone):
    """The inputs as features, for vectors made elsewhere.

    Args:
        input_shape: Shape of an input.

    Example:
        >>> import torch
        >>> Identity((1, 2, 2))(torch.zeros(3, 1, 2, 2)).shape
        torch.Size([3, 4])
    """

    def __init__(self, input_shape: Sequence[int], /) -> None:
        super().__init__()
        self.num_features = prod(input_shape)

    def forward_features(self, inputs: Tensor) -> Tensor:
        """(B, *input_shape) -> (B, num_features)."""
        return inputs.flatten(1)


@register_backbone("mlp")
class MLP(Backbone):
    """Linear layers, each rectified.

    Args:
        input_shape: Shape of an input.
        hidden: Sizes of the layers; the last is the number of features.

    Example:
        >>> import torch
        >>> MLP((5,), hidden=(16, 8))(torch.zeros(3, 5)).shape
        torch.Size([3, 8])
    """

    def __init__(self, input_shape: Sequence[int], /, hidden: Sequence[int] = (256, 256)) -> None:
        super().__init__()
        if not hidden or not all(type(size) is int and size >= 1 for size in hidden):
            raise wrong_argument("hidden", f"must be positive integers, at least one, got {hidden!r}")
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise((prod(input_shape), *hidden)):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        self.layers = nn.Sequential(*layers)
        self.num_features = hidden[-1]

    def forward_features(self, inputs: Tensor) -> Tensor:
        """(B, *input_shape) -> (B, num_features)."""
        features: Tensor = self.layers(inputs.flatten(1))
        return features
