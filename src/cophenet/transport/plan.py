"""Transport plans of many class pairs at once, as sparse triples (source, target, mass)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cophenet.transport.batch import ClassBatch, is_host
from cophenet.transport.class_layout import ClassLayout, HostArrays, computed_once
from cophenet.transport.solvers.machine_code import loops_when_hot

__all__ = ["TransportPlan", "greedy_plan", "ragged_range", "uniform_arrays", "uniform_plan", "weighted_plan"]

Indices = NDArray[np.int64]

# Classes of a training batch are small: the plans of all size pairs up to this are cached.
_SMALL = 32
_MASSES = np.empty(0)  # their type


def ragged_range(lengths: Indices, begin: Indices | int = 0) -> Indices:
    """Concatenated ranges of integers: begin, begin + 1, ... for each length.

    Example:
        >>> ragged_range(np.array([2, 3]), np.array([7, 0]))
        array([7, 8, 0, 1, 2])
    """
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    numbers: Indices = np.arange(total) + np.repeat(begin - (ends - lengths), lengths)
    return numbers


@dataclass(frozen=True, eq=False)
class TransportPlan:
    """Which sample of one class sends how much mass to which sample of the other.

    Attributes:
        source: (E,) sample of the pair's first class.
        target: (E,) sample of the pair's second class.
        mass: (E,) mass sent; sums to one over the entries of a pair.
        offsets: (P + 1,) pair p owns the entries `offsets[p]:offsets[p + 1]`.
    """

    source: Tensor
    target: Tensor
    mass: Tensor
    offsets: Indices

    @computed_once
    def pair(self) -> Tensor:
        """(E,) pair of every entry, on the plan's device."""
        pair = np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))
        return torch.from_numpy(pair).to(self.mass.device, non_blocking=True)

    @computed_once
    def bounds(self) -> Tensor:
        """(P + 1,) the offsets on the plan's device."""
        return torch.from_numpy(self.offsets).to(self.mass.device, non_blocking=True)

    @property
    def arrays(self) -> tuple[Indices, Indices, NDArray[np.floating]]:
        """Sources, targets and masses of a plan on the host, for compiled loops."""
        return self.source.numpy(), self.target.numpy(), self.mass.numpy()

    def spread(self, per_pair: Tensor) -> Tensor:
        """Repeat a value per pair for each of its entries: (P,) -> (E,)."""
        return per_pair.index_select(0, self.pair)

    def total(self, per_entry: Tensor) -> Tensor:
        """Sum entries by pair: (E, ...) -> (P, ...)."""
        return torch.segment_reduce(per_entry, "sum", offsets=self.bounds, axis=0, unsafe=True)

    def in_batch_order(self, batch: ClassBatch) -> TransportPlan:
        """The plan with the caller's sample numbers, without entries of zero mass."""
        kept = self.mass > 0
        pair = np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))[kept.cpu().numpy()]
        return TransportPlan(
            source=batch.order[self.source[kept]],
            target=batch.order[self.target[kept]],
            mass=self.mass[kept],
            offsets=np.searchsorted(pair, np.arange(len(self.offsets))),
        )


