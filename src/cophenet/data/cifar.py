"""CIFAR-10 and CIFAR-100: classes, trees and source/target splits; read from the original files."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import ClassVar, Literal, get_args

import numpy as np
import torch

from cophenet._common.checks import check_choice, wrong_argument
from cophenet.data.cifar_files import (
    CIFAR10_LAYOUTS,
    CIFAR100_LAYOUTS,
    Batch,
    Layout,
    find_layout,
    layout_requirements,
    missing_layout,
    read_batches,
)
from cophenet.data.dataset import (
    ArrayInputs,
    DataSet,
    Labels,
    Part,
    Requirement,
    Samples,
    split_data_set,
)
from cophenet.data.download import RemoteFile
from cophenet.data.registry import DataSource, register_source
from cophenet.tree import Hierarchy, Split

__all__ = [
    "CIFAR10",
    "CIFAR100",
    "Cifar10",
    "Cifar100",
    "Depth",
    "cifar10_split",
    "cifar10_tree",
    "cifar100_split",
    "cifar100_tree",
]

Depth = Literal[3, 4, 5]

# In label order; then those that are animals.
CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_ANIMALS = ("bird", "cat", "deer", "dog", "frog", "horse")
_CIFAR10_TARGET = ("airplane", "automobile", "bird", "cat")

# Coarse classes in label order; the fine labels are the alphabetical order of all hundred names.
CIFAR100 = {
    "aquatic_mammals": ("beaver", "dolphin", "otter", "seal", "whale"),
    "fish": ("aquarium_fish", "flatfish", "ray", "shark", "trout"),
    "flowers": ("orchid", "poppy", "rose", "sunflower", "tulip"),
    "food_containers": ("bottle", "bowl", "can", "cup", "plate"),
    "fruit_and_vegetables": ("apple", "mushroom", "orange", "pear", "sweet_pepper"),
    "household_electrical_devices": ("clock", "keyboard", "lamp", "telephone", "television"),
    "household_furniture": ("bed", "chair", "couch", "table", "wardrobe"),
    "insects": ("bee", "beetle", "butterfly", "caterpillar", "cockroach"),
    "large_carnivores": ("bear", "leopard", "lion", "tiger", "wolf"),
    "large_man-made_outdoor_things": ("bridge", "castle", "house", "road", "skyscraper"),
    "large_natural_outdoor_scenes": ("cloud", "forest", "mountain", "plain", "sea"),
    "large_omnivores_and_herbivores": ("camel", "cattle", "chimpanzee", "elephant", "kangaroo"),
    "medium_mammals": ("fox", "porcupine", "possum", "raccoon", "skunk"),
    "non-insect_invertebrates": ("crab", "lobster", "snail", "spider", "worm"),
    "people": ("baby", "boy", "girl", "man", "woman"),
    "reptiles": ("crocodile", "dinosaur", "lizard", "snake", "turtle"),
    "small_mammals": ("hamster", "mouse", "rabbit", "shrew", "squirrel"),
    "trees": ("maple_tree", "oak_tree", "palm_tree", "pine_tree", "willow_tree"),
    "vehicles_1": ("bicycle", "bus", "motorcycle", "pickup_truck", "train"),
    "vehicles_2": ("lawn_mower", "rocket", "streetcar", "tank", "tractor"),
}

_ADDRESS = "https://www.cs.toronto.edu/~kriz/"

# Mean and standard deviation of each channel over all pixels of the official training images, scaled to 0..1.
CIFAR10_MEAN, CIFAR10_STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
CIFAR100_MEAN, CIFAR100_STD = (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)


def cifar10_tree() -> Hierarchy:
    """The paper's tree of CIFAR-10.

    Example:
        >>> cifar10_tree().cut("coarse")[0].classes
        ('transportation', 'animal')
    """
    paths = [("animal" if name in _ANIMALS else "transportation", name) for name in CIFAR10]
    return Hierarchy.from_paths(paths, root="cifar10", level_names=("coarse", "fine"))


def cifar10_split() -> Split:
    """The paper's split of CIFAR-10: a fixed list, not the 0.4 rule; horse is in the source.

    Example:
        >>> cifar10_split().target.classes
        ('airplane', 'automobile', 'bird', 'cat')
    """
    source = [name for name in CIFAR10 if name not in _CIFAR10_TARGET]
    return cifar10_tree().source_target_split(source=source, target=_CIFAR10_TARGET)


def cifar100_tree(depth: Depth = 3) -> Hierarchy:
    """The tree of CIFAR-100, with 3 to 5 levels including the root.

    Args:
        depth: 3 for coarse and fine; 4 adds a mid level, in which the five fine classes of a coarse class are
            split by name into two and three; 5 also adds a coarser level of pairs of coarse classes that are
            adjacent in alphabetical order.

    Example:
        >>> cifar100_tree(5).level_names
        ('coarser', 'coarse', 'mid', 'fine')
        >>> cifar100_tree(5).path("rose")[1:]
        ('flowers', 'rose+sunflower+tulip', 'rose')
    """
    if depth not in get_args(Depth):
        raise wrong_argument("depth", f"must be one of {get_args(Depth)}, got {depth!r}")
    return _cifar100_tree(depth)


@cache
def _cifar100_tree(depth: Depth) -> Hierarchy:
    """The tree, cached because every check of a recipe needs it."""
    coarse = {fine: name for name, children in CIFAR100.items() for fine in children}
    paths = [(coarse[fine], fine) for fine in sorted(coarse)]
    tree = Hierarchy.from_paths(paths, root="cifar100", level_names=("coarse", "fine"))
    if depth >= 4:
        tree = tree.insert_level("fine", [2, 3], name="mid")
    return tree.insert_level("coarse", [2], name="coarser") if depth == 5 else tree


def cifar100_split(depth: Depth = 3) -> Split:
    """The paper's split of CIFAR-100: of each coarse class the first two by name are the target.

    Example:
        >>> split = cifar100_split()
        >>> split.source.num_classes, split.target.classes[:3]
        (60, ('apple', 'aquarium_fish', 'baby'))
    """
    # Always split by coarse classes: with a mid level the rule would split groups of two and three.
    split = cifar100_tree().source_target_split(0.4)
    return cifar100_tree(depth).source_target_split(source=split.source.classes, target=split.target.classes)


class _Cifar(DataSource):
    layouts: ClassVar[tuple[Layout, ...]]

    def requirements(self, data_dir: Path | None) -> list[Requirement]:
        """The files of the version that was found, or the version to put there if there is none."""
        version = find_layout(data_dir, self.layouts)
        return layout_requirements(*version) if version else [missing_layout(data_dir, self.layouts)]

    def _read(self, data_dir: Path | None, tree: Hierarchy, coarse: Sequence[str]) -> dict[Part, Samples]:
        version = find_layout(data_dir, self.layouts)
        if version is None:
            need = missing_layout(data_dir, self.layouts)
            raise FileNotFoundError(
                f"data {self.name!r} was not found: put it at {need.path} ({need.note}) and give data_dir"
            )
        layout, place = version
        batches, names = read_batches(layout, place)
        for listed, official in zip(names, (tree.classes, tuple(coarse)), strict=False):
            _check_names(listed, official, place)
        for name, batch in batches.items():
            _check_labels(batch, tree, coarse, f"{place}: {name}")
        return {
            "train": _join([batches[name] for name in layout.train], tree),
            "test": _join([batches[name] for name in layout.test], tree),
        }


def _check_names(names: list[str], official: tuple[str, ...], place: Path) -> None:
    if tuple(names) != official:
        wrong = [name for name in names if name not in official] or names
        raise ValueError(f"{place}: its class names are not the official ones, e.g. {wrong[:3]!r}")


def _check_labels(batch: Batch, tree: Hierarchy, coarse: Sequence[str], where: str) -> None:
    fine = batch.labels[:, 0]
    if fine.min() < 0 or fine.max() >= tree.num_classes:
        raise ValueError(
            f"{where}: labels reach from {fine.min()} to {fine.max()}, "
            f"allowed are 0 to {tree.num_classes - 1}"
        )
    if batch.labels.shape[1] == 1:
        return
    cut, ancestors = tree.cut("coarse")
    expected = np.array([coarse.index(name) for name in cut.classes])[ancestors[fine]]
    wrong = np.flatnonzero(batch.labels[:, 1] != expected)
    if wrong.size:
        row = wrong[0]
        raise ValueError(
            f"{where}: {wrong.size} coarse labels do not fit the tree; "
            f"image {row} is {tree.classes[fine[row]]!r}, whose coarse label is {expected[row]}, "
            f"not {batch.labels[row, 1]}"
        )


def _join(batches: list[Batch], tree: Hierarchy) -> Samples:
    # A copy, because an array that is a view of the bytes of a file is read-only.
    images = np.concatenate([batch.images for batch in batches])
    labels: Labels = np.concatenate([batch.labels[:, 0] for batch in batches])
    return Samples(ArrayInputs(torch.from_numpy(images)), np.arange(len(labels)), labels, tree)


@register_source
class Cifar10(_Cifar):
    """CIFAR-10: 32 x 32 colour images of ten classes, animals and transportation.

    Read from `cifar-10-batches-py` or `cifar-10-batches-bin`, or from the `.tar.gz` of either; the data
    folder contains one of these or is one of them.

    Example:
        >>> Cifar10().requirements(None)[0].path
        PosixPath('cifar-10-batches-py')
    """

    name = "cifar10"
    summary = "CIFAR-10, 10 classes in animal and transportation; from the original files"
    layouts: ClassVar[tuple[Layout, ...]] = CIFAR10_LAYOUTS
    remote_files = (
        RemoteFile(_ADDRESS + "cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a", 170498071),
    )

    def tree(self) -> Hierarchy:
        """The tree of all classes."""
        return cifar10_tree()

    def load(self, data_dir: Path | None) -> DataSet:
        """Read the data set."""
        parts = self._read(data_dir, self.tree(), ())
        return split_data_set(
            self.name, self.tree(), parts.__getitem__, split=cifar10_split, mean=CIFAR10_MEAN, std=CIFAR10_STD
        )


@register_source
class Cifar100(_Cifar):
    """CIFAR-100: 32 x 32 colour images of 100 classes in 20 coarse ones.

    Read from `cifar-100-python` or `cifar-100-binary`, or from the `.tar.gz` of either; the data folder
    contains one of these or is one of them.

    Args:
        depth: Levels of the tree including the root: 3, or 4 with a mid level, or 5 with a coarser one too.
        classes: "fine"; or "coarse" for the 20 coarse classes below the ten coarser ones: classes that are
            known to have five modes each. Their tree does not depend on `depth`.

    Example:
        >>> Cifar100(depth=4).requirements(None)[0].path
        PosixPath('cifar-100-python')
        >>> Cifar100(classes="coarse").tree().level_names
        ('coarser', 'coarse')
    """

    name = "cifar100"
    summary = "CIFAR-100, 100 classes in 20 coarse ones; from the original files"
    layouts: ClassVar[tuple[Layout, ...]] = CIFAR100_LAYOUTS
    remote_files = (
        RemoteFile(_ADDRESS + "cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85", 169001437),
    )

    def __init__(self, depth: Depth = 3, classes: Literal["fine", "coarse"] = "fine") -> None:
        check_choice("classes", classes, ("fine", "coarse"))
        self._depth, self._tree = depth, cifar100_tree(depth)
        self._fine, self._class_of = self._tree, np.arange(self._tree.num_classes)
        if classes == "coarse":
            self._tree, self._class_of = cifar100_tree(5).cut("coarse")

    @property
    def split(self) -> Split:
        """The source/target split of the classes."""
        is_coarse = self._tree is not self._fine
        return self._tree.source_target_split(0.5) if is_coarse else cifar100_split(self._depth)

    def tree(self) -> Hierarchy:
        """The tree of all classes."""
        return self._tree

    def load(self, data_dir: Path | None) -> DataSet:
        """Read the data set."""
        parts = {
            part: Samples(read.inputs, read.rows, self._class_of[read.labels], self._tree)
            for part, read in self._read(data_dir, self._fine, tuple(CIFAR100)).items()
        }
        return split_data_set(
            self.name,
            self._tree,
            parts.__getitem__,
            split=lambda: self.split,
            mean=CIFAR100_MEAN,
            std=CIFAR100_STD,
        )
