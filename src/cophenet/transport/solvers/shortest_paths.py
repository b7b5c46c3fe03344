"""Numba kernels: exact transport between two small classes by successive shortest paths.

Sources are rows, targets columns; `flow[column, row]` counts whole units, so remaining mass is compared
exactly and every push makes progress. Duals u, v keep the reduced cost `cost[i, j] - u[i] - v[j]` at least
zero, and zero where there is flow. They start from column minima, are improved by rows that bid for their
best column (the augmenting row reduction of Jonker and Volgenant, for any supplies), and what is still
to be sent then goes along shortest paths. Many rows of small supply are solved faster than few of large
supply: callers make the larger class the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit

from cophenet.transport.solvers.problem import Floats, Indices

__all__ = ["kernel", "remove_cycles", "transport"]

_Function = TypeVar("_Function", bound=Callable[..., Any])

_UNSEEN = -2
_ROOT = -1
# A pass of bids pays while it leaves at most this share of the unfinished rows.
_WORTHWHILE = 0.9


def kernel(function: _Function) -> _Function:
    """Compile without the interpreter lock, and keep the machine code on disk."""
    return cast(_Function, njit(nogil=True, cache=True)(function))


@kernel
def _send(i: int, j: int, left: Indices, need: Indices, flow: Indices) -> None:
    """Send what row i still has and column j still needs."""
    amount = min(left[i], need[j])
    flow[j, i] += amount
    left[i] -= amount
    need[j] -= amount


@kernel
def _column_minima(
    cost: Floats, u: Floats, v: Floats, left: Indices, need: Indices, flow: Indices, best: Indices
) -> None:
    """Set v to the column minima and send along them; rows that have none get no dual yet."""
    m, n = cost.shape
    v[:] = np.inf
    best[:] = 0
    for i in range(m):
        for j in range(n):
            better = cost[i, j] < v[j]
            v[j] = cost[i, j] if better else v[j]
            best[j] = i if better else best[j]
    u[:] = np.inf
    for j in range(n):
        u[best[j]] = 0.0
        _send(best[j], j, left, need, flow)


@kernel
def _two_best(i: int, cost: Floats, v: Floats) -> tuple[float, float, int, int]:
    """Smallest and second smallest of cost[i] - v, and their columns, without branches to mispredict."""
    low = second = np.inf
    at = at_second = 0
    for j in range(len(v)):
        r = cost[i, j] - v[j]
        is_low = r < low
        is_second = r < second
        second = low if is_low else (r if is_second else second)
        at_second = at if is_low else (j if is_second else at_second)
        low = r if is_low else low
        at = j if is_low else at
    return low, second, at, at_second


@kernel
def _bid(i: int, cost: Floats, u: Floats, v: Floats, left: Indices, need: Indices, flow: Indices) -> None:
    """Make row i's best column as costly to it as its second best, which drives other rows out of it."""
    low, second, at, at_second = _two_best(i, cost, v)
    u[i] = second
    if low < second:
        v[at] -= second - low
        for other in range(len(left)):
            amount = flow[at, other]
            if other != i and amount > 0:
                flow[at, other] = 0
                left[other] += amount
                need[at] += amount
    _send(i, at, left, need, flow)
    _send(i, at_second, left, need, flow)


@kernel
def _bids(cost: Floats, u: Floats, v: Floats, left: Indices, need: Indices, flow: Indices) -> None:
    """Let unfinished rows bid, pass by pass, while that finishes enough of them."""
    m = len(left)
    before = 2.0 * m
    while True:
        unfinished = 0
        for i in range(m):
            unfinished += left[i] > 0
        if unfinished == 0 or unfinished > _WORTHWHILE * before:
            return
        before = unfinished
        for i in range(m):
            if left[i] > 0:
                _bid(i, cost, u, v, left, need, flow)


@kernel
def _send_along(
    source: int, sink: int, left: Indices, need: Indices, flow: Indices, row_of: Indices, column_of: Indices
) -> bool:
    """Send along the tree's path to a column that needs mass; tell whether all arcs of the tree remain."""
    amount = min(left[source], need[sink])
    i = row_of[sink]
    while column_of[i] >= 0:
        amount = min(amount, flow[column_of[i], i])
        i = row_of[column_of[i]]
    left[source] -= amount
    need[sink] -= amount
    intact = True
    i = row_of[sink]
    flow[sink, i] += amount
    while column_of[i] >= 0:
        j = column_of[i]
        flow[j, i] -= amount
        intact = intact and flow[j, i] > 0
        i = row_of[j]
        flow[j, i] += amount
    return intact


@kernel
def _reach(i: int, cost: Floats, v: Floats, base: float, key: Floats, row_of: Indices) -> None:
    """Shorten paths to columns through row i; a closed column has key NaN and is never shortened."""
    for j in range(len(key)):
        length = base + (cost[i, j] - v[j])
        shorter = length < key[j]
        key[j] = length if shorter else key[j]
        row_of[j] = i if shorter else row_of[j]


@kernel
def _nearest(key: Floats) -> int:
    """The open column with the shortest path."""
    low = np.inf
    at = 0
    for j in range(len(key)):
        nearer = key[j] < low
        low = key[j] if nearer else low
        at = j if nearer else at
    return at


