"""Depth variants of a tree: a level more, a level less."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from cophenet.tree.levels import depth_of, nodes_at
from cophenet.tree.names import tell_apart
from cophenet.tree.parts import Parts, check_positive, default_level_names

if TYPE_CHECKING:
    from cophenet.tree.hierarchy import Hierarchy


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
        tree: This tree.
        level: The level whose nodes are grouped: depth or name.
        groups: The members of each new group, by name, or by path where names repeat; members must share
            their parent and every node of the level must be in one group. Or sizes: the children of each
            parent, sorted by name, are cut into runs of these sizes, over and over, and a group is called by
            its members' names joined with ``+``.
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
    check_positive("weight", weight)
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
    :meth:`insert_level`. Classes of that level stay where they are. An inner node that would share its name
    with a new sibling is called by the vanished parent and itself, as in ``pet/other``, with a number where
    that name is taken, as in ``pet/other (2)``.

    Args:
        tree: This tree.
        level: The level to remove: depth or name, not the deepest. (To make it the last one, see
            :meth:`cut`.)

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
    parents = [-1, *place[above[keep[1:]]].tolist()]
    old = [tree.names[node] for node in keep]
    longer = [f"{tree.names[tree.parents[node]]}/{tree.names[node]}" for node in keep]
    parts = Parts(
        parents=parents,
        names=tell_apart(parents, old, set(parents), longer),
        weights=tree.edge_weights[keep].tolist(),
        classes=tree.classes,
        level_names=None if default else names,
    )
    return type(tree)(parts)
