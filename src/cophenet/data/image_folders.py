"""Data sets of image files with one folder per class; listing and checking of image files."""

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

from cophenet._common.checks import check_file, check_share, check_whole
from cophenet.data.augmentation import CentreCrop, RandomCrop
from cophenet.data.dataset import DataSet, Part, Requirement, Samples, read_tree_file, split_data_set
from cophenet.data.image_files import EXTENSIONS, ImageFiles, is_image
from cophenet.data.registry import DataSource, register_source
from cophenet.data.stratified_sampling import draw_test_part
from cophenet.tree import AmbiguousNameError, Hierarchy

__all__ = [
    "IMAGENET_MEAN",
    "IMAGENET_STD",
    "FileReport",
    "ImageFileSource",
    "ImageFolder",
    "check_files",
    "check_same_classes",
    "data_folder",
    "labelled_images",
    "list_images",
]

Channels: TypeAlias = tuple[float, float, float]
ClassPath: TypeAlias = tuple[str, ...]

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

_HOLDS = "a folder of images for each class (nested for a hierarchy), or train/ and test/ with such folders"

# Other common names of the test part; beside train/ they are not classes.
_NO_PARTS = {"dev", "eval", "testing", "valid", "validation"}

# Number of files that are checked by one task, because there may be a million.
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
        """Create a data set, split by the default rule of the tree; see `split_data_set`."""
        if tree.num_classes < 2:
            raise ValueError(f"data {self.name!r} needs at least two classes, found only {tree.classes[0]!r}")
        return split_data_set(self.name, tree, part, mean=mean, std=std)


def data_folder(name: str, data_dir: str | os.PathLike[str] | None, holds: str) -> Path:
    """The folder of a data set; raise if it does not exist.

    Args:
        name: Name of the data set.
        data_dir: The folder.
        holds: What it must contain, for messages.

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
    """Sorted paths of the images directly inside a folder; other files and hidden files are skipped.

    Raises:
        FileNotFoundError: If the folder is missing.
        ValueError: If it contains no image.
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
    """The images of some folders, with the label of their folder; several folders may share a label.

    Raises:
        FileNotFoundError: If a folder is missing.
        ValueError: If a folder contains no image.
    """
    paths: list[str] = []
    labels: list[int] = []
    for folder, label in folders:
        images = list_images(folder)
        paths += images
        labels += [label] * len(images)
    inputs = ImageFiles(paths, crop, random_crop)
    return Samples(inputs, np.arange(len(paths)), np.array(labels, dtype=np.int64), tree)


def check_same_classes(root: Path, parts: Mapping[str, Set[ClassPath]]) -> None:
    """Raise if two parts have different classes.

    Args:
        root: The folder of both, for the message.
        parts: Class paths of each part, by the name of its folder.
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
    """Result of a check of the image files of a data set.

    Attributes:
        images: Number of image files.
        broken: Error message of each file that cannot be read.
        passed_over: Number of other files in the same folders, by file extension.
    """

    images: int
    broken: tuple[str, ...]
    passed_over: dict[str, int]


def check_files(data: DataSet, *, deep: bool = False) -> FileReport | None:
    """Open every image file of a data set.

    Args:
        data: The data set.
        deep: Whether to decode them too, which also finds truncated files, and takes much longer.

    Returns:
        The result; None if the data set does not read image files.
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
    """Number of files that are not images in the folders of some images, by extension, largest first."""
    counts: Counter[str] = Counter()
    for folder in {Path(path).parent for path in paths}:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.is_file() and not entry.name.startswith(".")]
        counts.update(Path(name).suffix.lower() for name in names if not is_image(name))
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


