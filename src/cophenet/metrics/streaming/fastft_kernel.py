"""Numba kernel: cost of the Fast FlowTree plans of all class pairs, slice by slice."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from cophenet.metrics.streaming.distances import share
from cophenet.transport.solvers.decorators import summing_kernel

__all__ = ["walk_slice"]

Indices = NDArray[np.int64]


_share = njit(nogil=True, inline="always")(share)


@summing_kernel
def walk_slice(
    z: NDArray[Any],
    base: Indices,
    counts: Indices,
    pairs: tuple[Indices, Indices],
    where: tuple[int, int],
    total: NDArray[np.float64],
) -> None:
    """Add the transport costs of some pairs within a slice to `total` (p,).

    Positions in the plan of a pair are integers in 0..mn: sample i of the first class begins at i * n, sample
    j of the second at j * m. A piece of the plan belongs to the slice in which it begins.

    Args:
        z: (R, d) samples of the slice.
        base: (k,) row that sample 0 of each class would have in `z`.
        counts: (k,) number of samples of each class.
        pairs: (p,) first and second classes.
        where: Index of the slice, and the number of slices.
        total: (p,) sums over all slices.
    """
    first, second = pairs
    number, slices = where
    width = z.shape[1]
    for p in range(len(first)):
        m, n = counts[first[p]], counts[second[p]]
        begin, end = -_share(-m * n, number, slices), -_share(-m * n, number + 1, slices)
        left = min((begin + n - 1) // n * n, (begin + m - 1) // m * m)
        i, j = left // n, left // m
        next_i, next_j = (i + 1) * n, (j + 1) * m
        paid = 0.0
        while left < end:
            right = min(next_i, next_j)
            a, b = z[base[first[p]] + i], z[base[second[p]] + j]
            square = z.dtype.type(0)
            for x in range(width):
                difference = a[x] - b[x]
                square += difference * difference
            paid += (right - left) * np.sqrt(square)
            if right == next_i:
                i += 1
                next_i += n
            if right == next_j:
                j += 1
                next_j += m
            left = right
        total[p] += paid / (m * n)
