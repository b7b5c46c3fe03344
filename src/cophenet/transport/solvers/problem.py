"""The transport problems of all class pairs, in exact integers, and the plan that solvers write."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

__all__ = ["WHOLE", "CostStrip", "PairProblems", "integer_shares", "run_all", "thread_count"]

Indices = NDArray[np.int64]
Floats = NDArray[Any]

# Weighted classes hold this many units of mass: sums of units stay exact in float64 and in int64.
WHOLE = 1 << 52


def integer_shares(weights: NDArray[np.float64], starts: Indices) -> Indices:
    """Flow weights as integer units, `WHOLE` in every class, so that solvers are exact.

    Args:
        weights: (B,) not negative, of positive sum in every class.
        starts: (k + 1,) class c owns the rows `starts[c]:starts[c + 1]`.

    Returns:
        (B,) units. Zero stays zero; the remainder of rounding goes to the heaviest sample of a class.

    Example:
        >>> shares = integer_shares(np.array([1.0, 3.0, 9.0]), np.array([0, 2, 3]))
        >>> (shares / WHOLE).tolist()
        [0.25, 0.75, 1.0]
    """
    counts = np.diff(starts)
    sums = np.add.reduceat(weights, starts[:-1])
    shares: Indices = np.rint(weights / np.repeat(sums, counts) * WHOLE).astype(np.int64)
    by_class_then_weight = np.lexsort((weights, np.repeat(np.arange(len(counts)), counts)))
    heaviest = by_class_then_weight[starts[1:] - 1]
    shares[heaviest] += WHOLE - np.add.reduceat(shares, starts[:-1])
    return shares


@dataclass(frozen=True, eq=False)
class CostStrip:
    """Distances of some consecutive samples to others, the ground cost of the pairs between them.

    Attributes:
        cost: (r, c) float32 or float64.
        row: Sample of the first row.
        column: Sample of the first column.
    """

    cost: Floats
    row: int
    column: int


@dataclass(frozen=True, eq=False)
class PairProblems:
    """All pairs of a batch, and arrays for their plans.

    A pair owns as many entries as a plan can need: m for an assignment, m + n - 1 otherwise.
    Unused entries have no mass and refer to the first samples of both classes.

    Attributes:
        starts: (k + 1,) class c owns the samples `starts[c]:starts[c + 1]`.
        first: (P,) class of every pair's sources.
        second: (P,) class of every pair's targets, at least `first`.
        shares: (B,) units of mass of every sample, `WHOLE` per class; None means uniform.
        offsets: (P + 1,) pair p owns the entries `offsets[p]:offsets[p + 1]`.
        source: (E,) sample of the first class.
        target: (E,) sample of the second class.
        mass: (E,) mass sent, in the dtype of the features.
        distance: (E,) ground cost of the entry, in the dtype of the features.
    """

    starts: Indices
    first: Indices
    second: Indices
    shares: Indices | None
    offsets: Indices
    source: Indices
    target: Indices
    mass: Floats
    distance: Floats

    @classmethod
    def empty(
        cls, starts: Indices, first: Indices, second: Indices, shares: Indices | None, dtype: np.dtype[Any]
    ) -> PairProblems:
        """Allocate the plans of pairs that are still to be solved."""
        counts = np.diff(starts)
        m, n = counts[first], counts[second]
        entries = m + n - 1
        if shares is None:
            entries = np.where(m == n, m, entries)
        offsets = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(entries)))
        size = int(offsets[-1])
        return cls(
            starts=starts,
            first=first,
            second=second,
            shares=shares,
            offsets=offsets,
            source=np.empty(size, dtype=np.int64),
            target=np.empty(size, dtype=np.int64),
            mass=np.empty(size, dtype=dtype),
            distance=np.empty(size, dtype=dtype),
        )

    def sizes(self, pairs: Indices) -> tuple[Indices, Indices]:
        """Samples of the first and of the second class of some pairs."""
        counts = np.diff(self.starts)
        return counts[self.first[pairs]], counts[self.second[pairs]]


def run_all(work: Callable[[Indices], None], parts: Iterable[Indices], pool: Executor | None) -> None:
    """Call `work` on every part, in the threads of a pool if there is one; an error in a part is raised."""
    for _ in (map if pool is None else pool.map)(work, parts):
        pass


def thread_count() -> int:
    """Threads a solver may use: as many as torch."""
    return torch.get_num_threads()
