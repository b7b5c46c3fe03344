"""The one dial: how much the tree decides, from 0 (not at all) to 1 (as far as possible)."""

from __future__ import annotations

import numbers
from typing import NamedTuple

from cophenet._common.checks import wrong_argument

__all__ = ["AUTO", "TreeWeights", "tree_weights"]

AUTO = 0.3


class TreeWeights(NamedTuple):
    """Weights of the terms of the loss that know the tree.

    Attributes:
        levels: Of the cross entropies of L levels above the classes, each divided by the root of L.
        cpcc: Of 1 - CPCC of the class means.
    """

    levels: float
    cpcc: float


def tree_weights(strength: object) -> TreeWeights:
    """The weights that a setting of the dial stands for.

    Args:
        strength: From 0 to 1; "auto" is 0.3.

    Raises:
        ValueError: If it is something else.

    Example:
        >>> tree_weights(0), tree_weights("auto")
        (TreeWeights(levels=0.0, cpcc=0.0), TreeWeights(levels=0.5, cpcc=0.1))
        >>> tree_weights(2)
        Traceback (most recent call last):
        ValueError: tree_strength must be a number from 0 to 1 or 'auto', got 2
    """
    value = AUTO if isinstance(strength, str) and strength == "auto" else strength
    if not isinstance(value, numbers.Real) or isinstance(value, bool) or not 0 <= float(value) <= 1:
        raise wrong_argument("tree_strength", f"must be a number from 0 to 1 or 'auto', got {strength!r}")
    share = float(value) / AUTO
    return TreeWeights(min(1.0, 0.5 * share), 0.1 * share**3)
