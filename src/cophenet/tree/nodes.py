"""The nodes of a tree: by name, path or number, and how they are related."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from cophenet.tree.arrays import TreeArrays, lowest_common_ancestors
from cophenet.tree.lookup import AmbiguousNameError, Lookup, last_names
from cophenet.tree.parts import IntArray


class Nodes(TreeArrays):
    """What a tree says of single nodes."""

    @cached_property
    def _lookup(self) -> Lookup:
        return Lookup(self.parents.tolist(), self.names, self.last_names)

    @cached_property
    def last_names(self) -> tuple[str, ...]:
        """Last name of each node on its path: ``x`` for a class called ``a/x`` because other classes are x.

        Example:
            >>> from cophenet.tree import Hierarchy
            >>> tree = Hierarchy.from_paths([("computer", "hardware"), ("garden", "hardware")])
            >>> tree.last_names
            ('root', 'computer', 'hardware', 'garden', 'hardware')
        """
        return last_names(self.parents.tolist(), self.names, self.leaves.tolist())

    def path(self, node: int | str | Sequence[str]) -> tuple[str, ...]:
        """Last names on the way from below the root down to a node; empty for the root.

        Args:
            node: Node, as for :meth:`node`.

        Example:
            >>> from cophenet.tree import Hierarchy
            >>> tree = Hierarchy.from_paths([("animal", "cat"), ("animal", "dog")])
            >>> tree.path(tree.leaves[1])
            ('animal', 'dog')
        """
        steps = []
        above = self.node(node)
        while above > 0:
            steps.append(self.last_names[above])
            above = int(self.parents[above])
        return tuple(reversed(steps))

    def node(self, where: int | str | Sequence[str]) -> int:
        """Index of a node.

        Args:
            where: Its name or last name, if no other node has that; its path, as names from below the root or
                as one string with ``/`` between them; or the index itself.

        Raises:
            ValueError: If there is no such node; an `AmbiguousNameError` that lists their paths if there are
                several.

        Example:
            >>> from cophenet.tree import Hierarchy
            >>> tree = Hierarchy.from_paths([("animal", "cat"), ("vehicle", "car")])
            >>> tree.node("vehicle"), tree.node("vehicle/car"), tree.node(("vehicle", "car"))
            (3, 4, 4)
        """
        if isinstance(where, (int, np.integer)) and not isinstance(where, bool):
            if not 0 <= where < self.num_nodes:
                raise ValueError(f"node must be an index from 0 to {self.num_nodes - 1}, got {where}")
            return int(where)
        if not isinstance(where, (str, Sequence, np.ndarray)):
            raise ValueError(f"node must be an index, a name or a path, got {where!r}")
        found = self._lookup.find(where)
        if not found and not isinstance(where, str):
            last, steps = self._lookup.walk(where)
            missing = f"{self.names[last]!r} has no child {where[steps]!r}"
            raise ValueError(f"node {tuple(where)!r} is not in the tree: {missing}")
        if not found:
            raise ValueError(f"node {where!r} is not in the tree")
        if len(found) > 1:
            paths = ("/".join(self.path(node)) for node in found)
            raise AmbiguousNameError(where, paths, len(found), "node", "nodes")
        return found[0]

    def index(self, name: str | Sequence[str]) -> int:
        """Label of a class.

        Args:
            name: Its name, its last name if no other class has that, or its path, as for :meth:`node`.

        Raises:
            ValueError: If there is no such class; an `AmbiguousNameError` that lists their paths if there are
                several.

        Example:
            >>> from cophenet.tree import Hierarchy
            >>> Hierarchy.from_paths([("animal", "cat"), ("animal", "dog")]).index("dog")
            1
            >>> tree = Hierarchy.from_paths([("computer", "hardware"), ("garden", "hardware")])
            >>> tree.index("garden/hardware")
            1
            >>> tree.index("hardware")
            Traceback (most recent call last):
            cophenet.tree.lookup.AmbiguousNameError: class 'hardware' is the name of 2 classes; give its ...
        """
        if isinstance(name, str) and name in self._labels:
            return self._labels[name]
        found: list[int] = []
        if isinstance(name, (str, list, tuple)):
            found = self._lookup.find(name, lambda node: bool(self.heights[node] == 0))
        if not found:
            raise ValueError(f"unknown class {name!r}; the tree has {list(self.classes[:3])!r}...")
        if len(found) > 1:
            raise AmbiguousNameError(
                name, (self.names[node] for node in found), len(found), "class", "classes"
            )
        return self._labels[self.names[found[0]]]

    def children(self, node: int | str | Sequence[str]) -> IntArray:
        """The children of a node, in tree order; none for a class.

        Args:
            node: Node, as for :meth:`node`.

        Returns:
            Node indices, shape (children,).

        Example:
            >>> from cophenet.tree import Hierarchy
            >>> tree = Hierarchy.from_paths([("animal", "cat"), ("animal", "dog"), ("vehicle", "car")])
            >>> [tree.names[child] for child in tree.children("animal")]
            ['cat', 'dog']
        """
        top = self.node(node)
        below = slice(top + 1, top + int(self.sizes[top]))
        return top + 1 + np.flatnonzero(self.parents[below] == top)

    def lca(self, one: int | str | Sequence[str], other: int | str | Sequence[str]) -> int:
        """Lowest common ancestor of two nodes, which is one of them where it is above the other.

        Args:
            one: Node, as for :meth:`node`.
            other: Node too.

        Example:
            >>> from cophenet.tree import Hierarchy
            >>> tree = Hierarchy.from_paths([("animal", "cat"), ("animal", "dog"), ("vehicle", "car")])
            >>> tree.names[tree.lca("cat", "dog")], tree.names[tree.lca("animal", "car")]
            ('animal', 'root')
        """
        nodes = np.array([self.node(one)]), np.array([self.node(other)])
        return int(lowest_common_ancestors(np, self._first_leaf, self._gap_minima, *nodes)[0])
