"""Computation in blocks of rows, so that memory stays bounded, and in full precision for any input type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cophenet._common.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["BLOCK", "full_precision", "product", "row_blocks"]

# Entries of a temporary tensor that are computed at once: 64 MB in float32.
BLOCK = 1 << 24


def full_precision(values: Tensor) -> Tensor:
    """The values without gradient, in float32 unless they are float64."""
    return values.detach() if values.dtype == torch.float64 else values.detach().float()


def product(one: Tensor, other: Tensor) -> Tensor:
    """Matrix product in the precision of its factors, even under autocast."""
    with torch.autocast(one.device.type, enabled=False):
        return one @ other


def row_blocks(rows: int, width: int) -> Iterator[slice]:
    """Slices of rows so that each block has about `BLOCK` entries.

    Example:
        >>> list(row_blocks(3, BLOCK // 2))
        [slice(0, 2, None), slice(2, 3, None)]
    """
    step = max(1, BLOCK // max(1, width))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))
