"""Data sources by name: metadata of a data set that is known before its files are read, and its reader."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, get_args

from cophenet._common.checks import check_choice, check_options
from cophenet._common.registry import Registry
from cophenet.data.augmentation import loader_augments
from cophenet.data.dataset import DataSet, Domain, Requirement

if TYPE_CHECKING:
    from cophenet.data.download import RemoteFile
    from cophenet.tree import Hierarchy

__all__ = ["SOURCES", "DataSource", "create_source", "register_source", "source_names", "source_summaries"]

_Source = TypeVar("_Source", bound="type[DataSource]")


class DataSource(ABC):
    """Base class of readers of data sets; options are typed constructor arguments.

    Attributes:
        name: The name it is registered under.
        summary: One line for listings.
        reads_image_files: Whether it decodes image files, and so has an option `size` for any image size.
        shares_classes: Whether source and target have the same classes, so that there are no new classes to
            transfer to.
        remote_files: Its files with download addresses; empty if they have no known address.

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
    remote_files: ClassVar[tuple[RemoteFile, ...]] = ()

    def tree(self) -> Hierarchy | None:
        """The tree of all classes, before any file is read; None if it depends on the files."""
        return None

    @property
    def level_names(self) -> tuple[str, ...]:
        """Levels of the tree from coarse to fine, before any file is read; empty if they depend on files."""
        tree = self.tree()
        return () if tree is None else tree.level_names

    @property
    def augmentations(self) -> tuple[str, ...]:
        """Allowed values of the argument `augment` of a `Loader` for this data."""
        return loader_augments(self.reads_image_files)

    def check_domain(self, domain: str) -> None:
        """Raise if the data cannot have a domain, as far as that is known before its files are read.

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
        """Files read from the folder, and whether they exist; empty if none are needed."""

    @abstractmethod
    def load(self, data_dir: Path | None) -> DataSet:
        """Read the data set.

        Raises:
            FileNotFoundError: If files are missing; says which to put where.
            ValueError: If a file is corrupt, truncated or of another kind.
        """


def _check_source(name: str, cls: object) -> None:
    if not (isinstance(cls, type) and issubclass(cls, DataSource) and getattr(cls, "name", None) == name):
        raise ValueError(f"a data set is a subclass of DataSource whose name is {name!r}, got {cls!r}")


SOURCES = Registry[type[DataSource]]("data set", "cophenet.data", "cophenet.data", _check_source)


def register_source(cls: _Source) -> _Source:
    """Class decorator: make a data source available under its `name`.

    Other packages do not need it: they declare an entry point of the group `cophenet.data`.

    Raises:
        ValueError: If there is a data source with that name.

    Example:
        >>> from cophenet.data import Digits
        >>> register_source(Digits)
        Traceback (most recent call last):
        ValueError: a data set named 'digits' exists already
    """
    SOURCES.register(cls.name)(cls)
    return cls


def source_names() -> tuple[str, ...]:
    """Names of all data sets, sorted.

    Example:
        >>> source_names()[:3]
        ('cifar10', 'cifar100', 'digits')
    """
    return tuple(sorted(SOURCES.names()))


def source_summaries() -> dict[str, str]:
    """Names of all data sets, with a line about each.

    Example:
        >>> source_summaries()["digits"]
        '8 x 8 digits of scikit-learn by shape; needs no files'
    """
    return {name: cls.summary for name, cls in sorted(SOURCES.members().items())}


def create_source(name: str, **options: Any) -> DataSource:
    """Create a data source by name.

    Args:
        name: One of `source_names`.
        **options: Arguments of the source.

    Raises:
        ValueError: If the name or an option is unknown, or an option is invalid or missing.

    Example:
        >>> len(create_source("digits").load(None).samples("train"))
        1347
        >>> create_source("digit")
        Traceback (most recent call last):
        ValueError: data must be one of cifar10, ..., got 'digit'; did you mean 'digits'?
    """
    check_choice("data", name, source_names())
    cls = SOURCES.get(name)
    check_options(f"data {name!r}", cls, options)
    arguments = inspect.signature(cls).parameters.values()
    needed = [a.name for a in arguments if a.default is a.empty and a.kind is a.POSITIONAL_OR_KEYWORD]
    missing = [option for option in needed if option not in options]
    if missing:
        raise ValueError(f"data {name!r} needs the option {', '.join(missing)}")
    return cls(**options)
