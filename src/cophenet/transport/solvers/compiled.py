"""All pairs of a strip in compiled code: small ones by shortest paths, many per call and thread."""

from __future__ import annotations

from concurrent.futures import Executor
from functools import partial

import numpy as np

from cophenet.transport.solvers import library
from cophenet.transport.solvers.problem import WHOLE, CostStrip, Indices, PairProblems, run_all, thread_count
from cophenet.transport.solvers.shortest_paths import kernel, remove_cycles, transport

__all__ = ["solve"]

# Samples per class (geometric mean of the two) from which POT's network simplex is faster. Assignments have no such size.
_LARGE_UNIFORM = 150
_LARGE_WEIGHTED = 45
# Products of sizes per call: enough to make a call's cost vanish, few enough to share the work evenly.
_CALL_PRODUCTS = 1 << 15


@kernel
def _supplies(uniform, shares, row, column, left, need):  # type: ignore[no-untyped-def]
    """Fill in supplies and demands as integers of equal sum; return that sum."""
    m, n = len(left), len(need)
    if uniform:
        divisor = np.gcd(m, n)
        left[:] = n // divisor
        need[:] = m // divisor
        return m * (n // divisor)
    left[:] = shares[row : row + m]
    need[:] = shares[column : column + n]
    return WHOLE


@kernel
def _write_single(block, uniform, shares, row, column, entries):  # type: ignore[no-untyped-def]
    """The plan if one class has a single sample: everything goes there."""
    source, target, mass, distance = entries
    m, n = block.shape
    first = row if n == 1 else column
    for e in range(max(m, n)):
        source[e] = row + e % m
        target[e] = column + e % n
        mass[e] = 1.0 / max(m, n) if uniform else shares[first + e] / WHOLE
        distance[e] = block[e % m, e % n]


@kernel
def _write_plan(block, flow, flipped, total, row, column, entries):  # type: ignore[no-untyped-def]
    """Copy a flow's non-zeros to the pair's entries; what is left of these gets no mass."""
    source, target, mass, distance = entries
    used = 0
    for j in range(flow.shape[0]):
        for i in range(flow.shape[1]):
            if flow[j, i] > 0:
                a, b = (j, i) if flipped else (i, j)
                source[used] = row + a
                target[used] = column + b
                mass[used] = flow[j, i] / total
                distance[used] = block[a, b]
                used += 1
    for e in range(used, len(source)):
        source[e], target[e], mass[e], distance[e] = row, column, 0.0, block[0, 0]


@kernel
def _solve_one(block, uniform, shares, row, column, entries, room):  # type: ignore[no-untyped-def]
    """Solve one pair, the larger class as rows."""
    costs, flows, left, need, reals, integers = room
    flipped = block.shape[0] < block.shape[1]
    oriented = block.T if flipped else block
    m, n = oriented.shape
    cost = costs[: m * n].reshape(m, n)
    cost[:] = oriented
    flow = flows[: m * n].reshape(n, m)
    base, other = (column, row) if flipped else (row, column)
    total = _supplies(uniform, shares, base, other, left[:m], need[:n])
    transport(cost, left[:m], need[:n], flow, reals, integers)
    if (flow > 0).sum() > len(entries[0]):
        remove_cycles(flow)
    _write_plan(block, flow, flipped, total, row, column, entries)


@kernel
def _solve_pairs(cost, corner, pairs, starts, first, second, uniform, shares, offsets, plan):  # type: ignore[no-untyped-def]
    """Solve some pairs one after the other in the same working memory."""
    size = 1
    products = 1
    for p in pairs:
        m, n = starts[first[p] + 1] - starts[first[p]], starts[second[p] + 1] - starts[second[p]]
        size = max(size, m, n)
        products = max(products, m * n)
    room = (
        np.empty(products, dtype=np.float64),
        np.empty(products, dtype=np.int64),
        np.empty(size, dtype=np.int64),
        np.empty(size, dtype=np.int64),
        np.empty((5, size), dtype=np.float64),
        np.empty((4, size), dtype=np.int64),
    )
    source, target, mass, distance = plan
    for p in pairs:
        row, row_stop = starts[first[p]], starts[first[p] + 1]
        column, column_stop = starts[second[p]], starts[second[p] + 1]
        block = cost[row - corner[0] : row_stop - corner[0], column - corner[1] : column_stop - corner[1]]
        a, b = offsets[p], offsets[p + 1]
        entries = (source[a:b], target[a:b], mass[a:b], distance[a:b])
        if min(block.shape) == 1:
            _write_single(block, uniform, shares, row, column, entries)
        else:
            _solve_one(block, uniform, shares, row, column, entries, room)


def _call(problems: PairProblems, strip: CostStrip, pairs: Indices) -> None:
    shares = problems.shares
    _solve_pairs(
        strip.cost,
        (strip.row, strip.column),
        pairs,
        problems.starts,
        problems.first,
        problems.second,
        shares is None,
        problems.starts if shares is None else shares,
        problems.offsets,
        (problems.source, problems.target, problems.mass, problems.distance),
    )


def _is_large(problems: PairProblems, pairs: Indices) -> np.ndarray:
    m, n = problems.sizes(pairs)
    if problems.shares is None:
        return (m * n > _LARGE_UNIFORM**2) & (m != n) & (np.minimum(m, n) > 1)
    return (m * n > _LARGE_WEIGHTED**2) & (np.minimum(m, n) > 1)


def solve(problems: PairProblems, strip: CostStrip, pairs: Indices, pool: Executor | None) -> None:
    """Fill in the plans of the pairs of a strip.

    Args:
        problems: All pairs; the entries of `pairs` are written.
        strip: Distances that cover the pairs.
        pairs: (p,) which pairs to solve.
        pool: Threads to use; None works in the caller's.
    """
    large = _is_large(problems, pairs)
    library.solve(problems, strip, pairs[large], pool)
    small = pairs[~large]
    m, n = problems.sizes(small)
    work = np.cumsum(m * n)
    if pool is None or not len(small) or work[-1] <= _CALL_PRODUCTS:
        _call(problems, strip, small)
        return
    step = max(_CALL_PRODUCTS, int(work[-1]) // (64 * thread_count()))
    cuts = np.searchsorted(work, np.arange(step, int(work[-1]), step))
    run_all(partial(_call, problems, strip), np.split(small, np.unique(cuts)), pool)
