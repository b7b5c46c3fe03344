"""The levels of a tree: the nodes of equal depth, known by depth or by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cophenet._common.checks import check_choice, wrong_argument
from cophenet.tree.names import free_names
from cophenet.tree.parts import IntArray, Parts, sealed

if TYPE_CHECKING:
    from cophenet.tree.hierarchy import Hierarchy


def depth_of(tree: Hierarchy, level: int | str) -> int:
    """Depth of a level given by depth (1 is just below the root) or by name."""
    if isinstance(level, str):
        check_choice("level", level, tree.level_names)
        return tree.level_names.index(level) + 1
    if isinstance(level, bool) or not isinstance(level, (int, np.integer)) or not 1 <= level <= tree.height:
        raise wrong_argument(
            "level", f"must be a depth from 1 to {tree.height} or a level name, got {level!r}"
        )
    return int(level)


def path(tree: Hierarchy, node: int) -> tuple[str, ...]:
    """Names on the way from below the root down to a node; empty for the root.

    Example:
        >>> from cophenet.tree import Hierarchy
        >>> tree = Hierarchy.from_paths([("animal", "cat"), ("animal", "dog")])
        >>> tree.path(tree.leaves[1])
        ('animal', 'dog')
    """
    steps = []
    above = tree.node(node)
    while above > 0:
        steps.append(tree.names[above])
        above = int(tree.parents[above])
    return tuple(reversed(steps))


def node(tree: Hierarchy, where: int | str | Sequence[str]) -> int:
    """Index of a node.

    Args:
        tree: This tree.
        where: Its name, if no other node has that name; its path (names from below the root); or the index
            itself.

    Example:
        >>> from cophenet.tree import Hierarchy
        >>> tree = Hierarchy.from_paths([("animal", "cat"), ("vehicle", "car")])
        >>> tree.node("vehicle"), tree.node(("vehicle", "car"))
        (3, 4)
    """
    if isinstance(where, (int, np.integer)) and not isinstance(where, bool):
        if not 0 <= where < tree.num_nodes:
            raise ValueError(f"node must be an index from 0 to {tree.num_nodes - 1}, got {where}")
        return int(where)
    if isinstance(where, str):
        found = [index for index, name in enumerate(tree.names) if name == where]
        if len(found) != 1:
            problem = (
                "is not in the tree" if not found else f"is the name of {len(found)} nodes; give its path"
            )
            raise ValueError(f"node {where!r} {problem}")
        return found[0]
    if not isinstance(where, (Sequence, np.ndarray)):
        raise ValueError(f"node must be an index, a name or a path, got {where!r}")
    index = 0
    for name in where:
        end = index + int(tree.sizes[index])
        child = index + 1
        while child < end and tree.names[child] != name:
            child += int(tree.sizes[child])
        if child >= end:
            raise ValueError(
                f"node {tuple(where)!r} is not in the tree: {tree.names[index]!r} has no child {name!r}"
            )
        index = child
    return index


def nodes_at(tree: Hierarchy, level: int | str) -> IntArray:
    """The nodes of a level, in tree order.

    Args:
        tree: This tree.
        level: Depth, 1 just below the root, or level name.

    Returns:
        Node indices, shape (nodes of the level,).

    Example:
        >>> from cophenet.tree import Hierarchy
        >>> tree = Hierarchy.from_paths([("animal", "cat"), ("vehicle", "car")])
        >>> [tree.names[node] for node in tree.nodes_at(1)]
        ['animal', 'vehicle']
    """
    return np.flatnonzero(tree.depths == depth_of(tree, level))


def ancestors(tree: Hierarchy, level: int | str) -> IntArray:
    """The ancestor of each class at a level; a class above that level stands for itself.

    Args:
        tree: This tree.
        level: Depth, 1 just below the root, or level name.

    Returns:
        Node indices in label order, shape (num_classes,).

    Example:
        >>> from cophenet.tree import Hierarchy
        >>> tree = Hierarchy.from_paths([("animal", "cat"), ("vehicle", "car"), ("animal", "dog")])
        >>> [tree.names[node] for node in tree.ancestors("level1")]
        ['animal', 'vehicle', 'animal']
    """
    depth = depth_of(tree, level)
    # Depth first, the ancestor at a depth is the last node of that depth seen so far.
    latest = np.maximum.accumulate(np.where(tree.depths == depth, np.arange(tree.num_nodes), 0))
    return np.where(tree.depths[tree.leaves] < depth, tree.leaves, latest[tree.leaves])


def cut(tree: Hierarchy, level: int | str) -> tuple[Hierarchy, IntArray]:
    """The tree above a level, whose nodes become the classes.

    Edge weights are kept, so distances between the new classes are those between the same nodes in this
    tree. The new classes are in the order of their smallest old label. Where several of them share a name,
    each of these is called by its path, joined with ``/``, with a number where that name is taken, as in
    ``animal/other (2)``.

    Args:
        tree: This tree.
        level: Depth, 1 just below the root, or level name. A class above the level stays a class.

    Returns:
        The cut tree and the map from old labels to new labels, shape (num_classes,).

    Example:
        >>> from cophenet.tree import Hierarchy
        >>> tree = Hierarchy.from_paths([("animal", "cat"), ("vehicle", "car"), ("animal", "dog")])
        >>> coarse, labels = tree.cut(1)
        >>> coarse.classes, labels
        (('animal', 'vehicle'), array([0, 1, 0]))
    """
    depth = depth_of(tree, level)
    nodes, first, inverse = np.unique(ancestors(tree, level), return_index=True, return_inverse=True)
    by_label = np.argsort(first)
    new_label = np.empty_like(by_label)
    new_label[by_label] = np.arange(len(by_label))
    names = _names_of_classes(tree, nodes.tolist())
    keep = np.flatnonzero(tree.depths <= depth)
    place = np.cumsum(tree.depths <= depth) - 1
    parts = Parts(
        parents=[-1, *place[tree.parents[keep[1:]]].tolist()],
        names=[names[node] for node in keep],
        weights=tree.edge_weights[keep].tolist(),
        classes=[names[node] for node in nodes[by_label]],
        level_names=tree.level_names[:depth],
    )
    return type(tree)(parts), sealed(new_label[inverse])


def _names_of_classes(tree: Hierarchy, nodes: list[int]) -> list[str]:
    """The names of all nodes where some become classes, which must differ from each other."""
    names = list(tree.names)
    counts = Counter(names[node] for node in nodes)
    alike = [node for node in nodes if counts[names[node]] > 1]
    # A class above the level may have siblings that stay inner nodes, whose names are taken too.
    nearby = np.isin(tree.parents, tree.parents[alike])
    nearby[nodes] = False
    taken = [names[node] for node in np.flatnonzero(nearby)]
    taken += [names[node] for node in nodes if counts[names[node]] == 1]
    paths = ["/".join(tree.path(node)) for node in alike]
    for node, name in zip(alike, free_names(paths, taken), strict=True):
        names[node] = name
    return names
