"""Pairs one by one with SciPy's assignment solver and POT's network simplex."""

from __future__ import annotations

from concurrent.futures import Executor
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cophenet.transport.solvers.problem import WHOLE, CostStrip, Floats, Indices, PairProblems, run_all

__all__ = ["solve"]

# Product of sizes from which a solve outside the interpreter lock pays for handing it to a thread.
_THREAD_PRODUCTS = 600
_MAX_PIVOTS = 1 << 62
_OPTIMAL = 1


def _blank(problems: PairProblems, pairs: Indices) -> Indices:
    """Write entries without mass for some pairs; return the entries' numbers."""
    entries = np.diff(problems.offsets)[pairs]
    index = _ragged(problems.offsets[pairs], entries)
    problems.source[index] = np.repeat(problems.starts[problems.first[pairs]], entries)
    problems.target[index] = np.repeat(problems.starts[problems.second[pairs]], entries)
    problems.mass[index] = 0
    return index


def _ragged(begin: Indices, lengths: Indices) -> Indices:
    """begin, begin + 1, ... of each length, end to end."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    index: Indices = np.arange(total) + np.repeat(begin - (ends - lengths), lengths)
    return index


def _solve_singles(problems: PairProblems, pairs: Indices) -> None:
    """Pairs in which one class has a single sample, all at once: everything goes there."""
    m, n = problems.sizes(pairs)
    entries = np.maximum(m, n)
    index = _ragged(problems.offsets[pairs], entries)
    step = _ragged(np.zeros_like(entries), entries)
    problems.source[index] += np.where(np.repeat(m > 1, entries), step, 0)
    problems.target[index] += np.where(np.repeat(n > 1, entries), step, 0)
    if problems.shares is None:
        problems.mass[index] = np.repeat(1.0 / entries, entries)
    else:
        spread = np.where(np.repeat(m > 1, entries), problems.source[index], problems.target[index])
        problems.mass[index] = problems.shares[spread] / WHOLE


def _block(problems: PairProblems, strip: CostStrip, pair: int) -> NDArray[np.float64]:
    """(m, n) costs of one pair."""
    first, second = problems.first[pair], problems.second[pair]
    rows = slice(problems.starts[first] - strip.row, problems.starts[first + 1] - strip.row)
    columns = slice(problems.starts[second] - strip.column, problems.starts[second + 1] - strip.column)
    return np.ascontiguousarray(strip.cost[rows, columns], dtype=np.float64)


def _write(problems: PairProblems, pair: int, row: Indices, column: Indices, mass: Floats | float) -> None:
    entries = slice(problems.offsets[pair], problems.offsets[pair] + len(row))
    problems.source[entries] += row
    problems.target[entries] += column
    problems.mass[entries] = mass


def _assign(problems: PairProblems, strip: CostStrip, pairs: Indices) -> None:
    """Pairs of equal size and uniform weights, with SciPy."""
    from scipy.optimize import linear_sum_assignment

    for pair in pairs.tolist():
        row, column = linear_sum_assignment(_block(problems, strip, pair))
        _write(problems, pair, row, column, 1.0 / len(row))


def _simplex(problems: PairProblems, strip: CostStrip, pairs: Indices) -> None:
    """Pairs of any sizes and weights, with POT, whose arithmetic on whole numbers is exact."""
    from ot.lp.emd_wrap import emd_c

    starts, shares = problems.starts, problems.shares
    for pair in pairs.tolist():
        cost = _block(problems, strip, pair)
        m, n = cost.shape
        if shares is None:
            supply, demand = np.full(m, float(n)), np.full(n, float(m))
        else:
            row, column = starts[problems.first[pair]], starts[problems.second[pair]]
            supply = shares[row : row + m].astype(np.float64)
            demand = shares[column : column + n].astype(np.float64)
        flow, *_, status = emd_c(supply, demand, cost, _MAX_PIVOTS, 1)
        if status != _OPTIMAL:
            raise RuntimeError(
                f"POT found no optimal plan between classes of {m} and {n} samples (status {status})"
            )
        flat = flow.ravel()
        used = np.flatnonzero(flat)
        total = float(m * n) if shares is None else float(WHOLE)
        _write(problems, pair, used // n, used % n, flat[used] / total)


def solve(problems: PairProblems, strip: CostStrip, pairs: Indices, pool: Executor | None) -> None:
    """Fill in the plans of the pairs of a strip; arguments as for `compiled.solve`."""
    if not len(pairs):
        return
    index = _blank(problems, pairs)
    m, n = problems.sizes(pairs)
    single = np.minimum(m, n) == 1
    equal = ~single & (m == n) & (problems.shares is None)
    _solve_singles(problems, pairs[single])
    for solver, chosen in ((_assign, equal), (_simplex, ~single & ~equal)):
        work = partial(solver, problems, strip)
        threaded = chosen & (m * n >= _THREAD_PRODUCTS)
        work(pairs[chosen & ~threaded])
        run_all(work, pairs[threaded][:, None], pool)
    rows, columns = problems.source[index] - strip.row, problems.target[index] - strip.column
    problems.distance[index] = strip.cost[rows, columns]
