"""The tree that a recipe trains with, derived from the tree of its data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cophenet._common.checks import check_choice, nearest_hint, wrong_argument
from cophenet.tree import AmbiguousNameError, Hierarchy

if TYPE_CHECKING:
    from cophenet.recipes.settings import TreeSettings

__all__ = ["shaped_tree", "target_distances"]

_SHOWN = 25


def shaped_tree(tree: Hierarchy, settings: TreeSettings) -> Hierarchy:
    """Change the levels, edge weights and positions of classes in a data set's tree as set in a recipe.

    The classes keep their labels. Levels are merged first and classes are shuffled last, so that weights
    refer to the levels that are used in training.

    Raises:
        ValueError: If the tree has no such level or node.

    Example:
        >>> from cophenet.recipes.settings import TreeSettings
        >>> tree = Hierarchy.from_paths([("pet", "cat"), ("pet", "dog"), ("car", "bus"), ("car", "van")])
        >>> shaped_tree(tree, TreeSettings(level_weights={1: 2.0})).condensed([0, 1, 2])
        array([2., 6., 6.])
    """
    for level in settings.merge_levels:
        if tree.height == 1:
            raise wrong_argument(
                "tree.merge_levels", f"must leave the classes, the only level, got {level!r}"
            )
        check_choice("tree.merge_levels", level, tree.level_names[:-1])
        tree = tree.merge_level(level)
    for depth_or_name in settings.level_weights:
        _check_level(tree, depth_or_name)
    if settings.level_weights:
        tree = tree.with_level_weights(settings.level_weights)  # type: ignore[arg-type]
    for node, factor in settings.node_weights.items():
        _check_node(tree, node, "tree.node_weights")
        tree = tree.with_weights(node, factor)
    return tree if settings.shuffle_seed is None else _shuffled(tree, settings.shuffle_seed)


def target_distances(tree: Hierarchy, factors: Mapping[str, float]) -> NDArray[np.float64] | None:
    """Distances of the classes in a tree, with factors on distances between classes below some nodes.

    The result is not necessarily a tree distance. It is used in the study of subtree weights in appendix H of
    the OT-CPCC paper (arXiv:2410.03052).

    Args:
        tree: The label tree.
        factors: Name or path of a node -> factor of the distances between classes below it.

    Returns:
        (k, k); None without factors, where the tree distances are used.

    Raises:
        ValueError: If the tree has no such node.

    Example:
        >>> tree = Hierarchy.from_paths([("pet", "cat"), ("pet", "dog"), ("car", "bus"), ("car", "van")])
        >>> target_distances(tree, {"pet": 4.0})[:3, :3]
        array([[0., 8., 4.],
               [8., 0., 4.],
               [4., 4., 0.]])
    """
    if not factors:
        return None
    target: NDArray[np.float64] = tree.distances().copy()
    for node, factor in factors.items():
        _check_node(tree, node, "objective.cpcc.inside_factors")
        place = tree.node(node)
        members = tree.ancestors(int(tree.depths[place])) == place
        target[np.ix_(members, members)] *= factor
    return target


def _check_level(tree: Hierarchy, level: int | str) -> None:
    known = level in tree.level_names if isinstance(level, str) else 1 <= level <= tree.height
    if not known:
        names = ", ".join(tree.level_names)
        raise wrong_argument(
            "tree.level_weights",
            f"must be by depth, 1 to {tree.height}, or by level, {names}, "
            f"got {level!r}{nearest_hint(level, tree.level_names)}",
        )


def _check_node(tree: Hierarchy, node: str, setting: str) -> None:
    """Raise unless the text is the name or path of a single node with others below it."""
    groups = [name for name, height in zip(tree.names, tree.heights, strict=True) if height > 0]
    try:
        if tree.heights[tree.node(node)] > 0:
            return
        hint = nearest_hint(node, groups)
    except AmbiguousNameError as error:
        hint = f"; {error}"
    except ValueError:
        hint = nearest_hint(node, groups)
    some = ", ".join(groups[:_SHOWN]) + ", ..." * (len(groups) > _SHOWN)
    raise wrong_argument(setting, f"must be by a node that has others below it ({some}), got {node!r}{hint}")


def _shuffled(tree: Hierarchy, seed: int) -> Hierarchy:
    """A tree of the same shape with the classes in random positions."""
    order = np.random.default_rng(seed).permutation(tree.num_classes)
    names = list(tree.names)
    for leaf, label in zip(tree.leaves.tolist(), order.tolist(), strict=True):
        names[leaf] = tree.classes[label]
    return Hierarchy.from_parents(
        tree.parents, names, tree.edge_weights, tree.classes, level_names=tree.level_names
    )
