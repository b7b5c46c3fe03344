"""The levels of a tree: the nodes of equal depth, known by depth or by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from cophenet.tree.parts import IntArray, Parts, default_level_names, sealed

if TYPE_CHECKING:
    from cophenet.tree.hierarchy import Hierarchy


def depth_of(tree: Hierarchy, level: int | str) -> int:
    """Depth of a level given by depth (1 is just below the root) or by name."""
    if isinstance(level, str):
        if level not in tree.level_names:
            raise ValueError(f"level must be one of {tree.level_names}, got {level!r}")
        return tree.level_names.index(level) + 1
    if isinstance(level, bool) or not isinstance(level, (int, np.integer)) or not 1 <= level <= tree.height:
        raise ValueError(f"level must be a depth from 1 to {tree.height} or a level name, got {level!r}")
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
        where: Its name, if no other node has that name; its path (names from below the root); or the index itself.

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
    index = 0
    for name in where:
        run = np.arange(index, index + tree.sizes[index])
        children = run[tree.parents[run] == index]
        matches = [child for child in children.tolist() if tree.names[child] == name]
        if not matches:
            raise ValueError(
                f"node {tuple(where)!r} is not in the tree: {tree.names[index]!r} has no child {name!r}"
            )
        index = matches[0]
    return index


def nodes_at(tree: Hierarchy, level: int | str) -> IntArray:
    """The nodes of a level, in tree order.

    Args:
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

    Edge weights are kept, so distances between the new classes are those between the same nodes in this tree. The
    new classes are in the order of their smallest old label. Where several of them share a name, each of these is
    called by its path, joined with ``/``.

    Args:
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
    names = list(tree.names)
    counts = Counter(names[node] for node in nodes)
    for node in nodes:
        if counts[tree.names[node]] > 1:
            names[node] = "/".join(tree.path(int(node)))
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


def insert_level(
    tree: Hierarchy,
    level: int | str,
    groups: Mapping[str, Sequence[str | tuple[str, ...]]] | Sequence[int],
    *,
    name: str | None = None,
    weight: float = 1.0,
) -> Hierarchy:
    """A deeper tree, with a new level of groups just above a level.

    Args:
        level: The level whose nodes are grouped: depth or name.
        groups: The members of each new group, by name, or by path where names repeat; members must share their
            parent and every node of the level must be in one group. Or sizes: the children of each parent, sorted
            by name, are cut into runs of these sizes, over and over, and a group is called by its members' names
            joined with ``+``.
        name: Name of the new level.
        weight: Weight of the edges above the new groups; all other edges keep theirs.

    Returns:
        The deeper tree, with the same classes.

    Example:
        >>> from cophenet.tree import Hierarchy
        >>> tree = Hierarchy.from_paths([("pet", name) for name in ("cat", "cow", "dog", "pig")])
        >>> print(tree.insert_level(2, {"small": ["cat", "dog"], "big": ["cow", "pig"]}))
        root
        └── pet
            ├── small
            │   ├── cat
            │   └── dog
            └── big
                ├── cow
                └── pig
        >>> tree.insert_level("level2", [1, 3], name="mid").level_names
        ('level1', 'mid', 'level3')
    """
    depth = depth_of(tree, level)
    if isinstance(groups, Mapping):
        made = _named_groups(tree, depth, groups)
    else:
        made = list(_sized_groups(tree, depth, groups))
    parents, names, weights = tree.parents.tolist(), list(tree.names), tree.edge_weights.tolist()
    for group, members in made:
        for member in members:
            parents[member] = len(names)
        parents.append(int(tree.parents[members[0]]))
        names.append(group)
        weights.append(weight)
    levels = list(tree.level_names)
    if tree.level_names == default_level_names(tree.height):
        levels = list(default_level_names(tree.height + 1))
        levels.pop(depth - 1)
    levels.insert(depth - 1, name if name is not None else f"level{depth}")
    return type(tree)(Parts(parents, names, weights, tree.classes, levels))


