"""Class means in float64, without a float64 copy of all features."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

__all__ = ["class_means"]

# Elements of a chunk: on the host its float64 copy stays in the cache, a device wants few calls.
_HOST_ELEMENTS, _DEVICE_ELEMENTS = 1 << 19, 1 << 26


class _ClassMeans(torch.autograd.Function):
    """Sums of chunks of rows, each chunk in float64 while it is in the cache."""

    @staticmethod
    def forward(
        ctx: Any, z: Tensor, owner: Tensor, counts: Tensor, mass: Tensor | None, strangers: bool
    ) -> Tensor:
        ctx.save_for_backward(owner, counts, mass)
        ctx.dtype, ctx.strangers = z.dtype, strangers
        elements = _HOST_ELEMENTS if z.device.type == "cpu" else _DEVICE_ELEMENTS
        step = max(elements // z.shape[1], 2 * len(counts))
        sums = z.new_zeros(len(counts) + 1, z.shape[1], dtype=torch.float64)
        # One copy for all chunks: the pages of a new one cost more than its numbers.
        copies = z.new_empty(min(step, len(z)), z.shape[1], dtype=torch.float64)
        for start in range(0, len(z), step):
            part = slice(start, start + step)
            rows = copies[: len(z) - start].copy_(z[part])
            sums.index_add_(0, owner[part], rows if mass is None else rows.mul_(mass[part, None]))
        return sums[:-1] if mass is not None else sums[:-1].div_(counts[:, None])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None, None]:
        owner, counts, mass = ctx.saved_tensors
        slope = (grad if mass is not None else grad / counts[:, None]).to(ctx.dtype)
        if ctx.strangers:
            slope = torch.nn.functional.pad(slope, (0, 0, 0, 1))
        out = slope.index_select(0, owner)
        return out if mass is None else out * mass[:, None].to(ctx.dtype), None, None, None, None


def class_means(
    z: Tensor, owner: Tensor, counts: Tensor, mass: Tensor | None, strangers: bool = False
) -> Tensor:
    """Means of the classes, differentiable in the features.

    Args:
        z: (N, d) features, in any order.
        owner: (N,) class of every row; those of no class have number k.
        counts: (k,) rows of every class.
        mass: (N,) float64, what every row counts, one in each class together; None counts all alike.
        strangers: Whether there are rows of no class.

    Returns:
        (k, d) float64.

    Example:
        >>> z, owner = torch.tensor([[1.0], [5.0], [3.0]]), torch.tensor([0, 1, 0])
        >>> class_means(z, owner, torch.tensor([2, 1]), None)
        tensor([[2.],
                [5.]], dtype=torch.float64)
    """
    means: Tensor = _ClassMeans.apply(z, owner, counts, mass, strangers)  # type: ignore[no-untyped-call]
    return means
