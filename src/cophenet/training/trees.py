"""The tree a recipe trains with, made from the one of its data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cophenet.tree import Hierarchy

if TYPE_CHECKING:
    from cophenet.training.settings import TreeSettings

__all__ = ["shaped_tree"]


def shaped_tree(tree: Hierarchy, settings: TreeSettings) -> Hierarchy:
    """The data set's tree with the levels, edge weights and places of the classes that a recipe asks for.

    The classes keep their labels. Levels are merged first and classes change places last, so weights are
    those of the levels that training sees.

    Raises:
        ValueError: If the tree has no such level or node.

    Example:
        >>> from cophenet.training.settings import TreeSettings
        >>> tree = Hierarchy.from_paths([("pet", "cat"), ("pet", "dog"), ("car", "bus"), ("car", "van")])
        >>> shaped_tree(tree, TreeSettings(level_weights={1: 2.0})).condensed([0, 1, 2])
        array([2., 6., 6.])
    """
    for level in settings.merge_levels:
        tree = tree.merge_level(level)
    if settings.level_weights:
        tree = tree.with_level_weights(settings.level_weights)  # type: ignore[arg-type]
    for node, factor in settings.node_weights.items():
        tree = tree.with_weights(node, factor)
    return tree if settings.shuffle_seed is None else _shuffled(tree, settings.shuffle_seed)


def _shuffled(tree: Hierarchy, seed: int) -> Hierarchy:
    """A tree of the same shape in which every class has the place of another."""
    order = np.random.default_rng(seed).permutation(tree.num_classes)
    names = list(tree.names)
    for leaf, label in zip(tree.leaves.tolist(), order.tolist(), strict=True):
        names[leaf] = tree.classes[label]
    return Hierarchy.from_parents(
        tree.parents, names, tree.edge_weights, tree.classes, level_names=tree.level_names
    )
