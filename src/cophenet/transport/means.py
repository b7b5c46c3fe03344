"""Class means in float64, without a float64 copy of all features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cophenet.transport.solvers.machine_code import loops_when_hot

__all__ = ["ClassShares", "class_means"]

# Elements of a chunk: its float64 copy fits the cache on the host; on an accelerator few calls are faster.
_HOST_ELEMENTS, _DEVICE_ELEMENTS = 1 << 19, 1 << 26
_ALIKE = np.empty(0)


def _add_rows(sums: Tensor, owner: Tensor, rows: Tensor) -> None:
    """Add rows (n, d) to the sums of their classes; deterministic also on a device, unlike `index_add_`."""
    if sums.device.type == "cpu":
        sums.index_add_(0, owner, rows)
    else:
        sums.index_put_((owner,), rows, accumulate=True)


@dataclass(frozen=True, eq=False)
class ClassShares:
    """Class and weight of every row of some features (N, d), in any order.

    Attributes:
        owner: (N,) class of every row; k for rows without a class.
        counts: (k, 1) rows of every class.
        mass: (N,) float64 weight of every row, summing to one in each class; None means uniform weights.
        strangers: Whether there are rows without a class.
    """

    owner: Tensor
    counts: Tensor
    mass: Tensor | None = None
    strangers: bool = False

    @property
    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
        """Classes (N,), masses (N,) or empty, and counts (k,) as NumPy arrays, for compiled loops."""
        mass = _ALIKE if self.mass is None else self.mass.contiguous().numpy()
        return self.owner.numpy(), mass, self.counts.view(-1).numpy()

    def means(self, z: Tensor) -> Tensor:
        """(k, d) float64 means of the classes, in chunks that are converted to float64 in the cache."""
        mass, size, width = self.mass, len(self.counts), z.shape[1]
        sums = z.new_zeros(size + self.strangers, width, dtype=torch.float64)
        loops = loops_when_hot(z) if len(self.owner) == len(z) else None
        elements = _HOST_ELEMENTS if z.device.type == "cpu" else _DEVICE_ELEMENTS
        step = max(elements // width, 2 * size)
        if loops is not None:
            loops.add_by_class(z.detach().numpy(), *self.arrays[:2], sums.numpy())
        elif mass is None and len(z) <= step:
            _add_rows(sums, self.owner, z.double())
        else:
            # One buffer for all chunks: allocating a new one costs more than filling it.
            copies = z.new_empty(min(step, len(z)), z.shape[1], dtype=torch.float64)
            for start in range(0, len(z), step):
                part = slice(start, start + step)
                rows = copies[: len(z) - start].copy_(z[part])
                _add_rows(sums, self.owner[part], rows if mass is None else rows.mul_(mass[part, None]))
        sums = sums[:size] if self.strangers else sums
        return sums if mass is not None else sums.div_(self.counts)

    def per_row(self, by_means: Tensor) -> Tensor:
        """Gradient w.r.t. a row, up to its mass, of every class, given that w.r.t. the means (k, ...)."""
        return by_means if self.mass is not None else by_means / self.counts

    def spread(self, per_row: Tensor, dtype: torch.dtype) -> Tensor:
        """(N, d) gradient w.r.t. all rows, given the result (k, d) of `per_row`."""
        if per_row.dtype != dtype:  # clamp values that are out of range
            largest = torch.finfo(dtype).max
            per_row = per_row.clamp(-largest, largest)
        slope = per_row.to(dtype)
        if self.strangers:
            slope = torch.nn.functional.pad(slope, (0, 0, 0, 1))
        out = slope.index_select(0, self.owner)
        return out if self.mass is None else out.mul_(self.mass[:, None].to(dtype))


class _ClassMeans(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, shares: ClassShares) -> Tensor:
        ctx.dtype, ctx.shares = z.dtype, shares
        return shares.means(z)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return ctx.shares.spread(ctx.shares.per_row(grad), ctx.dtype), None


def class_means(z: Tensor, shares: ClassShares) -> Tensor:
    """Means of the classes, differentiable in the features.

    Args:
        z: (N, d) features.
        shares: Their classes and weights.

    Returns:
        (k, d) float64.

    Example:
        >>> z, owner = torch.tensor([[1.0], [5.0], [3.0]]), torch.tensor([0, 1, 0])
        >>> class_means(z, ClassShares(owner, torch.tensor([[2], [1]])))
        tensor([[2.],
                [5.]], dtype=torch.float64)
    """
    means: Tensor = _ClassMeans.apply(z, shares)  # type: ignore[no-untyped-call]
    return means
