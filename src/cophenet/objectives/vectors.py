"""Vectors of norm one, and a look at whether features are finite."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["check_finite", "unit_rows"]


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


def check_finite(features: Tensor) -> None:
    """Refuse NaN and inf, which comparisons of distances would hide."""
    bad = (~torch.isfinite(features)).any(1).sum().item()
    if bad:
        raise ValueError(f"features must be finite, got NaN or inf in {bad} of {len(features)} samples")