def _named_groups(
    tree: Hierarchy, depth: int, groups: Mapping[str, Sequence[str | tuple[str, ...]]]
) -> list[tuple[str, list[int]]]:
    at_level = nodes_at(tree, depth).tolist()
    by_name: dict[str, list[int]] = {}
    for node in at_level:
        by_name.setdefault(tree.names[node], []).append(node)
    left = set(at_level)
    made = []
    for group, members in groups.items():
        if isinstance(members, str) or not members:
            raise ValueError(f"groups: {group!r} must list its members, got {members!r}")
        nodes = []
        for member in members:
            found = by_name.get(member, []) if isinstance(member, str) else [tree.node(member)]
            if len(found) != 1 or found[0] not in left:
                problem = "is not one node" if len(found) != 1 else "is grouped twice or elsewhere"
                raise ValueError(
                    f"groups: {member!r} in {group!r} {problem} of level {tree.level_names[depth - 1]!r}"
                )
            left.remove(found[0])
            nodes.append(found[0])
        if len(set(tree.parents[nodes])) > 1:
            raise ValueError(
                f"groups: the members of {group!r} must share their parent, got {list(members)!r}"
            )
        made.append((group, nodes))
    if left:
        raise ValueError(
            f"groups leaves out {len(left)} nodes: {[tree.names[node] for node in sorted(left)[:3]]!r}"
        )
    return made


def _sized_groups(tree: Hierarchy, depth: int, sizes: Sequence[int]) -> Iterator[tuple[str, list[int]]]:
    if not sizes or any(isinstance(size, bool) or not isinstance(size, int) or size < 1 for size in sizes):
        raise ValueError(f"groups must be a mapping or a list of positive sizes, got {sizes!r}")
    siblings: dict[int, list[int]] = {}
    for node in nodes_at(tree, depth).tolist():
        siblings.setdefault(int(tree.parents[node]), []).append(node)
    for family in siblings.values():
        family.sort(key=tree.names.__getitem__)
        start = turn = 0
        while start < len(family):
            members = family[start : start + sizes[turn % len(sizes)]]
            yield "+".join(tree.names[node] for node in members), members
            start += len(members)
            turn += 1


def merge_level(tree: Hierarchy, level: int | str) -> Hierarchy:
    """A shallower tree: the inner nodes of a level vanish and their children move up to their parents.

    The edges above the vanished nodes go with them and all other edges keep their weights, so it undoes
    :meth:`insert_level`. Classes of that level stay where they are.

    Args:
        level: The level to remove: depth or name, not the deepest. (To make it the last one, see :meth:`cut`.)

    Returns:
        The shallower tree, with the same classes.

    Example:
        >>> from cophenet.tree import Hierarchy
        >>> tree = Hierarchy.from_paths([("animal", "pet", "cat"), ("animal", "wild", "fox")])
        >>> print(tree.merge_level(2))
        root
        └── animal
            ├── cat
            └── fox
    """
    depth = depth_of(tree, level)
    if depth == tree.height:
        raise ValueError(
            f"level {level!r} holds classes only and cannot be merged; cut at the level above instead"
        )
    gone = (tree.depths == depth) & (tree.heights > 0)
    keep = np.flatnonzero(~gone)
    above = np.where(gone[tree.parents], tree.parents[tree.parents], tree.parents)
    place = np.cumsum(~gone) - 1
    names = tree.level_names[: depth - 1] + tree.level_names[depth:]
    default = tree.level_names == default_level_names(tree.height)
    parts = Parts(
        parents=[-1, *place[above[keep[1:]]].tolist()],
        names=[tree.names[node] for node in keep],
        weights=tree.edge_weights[keep].tolist(),
        classes=tree.classes,
        level_names=None if default else names,
    )
    return type(tree)(parts)
