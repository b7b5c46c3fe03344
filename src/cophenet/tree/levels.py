"""The levels of a tree: the nodes of equal depth, identified by depth or by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from cophenet._common.checks import check_choice, wrong_argument
from cophenet.tree.names import class_names, tell_apart
from cophenet.tree.nodes import Nodes
from cophenet.tree.parts import IntArray, Parts, check_positive, default_level_names, read_only

if TYPE_CHECKING:
    from typing_extensions import Self


class Levels(Nodes):
    """Queries about the levels of a tree, and methods that add or remove a level."""

    def depth_of(self, level: int | str) -> int:
        """Depth of a level given by depth (1 is just below the root) or by name.

        Example:
            >>> from cophenet.tree import Hierarchy
            >>> Hierarchy.from_paths([("animal", "cat"), ("animal", "dog")]).depth_of("level2")
            2
        """
        if isinstance(level, str):
            check_choice("level", level, self.level_names)
            return self.level_names.index(level) + 1
        whole = isinstance(level, (int, np.integer)) and not isinstance(level, bool)
        if not whole or not 1 <= level <= self.height:
            raise wrong_argument(
                "level", f"must be a depth from 1 to {self.height} or a level name, got {level!r}"
            )
        return int(level)

    def nodes_at(self, level: int | str) -> IntArray:
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
        return np.flatnonzero(self.depths == self.depth_of(level))

    def headline_levels(self) -> tuple[str, ...]:
        """Names of at most two levels above the classes that represent the coarse ones, the coarsest first.

        Candidates are the levels that group classes and have more groups than the level above. If there are
        more than two, the second and the fourth (or last) are returned; empty if there are none.

        Example:
            >>> from cophenet.tree import Hierarchy
            >>> paths = ["a/b/c/d/1", "a/b/c/e/2", "a/b/f/3", "a/g/4", "h/5"]
            >>> Hierarchy.from_paths(paths, sep="/").headline_levels()
            ('level2', 'level3')
        """
        sizes = [len(np.unique(self.ancestors(name))) for name in self.level_names]
        above = [
            name
            for name, size, before in zip(self.level_names, sizes, [1, *sizes], strict=False)
            if before < size < self.num_classes
        ]
        return tuple(above) if len(above) <= 2 else (above[1], above[min(3, len(above) - 1)])

    def summary_levels(self) -> tuple[str, ...]:
        """Names of the levels that a short summary of results shows: `headline_levels`, then the deepest.

        Example:
            >>> from cophenet.tree import Hierarchy
            >>> Hierarchy.from_paths(["animal/cat", "animal/dog", "car/van"], sep="/").summary_levels()
            ('level1', 'level2')
        """
        return *self.headline_levels(), self.level_names[-1]

    def ancestors(self, level: int | str) -> IntArray:
        """The ancestor of each class at a level; a class above that level is its own ancestor.

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
        depth = self.depth_of(level)
        # In depth-first order, the ancestor at a depth is the last node of that depth seen so far.
        latest = np.maximum.accumulate(np.where(self.depths == depth, np.arange(self.num_nodes), 0))
        return np.where(self.depths[self.leaves] < depth, self.leaves, latest[self.leaves])

    def cut(self, level: int | str) -> tuple[Self, IntArray]:
        """The tree above a level, whose nodes become the classes.

        Edge weights do not change, so distances between the new classes equal those of the same nodes in this
        tree. The new classes are in the order of their smallest old label. Where several of them share a
        name, each of these is named by its path, joined with ``/``, with a number where that name is taken,
        as in ``animal/other (2)``.

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
        depth = self.depth_of(level)
        nodes, first, inverse = np.unique(self.ancestors(level), return_index=True, return_inverse=True)
        by_label = np.argsort(first)
        new_label = np.empty_like(by_label)
        new_label[by_label] = np.arange(len(by_label))
        names = class_names(self.parents.tolist(), self.names, nodes.tolist())
        keep = np.flatnonzero(self.depths <= depth)
        place = np.cumsum(self.depths <= depth) - 1
        parts = Parts(
            parents=[-1, *place[self.parents[keep[1:]]].tolist()],
            names=[names[node] for node in keep],
            weights=self.edge_weights[keep].tolist(),
            classes=[names[node] for node in nodes[by_label]],
            level_names=self.level_names[:depth],
        )
        return type(self)(parts), read_only(new_label[inverse])

    def insert_level(
        self,
        level: int | str,
        groups: Mapping[str, Sequence[str | tuple[str, ...]]] | Sequence[int],
        *,
        name: str | None = None,
        weight: float = 1.0,
    ) -> Self:
        """A deeper tree, with a new level of groups just above a level.

        Args:
            level: The level whose nodes are grouped: depth or name.
            groups: The members of each new group, by name, or by path where names repeat; members must share
                their parent and every node of the level must be in one group. Or sizes: the children of each
                parent, sorted by name, are split into consecutive groups of these sizes, repeated in cycles,
                and a group is named by its members' names joined with ``+``.
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
        depth = self.depth_of(level)
        check_positive("weight", weight)
        if isinstance(groups, Mapping):
            made = _named_groups(self, depth, groups)
        else:
            made = list(_sized_groups(self, depth, groups))
        parents, names, weights = self.parents.tolist(), list(self.names), self.edge_weights.tolist()
        for group, members in made:
            for member in members:
                parents[member] = len(names)
            parents.append(int(self.parents[members[0]]))
            names.append(group)
            weights.append(weight)
        levels = list(self.level_names)
        if self.level_names == default_level_names(self.height):
            levels = list(default_level_names(self.height + 1))
            levels.pop(depth - 1)
        levels.insert(depth - 1, name if name is not None else f"level{depth}")
        return type(self)(Parts(parents, names, weights, self.classes, levels))

    def merge_level(self, level: int | str) -> Self:
        """A shallower tree: the inner nodes of a level are removed and their children move up.

        The edges above the removed nodes go too and all other edges keep their weights, so this undoes
        :meth:`insert_level`. Classes of that level stay where they are. An inner node that would share its
        name with a new sibling is named by the removed parent and itself, as in ``pet/other``, with a
        number where that name is taken, as in ``pet/other (2)``.

        Args:
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
        depth = self.depth_of(level)
        if depth == self.height:
            raise ValueError(
                f"level {level!r} holds classes only and cannot be merged; cut at the level above instead"
            )
        gone = (self.depths == depth) & (self.heights > 0)
        keep = np.flatnonzero(~gone)
        above = np.where(gone[self.parents], self.parents[self.parents], self.parents)
        place = np.cumsum(~gone) - 1
        names = self.level_names[: depth - 1] + self.level_names[depth:]
        default = self.level_names == default_level_names(self.height)
        parents = [-1, *place[above[keep[1:]]].tolist()]
        old = [self.names[node] for node in keep]
        longer = [f"{self.names[self.parents[node]]}/{self.names[node]}" for node in keep]
        parts = Parts(
            parents=parents,
            names=tell_apart(parents, old, set(parents), longer),
            weights=self.edge_weights[keep].tolist(),
            classes=self.classes,
            level_names=None if default else names,
        )
        return type(self)(parts)


def _named_groups(
    tree: Levels, depth: int, groups: Mapping[str, Sequence[str | tuple[str, ...]]]
) -> list[tuple[str, list[int]]]:
    at_level = tree.nodes_at(depth).tolist()
    level, left = set(at_level), set(at_level)
    made = []
    for group, members in groups.items():
        if isinstance(members, str) or not members:
            raise ValueError(f"groups: {group!r} must list its members, got {members!r}")
        nodes = []
        for member in members:
            named = isinstance(member, str)
            matches = tree._lookup.find(member, level.__contains__) if named else [tree.node(member)]
            if len(matches) != 1 or matches[0] not in left:
                problem = "is not one node" if len(matches) != 1 else "is grouped twice or elsewhere"
                raise ValueError(
                    f"groups: {member!r} in {group!r} {problem} of level {tree.level_names[depth - 1]!r}"
                )
            left.remove(matches[0])
            nodes.append(matches[0])
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


def _sized_groups(tree: Levels, depth: int, sizes: Sequence[int]) -> Iterator[tuple[str, list[int]]]:
    if not sizes or any(isinstance(size, bool) or not isinstance(size, int) or size < 1 for size in sizes):
        raise ValueError(f"groups must be a mapping or a list of positive sizes, got {sizes!r}")
    for family in tree._siblings(tree.nodes_at(depth)):
        start = turn = 0
        while start < len(family):
            members = family[start : start + sizes[turn % len(sizes)]]
            yield "+".join(tree.names[node] for node in members), members
            start += len(members)
            turn += 1
