"""All pairs of a strip in compiled code: small ones by shortest paths, many per call and thread."""

from __future__ import annotations

from concurrent.futures import Executor
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cophenet.transport.solvers import library
from cophenet.transport.solvers.problem import (
    WHOLE,
    CostStrip,
    Floats,
    Indices,
    PairProblems,
    run_all,
    thread_count,
)
from cophenet.transport.solvers.shortest_paths import kernel, remove_cycles, transport

__all__ = ["solve"]

# Source, target, mass and distance of some entries; working memory of a thread.
Entries = tuple[Indices, Indices, Floats, Floats]
Room = tuple[Floats, Indices, Indices, Indices, Floats, Indices]

# Samples per class (geometric mean of the two) from which POT's network simplex is faster; assignments
# have no such size.
_LARGE_UNIFORM = 150
_LARGE_WEIGHTED = 45
# Products of sizes per call: enough to make a call's cost vanish, few enough to share the work evenly.
_CALL_PRODUCTS = 1 << 15


@kernel
def _supplies(uniform: bool, shares: Indices, row: int, column: int, left: Indices, need: Indices) -> int:
    """Fill in supplies and demands as integers of equal sum; return that sum."""
    m, n = len(left), len(need)
    if uniform:
        divisor = int(np.gcd(m, n))
        left[:] = n // divisor
        need[:] = m // divisor
        return m * (n // divisor)
    left[:] = shares[row : row + m]
    need[:] = shares[column : column + n]
    return WHOLE


@kernel
def _write_single(
    block: Floats, uniform: bool, shares: Indices, row: int, column: int, entries: Entries
) -> None:
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
def _write_plan(
    block: Floats, flow: Indices, flipped: bool, total: int, row: int, column: int, entries: Entries
) -> bool:
    """Copy a flow's non-zeros to the pair's entries; what is left of these gets no mass.

    Returns whether there was room for all.
    """
    source, target, mass, distance = entries
    used = 0
    for j in range(flow.shape[0]):
        for i in range(flow.shape[1]):
            if flow[j, i] > 0:
                if used == len(source):
                    return False
                a, b = (j, i) if flipped else (i, j)
                source[used] = row + a
                target[used] = column + b
                mass[used] = flow[j, i] / total
                distance[used] = block[a, b]
                used += 1
    for e in range(used, len(source)):
        source[e], target[e], mass[e], distance[e] = row, column, 0.0, block[0, 0]
    return True


@kernel
def _solve_one(
    block: Floats, uniform: bool, shares: Indices, row: int, column: int, entries: Entries, room: Room
) -> None:
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
    if not _write_plan(block, flow, flipped, total, row, column, entries):
        remove_cycles(flow)
        _write_plan(block, flow, flipped, total, row, column, entries)


@kernel
def _solve_pairs(
    cost: Floats,
    corner: tuple[int, int],
    pairs: Indices,
    starts: Indices,
    first: Indices,
    second: Indices,
    uniform: bool,
    shares: Indices,
    offsets: Indices,
    plan: Entries,
) -> None:
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


def _is_large(problems: PairProblems, pairs: Indices) -> NDArray[np.bool_]:
    m, n = problems.sizes(pairs)
    closed_form = (m == 1) | (n == 1)
    uniform = problems.shares is None
    limit = _LARGE_UNIFORM if uniform else _LARGE_WEIGHTED
    large: NDArray[np.bool_] = ~closed_form & ~((m == n) & uniform) & (m * n > limit**2)
    return large


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
