"""Numba kernels on differences of samples: distances of pairs, and the forces that pull their samples.

They take the time of reading the samples, where torch writes all differences to memory and reads them again.
"""

from __future__ import annotations

import numpy as np

from cophenet.transport.solvers.decorators import borrowed, kernel, summing_kernel
from cophenet.transport.solvers.problem import Floats, Indices

__all__ = ["lengths_of_pairs", "pull_rows"]


@summing_kernel
def lengths_of_pairs(z: Floats, source: Indices, target: Indices, lengths: Floats) -> None:
    """Write the distances (E,) of pairs of samples (B, d) into `lengths`."""
    rows = borrowed(z)
    for e in range(len(lengths)):
        i, j = source[e], target[e]
        if min(i, j) < 0 or max(i, j) >= len(z):
            raise IndexError("a plan must be of the samples of the batch")
        left, right, square = rows[i], rows[j], z.dtype.type(0)
        for c in range(len(left)):
            gap = left[c] - right[c]
            square += gap * gap
        lengths[e] = np.sqrt(square)


@kernel
def pull_rows(
    z: Floats, source: Indices, target: Indices, pull: Floats, only: tuple[int, int], out: Floats
) -> None:
    """Add pull * (z_i - z_j) to row i of `out` (B, d) and subtract it from row j, for pairs (E,).

    Only rows `only[0]:only[1]` of `out` are changed, so that threads can share the rows among them.
    """
    low, high = only
    rows, forces = borrowed(z), borrowed(out)
    for e in range(len(pull)):
        i, j = source[e], target[e]
        if min(i, j) < 0 or max(i, j) >= len(z):
            raise IndexError("a plan must be of the samples of the batch")
        own, other = low <= i < high, low <= j < high
        if not (own or other):
            continue
        left, right, strength = rows[i], rows[j], pull[e]
        if own and other:
            to, by = forces[i], forces[j]
            for c in range(len(left)):
                force = (left[c] - right[c]) * strength
                to[c] += force
                by[c] -= force
        elif own:
            to = forces[i]
            for c in range(len(left)):
                to[c] += (left[c] - right[c]) * strength
        else:
            by = forces[j]
            for c in range(len(left)):
                by[c] -= (left[c] - right[c]) * strength
