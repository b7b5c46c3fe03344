"""Numba kernels: exact transport between the classes of a pair by successive shortest paths.

Sources are rows, targets columns; `flow[column, row]` counts whole units, so remaining mass is compared
exactly and every push makes progress. Duals u, v keep the reduced cost `cost[i, j] - u[i] - v[j]` at least
zero, and zero where there is flow. They start from row means and column minima, are improved by rows that bid
for their best column (the augmenting row reduction of Jonker and Volgenant, for any supplies), and the
remaining mass is then sent along shortest paths. Many rows of small supply are solved faster than few of
large supply, so the larger class is used as rows.

Row numbers are stored as float64, like path lengths, and 0 is added to selected values: otherwise the
compiler uses masked stores, which on some processors take longer than everything else.

All kernels are in this one file because Numba's cache checks only the file of the called function
for changes.
"""

from __future__ import annotations

import numpy as np

from cophenet.transport.solvers.decorators import borrowed, inlined, kernel
from cophenet.transport.solvers.problem import WHOLE, Floats, Indices

__all__ = ["remove_cycles", "solve_pairs"]

# cost (m, n), u (m,), v (n,), units left (m,), units needed (n,), flow (n, m), for every column the rows that
# send to it (n, m), and how many of these are valid (n,).
State = tuple[Floats, Floats, Floats, Indices, Indices, Indices, Indices, Indices]
# Of columns: path length while open, path length when closed, row before, closed ones in order;
# of rows: path length, column before, reached ones in order.
Tree = tuple[Floats, Floats, Floats, Indices, Floats, Indices, Indices]
# Source, target, mass and distance of some entries.
Entries = tuple[Indices, Indices, Floats, Floats]
# Working memory of a thread.
Room = tuple[Floats, Indices, Floats, Indices]

_UNSEEN = -2
_ROOT = -1
# Passes of bids go on while each leaves at most this fraction of the unfinished rows.
_WORTHWHILE = 0.97


@inlined
def _send(i: int, j: int, state: State) -> None:
    """Send as much as row i has left and column j still needs."""
    _, _, _, left, need, flow, senders, counts = state
    amount = min(left[i], need[j])
    if amount > 0:
        if flow[j, i] == 0:
            senders[j, counts[j]] = i
            counts[j] += 1
        flow[j, i] += amount
        left[i] -= amount
        need[j] -= amount


@inlined
def _column_minima(state: State, best: Floats) -> None:
    """Set u to the row means and v to the column minima of the reduced costs, and send along these.

    Without subtracting the means, all columns would choose a central sample, which is near to all of them.
    """
    cost, u, v, _, _, _, _, _ = state
    v[:] = np.inf
    for i in range(len(u)):
        mean = 0.0
        for j in range(len(v)):
            mean += cost[i, j]
        mean /= len(v)
        u[i], row = mean, float(i)
        for j in range(len(v)):
            reduced = cost[i, j] - mean
            old, old_row = v[j], best[j]
            better = reduced < old
            v[j] = (reduced if better else old) + 0.0
            best[j] = (row if better else old_row) + 0.0
    for j in range(len(v)):
        _send(int(best[j]), j, state)


@inlined
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


@inlined
def _bid(i: int, state: State) -> None:
    """Lower v of row i's best column until its second best is as good, which displaces other rows."""
    cost, u, v, left, need, flow, senders, counts = state
    low, second, at, at_second = _two_best(i, cost, v)
    u[i] = second
    if low < second:
        v[at] -= second - low
        for place in range(counts[at]):
            other = senders[at, place]
            left[other] += flow[at, other]
            need[at] += flow[at, other]
            flow[at, other] = 0
        counts[at] = 0
    _send(i, at, state)
    _send(i, at_second, state)


@inlined
def _bids(state: State) -> None:
    """Let unfinished rows bid, pass by pass, while that finishes enough of them."""
    left = state[3]
    before = 2.0 * len(left)
    while True:
        unfinished = 0
        for i in range(len(left)):
            unfinished += left[i] > 0
        if unfinished == 0 or unfinished > _WORTHWHILE * before:
            return
        before = unfinished
        for i in range(len(left)):
            if left[i] > 0:
                _bid(i, state)


