"""iNaturalist 2021 mini: species in folders whose names contain their taxonomy."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

from cophenet._common.checks import check_choice, wrong_argument
from cophenet.data.augmentation import INAT_CROP
from cophenet.data.dataset import DataSet, Part, Requirement, Samples
from cophenet.data.image_folders import (
    ImageFileSource,
    check_same_classes,
    data_folder,
    labelled_images,
)
from cophenet.data.registry import register_source
from cophenet.tree import Hierarchy

__all__ = ["RANKS", "INat21Mini", "lineage", "taxonomy_paths"]

RANKS = ("kingdom", "phylum", "class", "order", "family", "genus", "species")

_FOLDERS: dict[Part, str] = {"train": "train_mini", "test": "val"}
_HOLDS = "train_mini/ and val/ of iNaturalist 2021, with one folder for each species"
_MEAN, _STD = (0.466, 0.471, 0.380), (0.195, 0.194, 0.192)

Lineage: TypeAlias = tuple[str, ...]


def lineage(folder: str) -> Lineage:
    """The names of the seven ranks in a folder's name, kingdom first.

    Raises:
        ValueError: If the name does not have eight parts.

    Example:
        >>> lineage("00012_Animalia_Chordata_Aves_Strigiformes_Strigidae_Bubo_bubo")[1:3]
        ('Chordata', 'Aves')
    """
    parts = folder.split("_")
    if len(parts) != 1 + len(RANKS) or not all(parts):
        raise ValueError(f"folder name {folder!r} must be eight parts joined by '_': id, {', '.join(RANKS)}")
    return tuple(parts[1:])


def taxonomy_paths(lineages: Iterable[Lineage], levels: Sequence[str]) -> dict[Lineage, tuple[str, ...]]:
    """Tree paths of lineages at some ranks.

    A name shared by several groups of one rank (a genus of birds and one of mints) is replaced by the
    whole lineage, joined with `/`. A species is named by genus and species.

    Args:
        lineages: Names from the kingdom down to the species.
        levels: Some of the ranks, from coarse to fine.

    Returns:
        The path of each lineage.

    Example:
        >>> bird = lineage("1_Animalia_Chordata_Aves_Passeriformes_Prunellidae_Prunella_modularis")
        >>> mint = lineage("2_Plantae_Tracheophyta_Magnoliopsida_Lamiales_Lamiaceae_Prunella_vulgaris")
        >>> taxonomy_paths([bird, mint], ["kingdom", "class"])[mint]
        ('Plantae', 'Magnoliopsida')
    """
    known = sorted(set(lineages))
    columns = []
    for level in levels:
        depth = RANKS.index(level) + 1
        groups = {one[:depth] for one in known}
        called = {group: " ".join(group[-2:]) if level == "species" else group[-1] for group in groups}
        counts = Counter(called.values())
        names = {group: name if counts[name] == 1 else "/".join(group) for group, name in called.items()}
        columns.append([names[one[:depth]] for one in known])
    return dict(zip(known, zip(*columns, strict=True), strict=True))


@register_source
class INat21Mini(ImageFileSource):
    """iNaturalist 2021: the smaller training part (`train_mini`), and the validation part as test.

    Source and target are split by the tree's rule over the classes that exist. A coarse class that the rule
    leaves out is in neither of them, in train and in test.

    Args:
        levels: Ranks of the tree from coarse to fine, some of kingdom, phylum, class, order, family, genus
            and species; the last are the classes.
        size: Side of the images in pixels.
    """

    name = "inat21-mini"
    summary = "iNaturalist 2021 mini: living things by taxonomy, from its folders"

    def __init__(self, levels: Sequence[str] = ("phylum", "class"), size: int = 224) -> None:
        super().__init__(size)
        if not isinstance(levels, (list, tuple)) or not levels:
            raise wrong_argument("levels", f"must be a list of ranks ({', '.join(RANKS)}), got {levels!r}")
        for level in levels:
            check_choice("levels", level, RANKS)
        if list(levels) != sorted(set(levels), key=RANKS.index):
            raise wrong_argument(
                "levels", f"must go from coarse to fine ({', '.join(RANKS)}), got {list(levels)}"
            )
        self.levels = tuple(levels)

    @property
    def level_names(self) -> tuple[str, ...]:
        """The ranks, which are known before files are read, unlike the species."""
        return self.levels

    def requirements(self, data_dir: Path | None) -> list[Requirement]:
        """The two folders."""
        paths = [(data_dir or Path()) / folder for folder in _FOLDERS.values()]
        note = "unpacked from the archive of the same name of iNaturalist 2021; one folder for each species"
        return [Requirement(path, data_dir is not None and path.is_dir(), note) for path in paths]

    def load(self, data_dir: Path | None) -> DataSet:
        """Read the data set.

        Raises:
            FileNotFoundError: If a folder is missing.
            ValueError: If a folder's name is not a taxonomy, or train and test differ in their classes.
        """
        root = data_folder(self.name, data_dir, _HOLDS)
        species = {part: _species(root / folder) for part, folder in _FOLDERS.items()}
        paths = taxonomy_paths((one for folders in species.values() for one in folders.values()), self.levels)
        classes = sorted({paths[one] for one in species["train"].values()})
        check_same_classes(
            root,
            {_FOLDERS[part]: {paths[one] for one in folders.values()} for part, folders in species.items()},
        )
        tree = Hierarchy.from_paths(classes, level_names=self.levels)
        label = {path: place for place, path in enumerate(classes)}

        def part(which: Part) -> Samples:
            place = root / _FOLDERS[which]
            folders = ((place / name, label[paths[one]]) for name, one in species[which].items())
            return labelled_images(folders, tree, self.crop, INAT_CROP)

        return self._split(tree, part, mean=_MEAN, std=_STD)


def _species(folder: Path) -> dict[str, Lineage]:
    """Lineage of each species folder, by folder name."""
    if not folder.is_dir():
        raise FileNotFoundError(f"folder {folder} is missing; data 'inat21-mini' needs {_HOLDS}")
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))
    if not names:
        raise ValueError(f"folder {folder} is empty; it must hold one folder for each species")
    try:
        return {name: lineage(name) for name in names}
    except ValueError as error:
        raise ValueError(f"in {folder}: {error}") from None
