"""Arrays over the nodes that follow from the parents: computed once per tree, in one pass, at any depth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cophenet.tree.parts import FloatArray, IntArray, edge_depths, sealed

if TYPE_CHECKING:
    from cophenet.tree.hierarchy import Hierarchy


def depths(tree: Hierarchy) -> IntArray:
    """Edges between the root and each node, shape (num_nodes,)."""
    return sealed(edge_depths(tree.parents))


def weighted_depths(tree: Hierarchy) -> FloatArray:
    """Sum of the edge weights between the root and each node, shape (num_nodes,)."""
    result = tree.edge_weights.tolist()
    for node, parent in enumerate(tree.parents[1:].tolist(), start=1):
        result[node] += result[parent]
    return sealed(np.array(result))


def heights(tree: Hierarchy) -> IntArray:
    """Edges between each node and the deepest class below it, shape (num_nodes,)."""
    result = [0] * tree.num_nodes
    for node, parent in zip(range(tree.num_nodes - 1, 0, -1), tree.parents[:0:-1].tolist(), strict=True):
        result[parent] = max(result[parent], result[node] + 1)
    return sealed(np.array(result, dtype=np.int64))


def sizes(tree: Hierarchy) -> IntArray:
    """Number of nodes in the subtree of each node, itself included, shape (num_nodes,).

    The subtree of a node is the run of nodes that starts with it.
    """
    result = [1] * tree.num_nodes
    for node, parent in zip(range(tree.num_nodes - 1, 0, -1), tree.parents[:0:-1].tolist(), strict=True):
        result[parent] += result[node]
    return sealed(np.array(result, dtype=np.int64))


def classes(tree: Hierarchy) -> tuple[str, ...]:
    """Class names in label order."""
    return tuple(tree.names[leaf] for leaf in tree.leaves.tolist())


def labels(tree: Hierarchy) -> dict[str, int]:
    """Label of each class by its name."""
    return {name: label for label, name in enumerate(tree.classes)}


def first_leaf(tree: Hierarchy) -> IntArray:
    """Place in tree order of the first class at or below each node, shape (num_nodes,)."""
    return sealed(np.searchsorted(np.sort(tree.leaves), np.arange(tree.num_nodes)))


def leaf_gaps(tree: Hierarchy) -> IntArray:
    """Lowest common ancestor of each leaf and the next one in tree order, shape (num_classes,).

    The last leaf has no right neighbour.
    """
    # The node after a leaf hangs on the lowest common ancestor of that leaf and the next leaf.
    return sealed(np.append(tree.parents[np.sort(tree.leaves)[:-1] + 1], tree.num_nodes))


def gap_minima(tree: Hierarchy) -> IntArray:
    """Lowest common ancestors of runs of leaves: entry (j, i) is that of the 2**j gaps from gap i on.

    Nodes are numbered depth first, so the lowest common ancestor of a run is the smallest of its gaps.
    Shape: (log2(num_classes) + 1 or less, num_classes).
    """
    gaps = tree._leaf_gaps
    rows = max(1, (tree.num_classes - 1).bit_length())
    result = np.tile(gaps, (rows, 1))
    for row in range(1, rows):
        half = 1 << (row - 1)
        np.minimum(result[row - 1, :-half], result[row - 1, half:], out=result[row, :-half])
    return sealed(result)


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
