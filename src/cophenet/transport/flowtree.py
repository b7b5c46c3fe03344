"""FlowTree: bottom-up matching on a randomly shifted QuadTree, all class pairs level by level."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cophenet.transport.base import PlanDistance, SeededDistance, register_distance
from cophenet.transport.batch import ClassBatch
from cophenet.transport.plan import TransportPlan
from cophenet.transport.quadtree import quadtree_cells
from cophenet.transport.solvers import machine_code

__all__ = ["FlowTree", "match_by_kernel", "whole_units"]

Indices = NDArray[np.int64]
Floats = NDArray[np.float64]


class _Units(NamedTuple):
    """Masses as integers, so that matching is exact.

    Attributes:
        by_row: (B,) units of every row; empty if weights are uniform.
        whole: (P,) total units of either class of a pair.
    """

    by_row: Indices
    whole: Indices


class _Matches(NamedTuple):
    """Matched mass, pair after pair.

    Attributes:
        source: (E,) row of the first class.
        target: (E,) row of the second class.
        mass: (E,) mass sent; sums to one over a pair.
        offsets: (P + 1,) first match of every pair.
    """

    source: Indices
    target: Indices
    mass: Floats
    offsets: Indices


_Match = Callable[[ClassBatch, Indices, _Units], _Matches]


@dataclass
class _Side:
    """The samples of one side of all pairs, by pair and then by row, and their unmatched mass.

    Attributes:
        other: (P,) the class on the other side of every pair.
        pair: (n,) pair of every entry.
        row: (n,) row of the batch.
        left: (n,) mass not matched yet, in units.
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
            The entries, sorted by group and then by row, and the group of each.
        """
        own_cell = cell[self.row]
        entries = np.flatnonzero((self.left > 0) & shared[self.other[self.pair], own_cell])
        group = self.pair[entries] * len(cell) + own_cell[entries]
        order = np.argsort(group, kind="stable")
        return entries[order], group[order]


@dataclass
class _Line:
    """Matched mass of one side as consecutive intervals, group after group.

    Attributes:
        entries: (n,) entries of the side.
        ends: (n,) end of the interval of every entry.
    """

    entries: Indices
    ends: Indices

    def at(self, position: Indices) -> Indices:
        """The entries whose intervals contain the given positions."""
        return self.entries[np.searchsorted(self.ends, position, side="right")]


def _lay_out(side: _Side, entries: Indices, counts: Indices, matched: Indices) -> _Line:
    """Subtract the first `matched` units of every group from its entries, in order; return the intervals."""
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
    """Match as much as possible within the cells of a level, for all pairs, in row order; reduces `left`.

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
    """For each side, whether its entries belong to a group that both sides have; groups are sorted."""
    kept = []
    for (_, group), (_, other) in (reach, reach[::-1]):
        kept.append(np.append(other, -1)[np.searchsorted(other, group)] == group)
    return kept


def whole_units(batch: ClassBatch, weights: Floats | None) -> _Units:
    """Flow weights (None means uniform) as integer units; both classes of a pair have the same total."""
    if weights is None:
        whole = np.lcm(batch.counts[batch.first], batch.counts[batch.second])
        return _Units(np.empty(0, dtype=np.int64), whole)
    # The units of all pairs, end to end, must fit 63 bits.
    total = 1 << min(40, 62 - batch.num_pairs.bit_length())
    running = np.concatenate(([0.0], np.cumsum(weights)))
    start = np.repeat(batch.offsets[:-1], batch.counts)
    share = np.clip(running[1:] - running[start], 0.0, 1.0)
    ends = np.rint(share * total).astype(np.int64)
    ends[batch.offsets[1:] - 1] = total
    units = np.diff(ends, prepend=0)
    units[batch.offsets[:-1]] = ends[batch.offsets[:-1]]
    return _Units(units, np.full(batch.num_pairs, total))


