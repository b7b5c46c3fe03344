"""Base class of backbones, modules that map inputs to features."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple

from torch import Tensor, nn

__all__ = ["Backbone", "ImageInputs", "image_shape"]


class ImageInputs(NamedTuple):
    """The image preprocessing that the weights of a backbone expect.

    Attributes:
        mean: Subtracted from each channel of images scaled to 0..1; empty to use the mean of the data.
        std: Each channel is then divided by this.
        interpolation: How images in memory are resized: "bilinear" or "bicubic".
    """

    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    interpolation: str = "bilinear"


class Backbone(nn.Module, ABC):
    """Inputs (B, *input_shape) -> features (B, num_features).

    Constructors take the shape of one input positionally, then the options of `create_backbone`. Arguments
    that the name of a backbone sets (depth, width) are keyword-only and not available as options.

    Attributes:
        num_features: Size of a feature vector.
        classifier: Parameter name prefixes of the classifier in checkpoints, which is not loaded.
        advice: Parameter name -> what to do if a checkpoint has it in another shape.
        named_sizes: Arguments that the end of a name may set, see `parse_sizes`.
        has_pretrained: Whether it comes with weights of its own, `weights="pretrained"`.
        images: The image preprocessing that its weights expect.
    """

    num_features: int
    classifier: tuple[str, ...] = ()
    advice: ClassVar[Mapping[str, str]] = {}
    named_sizes: ClassVar[tuple[str, ...]] = ()
    has_pretrained: ClassVar[bool] = False
    images: ClassVar[ImageInputs] = ImageInputs()

    def __init__(self) -> None:
        super().__init__()

    @classmethod
    def parse_sizes(cls, name: str, suffix: str) -> dict[str, int] | None:
        """Parse arguments in a name that extends a registered one, such as the width in `resnet18-w16`.

        Args:
            name: The whole name, for error messages.
            suffix: The part after the registered name and a hyphen: `w16`.

        Returns:
            Values of `named_sizes`; None if this is not the name of such a backbone.

        Raises:
            ValueError: If it is, but a value is invalid.
        """
        _ = name, suffix
        return None

    @abstractmethod
    def forward_features(self, inputs: Tensor) -> Tensor:
        """Output of the last layer before `pool`."""

    def pool(self, maps: Tensor) -> Tensor:
        """Output of `forward_features` -> (B, num_features); the identity unless a subclass pools."""
        return maps

    def forward(self, inputs: Tensor) -> Tensor:
        """(B, *input_shape) -> (B, num_features)."""
        return self.pool(self.forward_features(inputs))

    def pretrained_file(self) -> Path:
        """Path of the checkpoint of `weights="pretrained"`.

        Raises:
            ImportError: If the package that contains it is not installed.
        """
        raise NotImplementedError

    @property
    def holder(self) -> nn.Module:
        """The module whose parameter names are those of checkpoints."""
        return self

    def adapt(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """Convert a checkpoint's parameters to current names and sizes."""
        return state


def image_shape(name: str, input_shape: Sequence[int]) -> tuple[int, int, int]:
    """Channels, height and width; raises if inputs are not images."""
    if len(input_shape) != 3:
        raise ValueError(
            f"backbone {name!r} takes images, input_shape (channels, height, width), got {tuple(input_shape)}"
        )
    channels, height, width = input_shape
    return channels, height, width
