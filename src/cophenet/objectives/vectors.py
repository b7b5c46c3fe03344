"""Vectors of norm one."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["unit_rows"]


def unit_rows(vectors: Tensor) -> Tensor:
    """Rows divided by their norm; a zero row stays zero, and its gradient is bounded.

    Args:
        vectors: (n, d).

    Returns:
        (n, d).

    Example:
        >>> unit_rows(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
        tensor([[0.6000, 0.8000],
                [0.0000, 0.0000]])
    """
    norms: Tensor = torch.linalg.vector_norm(vectors, dim=1, keepdim=True)
    return vectors / norms.masked_fill(norms == 0, 1.0)
