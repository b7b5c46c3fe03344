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

__all__ = ["BLOCK", "TreeTables", "full_precision", "product", "row_blocks", "tree_tables"]

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
        level_nodes: For each depth from 1 down, the nodes of that depth.
    """

    leaves: Tensor
    depths: Tensor
    heights: Tensor
    first_leaf: Tensor
    minima: Tensor
    parents: Tensor
    level_nodes: tuple[Tensor, ...]

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

    def node_sums(self, values: Tensor) -> Tensor:
        """Sum over the classes below every node: (n, C) -> (n, nodes)."""
        sums = values.new_zeros(len(values), len(self.depths))
        sums[:, self.leaves] = values
        for nodes in reversed(self.level_nodes):
            into = self.parents[nodes].expand(len(values), -1)
            sums.scatter_add_(1, into, sums[:, nodes])
        return sums

    def level_sums(self, values: Tensor, labels: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """For each level from depth 1 down, sums over its groups and the group of each label.

        A class above the level is a group of its own. Yields (n, groups), (n,).
        """
        sums = self.node_sums(values)
        at = self.leaves[labels]
        paths = [at]
        for depth in range(len(self.level_nodes), 1, -1):
            at = torch.where(self.depths[at] >= depth, self.parents[at], at)
            paths.append(at)
        leaf_depths = self.depths[self.leaves]
        for depth, (nodes, own) in enumerate(zip(self.level_nodes, reversed(paths), strict=True), start=1):
            groups = torch.cat((nodes, self.leaves[leaf_depths < depth]))
            place = torch.zeros_like(self.parents)
            place[groups] = torch.arange(len(groups), device=groups.device)
            yield sums[:, groups], place[own]


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
        level_nodes=tuple(move(tree.nodes_at(depth)) for depth in range(1, tree.height + 1)),
    )
