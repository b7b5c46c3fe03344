"""The input of a layer of a network, as the features of a model that does not return them."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

__all__ = ["LayerInput"]


class LayerInput:
    """Captures the last input of a layer, with its graph; for a classifier's last layer, the features.

    Args:
        layer: The layer, such as `model.classifier`. Its first input must be a tensor (B, d).

    Example:
        >>> import torch
        >>> network = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
        >>> features = LayerInput(network[1])
        >>> _ = network(torch.zeros(5, 4))
        >>> features.take().shape
        torch.Size([5, 3])
        >>> features.close()
    """

    def __init__(self, layer: nn.Module) -> None:
        if not isinstance(layer, nn.Module):
            raise ValueError(f"layer must be a torch.nn.Module, got {type(layer).__name__}")
        self._layer = type(layer).__name__
        self._last: Tensor | None = None
        self._hook = layer.register_forward_pre_hook(self._keep)

    def _keep(self, _: nn.Module, inputs: tuple[Any, ...]) -> None:
        self._last = inputs[0] if inputs and isinstance(inputs[0], Tensor) else None

    def take(self) -> Tensor:
        """Return and release the features of the last forward pass.

        Raises:
            ValueError: If there was no forward pass since the last call, or the input was not (B, d).
        """
        features, self._last = self._last, None
        if features is None:
            raise ValueError(f"layer {self._layer} was given no tensor by the forward pass")
        if features.ndim != 2:
            raise ValueError(
                f"layer {self._layer} must be given features (B, d), got {tuple(features.shape)}"
            )
        return features

    def close(self) -> None:
        """Remove the hook from the layer."""
        self._hook.remove()
