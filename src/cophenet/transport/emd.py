"""Exact earth mover's distance: the optimal plan of every class pair."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import nullcontext
from itertools import pairwise
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from cophenet._common.checks import check_choice
from cophenet.transport.base import PlanDistance, register_distance
from cophenet.transport.batch import ClassBatch
from cophenet.transport.ground import distance_strip, planned_cost
from cophenet.transport.plan import TransportPlan
from cophenet.transport.solvers import machine_code
from cophenet.transport.solvers.problem import (
    CostStrip,
    Indices,
    PairProblems,
    integer_shares,
    thread_count,
)
from cophenet.transport.warm_up import warm_up

__all__ = ["EMD", "solve_all"]

Solver = Literal["auto", "numba", "pot"]
_Solve = Callable[[PairProblems, CostStrip, Indices, Executor | None], None]

# Rows of a strip of distances: enough for a fast product, few enough to skip most of a lower triangle.
_STRIP_ROWS = 384
_STRIP_ELEMENTS = 1 << 24
# Number of distances below which starting threads costs more than it saves.
_THREAD_ELEMENTS = 1 << 16


def _load(solver: Solver) -> _Solve:
    """Import a solver on use, so that this module itself needs neither Numba nor SciPy nor POT."""
    if solver == "numba":
        warm_up()
    elif solver == "pot" or not machine_code.is_compiled_meanwhile():
        from cophenet.transport.solvers import library

        return library.solve
    from cophenet.transport.solvers import dispatch

    return dispatch.solve


def _cuts(starts: Indices, begin: int, stop: int, step: int) -> Iterator[tuple[int, int]]:
    """Split the classes begin..stop into runs of about `step` samples, at least one class each."""
    marks = np.arange(starts[begin], starts[stop], step)
    bounds = np.unique(np.append(begin + np.searchsorted(starts[begin:stop], marks), stop))
    return pairwise(bounds.tolist())


def _strips(z: Tensor, problems: PairProblems) -> Iterator[tuple[CostStrip, Indices]]:
    """Distances of some classes to themselves and later ones, with the pairs covered; bounded memory."""
    starts, num_classes = problems.starts, len(problems.starts) - 1
    order = np.argsort(problems.first, kind="stable")
    first = problems.first[order]
    for row, row_stop in _cuts(starts, 0, num_classes, _STRIP_ROWS):
        pairs = order[np.searchsorted(first, row) : np.searchsorted(first, row_stop)]
        rows = slice(int(starts[row]), int(starts[row_stop]))
        width = max(1, _STRIP_ELEMENTS // (rows.stop - rows.start))
        for column, column_stop in _cuts(starts, row, num_classes, width):
            second = problems.second[pairs]
            inside = pairs[(second >= column) & (second < column_stop)]
            if len(inside):
                columns = slice(int(starts[column]), int(starts[column_stop]))
                cost = distance_strip(z, rows, columns).cpu().numpy()
                if not np.isfinite(cost.max()):
                    raise ValueError(f"features must be smaller: their distances overflow {z.dtype}")
                yield CostStrip(cost, rows.start, columns.start), inside


def solve_all(batch: ClassBatch, solve: _Solve) -> PairProblems:
    """The optimal plan of every pair; sources are in the class of the lower position."""
    z = batch.features.detach()
    starts = batch.offsets
    shares = None
    if batch.weights is not None:
        shares = integer_shares(batch.weights.double().cpu().numpy(), starts)
    low, high = np.minimum(batch.first, batch.second), np.maximum(batch.first, batch.second)
    dtype = np.dtype(np.float64 if z.dtype == torch.float64 else np.float32)
    problems = PairProblems.empty(starts, low, high, shares, dtype)
    threads = thread_count() if len(z) ** 2 >= _THREAD_ELEMENTS else 1
    with ThreadPoolExecutor(threads) if threads > 1 else nullcontext() as pool:
        strips: Iterable[tuple[CostStrip, Indices]] = _strips(z, problems)
        if len(z) ** 2 <= _STRIP_ELEMENTS:
            # All products first: torch's threads spin for a while after each and would slow down ours.
            strips = list(strips)
        for strip, pairs in strips:
            solve(problems, strip, pairs, pool)
    return problems


@register_distance
class EMD(PlanDistance):
    r"""Exact earth mover's distance with Euclidean ground cost.

    .. math::

        \rho(u, v) = \min_P \langle P, D \rangle
        \quad \text{subject to} \quad P 1 = a, \; P^\top 1 = b, \; P \ge 0

    Equation 3 of the OT-CPCC paper (arXiv:2410.03052), which proposes it for CPCC in section 3.1. A linear
    program per class pair, solved on the host. The optimal plan is constant in the backward pass, which makes
    the gradient exact wherever the plan is unique, by Danskin's theorem (section 3.3; Danskin 1966,
    doi:10.1137/0114053).

    Args:
        solver: "numba", compiled code for all pairs at once (`pip install cophenet[fast]`); "pot", SciPy and
            POT pair by pair; "auto", the first if it is installed. All give the same values. The first use
            of "numba" compiles for half a minute; "auto" does so in the background and uses "pot" until then.

    Raises:
        ValueError: If the solver is unknown.
        ImportError: If "numba" is requested and cannot be used.

    Example:
        >>> from cophenet.transport.grouping import group_by_class
        >>> z = torch.tensor([[0.0], [2.0], [1.0], [5.0]])
        >>> batch = group_by_class(z, torch.tensor([0, 0, 1, 1]))
        >>> EMD()(batch)
        tensor([2.])
    """

    name = "emd"
    pair_cost = "product"
    stateless = True

    def __init__(self, solver: Solver = "auto") -> None:
        super().__init__()
        check_choice("solver", solver, get_args(Solver))
        if solver == "numba" and machine_code.why_none() is not None:
            raise ImportError(f"solver='numba' cannot be used: {machine_code.why_none()}")
        self.solver: Solver = solver

    def extra_repr(self) -> str:
        """Options shown when printed."""
        return f"solver={self.solver!r}"

    def _plan_with_distances(self, batch: ClassBatch) -> tuple[TransportPlan, Tensor]:
        problems = solve_all(batch, _load(self.solver))
        source, target = problems.source, problems.target
        flipped = batch.first > batch.second
        if flipped.any():
            back = np.repeat(flipped, np.diff(problems.offsets))
            source, target = np.where(back, target, source), np.where(back, source, target)
        plan = TransportPlan(
            source=batch.on_device(source),
            target=batch.on_device(target),
            mass=batch.on_device(problems.mass),
            offsets=problems.offsets,
        )
        return plan, batch.on_device(problems.distance)

    def plan(self, batch: ClassBatch) -> TransportPlan:
        """An optimal plan of every pair, at most m + n - 1 entries each."""
        return self._plan_with_distances(batch)[0]

    def with_plan(self, batch: ClassBatch) -> tuple[Tensor, TransportPlan]:
        """The distances and the plan behind them."""
        plan, distance = self._plan_with_distances(batch)
        return planned_cost(batch, plan, distance), plan
