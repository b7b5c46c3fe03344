"""Linear heads as specified by an objective, and the network of a backbone and its heads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from torch import Tensor, nn
from torch.nn.functional import linear

from cophenet.models.base import Backbone
from cophenet.objectives.base import HeadSpec
from cophenet.transport.grouping import unit_rows

__all__ = ["Heads", "LinearHead", "Network", "NetworkOutput", "build_heads"]


class LinearHead(nn.Linear):
    """A linear layer, optionally with normalized weight rows; or scaled cosines.

    Args:
        num_features: Size of a feature vector.
        num_outputs: Number of logits.
        normalize_rows: Whether logits are computed with weight rows of norm one.
        scale: If given, logits are the cosines of features and weight rows times this; there is no bias.
    """

    def __init__(
        self, num_features: int, num_outputs: int, normalize_rows: bool = False, scale: float | None = None
    ) -> None:
        super().__init__(num_features, num_outputs, bias=scale is None)
        self.normalize_rows, self.scale = normalize_rows, scale

    def forward(self, features: Tensor) -> Tensor:
        """(B, num_features) -> (B, num_outputs)."""
        if self.scale is not None:
            return self.scale * linear(unit_rows(features), unit_rows(self.weight))
        return linear(features, unit_rows(self.weight) if self.normalize_rows else self.weight, self.bias)


class Heads(nn.Module, Mapping[str, LinearHead]):
    """Heads by name, in order; both a module and a mapping.

    Args:
        heads: Name -> head. Any name is allowed, including names that torch does not allow for submodules.
    """

    # Modules are compared by identity, although mappings are equal if their items are.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __init__(self, heads: Mapping[str, LinearHead]) -> None:
        super().__init__()
        self._keys = {name: _key(name) for name in heads}
        for name, head in heads.items():
            self.add_module(self._keys[name], head)

    def __getitem__(self, name: str) -> LinearHead:
        """The head with this name."""
        head = self._modules[self._keys[name]]
        assert isinstance(head, LinearHead)
        return head

    def __iter__(self) -> Iterator[str]:
        """The names in order."""
        return iter(self._keys)

    def __len__(self) -> int:
        """Number of heads."""
        return len(self._keys)

    def forward(self, features: Tensor) -> dict[str, Tensor]:
        """(B, num_features) -> head name -> (B, its outputs)."""
        return {name: head(features) for name, head in self.items()}


def _key(name: str) -> str:
    """A valid submodule name: no dots, not empty, not an attribute of a module, different for each name."""
    return "head_" + name.replace("%", "%25").replace(".", "%2E")


def build_heads(specs: Iterable[HeadSpec], num_features: int) -> Heads:
    """Build the linear heads of an objective.

    Args:
        specs: `objective.heads`.
        num_features: Size of a feature vector, `backbone.num_features`.

    Raises:
        ValueError: If two heads have the same name.

    Example:
        >>> import torch
        >>> heads = build_heads([HeadSpec("order", 1, 3), HeadSpec("sp.", 2, 7, normalize_rows=True)], 16)
        >>> {name: tuple(logits.shape) for name, logits in heads(torch.zeros(2, 16)).items()}
        {'order': (2, 3), 'sp.': (2, 7)}
    """
    heads: dict[str, LinearHead] = {}
    for spec in specs:
        if spec.name in heads:
            raise ValueError(f"heads must have different names, got {spec.name!r} twice")
        heads[spec.name] = LinearHead(num_features, spec.num_outputs, spec.normalize_rows, spec.scale)
    return Heads(heads)


class NetworkOutput(NamedTuple):
    """Output of a forward pass; the first two arguments of `StepOutput`.

    Attributes:
        features: (B, num_features).
        logits: Head name -> (B, its outputs).
    """

    features: Tensor
    logits: dict[str, Tensor]


class Network(nn.Module):
    """A backbone with heads.

    Args:
        backbone: Maps inputs to features.
        heads: Map features to logits.

    Example:
        >>> import torch
        >>> from cophenet.models import create_backbone
        >>> backbone = create_backbone("mlp", input_shape=(5,), hidden=(8,))
        >>> network = Network(backbone, build_heads([HeadSpec("kind", 1, 3)], backbone.num_features))
        >>> features, logits = network(torch.zeros(2, 5))
        >>> features.shape, logits["kind"].shape
        (torch.Size([2, 8]), torch.Size([2, 3]))
    """

    def __init__(self, backbone: Backbone, heads: Heads) -> None:
        super().__init__()
        for name, head in heads.items():
            if head.in_features != backbone.num_features:
                sizes = f"{head.in_features} features, the backbone gives {backbone.num_features}"
                raise ValueError(f"heads must fit the backbone: {name!r} takes {sizes}")
        self.backbone, self.heads = backbone, heads

    def forward(self, inputs: Tensor) -> NetworkOutput:
        """Features and logits of (B, *input_shape) inputs."""
        features = self.backbone(inputs)
        return NetworkOutput(features, self.heads(features))
