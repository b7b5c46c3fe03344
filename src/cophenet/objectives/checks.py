"""Checks of the tree, so that every objective refuses one in the same words."""

from __future__ import annotations

from cophenet.tree import Hierarchy

__all__ = ["check_levels"]


def check_levels(objective: str, tree: Hierarchy, reason: str) -> None:
    """Refuse a tree without a level above its classes."""
    if tree.height < 2:
        raise ValueError(f"objective {objective!r} cannot use a tree of one level: {reason}")
