"""Machine code of the distances that have some: made before it is needed."""

from __future__ import annotations

import time

import numpy as np
import torch

from cophenet.transport.grouping import group_by_class
from cophenet.transport.solvers import machine_code

__all__ = ["warm_up"]


def warm_up() -> float:
    """Compile the Numba kernels of "emd" and "ft" for float32 and float64, unless an earlier process has.

    Processes that do so at the same time wait for the first.

    Returns:
        Seconds it took.

    Raises:
        ImportError: If Numba is not installed, or has no folder for machine code.
    """
    why = machine_code.why_none()
    if why is not None:
        raise ImportError(f"nothing can be compiled: {why}")
    begin = time.perf_counter()
    machine_code.compile_once(_call_kernels)
    return time.perf_counter() - begin


def _call_kernels() -> None:
    from cophenet.transport import emd, flowtree
    from cophenet.transport.solvers import compiled

    labels = torch.tensor([0, 0, 0, 1, 1])
    for dtype in (torch.float32, torch.float64):
        batch = group_by_class(torch.arange(5, dtype=dtype)[:, None], labels)
        emd.solve_all(batch, compiled.solve)
    cells = np.zeros((1, len(labels)), dtype=np.int64)
    flowtree.match_by_kernel(batch, cells, flowtree.whole_units(batch, None))