@inlined
def _send_along(source: int, sink: int, state: State, row_of: Floats, column_of: Indices) -> bool:
    """Send along the tree's path to a column that needs mass; return whether all arcs of the tree remain."""
    _, _, _, left, need, flow, senders, counts = state
    amount = min(left[source], need[sink])
    i = int(row_of[sink])
    while column_of[i] >= 0:
        amount = min(amount, flow[column_of[i], i])
        i = int(row_of[column_of[i]])
    left[source] -= amount
    need[sink] -= amount
    intact = True
    i, j = int(row_of[sink]), sink
    while True:
        if flow[j, i] == 0:
            senders[j, counts[j]] = i
            counts[j] += 1
        flow[j, i] += amount
        if column_of[i] < 0:
            return intact
        j = column_of[i]
        flow[j, i] -= amount
        if flow[j, i] == 0:
            intact = False
            counts[j] -= 1
            place = 0
            while senders[j, place] != i:
                place += 1
            senders[j, place] = senders[j, counts[j]]
        i = int(row_of[j])


@inlined
def _reach(i: int, base: float, cost: Floats, v: Floats, key: Floats, row_of: Floats) -> None:
    """Shorten paths to columns through row i; a closed column has key NaN and is never shortened."""
    row = float(i)
    for j in range(len(key)):
        length = base + (cost[i, j] - v[j])
        old, old_row = key[j], row_of[j]
        shorter = length < old
        key[j] = (length if shorter else old) + 0.0
        row_of[j] = (row if shorter else old_row) + 0.0


@inlined
def _nearest(key: Floats) -> int:
    """The open column with the shortest path."""
    low = np.inf
    at = 0
    for j in range(len(key)):
        nearer = key[j] < low
        low = key[j] if nearer else low
        at = j if nearer else at
    return at


@inlined
def _grow(source: int, state: State, tree: Tree) -> None:
    """Grow one tree of shortest paths, sending whenever a column with demand joins, and update the duals.

    The tree stays valid after a push as long as none of its arcs became empty. One more column joins with
    every step, and one with demand exists while the source has mass left, so the loop ends.
    """
    cost, u, v, left, need, _, senders, counts = state
    key, reached, row_of, closed, row_reached, column_of, rows = tree
    column_of[:] = _UNSEEN
    column_of[source], row_reached[source], rows[0] = _ROOT, 0.0, source
    key[:] = np.inf
    num_rows, num_closed = 1, 0
    _reach(source, -u[source], cost, v, key, row_of)
    while True:
        at = _nearest(key)
        level = key[at]
        reached[at], closed[num_closed], key[at] = level, at, np.nan
        num_closed += 1
        if need[at] > 0:
            intact = _send_along(source, at, state, row_of, column_of)
            if left[source] == 0 or not intact:
                break
        for place in range(counts[at]):
            i = senders[at, place]
            if column_of[i] == _UNSEEN:
                column_of[i], row_reached[i], rows[num_rows] = at, level, i
                num_rows += 1
                _reach(i, level - u[i], cost, v, key, row_of)
    for i in rows[:num_rows]:
        u[i] += level - row_reached[i]
    for j in closed[:num_closed]:
        v[j] -= level - reached[j]


@kernel
def _transport(state: State, reals: Floats, integers: Indices) -> None:
    """Solve one pair with at least two columns; supplies and demands are consumed."""
    state, reals, integers = borrowed(state), borrowed(reals), borrowed(integers)
    m, n = state[0].shape
    of_columns = (reals[2, :n], reals[3, :n], reals[5, :n], integers[3, :n])
    tree = (*of_columns, reals[4, :m], integers[4, :m], integers[5, :m])
    _column_minima(state, reals[5, :n])
    _bids(state)
    left = state[3]
    for i in range(m):
        while left[i] > 0:
            _grow(i, state, tree)


@kernel
def _arc(node: int, other: int, m: int) -> tuple[int, int]:
    """Column and row of the arc between two nodes; columns are numbered after the m rows."""
    return (other - m, node) if node < m else (node - m, other)


@kernel
def _degrees_on_cycles(flow: Indices, degree: Indices) -> None:
    """Count arcs by node after pruning dead ends: at least 2 for nodes on or between cycles, else 0."""
    n, m = flow.shape
    degree[:] = 0
    for j in range(n):
        for i in range(m):
            degree[i] += flow[j, i] > 0
            degree[m + j] += flow[j, i] > 0
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
    """Walk over arcs with flow until a node repeats; return start and stop of the cycle in `path`."""
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


@inlined
def _write_single(block: Floats, shares: Indices, row: int, column: int, entries: Entries) -> None:
    """Write the plan if one class has a single sample, which every other sample is matched with."""
    source, target, mass, distance = entries
    m, n = block.shape
    first = row if n == 1 else column
    for e in range(len(source)):
        source[e] = row + e % m
        target[e] = column + e % n
        mass[e] = shares[first + e] / WHOLE if len(shares) else 1.0 / len(source)
        distance[e] = block[e % m, e % n]


