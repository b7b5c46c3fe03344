"""Augmentation of whole batches of images as tensors, on the device where they are."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from cophenet.checks import check_choice

__all__ = ["BatchAugment", "PadCropFlipRotate", "augment_names", "create_augment"]


class BatchAugment(Protocol):
    """Changes images at random; all randomness comes in from outside.

    Attributes:
        draws: How many random numbers each image takes.
    """

    draws: ClassVar[int]

    def __call__(self, images: Tensor, draws: Tensor) -> Tensor:
        """Augment.

        Args:
            images: (n, channels, height, width), any type.
            draws: (n, `draws`) float32, evenly distributed from 0 up to but not including 1.

        Returns:
            Images of the same shape and type.
        """


@dataclass(frozen=True)
class PadCropFlipRotate:
    """The paper's augmentation of CIFAR.

    Zeros all around, a crop back to the size at a random place, left and right swapped half of the time, a
    rotation about the centre; corners that come in from outside are zero. A turned pixel is the nearest one
    before (what torchvision's RandomRotation does unless told otherwise), so each step only picks pixels and
    all of them together are one lookup, with the same result as one after the other.

    Attributes:
        pad: Pixels of zeros on each side, and so the farthest shift.
        degrees: The largest angle, either way.

    Example:
        >>> images = torch.arange(2 * 3 * 32 * 32).reshape(2, 3, 32, 32)
        >>> centred = torch.full((2, 4), 0.5)
        >>> torch.equal(PadCropFlipRotate()(images, centred), images)
        True
    """

    draws: ClassVar[int] = 4
    pad: int = 4
    degrees: float = 15.0

    def __call__(self, images: Tensor, draws: Tensor) -> Tensor:
        """Augment a batch; the draws are the shifts down and right, the flip (below 0.5) and the angle."""
        if images.ndim != 4:
            raise ValueError(f"augmentation needs images (n, channels, height, width), got {images.shape}")
        n, channels, height, width = images.shape
        places = 2 * self.pad + 1
        down = (draws[:, 0] * places).long() - self.pad
        right = (draws[:, 1] * places).long() - self.pad
        rows, columns, seen = self._turned(draws[:, 3], height, width)
        columns = torch.where((draws[:, 2] < 0.5)[:, None, None], width - 1 - columns, columns)
        rows, columns = rows + down[:, None, None].int(), columns + right[:, None, None].int()
        seen &= (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
        # Pixels that come from outside look up pixel 0 and are blanked afterwards.
        places_in = torch.where(seen, rows * width + columns, 0).view(n, 1, -1).long()
        picked = images.flatten(2).gather(2, places_in.expand(-1, channels, -1))
        return (picked * seen.view(n, 1, -1)).view_as(images)

    def _turned(self, draw: Tensor, height: int, width: int) -> tuple[Tensor, Tensor, Tensor]:
        """Row and column that each pixel (n, height, width) comes from, and whether they are inside."""
        angle = ((2 * draw - 1) * math.radians(self.degrees))[:, None, None]
        y = (torch.arange(height, device=draw.device) + 0.5 - height / 2)[:, None]
        x = torch.arange(width, device=draw.device) + 0.5 - width / 2
        sine, cosine = angle.sin(), angle.cos()
        rows = (cosine * y + (sine * x + height / 2)).floor().int()
        columns = (cosine * x + (width / 2 - sine * y)).floor().int()
        return rows, columns, (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)


_AUGMENTS: dict[str, Callable[[], BatchAugment]] = {"cifar": PadCropFlipRotate}


def augment_names() -> tuple[str, ...]:
    """Names of all augmentations of batches.

    Example:
        >>> augment_names()
        ('cifar',)
    """
    return tuple(_AUGMENTS)


def create_augment(name: str) -> BatchAugment:
    """Make an augmentation of batches by name.

    Raises:
        ValueError: If the name is unknown.

    Example:
        >>> create_augment("cifar")
        PadCropFlipRotate(pad=4, degrees=15.0)
    """
    check_choice("augment", name, augment_names())
    return _AUGMENTS[name]()
