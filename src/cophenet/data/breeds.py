"""BREEDS: superclasses of ImageNet whose source and target images come from different subclasses."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import ClassVar, TypedDict

from cophenet._common.checks import check_choice, wrong_argument
from cophenet.data.augmentation import BREEDS_CROP
from cophenet.data.dataset import DataSet, Domain, Part, Requirement, Samples
from cophenet.data.image_folders import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    ImageFileSource,
    data_folder,
    labelled_images,
)
from cophenet.data.registry import register_source
from cophenet.tree import Hierarchy

__all__ = ["Breeds", "Entity13", "Entity30", "Living17", "NonLiving26", "breeds_classes", "breeds_tree"]

_FOLDERS: dict[Part, str] = {"train": "train", "test": "val"}
_HOLDS = "train/<wnid>/*.JPEG and val/<wnid>/*.JPEG of ImageNet"


class BreedsClass(TypedDict):
    """A superclass: its name, the names of its ancestors, and its ImageNet classes in each domain."""

    name: str
    mid: str
    coarse: str
    source: list[str]
    target: list[str]


@cache
def _facts() -> dict[str, list[BreedsClass]]:
    text = files("cophenet.data").joinpath("facts/breeds.json").read_text(encoding="utf-8")
    settings: dict[str, list[BreedsClass]] = json.loads(text)["settings"]
    return settings


def breeds_classes(setting: str) -> tuple[BreedsClass, ...]:
    """The superclasses of a setting, in label order.

    Args:
        setting: ``"living17"``, ``"nonliving26"``, ``"entity13"`` or ``"entity30"``.

    Example:
        >>> grouse = breeds_classes("living17")[5]
        >>> grouse["name"], grouse["coarse"], grouse["target"]
        ('grouse', 'bird', ['n01797886', 'n01795545'])
    """
    check_choice("setting", setting, _facts())
    return tuple(_facts()[setting])


def breeds_tree(setting: str, *, mid: bool = False) -> Hierarchy:
    """The tree of a setting; its classes are the superclasses in label order.

    Args:
        setting: ``"living17"``, ``"nonliving26"``, ``"entity13"`` or ``"entity30"``.
        mid: Whether to include a level between coarse and fine.

    Example:
        >>> breeds_tree("living17").level_names
        ('coarse', 'fine')
        >>> breeds_tree("living17", mid=True).cut("mid")[0].num_classes
        11
    """
    levels = ("coarse", "mid", "fine") if mid else ("coarse", "fine")
    paths = [
        (one["coarse"], one["mid"], one["name"]) if mid else (one["coarse"], one["name"])
        for one in breeds_classes(setting)
    ]
    return Hierarchy.from_paths(paths, level_names=levels)


class Breeds(ImageFileSource):
    """A setting of BREEDS, read from a folder of ImageNet.

    The classes are the superclasses, in all domains. The test part is ImageNet's validation part. Test images
    are stretched to a square, 256 x 256 for a `size` of 224, and the centre is cropped (appendix of the
    paper, section BREEDS).

    Args:
        size: Side of the images in pixels.
        mid: Whether the tree has the level between coarse and fine, which is for evaluation;
            `tree.merge_level("mid")` returns the tree without it.
    """

    shares_classes: ClassVar[bool] = True

    def __init__(self, size: int = 224, mid: bool = False) -> None:
        super().__init__(size)
        self.crop = replace(self.crop, square=True)
        if not isinstance(mid, bool):
            raise wrong_argument("mid", f"must be true or false, got {mid!r}")
        self._tree = breeds_tree(self.name, mid=mid)

    def tree(self) -> Hierarchy:
        """The tree of all classes."""
        return self._tree

    def requirements(self, data_dir: Path | None) -> list[Requirement]:
        """The two folders, with the number of missing class folders."""
        wnids = self._wnids("full")
        needed = []
        for folder in _FOLDERS.values():
            path = (data_dir or Path()) / folder
            missing = [wnid for wnid, _ in wnids if data_dir is None or not (path / wnid).is_dir()]
            note = f"{len(wnids)} class folders of ImageNet"
            if missing:
                note += f", {len(missing)} missing: {', '.join(missing[:3])}{', ...' * (len(missing) > 3)}"
            needed.append(Requirement(path, not missing, note))
        return needed

    def load(self, data_dir: Path | None) -> DataSet:
        """Read the data set.

        Raises:
            FileNotFoundError: If class folders are missing.
        """
        folder = data_folder(self.name, data_dir, _HOLDS)
        for needed in self.requirements(folder):
            if not needed.found:
                raise FileNotFoundError(
                    f"{needed.path} is not complete for data {self.name!r}: {needed.note}; it needs {_HOLDS}"
                )

        def make(part: Part, domain: Domain) -> Samples:
            place = folder / _FOLDERS[part]
            folders = ((place / wnid, label) for wnid, label in self._wnids(domain))
            return labelled_images(folders, self._tree, self.crop, BREEDS_CROP)

        return DataSet(self.name, self._tree, make, IMAGENET_MEAN, IMAGENET_STD)

    def _wnids(self, domain: Domain) -> list[tuple[str, int]]:
        """The ImageNet classes of a domain with their labels."""
        sides = ("source", "target") if domain == "full" else (domain,)
        return [
            (wnid, label)
            for label, one in enumerate(breeds_classes(self.name))
            for side in sides
            for wnid in (one["source"] if side == "source" else one["target"])
        ]


@register_source
class Living17(Breeds):
    """17 animals such as dog and wolf, with 2 subclasses in each domain."""

    name = "living17"
    summary = "BREEDS Living-17: animals, 17 classes in 5 groups, from an ImageNet folder"


@register_source
class NonLiving26(Breeds):
    """26 things such as ball and boat, with 2 subclasses in each domain."""

    name = "nonliving26"
    summary = "BREEDS Non-Living-26: things, 26 classes in 6 groups, from an ImageNet folder"


@register_source
class Entity13(Breeds):
    """13 broad classes such as bird and furniture, with 10 subclasses in each domain."""

    name = "entity13"
    summary = "BREEDS Entity-13: broad classes, 13 in 2 groups, from an ImageNet folder"


@register_source
class Entity30(Breeds):
    """30 classes such as carnivore and vessel, with 4 subclasses in each domain."""

    name = "entity30"
    summary = "BREEDS Entity-30: 30 classes in 2 groups, from an ImageNet folder"
