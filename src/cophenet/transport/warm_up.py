"""Compile the Numba kernels of the distances before they are needed."""

from __future__ import annotations

import time

import numpy as np
import torch

from cophenet.transport.grouping import group_by_class
from cophenet.transport.solvers import machine_code

__all__ = ["warm_up"]


def warm_up() -> float:
    """Compile all Numba kernels, for float32 and float64, unless an earlier process did so.

    "emd" and "ft" compute their plans with them, and, as "fastft", distances between planned samples, which
    change in the last digits; "l2", "swd" and class means use them, once they are called often, to save a
    fraction of a millisecond, with the same bits.

    If several processes call it at the same time, one compiles and the others wait.

    Returns:
        Seconds it took.

    Raises:
        ImportError: If Numba is not installed or does not work, or its cache folder is not writable.
    """
    why = machine_code.why_none()
    if why is not None:
        raise ImportError(f"nothing can be compiled: {why}")
    begin = time.perf_counter()
    machine_code.compile_once(_call_kernels)
    return time.perf_counter() - begin


def _call_kernels() -> None:
    from cophenet.transport import emd, flowtree
    from cophenet.transport.solvers import dispatch

    labels = torch.tensor([0, 0, 0, 1, 1])
    for dtype in (torch.float32, torch.float64):
        batch = group_by_class(torch.arange(5, dtype=dtype)[:, None], labels)
        emd.solve_all(batch, dispatch.solve)
    cells = np.zeros((1, len(labels)), dtype=np.int64)
    flowtree.match_by_kernel(batch, cells, flowtree.whole_units(batch, None))
    _call_loops()


def _call_loops() -> None:
    from cophenet.transport.solvers import difference_loops, host_loops

    index, ones, table = np.zeros(1, dtype=np.int64), np.ones(1), np.ones((1, 1))
    none = index[:0]
    for kind in (np.float32, np.float64):
        row, products = ones.astype(kind), table.astype(kind)
        host_loops.largest_bits(products.view(f"i{products.itemsize}"))
        host_loops.center_rows(products, products.copy())
        host_loops.add_by_class(products, index, ones, table)
        host_loops.squared_distances(products, none, none, 0.5, kind(0.5), row)
        host_loops.centered_means(products, index, ones, none, products.copy())
        host_loops.springs_of_pairs(row, row, none, none, none, products)
        host_loops.planned_costs(products, (none, none, row), none, kind(0.5), row, row[:0])
        host_loops.greedy_costs(products, index, index + 1, none, none, kind(0.5))
        difference_loops.lengths_of_pairs(products, none, none, row)
        difference_loops.pull_rows(products, none, none, row, (0, 1), products.copy())
        host_loops.springs_of_entries(row[:0], row, (none, none, row), none, products)
    host_loops.count_labels(index, 1)
    host_loops.greedy_pieces(index + 1, none, none, ones)
    host_loops.add_powers(table, none, none, ones)
    host_loops.add_forces(table, none, none, ones, table, table.copy())
