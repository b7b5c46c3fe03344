"""The nodes of a tree: cached arrays, lookup by name, path or index, and relations between nodes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from cophenet.tree.names import AmbiguousNameError, Lookup, last_names
from cophenet.tree.parts import FloatArray, IntArray, Parts, canonical, edge_depths, read_only


class Nodes:
    """The nodes of a tree in canonical order, and arrays derived from them; all arrays are read-only.

    Attributes:
        names: Name of each node; the root is node 0.
        parents: Parent of each node, before its children, -1 for the root, shape (num_nodes,), int64.
        edge_weights: Weight of the edge above each node, 0 for the root, shape (num_nodes,), float64.
        leaves: Node of each class in label order, shape (num_classes,), int64.
        level_names: Names of the levels, from depth 1 down.
    """

    names: tuple[str, ...]
    parents: IntArray
    edge_weights: FloatArray
    leaves: IntArray
    level_names: tuple[str, ...]

    def __init__(self, parts: Parts) -> None:
        """Check the parts and put them in canonical order; users call the ``from_...`` methods instead."""
        vars(self).update(canonical(parts))

    @property
    def num_nodes(self) -> int:
        """Number of nodes, the root included."""
        return len(self.parents)

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return len(self.leaves)

    @property
    def num_levels(self) -> int:
        """Number of levels below the root, equal to the height."""
        return len(self.level_names)

    @property
    def height(self) -> int:
        """Largest depth of a class, in edges."""
        return len(self.level_names)

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """Class names in label order."""
        return tuple(self.names[leaf] for leaf in self.leaves.tolist())

    @cached_property
    def depths(self) -> IntArray:
        """Edges between the root and each node, shape (num_nodes,)."""
        return read_only(edge_depths(self.parents))

    @cached_property
    def weighted_depths(self) -> FloatArray:
        """Sum of the edge weights between the root and each node, shape (num_nodes,)."""
        result = self.edge_weights.tolist()
        for node, parent in enumerate(self.parents[1:].tolist(), start=1):
            result[node] += result[parent]
        return read_only(np.array(result))

    @cached_property
    def heights(self) -> IntArray:
        """Edges between each node and the deepest class below it, shape (num_nodes,)."""
        result = [0] * self.num_nodes
        for node, parent in zip(range(self.num_nodes - 1, 0, -1), self.parents[:0:-1].tolist(), strict=True):
            result[parent] = max(result[parent], result[node] + 1)
        return read_only(np.array(result, dtype=np.int64))

    @cached_property
    def sizes(self) -> IntArray:
        """Number of nodes in the subtree of each node, itself included, shape (num_nodes,).

        The subtree of a node is the contiguous range of nodes that starts with it.
        """
        result = [1] * self.num_nodes
        for node, parent in zip(range(self.num_nodes - 1, 0, -1), self.parents[:0:-1].tolist(), strict=True):
            result[parent] += result[node]
        return read_only(np.array(result, dtype=np.int64))

    @cached_property
    def class_order(self) -> IntArray:
        """Labels of the classes in tree order, as in a drawing of the tree, shape (num_classes,).

        Example:
            >>> from cophenet.tree import Hierarchy
            >>> Hierarchy.from_paths([("pet", "cat"), ("car", "van"), ("pet", "dog")]).class_order
            array([0, 2, 1])
        """
        return read_only(np.argsort(self.leaves))

    def _parts(self) -> Parts:
        """The parts of this tree, to make another tree from."""
        return Parts(
            self.parents.tolist(), self.names, self.edge_weights.tolist(), self.classes, self.level_names
        )

    @cached_property
    def _labels(self) -> dict[str, int]:
        """Label of each class by its name."""
        return {name: label for label, name in enumerate(self.classes)}

    @cached_property
    def _first_leaf(self) -> IntArray:
        """Position in tree order of the first class at or below each node, shape (num_nodes,)."""
        return read_only(np.searchsorted(np.sort(self.leaves), np.arange(self.num_nodes)))

    @cached_property
    def _leaf_gaps(self) -> IntArray:
        """Lowest common ancestor of each leaf and the next one in tree order, shape (num_classes,).

        The last leaf has no next one; its entry is num_nodes.
        """
        # The parent of the node after a leaf is the lowest common ancestor of that leaf and the next leaf.
        return read_only(np.append(self.parents[np.sort(self.leaves)[:-1] + 1], self.num_nodes))

    @cached_property
    def _gap_minima(self) -> IntArray:
        """Lowest common ancestors of runs of leaves: entry (j, i) covers the 2**j gaps from gap i on.

        Nodes are numbered depth first, so the lowest common ancestor of a run is the smallest of its gaps.
        Shape: (log2(num_classes) + 1 or less, num_classes).
        """
        gaps = self._leaf_gaps
        rows = max(1, (self.num_classes - 1).bit_length())
        result = np.tile(gaps, (rows, 1))
        for row in range(1, rows):
            half = 1 << (row - 1)
            np.minimum(result[row - 1, :-half], result[row - 1, half:], out=result[row, :-half])
        return read_only(result)

    @cached_property
    def _lookup(self) -> Lookup:
        return Lookup(self.parents.tolist(), self.names, self.last_names)

    @cached_property
    def last_names(self) -> tuple[str, ...]:
        """Last step of each node's path: ``x`` for a class named ``a/x`` because another class is named x.

        Example:
            >>> from cophenet.tree import Hierarchy
            >>> tree = Hierarchy.from_paths([("computer", "hardware"), ("garden", "hardware")])
            >>> tree.last_names
            ('root', 'computer', 'hardware', 'garden', 'hardware')
        """
        return last_names(self.parents.tolist(), self.names, self.leaves.tolist())

    def path(self, node: int | str | Sequence[str]) -> tuple[str, ...]:
        """Path of a node: the last names from below the root down to the node; empty for the root.

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
            cophenet.tree.names.AmbiguousNameError: class 'hardware' is the name of 2 classes; give its ...
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

    def _siblings(self, nodes: IntArray) -> list[list[int]]:
        """Group nodes, given in tree order, by parent; each group is sorted by name."""
        families: dict[int, list[int]] = {}
        for node in nodes.tolist():
            families.setdefault(int(self.parents[node]), []).append(node)
        return [sorted(family, key=self.names.__getitem__) for family in families.values()]

    def lca(self, one: int | str | Sequence[str], other: int | str | Sequence[str]) -> int:
        """Lowest common ancestor of two nodes; a node counts as an ancestor of itself.

        Args:
            one: Node, as for :meth:`node`.
            other: Node, likewise.

        Example:
            >>> from cophenet.tree import Hierarchy
            >>> tree = Hierarchy.from_paths([("animal", "cat"), ("animal", "dog"), ("vehicle", "car")])
            >>> tree.names[tree.lca("cat", "dog")], tree.names[tree.lca("animal", "car")]
            ('animal', 'root')
        """
        nodes = np.array([self.node(one)]), np.array([self.node(other)])
        return int(lowest_common_ancestors(np, self._first_leaf, self._gap_minima, *nodes)[0])


