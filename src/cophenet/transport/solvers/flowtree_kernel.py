"""A Numba kernel: samples of all class pairs matched bottom-up on the cells of one tree."""

from __future__ import annotations

import numpy as np

from cophenet.transport.solvers.decorators import kernel
from cophenet.transport.solvers.problem import Floats, Indices

__all__ = ["match_pairs"]


@kernel
def match_pairs(
    cells: Indices,
    order: Indices,
    starts: Indices,
    pairs: tuple[Indices, Indices],
    units: tuple[Indices, Indices],
    offsets: Indices,
    plan: tuple[Indices, Indices, Floats],
) -> int:
    """Match samples that share a cell, pair by pair, from the smallest cells up, in order within a cell.

    Args:
        cells: (levels, B) cell of every sample; a single cell on the first level.
        order: (levels, B) samples of every class in the order of their cells.
        starts: (k + 1,) first sample of every class.
        pairs: (P,) and (P,), the classes of every pair.
        units: (B,) integer mass of every sample, empty if uniform; and (P,) the total of either class.
        offsets: (P + 1,) output: first entry of every pair; `offsets[0]` must be 0.
        plan: Output: sources, targets and masses, at most m + n - 1 for classes of m and n samples.

    Returns:
        How many entries were written.
    """
    first, second = pairs
    by_sample, wholes = units
    source, target, mass = plan
    largest = np.diff(starts).max()
    give, take = np.empty(largest, dtype=np.int64), np.empty(largest, dtype=np.int64)
    entry = 0
    for p in range(len(first)):
        a, a_stop = starts[first[p]], starts[first[p] + 1]
        b, b_stop = starts[second[p]], starts[second[p] + 1]
        if len(by_sample):
            give[: a_stop - a], take[: b_stop - b] = by_sample[a:a_stop], by_sample[b:b_stop]
        else:
            give[: a_stop - a], take[: b_stop - b] = wholes[p] // (a_stop - a), wholes[p] // (b_stop - b)
        left, level = wholes[p], len(cells)
        while left > 0 and level > 0:
            level -= 1
            i, j = a, b
            while i < a_stop and j < b_stop:
                x, y = order[level, i], order[level, j]
                if give[x - a] == 0 or cells[level, x] < cells[level, y]:
                    i += 1
                elif take[y - b] == 0 or cells[level, x] > cells[level, y]:
                    j += 1
                else:
                    amount = min(give[x - a], take[y - b])
                    give[x - a] -= amount
                    take[y - b] -= amount
                    left -= amount
                    source[entry], target[entry], mass[entry] = x, y, amount / wholes[p]
                    entry += 1
        offsets[p + 1] = entry
    return entry