@register_source
class ImageFolder(ImageFileSource):
    """Any folder of images.

    The innermost folders are the classes, the folders above them are the upper levels: `animal/cat/1.jpg`. Or
    a tree file defines the hierarchy, and the folders are its classes: identified by name if they are side by
    side, by path if they are nested. Two folders `train` and `test` (or `val`) are the two parts, which must
    contain the same classes; other folders beside them are ignored. Without them, a share of every class is
    drawn for the test part: the same for the same seed and files. Hidden files and files that are not images
    are skipped.

    Source and target are split by the tree's rule. Normalization is ImageNet's.

    Args:
        tree_file: File of the tree whose classes are the folders, in the data folder or by full path.
        size: Side of the images in pixels.
        test_fraction: Share of each class that is drawn for the test part, at least one image.
        seed: Determines which images are drawn.
    """

    name = "folder"
    summary = "any folder of images; nested folders or a tree file are the hierarchy"

    def __init__(
        self, tree_file: str | None = None, size: int = 224, test_fraction: float = 0.2, seed: int = 0
    ) -> None:
        check_share("test_fraction", test_fraction)
        if tree_file is not None:
            check_file("tree_file", tree_file)
        super().__init__(size)
        check_whole("seed", seed, 0)
        self.tree_file = tree_file
        self.test_fraction = test_fraction
        self.seed = seed

    def requirements(self, data_dir: Path | None) -> list[Requirement]:
        """The folder, and the tree file if there is one."""
        folder = data_dir or Path()
        needed = [Requirement(folder, data_dir is not None and folder.is_dir(), _HOLDS)]
        if self.tree_file is not None:
            path = folder / self.tree_file
            there = data_dir is not None and path.is_file()
            needed.append(Requirement(path, there, "the tree whose classes are the folders"))
        return needed

    def load(self, data_dir: Path | None) -> DataSet:
        """Read the data set.

        Raises:
            FileNotFoundError: If the folder or the tree file is missing.
            ValueError: If the folders are not classes, or not the classes of the tree.
        """
        root = data_folder(self.name, data_dir, _HOLDS)
        parts = _parts(root)
        classes = {part: _class_folders(folder) for part, folder in parts.items()}
        if len(parts) == 2:
            check_same_classes(root, {parts[part].name: set(paths) for part, paths in classes.items()})
        paths = classes["train"]
        if self.tree_file is None:
            tree = Hierarchy.from_paths(paths)
        else:
            tree, paths = _arrange(paths, root / self.tree_file)

        def part(which: Part) -> Samples:
            place = parts.get(which, root)
            folders = ((place.joinpath(*path), label) for label, path in enumerate(paths))
            samples = labelled_images(folders, tree, self.crop, RandomCrop())
            if len(parts) == 2:
                return samples
            few = {"too_few": "has one image", "instead": "train/ and test/"}
            return draw_test_part(samples, self.test_fraction, self.seed, **few)[which]

        return self._split(tree, part, mean=IMAGENET_MEAN, std=IMAGENET_STD)


def _parts(root: Path) -> dict[Part, Path]:
    """The folders of the two parts, or the whole folder as train."""
    names = {entry.name for entry in os.scandir(root) if entry.is_dir() and not entry.name.startswith(".")}
    tests = sorted(names & {"test", "val"})
    if "train" not in names or not tests:
        other = sorted(names & _NO_PARTS)
        if "train" in names and other:
            raise ValueError(
                f"folder {root} holds train/ and {other[0]}/ but no test/ or val/; rename {other[0]}/ to"
                " test/ or val/ to make it the test part"
            )
        if names == {"train"}:
            raise ValueError(
                f"folder {root} holds train/ but no test/ or val/; add one, or give train/ itself to have a"
                " test part drawn from it"
            )
        return {"train": root}
    if len(tests) == 2:
        raise ValueError(f"folder {root} holds both test/ and val/; leave one of them beside train/")
    return {"train": root / "train", "test": root / tests[0]}


def _class_folders(root: Path) -> list[ClassPath]:
    """Sorted relative paths of the innermost folders.

    Raises:
        ValueError: If there is none, if one contains no image, or if images are beside folders.
    """
    classes: list[ClassPath] = []
    for folder, inner, files in os.walk(root, onerror=_refuse, followlinks=True):
        inner[:] = [name for name in inner if not name.startswith(".")]
        path, images = Path(folder).relative_to(root).parts, sum(map(is_image, files))
        if images and (inner or not path):
            raise ValueError(
                f"folder {folder} holds {images} images where only folders are wanted; images belong in the"
                " innermost folders, which are the classes"
            )
        if not images and not inner:
            content = (
                "no folder of images" if not path else "neither images nor folders, a class needs images"
            )
            raise ValueError(f"folder {folder} holds {content}")
        classes += [path] if images else []
    return sorted(classes)


def _refuse(error: OSError) -> None:
    raise error


def _arrange(paths: list[ClassPath], file: Path) -> tuple[Hierarchy, list[ClassPath]]:
    """Read the tree of a file, and return it with the class folders in its order."""
    tree = read_tree_file(file)
    folders: dict[int, ClassPath] = {}
    unknown = []
    for path in paths:
        try:
            label = tree.index(path if len(path) > 1 else path[0])
        except AmbiguousNameError as error:
            raise ValueError(f"folder {'/'.join(path)}: {error}, by tree file {file}") from None
        except ValueError:
            unknown.append("/".join(path))
            continue
        if label in folders:
            both = f"{'/'.join(folders[label])} and {'/'.join(path)}"
            raise ValueError(
                f"folders {both} are the same class {tree.classes[label]!r}, by tree file {file}"
            )
        folders[label] = path
    without = [name for label, name in enumerate(tree.classes) if label not in folders]
    for alone, problem in (
        (unknown, "is a folder but no class"),
        (sorted(without), "is a class without a folder"),
    ):
        if alone:
            raise ValueError(f"{alone[0]!r} {problem}, by tree file {file}; {len(alone)} such in all")
    return tree, [folders[label] for label in range(tree.num_classes)]