def lowest_common_ancestors(library: Any, first_leaf: Any, minima: Any, one: Any, other: Any) -> Any:
    """Lowest common ancestors of pairs of nodes, of any shapes that broadcast; in numpy or torch.

    Of all nodes between two leaves their common ancestor has the smallest number, because nodes are numbered
    depth first. Two runs of 2**row gaps cover all gaps in between, so that two lookups in the table of
    minima are enough (Bender and Farach-Colton 2000, doi:10.1007/10719839_9, section 3).

    Args:
        library: The module numpy or torch; the other arguments are its arrays.
        first_leaf: `Nodes._first_leaf` of the tree, (num_nodes,).
        minima: `Nodes._gap_minima` of the tree.
        one: First nodes.
        other: Second nodes.
    """
    nearest = library.minimum(one, other)
    a, b = first_leaf[one], first_leaf[other]
    low, gap = library.minimum(a, b), abs(a - b)
    # frexp is exact where log2 may round: 2**row <= gap < 2**(row + 1).
    exponent = library.frexp(library.asarray(gap, dtype=library.float64))[1]
    row = library.asarray(exponent, dtype=library.int64) - 1
    row = library.where(gap > 0, row, 0)
    end = library.where(gap > 0, low + gap - (1 << row), 0)
    between = library.minimum(minima[row, low], minima[row, end])
    return library.where(gap > 0, library.minimum(nearest, between), nearest)
