"""Augmentation of training images: of whole batches of tensors, and random views of single image files.

All random numbers are passed in, as draws or as a seed, so that augmentation does not depend on where and in
which order images are read. Crops of files are rectangles of the full picture, so that a reader can decode at
a lower resolution and crop and resize in one step. Nothing here reads files.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate
from torch.nn.functional import pad as zero_pad

from cophenet._common.checks import check_choice, check_number

__all__ = [
    "BREEDS_CROP",
    "INAT_CROP",
    "CentreCrop",
    "PadCropFlipRotate",
    "RandomCrop",
    "View",
    "augment_names",
    "colour_matrix",
    "create_augment",
    "loader_augments",
    "resize_images",
]

Box: TypeAlias = tuple[float, float, float, float]

# Weights of red, green and blue in the grey value (ITU-R 601).
_GREY = np.array([0.299, 0.587, 0.114])
_TRIES = 10


@dataclass(frozen=True)
class PadCropFlipRotate:
    """The paper's augmentation of CIFAR.

    Zero padding, a random crop back to the original size, a horizontal flip with probability 1/2, and a
    rotation about the centre, which fills corners with zeros. Rotation uses the nearest pixel (the default of
    torchvision's RandomRotation), so each step only selects pixels, and all steps together are one lookup
    with the same result as when applied one after the other.

    All random numbers are passed in, as `draws` numbers for each image.

    Attributes:
        pad: Width of the zero padding in pixels, which is also the largest shift.
        degrees: The largest angle in either direction.

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
        """Augment a batch.

        Args:
            images: (n, channels, height, width), any type.
            draws: (n, 4) float32, uniformly distributed in [0, 1): the shifts down and right, the flip (below
                0.5) and the angle.

        Returns:
            Images of the same shape and type.
        """
        if images.ndim != 4:
            raise ValueError(f"augmentation needs images (n, channels, height, width), got {images.shape}")
        channels, height, width = images.shape[1:]
        # One pixel more than the largest shift, so that pixel 0 is always a zero.
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
        """Source row and column of each rotated pixel (n, height, width); some lie outside the image."""
        angle = _each((2 * draw - 1) * math.radians(self.degrees))
        y = (torch.arange(height, device=draw.device) + 0.5 - height / 2)[:, None]
        x = torch.arange(width, device=draw.device) + 0.5 - width / 2
        sine, cosine = angle.sin(), angle.cos()
        rows = cosine * y + (sine * x + height / 2)
        columns = cosine * x + (width / 2 - sine * y)
        return rows.floor_().int(), columns.floor_().int()


def _each(values: Tensor) -> Tensor:
    """Reshape one number per image (n,) to (n, 1, 1), to be broadcast to all pixels."""
    return values[:, None, None]


_AUGMENTS = {"cifar": PadCropFlipRotate}


def augment_names() -> tuple[str, ...]:
    """Names of all augmentations of batches.

    Example:
        >>> augment_names()
        ('cifar',)
    """
    return tuple(_AUGMENTS)


def loader_augments(image_files: bool | None = None) -> tuple[str, ...]:
    """Allowed values of the argument `augment` of a `Loader`.

    Args:
        image_files: Whether the inputs are image files; None for inputs of any kind.

    Example:
        >>> loader_augments(), loader_augments(image_files=True)
        (('none', 'cifar', 'views'), ('none', 'views'))
    """
    batches = () if image_files else augment_names()
    return ("none", *batches, *(() if image_files is False else ("views",)))


def create_augment(name: str) -> PadCropFlipRotate:
    """Create an augmentation of batches by name.

    Raises:
        ValueError: If the name is unknown.

    Example:
        >>> create_augment("cifar")
        PadCropFlipRotate(pad=4, degrees=15.0)
    """
    check_choice("augment", name, augment_names())
    return _AUGMENTS[name]()


def resize_images(images: Tensor, side: int | None, interpolation: str = "bilinear") -> Tensor:
    """Resize images (n, channels, height, width) to (n, channels, side, side).

    Args:
        images: The images, float.
        side: Side of the result in pixels; None returns the images unchanged.
        interpolation: "bilinear" or "bicubic".

    Example:
        >>> resize_images(torch.zeros(2, 3, 32, 32), 96).shape
        torch.Size([2, 3, 96, 96])
    """
    if side is None:
        return images
    check_choice("interpolation", interpolation, ("bilinear", "bicubic"))
    return interpolate(images, (side, side), mode=interpolation, align_corners=False, antialias=True)


@dataclass(frozen=True)
class View:
    """A crop, flip and colour change of a picture.

    Attributes:
        box: Left, top, right and bottom of the crop, in pixels of the full picture.
        mirrored: Whether to flip it horizontally.
        light: Factors of brightness, contrast and saturation; None for all 1.
    """

    box: Box
    mirrored: bool = False
    light: tuple[float, float, float] | None = None


@dataclass(frozen=True)
class CentreCrop:
    """The view for evaluation: the shorter side is resized to `resize` pixels, then the centre is cropped.

    Attributes:
        size: Side of the result in pixels.
        resize: Length of the shorter side before the crop; at least `size`.
        square: Whether both sides are resized to `resize` pixels, so that the picture is stretched.

    Example:
        >>> CentreCrop(224, 256).view(512, 256).box
        (144.0, 16.0, 368.0, 240.0)
        >>> CentreCrop(224, 256, square=True).view(512, 256).box
        (32.0, 16.0, 480.0, 240.0)
    """

    size: int = 224
    resize: int = 256
    square: bool = False

    def __post_init__(self) -> None:
        """Check the sizes."""
        check_number("size", self.size, above=1)
        check_number("resize", self.resize, above=self.size)

    def view(self, width: int, height: int) -> View:
        """The view of a picture of the given width and height."""
        seen = self.size / self.resize
        sides = (width * seen, height * seen) if self.square else (min(width, height) * seen,) * 2
        left, top = (width - sides[0]) / 2, (height - sides[1]) / 2
        return View((left, top, left + sides[0], top + sides[1]))


@dataclass(frozen=True)
class RandomCrop:
    """Random views for training: a crop of random area and aspect ratio, flipped with probability 1/2.

    Attributes:
        scale: Minimum and maximum share of the picture's area.
        ratio: Minimum and maximum of width over height, drawn uniformly in the logarithm.
        jitter: Brightness, contrast and saturation are multiplied by factors in [1 - jitter, 1 + jitter].

    Example:
        >>> RandomCrop().view(500, 375, seed=1) == RandomCrop().view(500, 375, seed=1)
        True
    """

    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    jitter: float = 0.0

    def __post_init__(self) -> None:
        """Check the ranges."""
        if not 0 < self.scale[0] <= self.scale[1] <= 1:
            raise ValueError(f"scale must be two rising shares above 0 and up to 1, got {self.scale}")
        if not 0 < self.ratio[0] <= self.ratio[1] < math.inf:
            raise ValueError(f"ratio must be two rising positive numbers, got {self.ratio}")
        if not 0 <= self.jitter < 1:
            raise ValueError(f"jitter must be at least 0 and below 1, got {self.jitter}")

    def view(self, width: int, height: int, seed: int) -> View:
        """The view determined by a seed (any integer), for a picture of the given width and height."""
        draw = np.random.default_rng(int(seed) % 2**64)
        box = self._box(width, height, draw)
        mirrored = bool(draw.random() < 0.5)
        if self.jitter == 0:
            return View(box, mirrored)
        bright, contrast, saturation = draw.uniform(1 - self.jitter, 1 + self.jitter, 3).tolist()
        return View(box, mirrored, (bright, contrast, saturation))

    def _box(self, width: int, height: int, draw: np.random.Generator) -> Box:
        areas = draw.uniform(*self.scale, _TRIES) * (width * height)
        ratios = np.exp(draw.uniform(math.log(self.ratio[0]), math.log(self.ratio[1]), _TRIES))
        corner = draw.random(2).tolist()
        wide, high = np.rint(np.sqrt(areas * ratios)), np.rint(np.sqrt(areas / ratios))
        fitting = np.flatnonzero((wide >= 1) & (wide <= width) & (high >= 1) & (high <= height))
        if fitting.size == 0:
            return self._central(width, height)
        w, h = int(wide[fitting[0]]), int(high[fitting[0]])
        left, top = int(corner[0] * (width - w + 1)), int(corner[1] * (height - h + 1))
        return left, top, left + w, top + h

    def _central(self, width: int, height: int) -> Box:
        """The largest central crop of an allowed aspect ratio, for pictures so thin that no draw fits."""
        ratio = min(max(width / height, self.ratio[0]), self.ratio[1])
        w, h = min(width, height * ratio), min(height, width / ratio)
        left, top = (width - w) / 2, (height - h) / 2
        return left, top, left + w, top + h


BREEDS_CROP = RandomCrop(jitter=0.1)
INAT_CROP = RandomCrop(ratio=(0.75, 1.33))


def colour_matrix(light: tuple[float, float, float], mean: tuple[float, float, float]) -> tuple[float, ...]:
    """Brightness, contrast and saturation as one affine map of (red, green, blue).

    Brightness blends with black, contrast with the picture's mean grey, saturation with each pixel's grey.
    Without rounding in between these commute, so no random order is needed and rounding happens once.

    Args:
        light: Factors of brightness, contrast and saturation.
        mean: Mean red, green and blue of the picture.

    Returns:
        A 3 x 4 matrix, flattened row by row, with the offset last in each row.

    Example:
        >>> [round(number, 3) for number in colour_matrix((1.1, 1.0, 1.0), (90.0, 90.0, 90.0))[:4]]
        [1.1, 0.0, 0.0, 0.0]
    """
    bright, contrast, saturation = light
    linear = bright * contrast * (saturation * np.eye(3) + (1 - saturation) * _GREY)
    offset = bright * (1 - contrast) * float(_GREY @ np.array(mean))
    return tuple(np.column_stack([linear, np.full(3, offset)]).ravel().tolist())
