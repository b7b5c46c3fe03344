"""Source and target classes that share their coarse classes and differ in the fine ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cophenet.tree.distances import ClassList, to_labels
from cophenet.tree.parts import IntArray, is_number, read_only

if TYPE_CHECKING:
    from cophenet.tree.hierarchy import Hierarchy


@dataclass(frozen=True, eq=False)
class Split:
    """The two halves of a split tree.

    Attributes:
        source: Tree of the source classes.
        target: Tree of the target classes.
        source_labels: Old label to label in ``source``, -1 where absent, shape (num_classes,).
        target_labels: Old label to label in ``target``, -1 where absent, shape (num_classes,).
    """

    source: Hierarchy
    target: Hierarchy
    source_labels: IntArray
    target_labels: IntArray


def split_classes(
    tree: Hierarchy,
    fraction: float,
    level: int | str | None,
    source: ClassList | None,
    target: ClassList | None,
) -> Split:
    """See `Hierarchy.source_target_split`."""
    if (source is None) != (target is None):
        raise ValueError("source and target must be given together")
    if source is not None:
        if level is not None:
            raise ValueError(f"level {level!r} is for the rule and cannot be given with source and target")
        sides = to_labels(tree, source), to_labels(tree, target)
        both = np.intersect1d(*sides)
        if both.size:
            raise ValueError(f"source and target must not share classes, both hold {tree.classes[both[0]]!r}")
    else:
        sides = _by_rule(tree, fraction, level)
    return Split(tree.subset(sides[0]), tree.subset(sides[1]), *(_label_map(tree, side) for side in sides))


def _label_map(tree: Hierarchy, labels: IntArray) -> IntArray:
    result = np.full(tree.num_classes, -1, dtype=np.int64)
    result[labels] = np.arange(len(labels))
    return read_only(result)


def _by_rule(tree: Hierarchy, fraction: float, level: int | str | None) -> tuple[IntArray, IntArray]:
    if not (is_number(fraction) and 0 < fraction < 1):
        raise ValueError(f"fraction must lie between 0 and 1, got {fraction!r}")
    # 1 for source nodes, 2 for target nodes, 0 for neither; inherited by the classes below.
    side = np.zeros(tree.num_nodes, dtype=np.int64)
    below = np.isin(tree.parents, tree.nodes_at(level)) if level is not None else tree.heights == 0
    for family in tree._siblings(np.flatnonzero(below)):
        # A fraction such as 0.29 has no exact float: 0.29 * 100 must still give 29.
        count = math.floor(fraction * len(family) + 1e-9)
        if 0 < count < len(family):
            for place, node in enumerate(family):
                side[node : node + tree.sizes[node]] = 2 if place < count else 1
    of_label = side[tree.leaves]
    if not of_label.any():
        raise ValueError(f"fraction {fraction} leaves no coarse class with a class on each side")
    return np.flatnonzero(of_label == 1), np.flatnonzero(of_label == 2)
