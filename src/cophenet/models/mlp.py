"""Backbones for vectors; inputs of any shape are flattened."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Literal

from torch import Tensor, nn

from cophenet._common.checks import check_choice, wrong_argument
from cophenet.models.base import Backbone
from cophenet.models.registry import register_backbone

__all__ = ["MLP", "Identity"]


@register_backbone("identity")
class Identity(Backbone):
    """The inputs as features, for precomputed vectors.

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
    """Linear layers, each followed by a ReLU.

    Args:
        input_shape: Shape of an input.
        hidden: Sizes of the layers; the last is the number of features.
        norm: "none"; or "batch", batch normalization before each ReLU.
        dropout: Dropout probability between layers; the features themselves are not dropped, because
            objectives compare distances between them.

    Example:
        >>> import torch
        >>> MLP((5,), hidden=(16, 8))(torch.zeros(3, 5)).shape
        torch.Size([3, 8])
    """

    def __init__(
        self,
        input_shape: Sequence[int],
        /,
        hidden: Sequence[int] = (256, 256),
        norm: Literal["none", "batch"] = "none",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_choice("norm", norm, ("none", "batch"))
        if not hidden or not all(type(size) is int and size >= 1 for size in hidden):
            raise wrong_argument("hidden", f"must be positive integers, at least one, got {hidden!r}")
        if not 0 <= dropout < 1:
            raise wrong_argument("dropout", f"must be at least 0 and below 1, got {dropout!r}")
        layers: list[nn.Module] = []
        for place, (inputs, outputs) in enumerate(pairwise((prod(input_shape), *hidden))):
            layers += [nn.Dropout(dropout)] if dropout and place else []
            layers += [nn.Linear(inputs, outputs)]
            layers += [nn.BatchNorm1d(outputs)] if norm == "batch" else []
            layers += [nn.ReLU()]
        self.layers = nn.Sequential(*layers)
        self.num_features = hidden[-1]

    def forward_features(self, inputs: Tensor) -> Tensor:
        """(B, *input_shape) -> (B, num_features)."""
        features: Tensor = self.layers(inputs.flatten(1))
        return features
