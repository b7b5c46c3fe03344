"""Which objectives there are, by name."""

from __future__ import annotations

from typing import TypeVar

from cophenet.objectives.base import Objective
from cophenet.transport import distance_names

__all__ = ["objective_names", "register", "registered"]

_REGISTRY: dict[str, type[Objective]] = {}
_Objective = TypeVar("_Objective", bound="type[Objective]")


def register(cls: _Objective) -> _Objective:
    """Class decorator: make an objective available under its `name`.

    Raises:
        ValueError: If the name is taken, by an objective or a class distance.

    Example:
        >>> from cophenet.objectives import Flat
        >>> register(Flat)
        Traceback (most recent call last):
        ValueError: an objective named 'flat' exists already
    """
    if cls.name in objective_names():
        raise ValueError(f"an objective named {cls.name!r} exists already")
    _REGISTRY[cls.name] = cls
    return cls


def registered(name: str) -> type[Objective] | None:
    """The class registered under a name; None for a class distance, which needs no class of its own."""
    return _REGISTRY.get(name)


def objective_names() -> tuple[str, ...]:
    """Names of all objectives: the registered ones, and cross entropy with CPCC for every class distance.

    Example:
        >>> import cophenet.objectives
        >>> {"flat", "hxe", "fastft"} <= set(objective_names())
        True
    """
    return (*_REGISTRY, *(name for name in distance_names() if name not in _REGISTRY))
