"""Numba kernels for steps that take torch many small operations, with bit-identical results.

Sums are added up in the order of torch's own operations, and nothing is contracted or reordered, so that it
does not matter from which call on these are used.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cophenet.transport.solvers.decorators import kernel
from cophenet.transport.solvers.problem import Floats, Indices

__all__ = [
    "add_by_class",
    "add_forces",
    "add_powers",
    "center_rows",
    "centered_means",
    "count_labels",
    "greedy_costs",
    "greedy_pieces",
    "largest_bits",
    "planned_costs",
    "springs_of_entries",
    "springs_of_pairs",
    "squared_distances",
]


@kernel
def count_labels(labels: Indices, limit: int) -> tuple[Indices, Indices, Indices]:
    """Distinct labels, ascending; their counts; the position of each. Empty if they span `limit` or more."""
    low = high = labels[0]
    for label in labels:
        low, high = min(low, label), max(high, label)
    if float(high) - float(low) >= limit:  # integers could overflow
        return labels[:0], labels[:0], labels[:0]
    sizes = np.zeros(high - low + 1, dtype=np.int64)
    for label in labels:
        sizes[label - low] += 1
    number, present = np.empty_like(sizes), 0
    for place in range(len(sizes)):
        number[place] = present
        present += sizes[place] > 0
    classes, counts, owner = np.empty(present, np.int64), np.empty(present, np.int64), np.empty_like(labels)
    for place in range(len(sizes)):
        if sizes[place]:
            classes[number[place]], counts[number[place]] = low + place, sizes[place]
    for i in range(len(labels)):
        owner[i] = number[labels[i] - low]
    return classes, counts, owner


@kernel
def largest_bits(bits: NDArray[np.signedinteger[Any]]) -> int:
    """Largest absolute value of floats (N, d), whose bits are given as integers; so are those of the result.

    Of NaN it is NaN, because without their sign floats are in the order of their bits.
    """
    kind = bits.dtype.type
    largest: int = kind(0)
    without_sign = kind(np.iinfo(bits.dtype).max)
    for i in range(len(bits)):
        for j in range(bits.shape[1]):
            largest = max(largest, kind(bits[i, j] & without_sign))
    return largest


@kernel
def center_rows(z: Floats, out: Floats) -> None:
    """Write features (N, d) less their mean into `out`."""
    mean = np.zeros(z.shape[1], z.dtype)
    for i in range(len(z)):
        for j in range(z.shape[1]):
            mean[j] += z[i, j]
    count = z.dtype.type(len(z))
    for j in range(z.shape[1]):
        mean[j] /= count
    for i in range(len(z)):
        for j in range(z.shape[1]):
            out[i, j] = z[i, j] - mean[j]


@kernel
def add_by_class(z: Floats, owner: Indices, mass: Floats, sums: Floats) -> None:
    """Add features (N, d), times their mass (N,) unless that is empty, to the float64 sums (k, d)."""
    for i in range(len(z)):
        c = owner[i]
        if c < 0 or c >= len(sums):
            raise IndexError("owner must be the number of a class")
        if len(mass):
            for j in range(z.shape[1]):
                sums[c, j] += np.float64(z[i, j]) * mass[i]
        else:
            for j in range(z.shape[1]):
                sums[c, j] += np.float64(z[i, j])


@kernel
def centered_means(z: Floats, owner: Indices, mass: Floats, counts: Indices, out: Floats) -> None:
    """Write centred class means (k, d) into `out`, in the type of the features (N, d).

    Sums are divided by the counts (k,), unless features have a mass (N,). Rows without a class have owner k.
    """
    size, width = out.shape
    points = np.zeros((size + 1, width))
    add_by_class(z, owner, mass, points)
    mean = np.zeros(width)
    for c in range(size):
        divisor = 1.0 if len(mass) else float(counts[c])
        for j in range(width):
            point = points[c, j] / divisor
            points[c, j] = point
            mean[j] += point
    for j in range(width):
        mean[j] /= size
    for c in range(size):
        for j in range(width):
            out[c, j] = points[c, j] - mean[j]


@kernel
def squared_distances(
    gram: Floats, first: Indices, second: Indices, least: float, cancels: float, squared: Floats
) -> bool:
    """Compute squared distances (P,) from the Gram matrix (k, k); return whether they are accurate.

    They are not if the largest squared norm is not between `least` and 1 / `least`, if a squared distance is
    at most `cancels` (in the type of the Gram matrix) times the sum of both squared norms, or if a pair is
    out of bounds.
    """
    largest = gram[0, 0]
    for c in range(len(gram)):
        if not gram[c, c] < 1 / least:  # also NaN
            return False
        largest = max(largest, gram[c, c])
    good = bool(largest > least)
    for p in range(len(first)):
        a, b = first[p], second[p]
        if min(a, b) < 0 or max(a, b) >= len(gram):
            return False
        squares = gram[a, a] + gram[b, b]
        product = gram[a, b]
        squared[p] = squares - (product + product)
        good &= squared[p] > squares * cancels
    return good


@kernel
def _to_laplacian(springs: Floats) -> None:
    """Turn the symmetric weights (k, k) of a graph into its Laplacian: times points, the points' gradient."""
    held = springs[0].copy()
    for c in range(1, len(springs)):
        for j in range(len(springs)):
            held[j] += springs[c, j]
    for c in range(len(springs)):
        for j in range(len(springs)):
            springs[c, j] = -springs[c, j]
        springs[c, c] += held[c]