@inlined
def _write_plan(block: Floats, flow: Indices, total: int, row: int, column: int, entries: Entries) -> bool:
    """Copy a flow's non-zeros to the pair's entries; return whether they fit. Unused entries get no mass."""
    source, target, mass, distance = entries
    flipped = block.shape[0] < block.shape[1]
    used = 0
    for j in range(flow.shape[0]):
        for i in range(flow.shape[1]):
            if flow[j, i] > 0:
                if used == len(source):
                    return False
                a, b = (j, i) if flipped else (i, j)
                source[used], target[used] = row + a, column + b
                mass[used], distance[used] = flow[j, i] / total, block[a, b]
                used += 1
    for e in range(used, len(source)):
        source[e], target[e], mass[e], distance[e] = row, column, 0.0, block[0, 0]
    return True


@inlined
def _pose(block: Floats, shares: Indices, row: int, column: int, state: State) -> int:
    """Fill in costs, supplies and demands, the larger class as rows; return the total supply."""
    cost, _, _, left, need, flow, _, counts = state
    m, n = cost.shape
    counts[:] = 0
    flipped = block.shape[0] < block.shape[1]
    for i in range(m):
        for j in range(n):
            cost[i, j] = block[j, i] if flipped else block[i, j]
            flow[j, i] = 0
    if len(shares):
        row, column = (column, row) if flipped else (row, column)
        left[:] = shares[row : row + m]
        need[:] = shares[column : column + n]
        return WHOLE
    divisor = np.gcd(m, n)
    left[:] = n // divisor
    need[:] = m // divisor
    total: int = m * n // divisor
    return total


@inlined
def _solve_one(block: Floats, shares: Indices, row: int, column: int, entries: Entries, room: Room) -> None:
    """Solve one pair of classes with at least two samples each."""
    costs, flows, reals, integers = room
    m, n = max(block.shape), min(block.shape)
    products = len(costs)
    flow = flows[: m * n].reshape(n, m)
    senders = flows[products : products + m * n].reshape(n, m)
    cost, u, v = costs[: m * n].reshape(m, n), reals[0, :m], reals[1, :n]
    state = (cost, u, v, integers[0, :m], integers[1, :n], flow, senders, integers[2, :n])
    total = _pose(block, shares, row, column, state)
    _transport(state, reals, integers)
    if not _write_plan(block, flow, total, row, column, entries):
        remove_cycles(flow)
        _write_plan(block, flow, total, row, column, entries)


@kernel
def _solve_each(
    cost: Floats,
    corner: tuple[int, int],
    pairs: Indices,
    problems: tuple[Indices, Indices, Indices, Indices, Indices],
    plan: Entries,
    room: Room,
) -> None:
    """Solve some pairs in the given working memory; other arguments as for `solve_pairs`."""
    cost, pairs, room = borrowed(cost), borrowed(pairs), borrowed(room)
    starts, first, second, shares, offsets = borrowed(problems)
    source, target, mass, distance = borrowed(plan)
    for p in pairs:
        row, row_stop = starts[first[p]], starts[first[p] + 1]
        column, column_stop = starts[second[p]], starts[second[p] + 1]
        block = cost[row - corner[0] : row_stop - corner[0], column - corner[1] : column_stop - corner[1]]
        a, b = offsets[p], offsets[p + 1]
        entries = (source[a:b], target[a:b], mass[a:b], distance[a:b])
        if min(block.shape) == 1:
            _write_single(block, shares, row, column, entries)
        else:
            _solve_one(block, shares, row, column, entries, room)


@kernel
def solve_pairs(
    cost: Floats,
    corner: tuple[int, int],
    pairs: Indices,
    starts: Indices,
    first: Indices,
    second: Indices,
    shares: Indices,
    offsets: Indices,
    plan: Entries,
) -> None:
    """Solve some pairs one after the other in the same working memory.

    Args:
        cost: (r, c) distances that cover the pairs.
        corner: Sample of the first row and of the first column of `cost`.
        pairs: (p,) which pairs to solve.
        starts: (k + 1,) first sample of every class.
        first: (P,) class of every pair's sources.
        second: (P,) class of every pair's targets.
        shares: (B,) units of mass of every sample; empty means uniform.
        offsets: (P + 1,) first entry of every pair.
        plan: The entries of all pairs; those of `pairs` are written.
    """
    size = products = 1
    for p in pairs:
        m, n = starts[first[p] + 1] - starts[first[p]], starts[second[p] + 1] - starts[second[p]]
        size, products = max(size, m, n), max(products, m * n)
    flows, integers = np.empty(2 * products, dtype=np.int64), np.empty((6, size), dtype=np.int64)
    room = (np.empty(products, dtype=cost.dtype), flows, np.empty((6, size)), integers)
    _solve_each(cost, corner, pairs, (starts, first, second, shares, offsets), plan, room)
