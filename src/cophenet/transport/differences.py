"""Differences of pairs of samples, in parts of bounded memory: their lengths, and forces along them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from types import ModuleType

import numpy as np
import torch
from torch import Tensor

from cophenet.transport.batch import is_host
from cophenet.transport.solvers.machine_code import difference_loops_when_hot, why_none
from cophenet.transport.solvers.problem import thread_count

__all__ = ["LANES", "lengths_of_pairs", "pair_cost", "pull_pairs", "rooted"]

# Squares are added to this many sums at the same time.
LANES = 32
# A part and the results computed from it should fit a core's cache.
_HOST_ELEMENTS = 1 << 18
# On an accelerator few large calls are faster; this bounds their memory.
_DEVICE_ELEMENTS = 1 << 26
# Elements of all differences from which loops are used, and those for which they save as much time as in a
# call of another distance for a small batch.
_LOOP_ELEMENTS, _CALL_ELEMENTS = 1 << 16, 1 << 20
# Elements from which more threads save time; with fewer they wait for cores on which those of torch spin.
_THREAD_ELEMENTS = 1 << 28
# Cost of a pair in entries of a matrix product: by torch, and by loops, which compete with all threads of it.
_TORCH_COST, _LOOP_COST, _LOOP_COST_PER_THREAD = 64, 2, 2


def pair_cost() -> int:
    """Cost of a pair computed by difference on the host, in entries of a matrix product between samples.

    Depends on whether Numba works here, not on whether the loops are compiled yet.
    """
    return _LOOP_COST + _LOOP_COST_PER_THREAD * thread_count() if why_none() is None else _TORCH_COST


def _gaps(z: Tensor, *pairs: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Yield differences z_i - z_j of pairs in parts (e, d), which reuse the same memory.

    `pairs` are two index tensors (E,), and any others of that length, whose parts are yielded with the
    differences. New memory for every part would be worse than slow: a freed block is a few bytes too short
    for the next aligned one, so that the host's memory grows as if nothing were freed.
    """
    elements = _HOST_ELEMENTS if is_host(z) else _DEVICE_ELEMENTS
    step = max(1, elements // max(1, z.shape[1]))
    if len(pairs[0]) <= step:
        yield z.index_select(0, pairs[0]).sub_(z.index_select(0, pairs[1])), *pairs
        return
    left, right = z.new_empty(2, step, z.shape[1])
    for parts in zip(*(torch.split(one, step) for one in pairs), strict=True):
        own, other = left[: len(parts[0])], right[: len(parts[0])]
        torch.index_select(z, 0, parts[0], out=own)
        torch.index_select(z, 0, parts[1], out=other)
        yield own.sub_(other), *parts


def _for_loops(z: Tensor, pairs: int) -> bool:
    """Whether pairs are computed by the loops or, until these are compiled, with the same bits as by them."""
    return is_host(z) and pairs * z.shape[1] >= _LOOP_ELEMENTS and why_none() is None


def _loops(z: Tensor, *values: Tensor) -> ModuleType | None:
    """The compiled loops, if they are available and can read the samples and values of their pairs."""
    calls = 1 + len(values[0]) * z.shape[1] // _CALL_ELEMENTS
    return difference_loops_when_hot(z, calls=calls) if all(one.is_contiguous() for one in values) else None


def _in_threads(work: Callable[[int, int], None], size: int, elements: int) -> None:
    """Call `work` on parts begin..end of a range, one of them in this thread."""
    threads = min(thread_count(), 1 + elements // _THREAD_ELEMENTS)
    if threads == 1:
        work(0, size)
        return
    (begin, end), *others = pairwise(np.linspace(0, size, threads + 1).astype(int).tolist())
    with ThreadPoolExecutor(threads - 1) as pool:
        waiting = [pool.submit(work, *part) for part in others]
        work(begin, end)
        for one in waiting:
            one.result()


def rooted(squared: Tensor) -> Tensor:
    """Square roots on the host, rounded as in compiled loops; torch's are not always the nearest."""
    return torch.from_numpy(np.sqrt(squared.numpy()))


def _length_as_loops(gaps: Tensor) -> Tensor:
    """(E, d) -> (E,), overwriting the gaps with their squares.

    Column j is added to sum j mod `LANES`, one after the other; then the second half of the sums to the
    first, until one is left. Columns that do not fill all sums are added once there are as few sums as them.
    """
    squares, width, size = gaps.square_(), LANES, gaps.shape[1]
    start = size - size % LANES
    sums = squares.new_zeros(len(squares), LANES)
    for column in range(0, start, LANES):
        sums += squares[:, column : column + LANES]
    while width > 1:
        width //= 2
        sums = sums[:, :width] + sums[:, width:]
        if size & width:
            sums += squares[:, start : start + width]
            start += width
    return rooted(sums[:, 0])


def lengths_of_pairs(z: Tensor, source: Tensor, target: Tensor) -> Tensor:
    """Lengths of the differences z[source] - z[target], (E,), without gradient.

    Example:
        >>> z = torch.tensor([[0.0, 0.0], [3.0, 4.0]])
        >>> lengths_of_pairs(z, torch.tensor([0, 0]), torch.tensor([1, 0]))
        tensor([5., 0.])
    """
    as_loops = _for_loops(z, len(source))
    loops = _loops(z, source, target) if as_loops else None
    if loops is None:
        length = _length_as_loops if as_loops else partial(torch.linalg.vector_norm, dim=1)
        parts = [length(gap) for gap, _, _ in _gaps(z, source, target)]
        return parts[0] if len(parts) == 1 else torch.cat(parts)
    out = z.new_empty(len(source))
    rows, *arrays = z.numpy(), source.numpy(), target.numpy(), out.numpy()

    def work(begin: int, end: int) -> None:
        loops.lengths_of_pairs(rows, *(array[begin:end] for array in arrays))

    _in_threads(work, len(source), source.numel() * z.shape[1])
    return out


def pull_pairs(out: Tensor, z: Tensor, source: Tensor, target: Tensor, pull: Tensor) -> None:
    """Add pull * (z_i - z_j) to row i of `out` (B, d) and subtract it from row j, for pairs (E,).

    Example:
        >>> z, out = torch.tensor([[0.0], [3.0]]), torch.zeros(2, 1)
        >>> pull_pairs(out, z, torch.tensor([0]), torch.tensor([1]), torch.tensor([2.0]))
        >>> out
        tensor([[-6.],
                [ 6.]])
    """
    as_loops = _for_loops(z, len(source))
    loops = _loops(z, source, target, pull) if as_loops else None
    if loops is None:
        add = _add_as_loops if as_loops else _add
        for gap, a, b, strength in _gaps(z, source, target, pull):
            add(out, a, b, gap.mul_(strength.unsqueeze(1)))
        return
    arrays, forces = (z.numpy(), source.numpy(), target.numpy(), pull.numpy()), out.numpy()

    def work(begin: int, end: int) -> None:
        loops.pull_rows(*arrays, (begin, end), forces)

    _in_threads(work, len(z), source.numel() * z.shape[1])


def _add(out: Tensor, source: Tensor, target: Tensor, force: Tensor) -> None:
    """Add forces (e, d) to their sources and subtract them from their targets."""
    out.index_add_(0, source, force)
    out.index_add_(0, target, force, alpha=-1)


def _add_as_loops(out: Tensor, source: Tensor, target: Tensor, force: Tensor) -> None:
    """As `_add`, pair after pair."""
    rows, both = torch.stack((source, target), dim=1).view(-1), torch.stack((force, -force), dim=1)
    out.index_add_(0, rows, both.view(len(rows), -1))