@kernel
def springs_of_pairs(
    grad: Floats, distance: Floats, first: Indices, second: Indices, counts: Indices, springs: Floats
) -> None:
    """Write the Laplacian (k, k) of the graph with weights grad / distance of pairs (P,) into `springs`.

    Rows are divided by the counts (k,), unless empty.
    """
    springs[:] = 0
    for p in range(len(first)):
        a, b = first[p], second[p]
        pull = grad[p] / distance[p]
        springs[a, b] += pull
        springs[b, a] += pull
    _to_laplacian(springs)
    for c in range(len(counts)):
        count = springs.dtype.type(counts[c])
        for j in range(len(springs)):
            springs[c, j] /= count


@kernel
def add_powers(x: Floats, source: Indices, target: Indices, power: Floats) -> None:
    """Add the squares of x_i - x_j, for every row of x (L, B), to the entries of `power` (E,)."""
    for row in x:
        for e in range(len(source)):
            gap = row[source[e]] - row[target[e]]
            power[e] += gap * gap


@kernel
def add_forces(
    x: Floats, source: Indices, target: Indices, strength: Floats, given: Floats, taken: Floats
) -> None:
    """Add strength * (x_i - x_j) of entries (E,) to sources in `given` and to targets in `taken` (L, B)."""
    for r in range(len(x)):
        row, own, other = x[r], given[r], taken[r]
        for e in range(len(source)):
            force = (row[source[e]] - row[target[e]]) * strength[e]
            own[source[e]] += force
            other[target[e]] += force


@kernel
def greedy_pieces(
    counts: Indices, first: Indices, second: Indices, like: Floats
) -> tuple[Indices, Indices, Floats, Indices]:
    """North-west-corner plans of uniform weights for pairs (P,) of classes with counts (k,).

    Args:
        counts: (k,) samples of every class.
        first: (P,) first class of every pair.
        second: (P,) second class of every pair.
        like: An array of the type that masses shall have.

    Returns:
        Sources, targets and masses (E,), and offsets (P + 1,): pair p owns `offsets[p]:offsets[p + 1]`.
    """
    size = 0
    for p in range(len(first)):
        if min(first[p], second[p]) < 0 or max(first[p], second[p]) >= len(counts):
            raise IndexError("pairs must be of the classes of the batch")
        size += counts[first[p]] + counts[second[p]] - 1
    source, target, mass = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, like.dtype)
    offsets = np.zeros(len(first) + 1, np.int64)
    starts = np.cumsum(counts) - counts
    entry = 0
    for p in range(len(first)):
        a, b = first[p], second[p]
        i, j, m, n = starts[a], starts[b], counts[a], counts[b]
        # [0, mn] is cut at the multiples of n, where a source's mass ends, and of m, where a target's does.
        left, source_end, target_end = 0, n, m
        while left < m * n:
            cut = min(source_end, target_end)
            source[entry], target[entry], mass[entry] = i, j, (cut - left) / (m * n)
            entry += 1
            left = cut
            if source_end == cut:
                i += 1
                source_end += n
            if target_end == cut:
                j += 1
                target_end += m
        offsets[p + 1] = entry
    return source[:entry], target[:entry], mass[:entry], offsets


