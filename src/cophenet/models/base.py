"""What a backbone is: a module from inputs to features."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple

from torch import Tensor, nn

__all__ = ["Backbone", "ImageInputs", "image_shape"]


class ImageInputs(NamedTuple):
    """How weights want images.

    Attributes:
        mean: Subtracted from each channel of images scaled to 0..1; empty for the mean of the data.
        std: What each channel is divided by then.
        interpolation: How images in memory are resized: "bilinear" or "bicubic".
    """

    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    interpolation: str = "bilinear"


class Backbone(nn.Module, ABC):
    """Inputs (B, *input_shape) -> features (B, num_features).

    Constructors take the shape of one input positionally, then the options of `create_backbone`; what the
    name of a backbone decides (depth, width) is keyword-only, so that it is no option.

    Attributes:
        num_features: Size of a feature vector.
        classifier: Prefixes of the parameters of a checkpoint's own classifier, which is not loaded.
        advice: Parameter name -> what to do if a checkpoint has it in another shape.
        named_sizes: Arguments that the end of a name may decide, see `parse_sizes`.
        has_pretrained: Whether it has weights of its own, `weights="pretrained"`.
        images: How its weights want images.
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
        """Arguments in a name that continues a registered one, such as the width in `resnet18-w16`.

        Args:
            name: The whole name, for messages.
            suffix: What follows the registered name and a hyphen: `w16`.

        Returns:
            Values of `named_sizes`; None if it is not the name of such a backbone.

        Raises:
            ValueError: If it is, and a value is wrong.
        """
        _ = name, suffix
        return None

    @abstractmethod
    def forward_features(self, inputs: Tensor) -> Tensor:
        """The last layer's output before `pool`."""

    def pool(self, maps: Tensor) -> Tensor:
        """What `forward_features` gives -> (B, num_features); as it is, unless a subclass pools."""
        return maps

    def forward(self, inputs: Tensor) -> Tensor:
        """(B, *input_shape) -> (B, num_features)."""
        return self.pool(self.forward_features(inputs))

    def pretrained_file(self) -> Path:
        """The checkpoint of `weights="pretrained"`.

        Raises:
            ImportError: If the package that has it is not installed.
        """
        raise NotImplementedError

    @property
    def holder(self) -> nn.Module:
        """The module whose parameter names a checkpoint has."""
        return self

    def adapt(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """A checkpoint's parameters in today's names and sizes."""
        return state


def image_shape(name: str, input_shape: Sequence[int]) -> tuple[int, int, int]:
    """Channels, height and width, or an error if inputs are no images."""
    if len(input_shape) != 3:
        raise ValueError(
            f"backbone {name!r} takes images, input_shape (channels, height, width), got {tuple(input_shape)}"
        )
    channels, height, width = input_shape
    return channels, height, width
