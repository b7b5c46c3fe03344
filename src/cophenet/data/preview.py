"""A contact sheet of a data set: images with the names of their classes and groups."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cophenet._common.checks import check_number
from cophenet._common.files import replaced_file
from cophenet.data.dataset import Labels, Samples

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFont import FreeTypeFont, ImageFont

__all__ = ["contact_sheet", "write_sheet"]

_TILE, _GAP, _MARGIN, _COLUMNS = 64, 2, 16, 5
_LABEL, _HEADER, _BETWEEN = 18, 26, 10
_INK, _GREY, _RULE = (20, 20, 20), (90, 90, 90), (200, 200, 200)


def contact_sheet(samples: Samples, *, title: str = "", per_class: int = 3, max_classes: int = 200) -> Image:
    """Draw the first images of every class below the class's name, grouped by the nodes above.

    Args:
        samples: Samples of images.
        title: A line for the top.
        per_class: Number of images per class.
        max_classes: Maximum number of classes; a line on the sheet says how many are left out.

    Raises:
        ValueError: If the samples are not images.
        ImportError: If pillow is not installed.

    Example:
        >>> from cophenet.data.digits import Digits
        >>> contact_sheet(Digits().load(None).samples("train"), per_class=2).mode
        'RGB'
    """
    check_number("per_class", per_class, above=1)
    check_number("max_classes", max_classes, above=1)
    first = samples.inputs.take(samples.rows[:1])
    if first.ndim != 4 or first.shape[1] not in (1, 3):
        kind = f"inputs of shape {tuple(first.shape[1:])}"
        raise ValueError(f"a sheet shows images of 1 or 3 channels, these samples are {kind}")
    groups = _groups(samples, max_classes)
    left_out = samples.tree.num_classes - sum(len(labels) for _, labels in groups)
    note = f"{left_out} more classes are not shown" if left_out else ""
    return _draw(samples, groups, title, note, per_class)


def write_sheet(samples: Samples, path: str | Path, *, title: str = "", per_class: int = 3) -> None:
    """Write a contact sheet as a PNG file, atomically.

    Args:
        samples: Samples of images.
        path: File to write, ending in .png.
        title: A line for the top.
        per_class: Number of images per class.

    Raises:
        ValueError: If the samples are not images, or the path does not end in .png.
        FileNotFoundError: If the folder does not exist.
    """
    path = Path(path)
    if path.suffix.lower() != ".png":
        raise ValueError(f"path of a sheet must end in .png, got {str(path)!r}")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"folder {path.parent} of the sheet {path.name} does not exist")
    sheet = contact_sheet(samples, title=title, per_class=per_class)
    with replaced_file(path) as part:
        sheet.save(part, format="PNG")


def _groups(samples: Samples, max_classes: int) -> list[tuple[str, list[int]]]:
    """Labels grouped by the names of their ancestors, in the order of the tree."""
    tree, groups = samples.tree, dict[str, list[int]]()
    for label in tree.class_order[:max_classes].tolist():
        above = tree.path(int(tree.leaves[label]))[:-1]
        groups.setdefault(" / ".join(above), []).append(label)
    return list(groups.items())


def _draw(
    samples: Samples, groups: list[tuple[str, list[int]]], title: str, note: str, per_class: int
) -> Image:
    """Draw the groups, each a header and rows of cells; a cell is a class name and the images below it."""
    from PIL import Image, ImageDraw, ImageFont

    small, large = ImageFont.load_default(13), ImageFont.load_default(16)
    columns = min(_COLUMNS, max(len(labels) for _, labels in groups))
    cell, row = per_class * (_TILE + _GAP) + _BETWEEN, _LABEL + _TILE + _BETWEEN
    # A sheet with few columns is wide enough for the title and the names of groups, too.
    width = max(2 * _MARGIN + columns * cell, 480)
    heights = [bool(name) * _HEADER + -(-len(labels) // columns) * row for name, labels in groups]
    top, room = _MARGIN + bool(title) * _HEADER, width - 2 * _MARGIN
    sheet = Image.new("RGB", (width, top + sum(heights) + _MARGIN + bool(note) * _LABEL), "white")
    pen = ImageDraw.Draw(sheet)
    pen.text((_MARGIN, _MARGIN), _fitted(title, large, room), fill=_INK, font=large)
    for (name, labels), height in zip(groups, heights, strict=True):
        if name:
            pen.line((_MARGIN, top, width - _MARGIN, top), fill=_RULE)
            pen.text((_MARGIN, top + 4), _fitted(name, large, room), fill=_INK, font=large)
        for at, label in enumerate(labels):
            x = _MARGIN + at % columns * cell
            y = top + bool(name) * _HEADER + at // columns * row
            text = _fitted(samples.tree.classes[label], small, cell - _BETWEEN)
            pen.text((x, y), text, fill=_GREY, font=small)
            for place, image in enumerate(_images(samples, label, per_class)):
                sheet.paste(image, (x + place * (_TILE + _GAP), y + _LABEL))
        top += height
    pen.text((_MARGIN, top), note, fill=_GREY, font=small)
    return sheet


def _images(samples: Samples, label: int, count: int) -> list[Image]:
    """The first images of a class, as tiles."""
    from PIL import Image

    positions: Labels = np.flatnonzero(samples.labels == label)[:count]
    if len(positions) == 0:
        return []
    pixels = samples.take(positions)[0].permute(0, 2, 3, 1).numpy()
    images = [Image.fromarray(one.squeeze(-1) if one.shape[-1] == 1 else one) for one in pixels]
    # Very small images are enlarged without smoothing, others are resampled smoothly.
    method = Image.Resampling.NEAREST if pixels.shape[1] <= _TILE // 4 else Image.Resampling.LANCZOS
    return [image.resize((_TILE, _TILE), method) for image in images]


def _fitted(text: str, font: FreeTypeFont | ImageFont, room: int) -> str:
    """The text, truncated to the available width."""
    if font.getlength(text) <= room:
        return text
    while text and font.getlength(text + "…") > room:
        text = text[:-1]
    return text.rstrip() + "…"
