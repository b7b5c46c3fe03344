"""Small image files for the tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image


def picture(seed: int = 0, width: int = 64, height: int = 48) -> Image.Image:
    """A smooth picture whose colours change along both sides."""
    draw = np.random.default_rng(seed)
    coarse = draw.integers(0, 256, (4, 5, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)


def save(path: Path, seed: int = 0, **options: int) -> Path:
    """Write a picture, with the folders around it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    picture(seed, **options).save(path)
    return path


def fill(folder: Path, count: int = 2, name: str = "{}.jpg") -> None:
    """A folder of small pictures."""
    for number in range(count):
        save(folder / name.format(number), number, width=12, height=10)
