"""Bottom-up flow matching on any tree: Algorithm 2 of the OT-CPCC paper, for a single pair."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["bottom_up_flow"]

# Masses are integer multiples of a unit, this fraction of the total, so that matching is exact.
_UNITS = 1 << 52


def _checked_parents(parents: ArrayLike) -> list[int]:
    array = np.asarray(parents)
    if array.ndim != 1 or not len(array) or not np.issubdtype(array.dtype, np.integer):
        given = f"{array.dtype} of shape {array.shape}"
        raise ValueError(f"parents must be a non-empty integer vector, got {given}")
    if array[0] != -1 or (array[1:] < 0).any() or (array[1:] >= np.arange(1, len(array))).any():
        raise ValueError("parents must start with -1, the root, and name an earlier node for every other")
    return [int(parent) for parent in array]


def _checked_nodes(name: str, nodes: ArrayLike, mass: NDArray[Any], num_nodes: int) -> list[int]:
    array = np.asarray(nodes)
    if array.shape != mass.shape or not np.issubdtype(array.dtype, np.integer):
        given = f"{array.dtype} of shape {array.shape}"
        raise ValueError(f"{name} must be integers of shape {mass.shape}, got {given}")
    if (array < 0).any() or (array >= num_nodes).any():
        raise ValueError(f"{name} must lie in 0..{num_nodes - 1}, got {array.min()}..{array.max()}")
    return [int(node) for node in array]


def _checked_mass(name: str, mass: ArrayLike) -> NDArray[Any]:
    array = np.asarray(mass)
    if array.ndim != 1 or array.dtype.kind not in "iuf":
        raise ValueError(f"{name} must be a vector of numbers, got {array.dtype} of shape {array.shape}")
    if not np.isfinite(array).all() or (array < 0).any() or not array.sum() > 0:
        raise ValueError(f"{name} must be finite, not negative, and not all zero")
    return array


def _in_units(mass: NDArray[Any]) -> list[int]:
    """Masses as integer units that sum to `_UNITS` exactly: differences of rounded running sums."""
    running = np.cumsum(mass.astype(np.float64))
    cumulative = np.rint(running / running[-1] * _UNITS).astype(np.int64)
    return [int(units) for units in np.diff(cumulative, prepend=0)]


def _match(
    parents: list[int], nodes: tuple[list[int], list[int]], left: tuple[list[int], list[int]]
) -> list[tuple[int, int, int]]:
    """Match in integer units; `left` holds the unmatched units of every sample and is modified."""
    waiting: tuple[list[list[int]], ...] = tuple([[] for _ in parents] for _ in nodes)
    for heaps, side, side_left in zip(waiting, nodes, left, strict=True):
        for sample, node in enumerate(side):
            if side_left[sample]:
                heappush(heaps[node], sample)
    flow = []
    for node in range(len(parents) - 1, -1, -1):  # children come after their parent
        give, take = waiting[0][node], waiting[1][node]
        while give and take:
            i, j = give[0], take[0]
            units = min(left[0][i], left[1][j])
            flow.append((i, j, units))
            for heap, side_left, sample in ((give, left[0], i), (take, left[1], j)):
                side_left[sample] -= units
                if not side_left[sample]:
                    heappop(heap)
        for heaps, unmatched in zip(waiting, (give, take), strict=True):
            _pass_up(heaps, unmatched, parents[node])
    return flow


def _pass_up(heaps: list[list[int]], unmatched: list[int], parent: int) -> None:
    """Pass unmatched samples to the parent, merging the smaller heap into the larger: O(n log^2 n) in all."""
    if parent < 0:
        return
    few, many = sorted((unmatched, heaps[parent]), key=len)
    for sample in few:
        heappush(many, sample)
    heaps[parent] = many


def bottom_up_flow(
    parents: ArrayLike, source_nodes: ArrayLike, target_nodes: ArrayLike, a: ArrayLike, b: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]:
    r"""Match two masses on a tree from the leaves up: Algorithm 2 of the OT-CPCC paper (arXiv:2410.03052).

    With A_v the source mass attached to node v or left over below it, and B_v the target mass, the mass
    matched at v is the smaller of both:

    .. math::

        M_v = \min(A_v, B_v), \qquad
        A_v = \sum_{i \text{ at } v} a_i + \sum_{w \text{ child of } v} (A_w - M_w), \qquad
        B_v = \sum_{j \text{ at } v} b_j + \sum_{w \text{ child of } v} (B_w - M_w)

    Every node matches as much as possible of the mass attached to it or left over below it, samples
    in the order of their numbers, and passes the rest to its parent. The plan is optimal for
    every tree metric on this tree, whatever the edge weights. On an augmented label tree it is the
    plan of `greedy_plan` (Algorithm 1).

    Integer masses are matched as they are. Others are rounded to multiples of 2^-52 of their total.

    Args:
        parents: (nodes,) parent of every node, before its children; -1 for the root, node 0.
        source_nodes: (m,) the node that every source sample is attached to.
        target_nodes: (n,) the node that every target sample is attached to.
        a: (m,) source masses.
        b: (n,) target masses, of the same sum.

    Returns:
        Three vectors (E,): source sample, target sample, mass sent. At most m + n - 1 entries.

    Raises:
        ValueError: If the tree, a node or a mass is wrong, or the two masses differ in sum.

    Example:
        Samples 0 of both sides share node 1; the rest meets at the root.

        >>> i, j, mass = bottom_up_flow([-1, 0, 0], [2, 1], [1, 0], [1, 2], [1, 2])
        >>> list(zip(i.tolist(), j.tolist(), mass.tolist()))
        [(1, 0, 1), (0, 1, 1), (1, 1, 1)]
    """
    tree = _checked_parents(parents)
    supply, demand = _checked_mass("a", a), _checked_mass("b", b)
    sources = _checked_nodes("source_nodes", source_nodes, supply, len(tree))
    targets = _checked_nodes("target_nodes", target_nodes, demand, len(tree))
    exact = supply.dtype.kind in "iu" and demand.dtype.kind in "iu"
    total, other = supply.sum(), demand.sum()
    if total != other if exact else abs(total - other) > 1e-5 * total:
        raise ValueError(f"a and b must have the same sum, got {total} and {other}")
    units = [int(x) for x in supply] if exact else _in_units(supply)
    wanted = [int(x) for x in demand] if exact else _in_units(demand)
    flow = np.array(_match(tree, (sources, targets), (units, wanted)), dtype=np.int64)
    mass = flow[:, 2] if exact else flow[:, 2] * (float(total) / _UNITS)
    return flow[:, 0], flow[:, 1], mass