def _sides(batch: ClassBatch, units: _Units) -> tuple[_Side, _Side]:
    """Both sides of all pairs before matching."""
    sides = []
    for own, other in ((batch.first, batch.second), (batch.second, batch.first)):
        size = batch.counts[own]
        pair = np.repeat(np.arange(batch.num_pairs), size)
        row = np.arange(len(pair)) - np.repeat(np.cumsum(size) - size - batch.offsets[own], size)
        left = units.by_row[row] if len(units.by_row) else (units.whole // size)[pair]
        sides.append(_Side(other, pair, row, left))
    return sides[0], sides[1]


def _segments(batch: ClassBatch) -> Indices:
    return np.repeat(np.arange(batch.num_classes), batch.counts)


def _match_by_level(batch: ClassBatch, cells: Indices, units: _Units) -> _Matches:
    """Match all pairs on cells (levels, B), root level first: level by level from the smallest cells up."""
    source, target = _sides(batch, units)
    segment = _segments(batch)
    matches = []
    for cell in cells[::-1]:
        shared = np.zeros((batch.num_classes, len(cell)), dtype=bool)
        shared[segment, cell] = True
        matches.append(_match_level(source, target, cell, shared))
    giver, taker, taken = (np.concatenate(parts) for parts in zip(*matches, strict=True))
    pair = source.pair[giver]
    order = np.argsort(pair, kind="stable")
    mass = taken / units.whole[pair]
    offsets = np.searchsorted(pair[order], np.arange(batch.num_pairs + 1))
    return _Matches(source.row[giver[order]], target.row[taker[order]], mass[order], offsets)


def match_by_kernel(batch: ClassBatch, cells: Indices, units: _Units) -> _Matches:
    """The same result as `_match_by_level`, by compiled code, which is five times as fast."""
    from cophenet.transport.solvers.flowtree_kernel import match_pairs

    counts, first, second = batch.counts, *map(np.ascontiguousarray, (batch.first, batch.second))
    entries = int((counts[first] + counts[second] - 1).sum())
    source, target, mass = np.empty(entries, np.int64), np.empty(entries, np.int64), np.empty(entries)
    offsets = np.zeros(batch.num_pairs + 1, dtype=np.int64)
    order = np.argsort(_segments(batch) * len(cells[0]) + cells, axis=1, kind="stable")
    plan, classes = (source, target, mass), (first, second)
    used = match_pairs(cells, order, batch.offsets, classes, (units.by_row, units.whole), offsets, plan)
    return _Matches(source[:used], target[:used], mass[:used], offsets)


def _matcher() -> _Match:
    """The kernel where it is compiled; else NumPy."""
    return match_by_kernel if machine_code.is_compiled_meanwhile() else _match_by_level


@register_distance
class FlowTree(SeededDistance, PlanDistance):
    r"""FlowTree: the Euclidean cost of the plan that is optimal in the metric of a QuadTree.

    .. math::

        \rho(u, v) = \langle P_t, D \rangle, \qquad P_t = \operatorname{argmin}_P \langle P, T \rangle

    T_ij is the distance of the two samples in the QuadTree.

    Backurs, Dong, Indyk, Razenshteyn and Wagner, "Scalable Nearest Neighbor Search for Optimal Transport",
    ICML 2020, arXiv:1910.04126; section 3.2 of the OT-CPCC paper (arXiv:2410.03052).

    Every call draws one randomly shifted QuadTree over all samples of the batch and matches each
    class pair from the smallest cells up, samples of a cell in batch order (Algorithm 2 of the
    OT-CPCC paper). Plans are computed in exact integer units on the host: features on an accelerator
    are copied there in the same transfer as the labels.

    Args:
        generator: CPU generator of the random shifts; by default a new one with seed 0.

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
        matches = _matcher()(batch, cells, whole_units(batch, weights))
        return TransportPlan(
            source=batch.on_device(matches.source),
            target=batch.on_device(matches.target),
            mass=batch.on_device(matches.mass).to(batch.features.dtype),
            offsets=matches.offsets,
        )
