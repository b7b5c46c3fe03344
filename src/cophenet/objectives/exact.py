"""Buffers of float64 that follow a module to its device but keep their precision when it is cast."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

__all__ = ["exact_buffer", "keep_exact"]


def keep_exact(module: nn.Module, name: str, values: NDArray[np.float64]) -> None:
    """Give a module float64 values that `.float()` and `.half()` leave as they are.

    They are kept as a buffer of integers with the same bits, which a cast to another precision passes over.

    Example:
        >>> module = nn.Module()
        >>> keep_exact(module, "depths", np.array([1000.3, 1000.301]))
        >>> exact_buffer(module.half(), "depths").diff() > 0
        tensor([True])
    """
    bits = torch.from_numpy(np.ascontiguousarray(values, dtype=np.float64)).view(torch.int64)
    module.register_buffer(name, bits, persistent=False)


def exact_buffer(module: nn.Module, name: str) -> Tensor:
    """The values given to `keep_exact`, on the module's device."""
    return module.get_buffer(name).view(torch.float64)
