"""FlowTree: bottom-up matching on a randomly shifted QuadTree, all class pairs level by level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cophenet.transport.base import PlanDistance, SeededDistance, register_distance
from cophenet.transport.batch import ClassBatch
from cophenet.transport.plan import TransportPlan

__all__ = ["FlowTree", "quadtree_cells"]

Indices = NDArray[np.int64]

# Halvings of the root cube. Float32 neighbours need 24 below the extent; the rest is for the root's size.
_MAX_DEPTH = 50


def _grid_coordinates(points: NDArray[np.float64], shift: NDArray[np.float64]) -> NDArray[np.int64]:
    """(n, d) cell of every point in the finest grid; its leading bits are the cells above."""
    low = points.min(0)
    extent = np.ptp(points, axis=0).sum()
    if not extent > 0:
        return np.zeros(points.shape, dtype=np.int64)
    # In units of the finest cells, from 0 to 2^depth; one step after the other in the same memory.
    position = points - low
    position /= extent
    position += shift
    position *= 2.0 ** (_MAX_DEPTH - 1)
    # Rounding may touch the root's side from below: keep the last cell closed.
    grid: NDArray[np.int64] = np.minimum(position, 2.0**_MAX_DEPTH - 1, out=position).astype(np.int64)
    return grid


def _same_rows(rows: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First occurrence of every distinct row, and which distinct row each one is."""
    raw = np.ascontiguousarray(rows).view(f"S{rows.shape[1] * rows.itemsize}").ravel()
    _, first, inverse = np.unique(raw, return_index=True, return_inverse=True)
    return first, inverse


def quadtree_cells(points: NDArray[np.float64], shift: NDArray[np.float64]) -> NDArray[np.int64]:
    """Cells of a QuadTree over the points, from the root cube to cells of one distinct point.

    The randomly shifted grids of Indyk and Thaper, "Fast Image Retrieval via Embeddings", 2003,
    used by Backurs et al. 2020 (arXiv:1910.04126).

    The root cube has twice the side of the largest l1 distance the points could have (the sum of
    their ranges over the coordinates) and is moved by a random shift, up to half its side; every
    level halves the side. Two points are then separated by a cell of side s with probability at
    most |x - y|_1 / s on every level. Starting from the largest range of one coordinate instead
    would, in hundreds of dimensions, separate all points at once, near ones and far ones alike.

    Levels that split no cell are left out: they change nothing that is computed on the tree.

    Args:
        points: (n, d) finite.
        shift: (d,) in [0, 1), in halves of the root's side.

    Returns:
        (levels, n) number of every point's cell, level by level; all 0 on the first level. On the
        last, cells are shared only by points that coincide (to 2^-50 of the root's side).

    Example:
        >>> quadtree_cells(np.array([[0.0], [8.0], [1.0], [0.0]]), np.array([0.25]))
        array([[0, 0, 0, 0],
               [0, 1, 0, 0],
               [0, 1, 2, 0]])
    """
    grid = _grid_coordinates(points, shift)
    first, inverse = _same_rows(grid)
    grid = grid[first]
    cell = np.zeros(len(grid), dtype=np.int64)
    levels = [cell]
    open_rows = np.arange(len(grid))
    for depth in range(_MAX_DEPTH - 1, -1, -1):
        if len(open_rows) < 2:
            break
        halves = np.packbits((grid[open_rows] >> depth) & 1 != 0, axis=1)
        parts, part = _same_rows(np.concatenate((cell[open_rows, None].view(np.uint8), halves), axis=1))
        split = open_rows[parts][part]  # a cell is named by its first point
        if (split != cell[open_rows]).any():
            cell = cell.copy()
            cell[open_rows] = split
            levels.append(cell)
            open_rows = open_rows[np.bincount(cell)[split] > 1]
    return np.stack(levels)[:, inverse]


