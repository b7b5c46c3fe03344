"""Lookup tables of a tree on a device: lowest common ancestors of pairs, and sums per level.

The only module of this package that needs torch; import it explicitly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cophenet._common.lazy import torch
from cophenet.tree.nodes import lowest_common_ancestors

if TYPE_CHECKING:
    from torch import Tensor

    from cophenet.tree.hierarchy import Hierarchy

__all__ = ["TreeTables", "add_columns", "tree_tables"]


@dataclass(frozen=True, eq=False)
class TreeTables:
    """Arrays of one tree on one device, of size O(nodes * log classes).

    Attributes:
        leaves: (C,) node of each class.
        depths: (nodes,) edges between the root and each node.
        heights: (nodes,) edges between each node and the deepest class below it.
        first_leaf: (nodes,) position in tree order of the first class at or below each node.
        minima: (log C, C) lowest common ancestors of runs of leaves, see `Nodes._gap_minima`.
        parents: (nodes,) parent of each node, 0 for the root.
        num_levels: Height of the tree.
        width: Number of nodes of all levels together; a class above a level counts there too.
    """

    leaves: Tensor
    depths: Tensor
    heights: Tensor
    first_leaf: Tensor
    minima: Tensor
    parents: Tensor
    num_levels: int
    width: int

    def common_ancestors(self, one: Tensor, other: Tensor) -> Tensor:
        """Lowest common ancestors of pairs of nodes, of any shapes that broadcast."""
        shared: Tensor = lowest_common_ancestors(torch, self.first_leaf, self.minima, one, other)
        return shared

    def class_ancestors(self, one: Tensor, other: Tensor) -> Tensor:
        """Lowest common ancestors of pairs of classes."""
        return self.common_ancestors(self.leaves[one], self.leaves[other])

    def lifts(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the nodes of each level, deepest first, and the positions of their parents one level up.

        A class above a level is among the nodes there too. The deepest level has the classes in label
        order; level 1 is the last one. Yields (groups,), (groups,).
        """
        nodes = self.leaves
        for depth in range(self.num_levels, 0, -1):
            above = torch.where(self.depths[nodes] >= depth, self.parents[nodes], nodes)
            parents, place = torch.unique(above, return_inverse=True)
            yield nodes, place
            nodes = parents

    def level_sums(self, values: Tensor, labels: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield for each level, deepest first, the sums per node and the position of each label's node.

        Shapes: (n, C), (n,) -> (n, groups), (n,) for each level.
        """
        for _, place in self.lifts():
            yield values, labels
            values = add_columns(values, place)
            labels = place[labels]


def add_columns(values: Tensor, place: Tensor) -> Tensor:
    """Sum columns that have the same place: (n, m), (m,) -> (n, largest place + 1)."""
    sums = values.new_zeros(len(values), int(place.max()) + 1)
    return sums.scatter_add_(1, place.expand(len(values), -1), values)


@lru_cache(maxsize=16)
def tree_tables(tree: Hierarchy, device: torch.device) -> TreeTables:
    """The tables of a tree on a device, cached.

    Example:
        >>> from cophenet import Hierarchy
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/")
        >>> tables = tree_tables(tree, torch.device("cpu"))
        >>> tables.heights[tables.class_ancestors(torch.tensor([0, 0]), torch.tensor([1, 2]))]
        tensor([1, 2])
    """

    def move(array: NDArray[np.int64]) -> Tensor:
        return torch.tensor(array, device=device)

    return TreeTables(
        leaves=move(tree.leaves),
        depths=move(tree.depths),
        heights=move(tree.heights),
        first_leaf=move(tree._first_leaf),
        minima=move(tree._gap_minima),
        parents=move(np.maximum(tree.parents, 0)),
        num_levels=tree.height,
        width=tree.num_nodes - 1 + int((tree.height - tree.depths[tree.leaves]).sum()),
    )
