"""Checks of the tree and of options, so that every objective refuses one in the same words."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeVar

from cophenet._common.checks import wrong_argument
from cophenet.tree import Hierarchy

__all__ = ["check_flag", "check_levels", "check_pair"]

_Value = TypeVar("_Value")


def check_levels(objective: str, tree: Hierarchy, reason: str) -> None:
    """Refuse a tree without a level above its classes."""
    if tree.height < 2:
        raise ValueError(f"objective {objective!r} cannot use a tree of one level: {reason}")


def check_flag(argument: str, value: bool) -> None:
    """Refuse what is neither True nor False.

    Example:
        >>> check_flag("normalize", "no")
        Traceback (most recent call last):
        ValueError: normalize must be True or False, got 'no'
    """
    if not isinstance(value, bool):
        raise wrong_argument(argument, f"must be True or False, got {value!r}")


def check_pair(argument: str, values: Collection[_Value], what: str) -> tuple[_Value, _Value]:
    """The two values; refuse what is not a pair.

    Example:
        >>> check_pair("margins", 0.2, "two numbers")
        Traceback (most recent call last):
        ValueError: margins must be two numbers, got 0.2
    """
    if not isinstance(values, Collection) or isinstance(values, (str, Mapping, set)) or len(values) != 2:
        raise wrong_argument(argument, f"must be {what}, got {values!r}")
    first, second = values
    return first, second