@dataclass
class _Side:
    """The samples of one side of all pairs, by pair and then by row, and what they have left to match.

    Attributes:
        other: (P,) the class on the other side of every pair.
        pair: (n,) pair of every entry.
        row: (n,) row of the batch.
        left: (n,) mass not matched yet, in whole units.
    """

    other: Indices
    pair: Indices
    row: Indices
    left: Indices

    def in_reach(self, cell: Indices, shared: NDArray[np.bool_]) -> tuple[Indices, Indices]:
        """Entries with mass left whose cell holds samples of the other class, grouped by pair and cell.

        Args:
            cell: (B,) cell of every row.
            shared: (k, B) whether a class has samples in a cell.

        Returns:
            The entries, those of one group next to each other in row order, and the groups' numbers.
        """
        own_cell = cell[self.row]
        entries = np.flatnonzero((self.left > 0) & shared[self.other[self.pair], own_cell])
        group = self.pair[entries] * len(cell) + own_cell[entries]
        order = np.argsort(group, kind="stable")
        return entries[order], group[order]


@dataclass
class _Line:
    """Matched mass of one side laid end to end, group after group.

    Attributes:
        entries: (n,) entries of the side.
        ends: (n,) where the mass of every entry ends.
    """

    entries: Indices
    ends: Indices

    def at(self, position: Indices) -> Indices:
        """The entries whose mass begins at or before a position and ends after it."""
        return self.entries[np.searchsorted(self.ends, position, side="right")]


def _lay_out(side: _Side, entries: Indices, counts: Indices, matched: Indices) -> _Line:
    """Take the first `matched` units of every group from its entries, in order."""
    left = side.left[entries]
    ends = np.cumsum(left)
    group_ends = ends[np.cumsum(counts) - 1]
    before = np.concatenate(([0], group_ends[:-1]))
    limit = np.repeat(matched, counts)
    own_end = np.minimum(ends - np.repeat(before, counts), limit)
    own_start = np.minimum(ends - left - np.repeat(before, counts), limit)
    side.left[entries] -= own_end - own_start
    return _Line(entries, own_end + np.repeat(np.cumsum(matched) - matched, counts))


def _match_level(
    source: _Side, target: _Side, cell: Indices, shared: NDArray[np.bool_]
) -> tuple[Indices, ...]:
    """Match all a level's cells can, for all pairs, first come first served; takes from `left`.

    Returns:
        Source entries, target entries and units of the matches.
    """
    sides = (source, target)
    reach = [side.in_reach(cell, shared) for side in sides]
    # A group counts only while both classes have mass left in its cell.
    reach = [(own[kept], group[kept]) for (own, group), kept in zip(reach, _in_both(reach), strict=True)]
    starts = [np.flatnonzero(np.diff(group, prepend=-1)) for _, group in reach]
    if not len(starts[0]):
        return (np.empty(0, dtype=np.int64),) * 3
    totals = [np.add.reduceat(s.left[own], at) for s, (own, _), at in zip(sides, reach, starts, strict=True)]
    matched = np.minimum(*totals)
    lines = [
        _lay_out(side, own, np.diff(at, append=len(own)), matched)
        for side, (own, _), at in zip(sides, reach, starts, strict=True)
    ]
    cuts = np.concatenate((lines[0].ends, lines[1].ends))
    cuts.sort(kind="stable")  # two sorted runs: a merge
    cuts = cuts[np.diff(cuts, prepend=0) > 0]
    begins = np.concatenate(([0], cuts[:-1]))
    return lines[0].at(begins), lines[1].at(begins), cuts - begins


def _in_both(reach: list[tuple[Indices, Indices]]) -> list[NDArray[np.bool_]]:
    """Which entries of each side belong to a group of both; groups are sorted."""
    kept = []
    for (_, group), (_, other) in (reach, reach[::-1]):
        kept.append(np.append(other, -1)[np.searchsorted(other, group)] == group)
    return kept


def _whole_units(batch: ClassBatch, weights: NDArray[np.float64]) -> tuple[Indices, int]:
    """Flow weights as whole units that sum to the same number in every class, and that number."""
    # The units of all pairs, end to end, must fit 63 bits.
    whole = 1 << min(40, 62 - batch.num_pairs.bit_length())
    running = np.concatenate(([0.0], np.cumsum(weights)))
    start = np.repeat(batch.offsets[:-1], batch.counts)
    share = np.clip(running[1:] - running[start], 0.0, 1.0)
    ends = np.rint(share * whole).astype(np.int64)
    ends[batch.offsets[1:] - 1] = whole
    units = np.diff(ends, prepend=0)
    units[batch.offsets[:-1]] = ends[batch.offsets[:-1]]
    return units, whole