def _ceil_div(a: Indices, b: Indices) -> Indices:
    return -(-a // b)


def _uniform_cuts(m: Indices, n: Indices) -> tuple[Indices, Indices]:
    """Cut [0, mn] at the multiples of n and of m, for every size pair at once.

    The rank of a cut follows from how many cuts of the other side lie below it, so nothing
    is sorted and nothing compared as a float.

    Returns:
        The right ends of all pieces, concatenated, and the number of pieces (m + n - gcd) of each size pair.
    """
    gcd = np.gcd(m, n)
    pieces = m + n - gcd
    start = np.cumsum(pieces) - pieces
    cuts = np.empty(int(pieces.sum()), dtype=np.int64)
    for size, other in ((m, n), (n, m)):
        index = ragged_range(size) + 1  # the index-th cut of this side is at index * other
        step, own, opposite, shared = (np.repeat(x, size) for x in (start, size, other, size // gcd))
        # Cuts below: own ones, the other side's strictly below, less those both sides share.
        rank = index - 1 + _ceil_div(index * opposite, own) - 1 - (index - 1) // shared
        cuts[step + rank] = index * opposite
    return cuts, pieces


@dataclass(frozen=True, eq=False)
class _Pieces:
    """Concatenated plans of several size pairs.

    Attributes:
        counts: (c,) number of pieces of each size pair.
        starts: (c,) first piece of each size pair.
        row: Sample of the first class, for every piece.
        column: Sample of the second class.
        mass: Mass of the piece.
    """

    counts: Indices
    starts: Indices
    row: Indices
    column: Indices
    mass: NDArray[np.float64]

    @classmethod
    def of(cls, m: Indices, n: Indices) -> _Pieces:
        """The plans of class sizes m (c,) and n (c,)."""
        cuts, counts = _uniform_cuts(m, n)
        starts = np.cumsum(counts) - counts
        left = np.empty_like(cuts)
        left[1:] = cuts[:-1]
        left[starts] = 0
        row, column = left // np.repeat(n, counts), left // np.repeat(m, counts)
        return cls(counts, starts, row, column, (cuts - left) / np.repeat(m * n, counts))


@cache
def _small_pieces() -> _Pieces:
    """The plans of all size pairs up to `_SMALL`, computed once."""
    sizes = np.arange(1, _SMALL + 1)
    return _Pieces.of(np.repeat(sizes, _SMALL), np.tile(sizes, _SMALL))


def _pieces_of_pairs(m: Indices, n: Indices) -> tuple[_Pieces, Indices]:
    """Plans of the size pairs that occur, and for each class pair which of them it uses."""
    if max(m.max(initial=0), n.max(initial=0)) <= _SMALL:
        return _small_pieces(), (m - 1) * _SMALL + n - 1
    code = m * (n.max() + 1) + n
    codes, which = np.unique(code, return_inverse=True)
    return _Pieces.of(codes // (n.max() + 1), codes % (n.max() + 1)), which


def _uniform_entries(layout: ClassLayout | ClassBatch) -> dict[str, NDArray[np.generic]]:
    """North-west-corner plan of uniform weights, exact in integers, for all pairs, as named arrays."""
    counts, first, second = layout.counts, layout.first, layout.second
    loops = loops_when_hot()
    if loops is not None:
        arrays = (np.ascontiguousarray(x, np.int64) for x in (counts, first, second))
        source, target, mass, offsets = loops.greedy_pieces(*arrays, _MASSES)
        return {"source": source, "target": target, "mass": mass, "bounds": offsets}
    # The plan of a pair depends only on its two class sizes, of which a batch has few distinct ones: each is
    # computed once and copied to its pairs.
    pieces, which = _pieces_of_pairs(counts[first], counts[second])
    entries = pieces.counts[which]
    offsets = np.concatenate(([0], np.cumsum(entries)))
    piece = np.arange(offsets[-1]) + np.repeat(pieces.starts[which] - offsets[:-1], entries)
    starts = np.cumsum(counts) - counts
    return {
        "source": pieces.row[piece] + np.repeat(starts[first], entries),
        "target": pieces.column[piece] + np.repeat(starts[second], entries),
        "mass": pieces.mass[piece],
        "bounds": offsets,
    }


def uniform_arrays(layout: ClassLayout | ClassBatch) -> dict[str, NDArray[np.generic]]:
    """North-west-corner plan of uniform weights, with the pair of every entry, to be moved to a device."""
    arrays = _uniform_entries(layout)
    return {**arrays, "pair": np.repeat(np.arange(len(layout.first)), np.diff(arrays["bounds"]))}


def uniform_plan(batch: ClassBatch) -> TransportPlan:
    """North-west-corner plan of uniform weights, which may be available in `batch.ahead`."""
    if "source" in batch.ahead.host:
        ready = batch.ahead
    else:
        ready = HostArrays(_uniform_entries(batch) if is_host(batch.given) else uniform_arrays(batch))
    parts, offsets = ready.on(batch.given.device), cast(Indices, ready.host["bounds"])
    plan = TransportPlan(parts["source"], parts["target"], parts["mass"].to(batch.given.dtype), offsets)
    vars(plan).update({name: parts[name] for name in ("pair", "bounds") if name in parts})
    return plan


def _cumulative_integers(batch: ClassBatch, weights: Tensor) -> tuple[Tensor, int]:
    """Cumulative weights of every class as integers, so that a merge of two is exact.

    Returns:
        (B,) int64 cumulative weights, the last of each class exactly `whole`; and `whole`.
    """
    # A class number times 2 * whole must fit beside a weight in 63 bits (see weighted_plan).
    whole = 1 << min(52, 61 - batch.num_classes.bit_length())
    units = (weights.double() * whole).round().long()
    running = units.cumsum(0)
    starts = batch.on_device(batch.offsets[:-1])
    cumulative = running - (running - units)[starts][batch.segments]
    # Rounding may have added or lost a few units of 2^-52; the last sample makes up for them.
    cumulative.clamp_(max=whole)[batch.on_device(batch.offsets[1:] - 1)] = whole
    return cumulative, whole


def weighted_plan(batch: ClassBatch, weights: Tensor) -> TransportPlan:
    """North-west-corner plan for any weights: a merge of cumulative weights, for all pairs at once.

    Every pair gets m + n - 1 entries, including entries without mass, so that the shape
    is known without reading the weights.
    """
    cumulative, whole = _cumulative_integers(batch, weights)
    keys = batch.segments * (2 * whole) + cumulative
    m, n = batch.counts[batch.first], batch.counts[batch.second]
    offsets = np.concatenate(([0], np.cumsum(m + n - 1)))
    start = offsets[:-1]
    cuts = torch.empty(int(offsets[-1]), dtype=torch.int64, device=keys.device)
    is_source = torch.zeros_like(cuts)
    cuts[batch.on_device(offsets[1:] - 1)] = whole
    sides = ((batch.first, batch.second, m - 1), (batch.second, batch.first, n - 1))
    for side, (own, other, inner) in enumerate(sides):
        index = ragged_range(inner)
        cut = cumulative[batch.on_device(index + np.repeat(batch.offsets[own], inner))]
        query = cut + batch.on_device(np.repeat(other * (2 * whole), inner))
        # On a tie the source's cut comes first: it counts strictly smaller cuts, the target also equal ones.
        below = torch.searchsorted(keys, query, right=side == 1)
        base = np.repeat(start - batch.offsets[other], inner) + index
        # The other side's last cut is the end of the pair and not counted.
        limit = batch.on_device(np.repeat(batch.offsets[other] + batch.counts[other] - 1, inner))
        rank = batch.on_device(base) + torch.minimum(below, limit)
        cuts[rank] = cut
        is_source[rank] = 1 - side
    left = torch.cat((cuts.new_zeros(1), cuts[:-1]))
    left[batch.on_device(start)] = 0
    counted = is_source.cumsum(0) - is_source
    row = counted - batch.on_device(np.repeat(np.cumsum(m - 1) - (m - 1), m + n - 1))
    column = batch.on_device(ragged_range(m + n - 1)) - row
    return TransportPlan(
        source=row + batch.on_device(np.repeat(batch.offsets[batch.first], m + n - 1)),
        target=column + batch.on_device(np.repeat(batch.offsets[batch.second], m + n - 1)),
        mass=((cuts - left).double() / whole).to(batch.given.dtype),
        offsets=offsets,
    )


def greedy_plan(batch: ClassBatch, arrangement: Tensor | None = None) -> TransportPlan:
    """Match samples greedily in a given order (north-west-corner rule), for all pairs of a batch.

    Args:
        batch: The grouped batch.
        arrangement: (B,) rows in the order in which they are matched, sorted by class;
            None means batch order.
    """
    weights = None if batch.weights is None else batch.exact_mass
    if arrangement is None:
        return uniform_plan(batch) if weights is None else weighted_plan(batch, weights)
    plan = uniform_plan(batch) if weights is None else weighted_plan(batch, weights[arrangement])
    return TransportPlan(arrangement[plan.source], arrangement[plan.target], plan.mass, plan.offsets)