@kernel
def _grow(
    source: int,
    cost: Floats,
    u: Floats,
    v: Floats,
    left: Indices,
    need: Indices,
    flow: Indices,
    reals: Floats,
    integers: Indices,
) -> None:
    """Grow one tree of shortest paths, sending whenever a needy column joins, and update the duals.

    The tree stays good after a push as long as none of its arcs ran empty. One more column joins with
    every step, and a needy one exists while the source has mass left, so the loop ends.
    """
    m, n = cost.shape
    key, reached, row_reached = reals[2, :n], reals[3, :n], reals[4, :m]
    row_of, closed, column_of, rows = integers[0, :n], integers[1, :n], integers[2, :m], integers[3, :m]
    column_of[:] = _UNSEEN
    column_of[source], row_reached[source], rows[0] = _ROOT, 0.0, source
    key[:] = np.inf
    num_rows, num_closed = 1, 0
    _reach(source, cost, v, -u[source], key, row_of)
    while True:
        at = _nearest(key)
        level = key[at]
        reached[at], closed[num_closed], key[at] = level, at, np.nan
        num_closed += 1
        if need[at] > 0:
            intact = _send_along(source, at, left, need, flow, row_of, column_of)
            if left[source] == 0 or not intact:
                break
        for i in range(m):
            if flow[at, i] > 0 and column_of[i] == _UNSEEN:
                column_of[i], row_reached[i], rows[num_rows] = at, level, i
                num_rows += 1
                _reach(i, cost, v, level - u[i], key, row_of)
    for i in rows[:num_rows]:
        u[i] += level - row_reached[i]
    for j in closed[:num_closed]:
        v[j] -= level - reached[j]


@kernel
def transport(
    cost: Floats, left: Indices, need: Indices, flow: Indices, reals: Floats, integers: Indices
) -> None:
    """Solve one pair exactly.

    Args:
        cost: (m, n) float64, finite, n at least 2.
        left: (m,) int64 supplies; zero when done.
        need: (n,) int64 demands of the same sum; zero when done.
        flow: (n, m) int64, overwritten by the optimal flow.
        reals: (5, max(m, n)) float64 to work in.
        integers: (4, max(m, n)) int64 to work in.
    """
    m, n = cost.shape
    u, v = reals[0, :m], reals[1, :n]
    flow[:] = 0
    _column_minima(cost, u, v, left, need, flow, integers[0, :n])
    _bids(cost, u, v, left, need, flow)
    for i in range(m):
        while left[i] > 0:
            _grow(i, cost, u, v, left, need, flow, reals, integers)


@kernel
def _arc(node: int, other: int, m: int) -> tuple[int, int]:
    """Column and row of the arc between two nodes; columns are numbered after the m rows."""
    return (other - m, node) if node < m else (node - m, other)


@kernel
def _degrees_on_cycles(flow: Indices, degree: Indices) -> None:
    """Count arcs by node, without branches that end: at least 2 for nodes on or between cycles, else 0."""
    n, m = flow.shape
    degree[:] = 0
    for j in range(n):
        for i in range(m):
            if flow[j, i] > 0:
                degree[i] += 1
                degree[m + j] += 1
    pruned = True
    while pruned:
        pruned = False
        for j in range(n):
            for i in range(m):
                ends = degree[i] == 1 or degree[m + j] == 1
                if ends and flow[j, i] > 0 and degree[i] > 0 and degree[m + j] > 0:
                    degree[i] -= 1
                    degree[m + j] -= 1
                    pruned = True


@kernel
def _find_cycle(flow: Indices, degree: Indices, seen: Indices, path: Indices) -> tuple[int, int]:
    """Walk over arcs with flow until a node comes back; the cycle is `path[start:stop]`."""
    m = flow.shape[1]
    seen[:] = -1
    node, previous, length = 0, -1, 0
    while degree[node] == 0:
        node += 1
    while seen[node] < 0:
        seen[node], path[length] = length, node
        length += 1
        following = m if node < m else 0
        while following == previous or degree[following] == 0 or flow[_arc(node, following, m)] == 0:
            following += 1
        previous, node = node, following
    return seen[node], length


@kernel
def remove_cycles(flow: Indices) -> None:
    """Shift mass around cycles until at most m + n - 1 entries carry any.

    With ties among the costs an optimal flow may run around a cycle. All arcs with flow have reduced
    cost zero, so that shifting mass around it costs nothing; each shift empties an arc.

    Args:
        flow: (n, m) int64 an optimal flow, changed in place.
    """
    n, m = flow.shape
    degree, seen, path = np.empty((3, m + n), dtype=np.int64)
    while (flow > 0).sum() > m + n - 1:
        _degrees_on_cycles(flow, degree)
        start, stop = _find_cycle(flow, degree, seen, path)
        amount = flow[_arc(path[start], path[start + 1], m)]
        for step in range(start, stop, 2):
            amount = min(amount, flow[_arc(path[step], path[step + 1], m)])
        for step in range(start, stop):
            following = path[step + 1] if step + 1 < stop else path[start]
            flow[_arc(path[step], following, m)] -= amount if (step - start) % 2 == 0 else -amount
