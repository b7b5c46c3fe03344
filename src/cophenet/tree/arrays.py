"""The arrays of a tree: those it is made of, and those that follow from them, each computed once."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from cophenet.tree.parts import FloatArray, IntArray, Parts, canonical, edge_depths, read_only


class TreeArrays:
    """The nodes of a tree in canonical order, and what follows from them; all arrays are read-only.

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
        """Check the parts and put them in order; users call the ``from_...`` methods instead."""
        vars(self).update(vars(canonical(parts)))

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

        The subtree of a node is the run of nodes that starts with it.
        """
        result = [1] * self.num_nodes
        for node, parent in zip(range(self.num_nodes - 1, 0, -1), self.parents[:0:-1].tolist(), strict=True):
            result[parent] += result[node]
        return read_only(np.array(result, dtype=np.int64))

    def _parts(self) -> Parts:
        """What another tree can be made from."""
        return Parts(
            self.parents.tolist(), self.names, self.edge_weights.tolist(), self.classes, self.level_names
        )

    @cached_property
    def _labels(self) -> dict[str, int]:
        """Label of each class by its name."""
        return {name: label for label, name in enumerate(self.classes)}

    @cached_property
    def _first_leaf(self) -> IntArray:
        """Place in tree order of the first class at or below each node, shape (num_nodes,)."""
        return read_only(np.searchsorted(np.sort(self.leaves), np.arange(self.num_nodes)))

    @cached_property
    def _leaf_gaps(self) -> IntArray:
        """Lowest common ancestor of each leaf and the next one in tree order, shape (num_classes,).

        The last leaf has no right neighbour.
        """
        # The node after a leaf hangs on the lowest common ancestor of that leaf and the next leaf.
        return read_only(np.append(self.parents[np.sort(self.leaves)[:-1] + 1], self.num_nodes))

    @cached_property
    def _gap_minima(self) -> IntArray:
        """Lowest common ancestors of runs of leaves: entry (j, i) is that of the 2**j gaps from gap i on.

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


def lowest_common_ancestors(library: Any, first_leaf: Any, minima: Any, one: Any, other: Any) -> Any:
    """Lowest common ancestors of pairs of nodes, of any shapes that broadcast; in numpy or torch.

    Of all nodes between two leaves their common ancestor has the smallest number, because nodes are numbered
    depth first. Two runs of 2**row gaps cover all gaps in between, so that two look-ups in the table of
    minima give it (Bender and Farach-Colton 2000, doi:10.1007/10719839_9, section 3).

    Args:
        library: The module numpy or torch, whose arrays the others are.
        first_leaf: (num_nodes,) of the tree.
        minima: `gap_minima` of the tree.
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
