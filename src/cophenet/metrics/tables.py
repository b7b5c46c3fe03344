"""What the metrics look up in a tree: lowest common ancestors pair by pair, and sums level by level."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

if TYPE_CHECKING:
    from cophenet.tree import Hierarchy

__all__ = ["BLOCK", "TreeTables", "add_columns", "full_precision", "product", "row_blocks", "tree_tables"]

# Entries of a work tensor that are made at once: 64 MB in float32.
BLOCK = 1 << 24


def full_precision(values: Tensor) -> Tensor:
    """The values without gradient, in float32 unless they are float64."""
    return values.detach() if values.dtype == torch.float64 else values.detach().float()


def product(one: Tensor, other: Tensor) -> Tensor:
    """Matrix product in the precision of its factors, also under autocast."""
    with torch.autocast(one.device.type, enabled=False):
        return one @ other


def row_blocks(rows: int, width: int) -> Iterator[slice]:
    """Slices of rows so that each block has about `BLOCK` entries.

    Example:
        >>> list(row_blocks(3, BLOCK // 2))
        [slice(0, 2, None), slice(2, 3, None)]
    """
    step = max(1, BLOCK // max(1, width))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


@dataclass(frozen=True, eq=False)
class TreeTables:
    """Arrays of one tree on one device, of size O(nodes * log classes).

    Attributes:
        leaves: (C,) node of each class.
        depths: (nodes,) edges between the root and each node.
        heights: (nodes,) edges between each node and the deepest class below it.
        first_leaf: (nodes,) place in tree order of the first class at or below each node.
        minima: (log C, C) entry (j, r) is the smallest node among the lowest common ancestors of
            neighbouring leaves r..r + 2^j.
        parents: (nodes,) parent of each node, 0 for the root.
        num_levels: Height of the tree.
        width: Nodes of all levels together, a class above a level counted there too.
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
        """Lowest common ancestors of pairs of nodes, of any shapes that broadcast.

        Nodes are numbered depth first, so of all nodes met between two leaves their common ancestor has
        the smallest number; a range minimum over the neighbours' ancestors finds it in two look-ups.
        """
        nearest = torch.minimum(one, other)
        a, b = self.first_leaf[one], self.first_leaf[other]
        low, gap = torch.minimum(a, b), (a - b).abs()
        # frexp is exact where log2 may round: 2^(exponent - 1) <= gap < 2^exponent.
        power = (torch.frexp(gap.double()).exponent.long() - 1).clamp(min=0)
        high = (low + gap - (1 << power)).clamp(min=0)
        between = torch.minimum(self.minima[power, low], self.minima[power, high])
        return torch.where(gap > 0, torch.minimum(nearest, between), nearest)

    def class_ancestors(self, one: Tensor, other: Tensor) -> Tensor:
        """Lowest common ancestors of pairs of classes."""
        return self.common_ancestors(self.leaves[one], self.leaves[other])

    def lifts(self) -> Iterator[tuple[Tensor, Tensor]]:
        """The way up the tree: for each level, deepest first, its nodes and their places one level above.

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
        """For each level, deepest first, sums over its nodes and the place of each label among them.

        Shapes: (n, C), (n,) -> (n, groups), (n,) for each level.
        """
        for _, place in self.lifts():
            yield values, labels
            values = add_columns(values, place)
            labels = place[labels]


def add_columns(values: Tensor, place: Tensor) -> Tensor:
    """Add columns up into numbered places: (n, m), (m,) -> (n, largest place + 1)."""
    sums = values.new_zeros(len(values), int(place.max()) + 1)
    return sums.scatter_add_(1, place.expand(len(values), -1), values)


def _range_minima(gaps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sparse table of range minima: row j holds the minima of 2^j neighbours. (C,) -> (log C, C)."""
    rows = [gaps]
    width = 1
    while 2 * width < len(gaps):
        shifted = np.append(rows[-1][width:], np.full(width, gaps[-1]))
        rows.append(np.minimum(rows[-1], shifted))
        width *= 2
    return np.stack(rows)


@lru_cache(maxsize=16)
def tree_tables(tree: Hierarchy, device: torch.device) -> TreeTables:
    """The tables of a tree on a device, kept for the next call.

    Example:
        >>> from cophenet import Hierarchy
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/")
        >>> tables = tree_tables(tree, torch.device("cpu"))
        >>> tables.heights[tables.class_ancestors(torch.tensor([0, 0]), torch.tensor([1, 2]))]
        tensor([1, 2])
    """
    order = np.argsort(tree.leaves)
    # The node after a leaf hangs on the lowest common ancestor of that leaf and the next leaf.
    gaps = np.append(tree.parents[tree.leaves[order[:-1]] + 1], tree.num_nodes)
    first_leaf = np.searchsorted(tree.leaves[order], np.arange(tree.num_nodes))

    def move(array: NDArray[np.int64]) -> Tensor:
        return torch.tensor(array, device=device)

    return TreeTables(
        leaves=move(tree.leaves),
        depths=move(tree.depths),
        heights=move(tree.heights),
        first_leaf=move(first_leaf),
        minima=move(_range_minima(gaps)),
        parents=move(np.maximum(tree.parents, 0)),
        num_levels=tree.height,
        width=tree.num_nodes - 1 + int((tree.height - tree.depths[tree.leaves]).sum()),
    )
