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

# Elements of a chunk: on the host its float64 copy stays in the cache, a device wants few calls.
_HOST_ELEMENTS, _DEVICE_ELEMENTS = 1 << 19, 1 << 26
_ALIKE = np.empty(0)


def _add_rows(sums: Tensor, owner: Tensor, rows: Tensor) -> None:
    """Add rows (n, d) to their owners'; in one order also on a device, whose `index_add_` has none."""
    if sums.device.type == "cpu":
        sums.index_add_(0, owner, rows)
    else:
        sums.index_put_((owner,), rows, accumulate=True)


@dataclass(frozen=True, eq=False)
class ClassShares:
    """What every row of some features (N, d), in any order, counts in which class.

    Attributes:
        owner: (N,) class of every row; those of no class have number k.
        counts: (k, 1) rows of every class.
        mass: (N,) float64, what every row counts, one in each class together; None counts all alike.
        strangers: Whether there are rows of no class.
    """

    owner: Tensor
    counts: Tensor
    mass: Tensor | None = None
    strangers: bool = False

    @property
    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
        """Classes (N,), masses (N,) or none, and counts (k,), on the host, for loops over the rows."""
        mass = _ALIKE if self.mass is None else self.mass.contiguous().numpy()
        return self.owner.numpy(), mass, self.counts.view(-1).numpy()

    def means(self, z: Tensor) -> Tensor:
        """(k, d) float64 means of the classes: sums of chunks, each in float64 while it is in the cache."""
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
            # One copy for all chunks: the pages of a new one cost more than its numbers.
            copies = z.new_empty(min(step, len(z)), z.shape[1], dtype=torch.float64)
            for start in range(0, len(z), step):
                part = slice(start, start + step)
                rows = copies[: len(z) - start].copy_(z[part])
                _add_rows(sums, self.owner[part], rows if mass is None else rows.mul_(mass[part, None]))
        sums = sums[:size] if self.strangers else sums
        return sums if mass is not None else sums.div_(self.counts)

    def per_row(self, by_means: Tensor) -> Tensor:
        """What by the means is (k, ...), by a row of each class, if rows have no mass."""
        return by_means if self.mass is not None else by_means / self.counts

    def spread(self, per_row: Tensor, dtype: torch.dtype) -> Tensor:
        """(N, d) gradient by the rows, of what `per_row` gives, (k, d)."""
        if per_row.dtype != dtype:  # what is out of range is as large as can be
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
        shares: Of which classes they are.

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
