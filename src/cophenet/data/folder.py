"""Any folder of images, with nested folders or a tree file as hierarchy."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeAlias

from cophenet._common.checks import check_file, check_share, check_whole
from cophenet.data.augmentation import RandomCrop
from cophenet.data.dataset import DataSet, Part, Requirement, Samples, read_tree_file
from cophenet.data.image_files import is_image
from cophenet.data.image_folders import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    ImageFileSource,
    check_same_classes,
    data_folder,
    labelled_images,
)
from cophenet.data.source import register_source
from cophenet.data.stratified_sampling import draw_test_part
from cophenet.tree import AmbiguousNameError, Hierarchy

__all__ = ["ImageFolder"]

_HOLDS = "a folder of images for each class (nested for a hierarchy), or train/ and test/ with such folders"

# Names that others give to the test part, which beside train/ are not meant as classes.
_NO_PARTS = {"dev", "eval", "testing", "valid", "validation"}

ClassPath: TypeAlias = tuple[str, ...]


@register_source
class ImageFolder(ImageFileSource):
    """Any folder of images.

    The innermost folders are the classes, the folders around them the levels above: `animal/cat/1.jpg`. Or
    a tree file holds the hierarchy, and the folders are its classes: by name side by side, or by path where
    they are nested. Two folders `train` and `test` (or `val`) that hold the same classes are the two parts,
    whatever lies beside them. Without these, a share of every class is drawn for the test part: the same for
    the same seed and files. Hidden files and files that are not images are passed over.

    Source and target are split by the tree's rule. Normalization is ImageNet's.

    Args:
        tree_file: File of the tree whose classes are the folders, in the data folder or by full path.
        size: Side of the images in pixels.
        test_fraction: Share of each class that is drawn for the test part, at least one image.
        seed: Which images are drawn.
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
            ValueError: If the folders are not classes, or not those of the tree.
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
            return samples if len(parts) == 2 else self._draw(samples)[which]

        return self._split(tree, part, mean=IMAGENET_MEAN, std=IMAGENET_STD)

    def _draw(self, samples: Samples) -> dict[Part, Samples]:
        """Both parts, when the folder has none of its own."""
        return draw_test_part(
            samples, self.test_fraction, self.seed, too_few="has one image", instead="train/ and test/"
        )


def _parts(root: Path) -> dict[Part, Path]:
    """The folders of the parts, or the whole folder as train."""
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
    """The innermost folders, each as the names on the way there, sorted.

    Raises:
        ValueError: If there is none, if one holds no image, or if images lie beside folders.
    """
    classes: list[ClassPath] = []
    waiting: list[ClassPath] = [()]
    while waiting:
        path = waiting.pop()
        folder = root.joinpath(*path)
        inner, images = [], 0
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir():
                    inner += [entry.name] if not entry.name.startswith(".") else []
                else:
                    images += is_image(entry.name)
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
        waiting += [(*path, name) for name in inner]
        classes += [path] if images else []
    return sorted(classes)


def _arrange(paths: list[ClassPath], file: Path) -> tuple[Hierarchy, list[ClassPath]]:
    """The tree of a file, and the class folders in its order."""
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
