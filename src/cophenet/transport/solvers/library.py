"""Solve pairs one by one with SciPy's assignment solver and POT's network simplex."""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import replace
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from cophenet.transport.plan import ragged_range
from cophenet.transport.solvers.problem import WHOLE, CostStrip, Floats, Indices, PairProblems, run_all

__all__ = ["solve"]

# Product of class sizes from which solving in a thread, without the interpreter lock, is worthwhile.
_THREAD_PRODUCTS = 600
_MAX_PIVOTS = 1 << 62
_OPTIMAL = 1


def _blank(problems: PairProblems, pairs: Indices) -> Indices:
    """Write entries without mass for some pairs; return the entries' numbers."""
    entries = np.diff(problems.offsets)[pairs]
    index = ragged_range(entries, problems.offsets[pairs])
    problems.source[index] = np.repeat(problems.starts[problems.first[pairs]], entries)
    problems.target[index] = np.repeat(problems.starts[problems.second[pairs]], entries)
    problems.mass[index] = 0
    return index


def _solve_singles(problems: PairProblems, pairs: Indices) -> None:
    """Solve pairs in which one class has a single sample, all at once: every sample is matched with it."""
    m, n = problems.sizes(pairs)
    entries = np.maximum(m, n)
    index = ragged_range(entries, problems.offsets[pairs])
    step = ragged_range(entries)
    problems.source[index] += np.where(np.repeat(m > 1, entries), step, 0)
    problems.target[index] += np.where(np.repeat(n > 1, entries), step, 0)
    if problems.shares is None:
        problems.mass[index] = np.repeat(1.0 / entries, entries)
    else:
        spread = np.where(np.repeat(m > 1, entries), problems.source[index], problems.target[index])
        problems.mass[index] = problems.shares[spread] / WHOLE


def _blocks(problems: PairProblems, strip: CostStrip, pairs: Indices) -> Iterator[NDArray[np.float64]]:
    """Yield the costs (m, n) of every pair; bounds are Python integers, which slice faster than NumPy's."""
    first, second = problems.first[pairs], problems.second[pairs]
    rows = zip(
        (problems.starts[first] - strip.row).tolist(),
        (problems.starts[first + 1] - strip.row).tolist(),
        strict=True,
    )
    columns = zip(
        (problems.starts[second] - strip.column).tolist(),
        (problems.starts[second + 1] - strip.column).tolist(),
        strict=True,
    )
    for (a, b), (c, d) in zip(rows, columns, strict=True):
        yield np.ascontiguousarray(strip.cost[a:b, c:d], dtype=np.float64)


def _write(problems: PairProblems, pairs: Indices, used: Indices, cell: Indices, mass: Floats) -> None:
    """Write the plans of some pairs: `used` entries each, concatenated, given the flat index of every cell.

    Cells are numbered along the larger class, as in the compiled solver, so that plans are bit-identical.
    """
    index = ragged_range(used, problems.offsets[pairs])
    m, n = problems.sizes(pairs)
    outer, inner = np.divmod(cell, np.repeat(np.maximum(m, n), used))
    rows_inside = np.repeat(m >= n, used)
    problems.source[index] += np.where(rows_inside, inner, outer)
    problems.target[index] += np.where(rows_inside, outer, inner)
    problems.mass[index] = mass


def _assign(problems: PairProblems, strip: CostStrip, pairs: Indices) -> None:
    """Solve pairs of equal size and uniform weights with SciPy."""
    from scipy.optimize import linear_sum_assignment

    rows = [linear_sum_assignment(cost)[1].argsort() for cost in _blocks(problems, strip, pairs)]
    if rows:
        size = problems.sizes(pairs)[0]
        width = np.repeat(size, size)
        cell = ragged_range(size) * width + np.concatenate(rows)
        _write(problems, pairs, size, cell, 1.0 / width)


def _supplies(problems: PairProblems, pairs: Indices) -> Iterator[tuple[Floats, Floats, float]]:
    """Yield supplies and demands of every pair as whole numbers, and their total."""
    if problems.shares is None:
        uniform = lru_cache(maxsize=None)(lambda size, value: np.full(size, float(value)))
        for m, n in zip(*(size.tolist() for size in problems.sizes(pairs)), strict=True):
            yield uniform(m, n), uniform(n, m), float(m * n)
        return
    shares, starts = problems.shares, problems.starts
    for u, v in zip(problems.first[pairs], problems.second[pairs], strict=True):
        supply, demand = shares[starts[u] : starts[u + 1]], shares[starts[v] : starts[v + 1]]
        yield supply.astype(np.float64), demand.astype(np.float64), float(WHOLE)


def _near_one(cost: NDArray[np.float64]) -> NDArray[np.float64]:
    """Costs times a power of two, so that the largest is about 1: POT ignores small absolute differences.

    Always done, so that of several optimal plans POT returns the same one at every scale.
    """
    return np.ldexp(cost, -math.frexp(float(cost.max()))[1])


def _simplex(problems: PairProblems, strip: CostStrip, pairs: Indices) -> None:
    """Solve pairs of any sizes and weights with POT, whose arithmetic on whole numbers is exact."""
    from ot.lp.emd_wrap import emd_c

    flows, totals = [], []
    posed = zip(_blocks(problems, strip, pairs), _supplies(problems, pairs), strict=True)
    for cost, (supply, demand, total) in posed:
        flow, *_, status = emd_c(supply, demand, _near_one(cost), _MAX_PIVOTS, 1)
        if status != _OPTIMAL:
            sizes = f"{len(supply)} and {len(demand)} samples"
            raise RuntimeError(f"POT found no optimal plan between classes of {sizes} (status {status})")
        flows.append((flow.T if len(supply) >= len(demand) else flow).ravel())
        totals.append(total)
    if flows:
        # The rest is done for all pairs at once: a loop is slow even if it does little.
        flat = np.concatenate(flows)
        ends = np.cumsum([len(flow) for flow in flows])
        cell = np.flatnonzero(flat)
        used = np.diff(np.searchsorted(cell, ends), prepend=0)
        start = np.concatenate(([0], ends[:-1]))
        mass = flat[cell] / np.repeat(totals, used)
        _write(problems, pairs, used, cell - np.repeat(start, used), mass)


def solve(problems: PairProblems, strip: CostStrip, pairs: Indices, pool: Executor | None) -> None:
    """Fill in the plans of the pairs of a strip; arguments as for `dispatch.solve`."""
    if not len(pairs):
        return
    # Convert once for all pairs; a strip of float64 is not copied.
    wide = replace(strip, cost=strip.cost.astype(np.float64, copy=False)) if len(pairs) > 1 else strip
    index = _blank(problems, pairs)
    m, n = problems.sizes(pairs)
    single = np.minimum(m, n) == 1
    equal = ~single & (m == n) & (problems.shares is None)
    _solve_singles(problems, pairs[single])
    for solver, chosen in ((_assign, equal), (_simplex, ~single & ~equal)):
        work = partial(solver, problems, wide)
        threaded = chosen & (m * n >= _THREAD_PRODUCTS)
        work(pairs[chosen & ~threaded])
        run_all(work, pairs[threaded][:, None], pool)
    rows, columns = problems.source[index] - strip.row, problems.target[index] - strip.column
    problems.distance[index] = strip.cost[rows, columns]
