"""Inputs that are image files, decoded on access."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import interpolate

from cophenet._common.packages import import_optional
from cophenet.data.augmentation import CentreCrop, RandomCrop, View, colour_matrix
from cophenet.data.dataset import Inputs, Labels

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["EXTENSIONS", "ImageFiles", "is_image"]

EXTENSIONS = (".bmp", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")

_HINT = "cophenet data check NAME --data-dir DIR --deep finds all such files"

# Formats, detected by content. Pillow's other decoders start external programs, or are for rare formats.
_FORMATS = ("BMP", "DIB", "GIF", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")

# Modes with at most 8 bits per channel, which can be converted to RGB; wider ones would be clipped.
_MODES = ("1", "CMYK", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "YCbCr")


@dataclass(frozen=True, eq=False)
class ImageFiles(Inputs):
    """Image files as RGB images of one size.

    JPEG files are decoded at the lowest resolution that has at least the resolution of the result. The EXIF
    orientation is not applied. Decoding releases the GIL.

    Attributes:
        paths: The files.
        crop: The view for evaluation.
        random_crop: The random views for training.

    Example:
        >>> import pathlib, tempfile
        >>> from PIL import Image
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "red.png"
        >>> Image.new("RGB", (40, 30), "red").save(path)
        >>> files = ImageFiles([str(path)], CentreCrop(16, 18), RandomCrop())
        >>> files.take(np.array([0, 0])).shape, files.shape
        (torch.Size([2, 3, 16, 16]), (3, 16, 16))
    """

    paths: Sequence[str]
    crop: CentreCrop
    random_crop: RandomCrop

    def __len__(self) -> int:
        """Number of images."""
        return len(self.paths)

    def take(self, rows: Labels) -> Tensor:
        """The evaluation views of some rows, uint8 (n, 3, size, size), channels last in memory.

        Raises:
            ValueError: If a file is not an image or is truncated.
        """
        return self._stack(rows, None)

    def augmented(self, rows: Labels, seeds: Labels) -> Tensor:
        """Random training views of some rows; shape and type as for `take`.

        Args:
            rows: (n,) row numbers of the images.
            seeds: (n,) any integers; each determines the random view of its image.

        Raises:
            ValueError: If a file is not an image or is truncated.
        """
        return self._stack(rows, seeds)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one image."""
        return 3, self.crop.size, self.crop.size

    @property
    def file_view(self) -> CentreCrop:
        """The view for evaluation."""
        return self.crop

    def names(self, rows: Labels) -> list[str]:
        """Names of the files with their parent folder, which is usually the class."""
        return ["/".join(Path(self.paths[row]).parts[-2:]) for row in rows.tolist()]

    def fingerprint(self, rows: Labels) -> str:
        """A checksum of the names and sizes of some files, not of their pixels.

        Names are relative to the common folder of the files, so that data may be moved.
        """
        return self._checksum([self.paths[row] for row in rows.tolist()], "", times=False)

    def content_key(self) -> str:
        """A checksum of names, sizes and modification times of all files, and of the views."""
        return self._checksum(self.paths, f"{self.crop} {self.random_crop}", times=True)

    def _checksum(self, paths: Sequence[str], start: str, *, times: bool) -> str:
        digest = hashlib.sha256(start.encode())
        base = len(os.path.commonpath([os.path.dirname(path) for path in paths]))  # noqa: PTH120
        for path in paths:
            status = os.stat(path)  # noqa: PTH116
            time = f"{status.st_mtime_ns}\0" if times else ""
            digest.update(f"{path[base:]}\0{status.st_size}\0{time}".encode())
        return digest.hexdigest()[:16]

    def problem(self, row: int, *, deep: bool = False) -> str:
        """Why an image cannot be read, from its header or, if deep, from all of it; empty if it can."""
        try:
            self._read(self.paths[row], None, render=deep)
        except (ValueError, OSError) as error:
            return str(error)
        return ""

    def _stack(self, rows: Labels, seeds: Labels | None) -> Tensor:
        side = self.crop.size
        pixels = np.empty((len(rows), side, side, 3), dtype=np.uint8)
        for place, row in enumerate(rows.tolist()):
            seed = None if seeds is None else int(seeds[place])
            try:
                pixels[place] = self._read(self.paths[row], seed)
            except ValueError as error:
                raise ValueError(f"{error} ({_HINT})") from error
        # Decoded pixels are channels last; keeping that layout avoids a copy.
        return torch.from_numpy(pixels).permute(0, 3, 1, 2)

    def _read(self, path: str, seed: int | None, *, render: bool = True) -> NDArray[np.uint8]:
        """Read one image, (size, size, 3); without `render`, check its header only and return no pixels."""
        library = _pillow()
        try:
            with library.open(path, formats=_decoders()) as image:
                _check_pixels(image, library.MAX_IMAGE_PIXELS)
                if image.mode not in _MODES:
                    raise ValueError(
                        f"pixels of mode {image.mode!r} are not 8 bits per channel; convert the file, for "
                        "example with magick mogrify -depth 8"
                    )
                if not render:
                    return np.empty(0, dtype=np.uint8)
                width, height = image.size
                view = self.crop.view(width, height)
                if seed is not None:
                    view = self.random_crop.view(width, height, seed)
                return _render(image, view, self.crop.size)
        except FileNotFoundError as error:
            raise FileNotFoundError(f"image {path} is gone since the folder was listed") from error
        except MemoryError:
            raise
        except Exception as error:  # decoders raise anything on damaged files
            raise ValueError(f"image {path} cannot be read: {error}") from error


