"""Augmentation of whole batches of images as tensors, on the device where they are."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad as zero_pad

from cophenet._common.checks import check_choice

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
        channels, height, width = images.shape[1:]
        # One pixel more than can be shifted in, so that pixel 0 is always a zero.
        border = self.pad + 1
        padded = zero_pad(images, (border, border, border, border)).flatten(2)
        stride = width + 2 * border
        shifts = (draws[:, :2] * (2 * self.pad + 1)).int() + (border - self.pad)
        flip = (draws[:, 2] < 0.5).int()
        start = shifts[:, 0] * stride + shifts[:, 1] + flip * (width - 1)
        rows, columns = self._turned(draws[:, 3], height, width)
        seen = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
        places = rows.mul_(stride).add_(columns.mul_(_each(1 - 2 * flip))).add_(_each(start))
        places = torch.where(seen, places, 0).long().flatten(1)[:, None]
        return padded.gather(2, places.expand(-1, channels, -1)).view_as(images)

    def _turned(self, draw: Tensor, height: int, width: int) -> tuple[Tensor, Tensor]:
        """Row and column that each pixel (n, height, width) comes from; some lie outside."""
        angle = _each((2 * draw - 1) * math.radians(self.degrees))
        y = (torch.arange(height, device=draw.device) + 0.5 - height / 2)[:, None]
        x = torch.arange(width, device=draw.device) + 0.5 - width / 2
        sine, cosine = angle.sin(), angle.cos()
        rows = cosine * y + (sine * x + height / 2)
        columns = cosine * x + (width / 2 - sine * y)
        return rows.floor_().int(), columns.floor_().int()


def _each(values: Tensor) -> Tensor:
    """Numbers of the images, to be used with all their pixels."""
    return values[:, None, None]


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
