"""Data sets by name."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from cophenet._common.checks import check_choice, check_options
from cophenet.data.base import DataSet, Requirement

__all__ = ["DataSource", "create_source", "register_source", "source_names", "source_summaries"]

_REGISTRY: dict[str, type[DataSource]] = {}
_Source = TypeVar("_Source", bound="type[DataSource]")


class DataSource(ABC):
    """Where a data set comes from and how it is read; options are typed constructor arguments.

    Attributes:
        name: The name it is registered under.
        summary: One line for listings.
    """

    name: ClassVar[str]
    summary: ClassVar[str]

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