@kernel
def planned_costs(
    gram: Floats,
    entries: tuple[Indices, Indices, Floats],
    offsets: Indices,
    cancels: float,
    distance: Floats,
    cost: Floats,
) -> bool:
    """Compute distances (E,) and costs (P,) of plans from a Gram matrix; return whether they are accurate.

    They are not if a squared distance is at most `cancels` (in the type of the Gram matrix) times the sum of
    both squared norms, or if a sample is out of bounds.

    Args:
        gram: (B, B) products of the centred features; only what is not below the diagonal is read.
        entries: Sources, targets and masses, (E,) each.
        offsets: (P + 1,) pair p owns the entries `offsets[p]:offsets[p + 1]`.
        cancels: The fraction.
        distance: Output.
        cost: Output.
    """
    source, target, mass = entries
    norms = np.diag(gram).copy()
    for p in range(len(cost)):
        total = mass.dtype.type(0)
        for e in range(max(offsets[p], 0), min(offsets[p + 1], len(source))):
            low, high = min(source[e], target[e]), max(source[e], target[e])
            if low < 0 or high >= len(norms):
                return False
            squares, product = norms[low] + norms[high], gram[low, high]
            squared = squares - (product + product)
            if not squared > squares * cancels:  # also NaN
                return False
            distance[e] = np.sqrt(squared)
            total += mass[e] * distance[e]
        cost[p] = total
    return True


@kernel
def greedy_costs(
    gram: Floats, order: Indices, counts: Indices, first: Indices, second: Indices, cancels: float
) -> tuple[tuple[Indices, Indices, Floats, Indices], Floats, Floats, bool]:
    """Plan as `greedy_pieces` and compute costs as `planned_costs`, of samples in any order.

    Args:
        gram: (B, B) products of the centred features.
        order: (B,) samples sorted by class.
        counts: (k,) samples of every class.
        first: (P,) first class of every pair.
        second: (P,) second class of every pair.
        cancels: As for `planned_costs`.

    Returns:
        The plan as by `greedy_pieces`, but with samples as numbers of rows of `gram`; distances (E,), costs
        (P,), and whether these are accurate.
    """
    if counts.sum() != len(order):
        raise IndexError("the order must be of the samples of the batch")
    source, target, mass, offsets = greedy_pieces(counts, first, second, gram[0])
    for e in range(len(source)):
        source[e], target[e] = order[source[e]], order[target[e]]
    distance, cost = np.empty_like(mass), np.empty(len(first), gram.dtype)
    accurate = planned_costs(gram, (source, target, mass), offsets, cancels, distance, cost)
    return (source, target, mass, offsets), distance, cost, accurate


@kernel
def springs_of_entries(
    grad: Floats,
    distance: Floats,
    entries: tuple[Indices, Indices, Floats],
    offsets: Indices,
    springs: Floats,
) -> None:
    """Write the Laplacian (B, B) of the graph with weights grad * mass / distance of plan entries (E,).

    `entries` are sources, targets and masses; `grad` (P,) belongs to pairs, which own the entries
    `offsets[p]:offsets[p + 1]`.
    """
    source, target, mass = entries
    springs[:] = 0
    for p in range(len(grad)):
        for e in range(max(offsets[p], 0), min(offsets[p + 1], len(source))):
            i, j = source[e], target[e]
            if min(i, j) < 0 or max(i, j) >= len(springs):
                raise IndexError("a plan must be of the samples of the batch")
            pull = grad[p] * mass[e] / distance[e]
            springs[i, j] += pull
            springs[j, i] += pull
    _to_laplacian(springs)