def _sides(batch: ClassBatch, weights: NDArray[np.float64] | None) -> tuple[_Side, _Side, Indices]:
    """Both sides of all pairs before matching, and the units each pair has in all, (P,)."""
    m, n = batch.counts[batch.first], batch.counts[batch.second]
    whole = np.lcm(m, n)
    if weights is not None:
        by_row, total = _whole_units(batch, weights)
        whole = np.full_like(whole, total)
    sides = []
    for own, other, size in ((batch.first, batch.second, m), (batch.second, batch.first, n)):
        pair = np.repeat(np.arange(batch.num_pairs), size)
        row = np.arange(len(pair)) - np.repeat(np.cumsum(size) - size - batch.offsets[own], size)
        left = (whole // size)[pair] if weights is None else by_row[row]
        sides.append(_Side(other, pair, row, left))
    return sides[0], sides[1], whole


def _bottom_up_plan(batch: ClassBatch, cells: Indices, weights: NDArray[np.float64] | None) -> TransportPlan:
    """Bottom-up matching of all pairs on the cells (levels, B) of a tree, root level first."""
    source, target, whole = _sides(batch, weights)
    segment = np.repeat(np.arange(batch.num_classes), batch.counts)
    matches = []
    for cell in cells[::-1]:
        shared = np.zeros((batch.num_classes, len(cell)), dtype=bool)
        shared[segment, cell] = True
        matches.append(_match_level(source, target, cell, shared))
    giver, taker, units = (np.concatenate(parts) for parts in zip(*matches, strict=True))
    pair = source.pair[giver]
    order = np.argsort(pair, kind="stable")
    mass = units / whole[pair]
    return TransportPlan(
        source=batch.on_device(source.row[giver[order]]),
        target=batch.on_device(target.row[taker[order]]),
        mass=batch.on_device(mass[order]).to(batch.features.dtype),
        offsets=np.searchsorted(pair[order], np.arange(batch.num_pairs + 1)),
    )


@register_distance
class FlowTree(SeededDistance, PlanDistance):
    r"""FlowTree: the optimal plan of a QuadTree's metric, at Euclidean cost.

    .. math::

        \rho(u, v) = \langle P_t, D \rangle, \qquad P_t = \arg\min_P \langle P, T \rangle

    T_ij is the distance of the two samples in the QuadTree.

    Backurs, Dong, Indyk, Razenshteyn and Wagner, "Scalable Nearest Neighbor Search for Optimal Transport",
    ICML 2020, arXiv:1910.04126; section 3.2 of the OT-CPCC paper (arXiv:2410.03052).

    Every call draws one randomly shifted QuadTree over all samples of the batch and matches each
    class pair from the smallest cells up, samples of a cell in batch order (Algorithm 2 of the
    OT-CPCC paper). Plans are exact in whole units. They are made on the host: on an accelerator the
    features are brought there together with the class counts.

    Args:
        generator: Draws the shifts, on the CPU; by default one of its own, with seed 0.

    Example:
        >>> from cophenet.transport.grouping import group_by_class
        >>> z = torch.tensor([[0.0], [9.0], [9.5], [0.5]])
        >>> FlowTree()(group_by_class(z, torch.tensor([0, 0, 1, 1])))
        tensor([0.5000])
    """

    name = "ft"
    order_dependent = True
    plans_on_host = True

    def draw(self, width: int) -> Tensor:
        """(width,) shift of the QuadTree."""
        return torch.rand(width, generator=self.generator, dtype=torch.float64)

    def plan(self, batch: ClassBatch) -> TransportPlan:
        """The plan of every pair on a freshly shifted QuadTree."""
        shift = self.draw(batch.given.shape[1])
        host = batch.on_host
        cells = quadtree_cells(host.features.detach().double().numpy(), shift.numpy())
        weights = None if host.weights is None else host.weights.double().numpy()
        return _bottom_up_plan(batch, cells, weights)