def _check_pixels(image: Image, most: int | None) -> None:
    """Raise if an image has more pixels than the limit."""
    if most is not None and image.width * image.height > most:
        size = f"{image.width} x {image.height} pixels"
        raise ValueError(f"{size}, more than {most:,} (limit; PIL.Image.MAX_IMAGE_PIXELS sets another)")


def _render(image: Image, view: View, side: int) -> NDArray[np.uint8]:
    """Crop, flip, resize and adjust the colours of an opened image; (side, side, 3)."""
    width, height = image.size
    left, top, right, bottom = view.box
    shrink = next((by for by in (8, 4, 2) if min(right - left, bottom - top) >= by * side), 1)
    # Decode at a lower resolution: only for JPEG, without effect on other formats.
    image.draft(None, (width // shrink, height // shrink))
    left, right = _whole(left, right, image.size[0] / width, image.size[0])
    top, bottom = _whole(top, bottom, image.size[1] / height, image.size[1])
    library = _pillow()
    cut = image.crop((left, top, right, bottom))
    if cut.mode in ("P", "PA"):
        cut = cut.convert("RGBA")  # Avoids a warning of pillow about transparent palette entries.
    if cut.mode != "RGB":
        cut = cut.convert("RGB")
    if view.mirrored:
        cut = cut.transpose(library.Transpose.FLIP_LEFT_RIGHT)
    seen = _resized(np.array(cut), side)
    if view.light is None:
        return seen
    flat = library.fromarray(seen)
    # Reducing the whole picture to one pixel computes its mean.
    mean = flat.reduce(side).getpixel((0, 0))
    lit: NDArray[np.uint8] = np.asarray(flat.convert("RGB", colour_matrix(view.light, mean)))
    return lit


def _whole(start: float, end: float, scale: float, limit: int) -> tuple[int, int]:
    """Start and end of a pixel range in the scaled picture, rounded; at least one pixel."""
    first = min(round(start * scale), limit - 1)
    return first, min(max(round(end * scale), first + 1), limit)


def _resized(pixels: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """Resize pixels (height, width, 3) to (side, side, 3) with pillow's filter, which is faster in torch."""
    # Not pixels[None], because its stride of 0 prevents torch from detecting channels last.
    images = torch.from_numpy(pixels).unsqueeze(0).permute(0, 3, 1, 2)
    scaled = interpolate(images, (side, side), mode="bilinear", antialias=True, align_corners=False)
    resized: NDArray[np.uint8] = scaled[0].permute(1, 2, 0).numpy()
    return resized


def _pillow() -> ModuleType:
    pillow = import_optional("PIL.Image", "image files are read with", "cophenet[data]", called="pillow")
    image: ModuleType = pillow.Image
    return image


@cache
def _decoders() -> tuple[str, ...]:
    """The formats that the installed pillow can decode."""
    library = _pillow()
    library.init()
    return tuple(name for name in _FORMATS if name in library.OPEN)


def is_image(name: str) -> bool:
    """Whether a file name is that of an image."""
    return not name.startswith(".") and name.lower().endswith(EXTENSIONS)
