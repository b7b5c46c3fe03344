"""Data sets of image files in folders: one folder for each class; listing and checking them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, TypeAlias, get_args

import numpy as np

from cophenet._common.checks import check_whole
from cophenet.data.augmentation import CentreCrop, RandomCrop
from cophenet.data.dataset import DataSet, Part, Samples, split_data_set
from cophenet.data.image_files import EXTENSIONS, ImageFiles, is_image
from cophenet.data.source import DataSource
from cophenet.tree import Hierarchy

__all__ = [
    "IMAGENET_MEAN",
    "IMAGENET_STD",
    "FileReport",
    "ImageFileSource",
    "check_files",
    "check_same_classes",
    "data_folder",
    "labelled_images",
    "list_images",
]

Channels: TypeAlias = tuple[float, float, float]

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

# Files that are checked by one task, for there may be a million.
_BLOCK = 256


class ImageFileSource(DataSource):
    """A data source of image files.

    Args:
        size: Side of the images in pixels.
    """

    reads_image_files: ClassVar[bool] = True

    def __init__(self, size: int) -> None:
        check_whole("size", size, 1)
        self.crop = CentreCrop(size, round(size * 256 / 224))

    def _split(
        self, tree: Hierarchy, part: Callable[[Part], Samples], *, mean: Channels, std: Channels
    ) -> DataSet:
        """The data set of some folders, split by the tree's rule; see `split_data_set`."""
        if tree.num_classes < 2:
            raise ValueError(f"data {self.name!r} needs at least two classes, found only {tree.classes[0]!r}")
        return split_data_set(self.name, tree, part, mean=mean, std=std)


def data_folder(name: str, data_dir: str | os.PathLike[str] | None, holds: str) -> Path:
    """The folder of a data set, which must be there.

    Args:
        name: Name of the data set.
        data_dir: The folder.
        holds: What it must hold, for messages.

    Raises:
        ValueError: If no folder is given.
        FileNotFoundError: If it is not a folder.
    """
    if data_dir is None:
        raise ValueError(f"data {name!r} needs data_dir, a folder that holds {holds}")
    folder = Path(data_dir)
    if not folder.is_dir():
        raise FileNotFoundError(f"data_dir {folder} is not a folder; data {name!r} needs there {holds}")
    return folder


def list_images(folder: Path) -> list[str]:
    """Paths of the images right inside a folder, by name; other files and hidden ones are none.

    Raises:
        FileNotFoundError: If the folder is missing.
        ValueError: If it holds no image.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"folder {folder} is missing; put the images of this class there")
    with os.scandir(folder) as entries:
        paths = sorted(entry.path for entry in entries if is_image(entry.name))
    if not paths:
        raise ValueError(f"folder {folder} is a class without images (files {' '.join(EXTENSIONS)})")
    return paths


def labelled_images(
    folders: Iterable[tuple[Path, int]], tree: Hierarchy, crop: CentreCrop, random_crop: RandomCrop
) -> Samples:
    """The images of some folders, all of a folder with its label; several folders may share one.

    Raises:
        FileNotFoundError: If a folder is missing.
        ValueError: If it holds no image.
    """
    paths: list[str] = []
    labels: list[int] = []
    for folder, label in folders:
        images = list_images(folder)
        paths += images
        labels += [label] * len(images)
    inputs = ImageFiles(paths, crop, random_crop)
    return Samples(inputs, np.arange(len(paths)), np.array(labels, dtype=np.int64), tree)


def check_same_classes(root: Path, parts: Mapping[str, Set[tuple[str, ...]]]) -> None:
    """Refuse two parts with different classes.

    Args:
        root: The folder of both, for the message.
        parts: Paths of the classes of each, by the name of its folder.
    """
    (one, here), (other, there) = parts.items()
    alone = sorted(here ^ there)
    if alone:
        has, lacks = (one, other) if alone[0] in here else (other, one)
        raise ValueError(
            f"class {'/'.join(alone[0])!r} is in {root / has} but not in {root / lacks};"
            f" {len(alone)} classes are in one of them only"
        )


@dataclass(frozen=True)
class FileReport:
    """The image files of a data set after a check.

    Attributes:
        images: How many were opened.
        broken: Why, for each that cannot be read.
        passed_over: How many files beside them are no images, by ending.
    """

    images: int
    broken: tuple[str, ...]
    passed_over: dict[str, int]


def check_files(data: DataSet, *, deep: bool = False) -> FileReport | None:
    """Open every image file of a data set.

    Args:
        data: The data set.
        deep: Whether to decode them too, which also finds files that are cut short, and takes much longer.

    Returns:
        Which files are broken; None if the data set does not read image files.
    """
    paths: set[str] = set()
    problems: list[str] = []
    for part in get_args(Part):
        samples = data.samples(part)
        files = samples.inputs
        if not isinstance(files, ImageFiles):
            return None
        rows = samples.rows.tolist()
        paths.update(files.paths[row] for row in rows)
        blocks = (rows[start : start + _BLOCK] for start in range(0, len(rows), _BLOCK))
        with ThreadPoolExecutor() as pool:
            for broken in pool.map(partial(_problems, files, deep=deep), blocks):
                problems += broken
    return FileReport(len(paths), tuple(problems), _passed_over(paths))


def _problems(files: ImageFiles, rows: list[int], *, deep: bool) -> list[str]:
    return [problem for row in rows if (problem := files.problem(row, deep=deep))]


def _passed_over(paths: set[str]) -> dict[str, int]:
    """Files in the folders of some images that are no images, by ending, most first."""
    counts: Counter[str] = Counter()
    for folder in {Path(path).parent for path in paths}:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.is_file() and not entry.name.startswith(".")]
        counts.update(Path(name).suffix.lower() for name in names if not is_image(name))
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
