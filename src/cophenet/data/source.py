"""Data sets by name."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, get_args

from cophenet._common.checks import check_choice, check_options
from cophenet.data.augmentation import augment_names
from cophenet.data.dataset import DataSet, Domain, Requirement

if TYPE_CHECKING:
    from cophenet.tree import Hierarchy

__all__ = ["DataSource", "create_source", "register_source", "source_names", "source_summaries"]

_REGISTRY: dict[str, type[DataSource]] = {}
_Source = TypeVar("_Source", bound="type[DataSource]")


class DataSource(ABC):
    """Where a data set comes from and how it is read; options are typed constructor arguments.

    Attributes:
        name: The name it is registered under.
        summary: One line for listings.
        reads_image_files: Whether it decodes image files, and so gives them in any size: its option `size`.
        shares_classes: Whether source and target have the same classes, so that there are no new ones to
            transfer to.

    Example:
        >>> source = create_source("cifar100", depth=4)
        >>> source.tree().num_classes, source.level_names, source.reads_image_files, source.shares_classes
        (100, ('coarse', 'mid', 'fine'), False, False)
        >>> create_source("inat21-mini", levels=["phylum", "class"]).level_names
        ('phylum', 'class')
        >>> create_source("folder").augmentations
        ('none', 'views')
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    reads_image_files: ClassVar[bool] = False
    shares_classes: ClassVar[bool] = False

    def tree(self) -> Hierarchy | None:
        """The tree of all classes, before any file is read; None if only the files know it."""
        return None

    @property
    def level_names(self) -> tuple[str, ...]:
        """Levels of the tree from coarse to fine, before any file is read; empty if only the files know."""
        tree = self.tree()
        return () if tree is None else tree.level_names

    @property
    def augmentations(self) -> tuple[str, ...]:
        """What the argument `augment` of a `Loader` of this data can be."""
        return ("none", "views") if self.reads_image_files else ("none", *augment_names())

    def check_domain(self, domain: str) -> None:
        """Refuse a domain that the data cannot have, as far as that is known before its files are read.

        Raises:
            ValueError: If there is no such domain, or source and target are known to be impossible.

        Example:
            >>> create_source("vectors").check_domain("source")
            Traceback (most recent call last):
            ValueError: domain must be full for data 'vectors' without the option tree_file, because nothing
            else says how classes are split, got 'source'
        """
        check_choice("domain", domain, get_args(Domain))

    @abstractmethod
    def requirements(self, data_dir: Path | None) -> list[Requirement]:
        """What is read from the folder, and whether it is there; empty if nothing is needed."""

    @abstractmethod
    def load(self, data_dir: Path | None) -> DataSet:
        """Read the data set.

        Raises:
            FileNotFoundError: If files are missing; says which to put where.
            ValueError: If a file is corrupt, truncated or of another kind.
        """


def register_source(cls: _Source) -> _Source:
    """Class decorator: make a data source available under its `name`."""
    if cls.name in _REGISTRY:
        raise ValueError(f"a data set named {cls.name!r} is registered already")
    _REGISTRY[cls.name] = cls
    return cls


def source_names() -> tuple[str, ...]:
    """Names of all data sets."""
    return tuple(sorted(_REGISTRY))


def source_summaries() -> dict[str, str]:
    """Names of all data sets, with a line about each."""
    return {name: _REGISTRY[name].summary for name in source_names()}


def create_source(name: str, **options: Any) -> DataSource:
    """Make a data source by name.

    Raises:
        ValueError: If the name or an option is unknown or wrong.
    """
    check_choice("data", name, source_names())
    cls = _REGISTRY[name]
    check_options(f"data {name!r}", cls, options)
    arguments = inspect.signature(cls).parameters.values()
    needed = [a.name for a in arguments if a.default is a.empty and a.kind is a.POSITIONAL_OR_KEYWORD]
    missing = [option for option in needed if option not in options]
    if missing:
        raise ValueError(f"data {name!r} needs the option {', '.join(missing)}")
    return cls(**options)
