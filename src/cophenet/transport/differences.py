"""Differences of pairs of samples, in parts of bounded memory: their lengths, and forces along them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from types import ModuleType

import numpy as np
import torch
from torch import Tensor

from cophenet.transport.batch import is_host
from cophenet.transport.solvers.machine_code import compiled_at_first_use, readable
from cophenet.transport.solvers.problem import thread_count

__all__ = ["is_product_cheaper", "lengths_of_pairs", "pull_pairs"]

# A part and the results computed from it should fit a core's cache.
_HOST_ELEMENTS = 1 << 18
# On an accelerator few large calls are faster; this bounds their memory.
_DEVICE_ELEMENTS = 1 << 26
# Elements from which more threads save time; with fewer they wait for cores on which those of torch spin.
_THREAD_ELEMENTS = 1 << 28
# Elements for which Numba is worth importing.
_LOOP_ELEMENTS = 1 << 16
# Entries of a product that always cost less than calls for the pairs.
_FEW_ENTRIES = 1 << 12
# Cost of a pair by torch, in entries of a matrix product; and by loops, for every thread that computes the
# product and one more. What a loop does once for a pair takes as long as so many columns.
_TORCH_COST, _LOOP_COST, _LOOP_COLUMNS = 64, 2, 64


def is_product_cheaper(entries: int, pairs: int, width: int) -> bool:
    """Whether entries of a product between samples on the host cost less than the differences of some pairs.

    Args:
        entries: How many of the product.
        pairs: How many pairs.
        width: Columns of the samples.
    """
    # Whatever loops cost, so that Numba need not be imported to know whether there are any.
    if entries <= max(_FEW_ENTRIES, 2 * _LOOP_COST * pairs):
        return True
    cost: float = _TORCH_COST
    if pairs * width >= _LOOP_ELEMENTS and compiled_at_first_use():
        cost = _LOOP_COST * (1 + thread_count()) * (1 + _LOOP_COLUMNS / max(1, width))
    return entries <= cost * pairs


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


def _check_sizes(z: Tensor, *pairs: Tensor) -> None:
    # On an accelerator, where torch may also be compiling, its own operations say so.
    if is_host(z) and len(sizes := {len(part) for part in pairs}) > 1:
        raise IndexError(f"pairs must have as many sources, targets and values, got {sorted(sizes)}")


def _loops(z: Tensor, source: Tensor, target: Tensor, *values: Tensor) -> ModuleType | None:
    """The compiled loops, if they can read the samples, pairs of them and values of the pairs."""
    if not is_host(z) or source.numel() * z.shape[1] < _LOOP_ELEMENTS:
        return None
    sides = source, target
    alike = all(value.dtype == z.dtype for value in values)
    numbers = all(side.ndim == 1 and side.dtype == torch.int64 and side.is_contiguous() for side in sides)
    if not (alike and numbers and readable(z, *values) and compiled_at_first_use()):
        return None
    from cophenet.transport.solvers import difference_loops

    return difference_loops


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


def lengths_of_pairs(z: Tensor, source: Tensor, target: Tensor) -> Tensor:
    """Lengths of the differences z[source] - z[target], (E,), without gradient.

    Example:
        >>> z = torch.tensor([[0.0, 0.0], [3.0, 4.0]])
        >>> lengths_of_pairs(z, torch.tensor([0, 0]), torch.tensor([1, 0]))
        tensor([5., 0.])
    """
    _check_sizes(z, source, target)
    loops = _loops(z, source, target)
    if loops is None:
        parts = [torch.linalg.vector_norm(gap, dim=1) for gap, _, _ in _gaps(z, source, target)]
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
    _check_sizes(z, source, target, pull)
    loops = _loops(z, source, target, pull)
    if loops is None:
        for gap, a, b, strength in _gaps(z, source, target, pull):
            force = gap.mul_(strength.unsqueeze(1))
            out.index_add_(0, a, force)
            out.index_add_(0, b, force, alpha=-1)
        return
    arrays, forces = (z.numpy(), source.numpy(), target.numpy(), pull.numpy()), out.numpy()

    def work(begin: int, end: int) -> None:
        loops.pull_rows(*arrays, (begin, end), forces)

    _in_threads(work, len(z), source.numel() * z.shape[1])
