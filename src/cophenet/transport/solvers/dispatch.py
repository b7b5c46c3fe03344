"""Solve the pairs of a strip: small ones in compiled code, many per call; large ones with POT."""

from __future__ import annotations

from concurrent.futures import Executor
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cophenet.transport.solvers import library
from cophenet.transport.solvers.kernels import solve_pairs
from cophenet.transport.solvers.problem import (
    CostStrip,
    Indices,
    PairProblems,
    run_all,
    thread_count,
)

__all__ = ["solve"]


_UNIFORM = np.empty(0, dtype=np.int64)
# Samples per class (geometric mean of the two) from which POT's network simplex is faster; for
# assignments it never is.
_LARGE_UNIFORM = 150
_LARGE_WEIGHTED = 70
# Sum of size products per call: enough to make the overhead negligible, few enough to balance threads.
_CALL_PRODUCTS = 1 << 15


def _call(problems: PairProblems, strip: CostStrip, pairs: Indices) -> None:
    solve_pairs(
        strip.cost,
        (strip.row, strip.column),
        pairs,
        problems.starts,
        problems.first,
        problems.second,
        _UNIFORM if problems.shares is None else problems.shares,
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
        pool: Threads to use; None uses the calling thread.
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
