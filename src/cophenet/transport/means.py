"""Class means to the last places of the features, without a float64 copy of them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

__all__ = ["class_means"]

# Elements of a chunk: on the host what is computed from it stays in a core's cache, a device wants few calls.
_HOST_ELEMENTS, _DEVICE_ELEMENTS = 1 << 18, 1 << 26
# Rows whose sum keeps the places that count.
_MOST_ROWS = 4096


class _ClassMeans(torch.autograd.Function):
    """Sums of differences to a sample of the class, in the type of the features; their totals in float64."""

    @staticmethod
    def forward(
        ctx: Any,
        z: Tensor,
        owner: Tensor,
        counts: Tensor,
        examples: Tensor,
        mass: Tensor | None,
        strangers: bool,
    ) -> Tensor:
        ctx.save_for_backward(owner, counts, mass)
        ctx.dtype, ctx.strangers = z.dtype, strangers
        width = z.shape[1]
        reference = z.index_select(0, examples)
        elements = _HOST_ELEMENTS if z.device.type == "cpu" else _DEVICE_ELEMENTS
        step = max(min(elements // width, _MOST_ROWS), 2 * len(counts), 1)
        sums: Tensor | None = None
        for start in range(0, len(z), step):
            part = slice(start, start + step)
            away = reference.index_select(0, owner[part])
            torch.sub(z[part], away, out=away)
            if mass is not None:
                away.mul_(mass[part, None])
            own = torch.zeros_like(reference).index_add_(0, owner[part], away)
            sums = own.double() if sums is None else sums.add_(own)
        assert sums is not None  # as a batch has samples
        if mass is None:
            sums[:-1] /= counts[:, None]
        return sums.add_(reference)[:-1]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None, None, None]:
        owner, counts, mass = ctx.saved_tensors
        slope = (grad if mass is not None else grad / counts[:, None]).to(ctx.dtype)
        if ctx.strangers:
            slope = torch.nn.functional.pad(slope, (0, 0, 0, 1))
        out = slope.index_select(0, owner)
        return out if mass is None else out * mass[:, None], None, None, None, None, None


def class_means(
    z: Tensor, owner: Tensor, counts: Tensor, examples: Tensor, mass: Tensor | None, strangers: bool
) -> Tensor:
    """Means of the classes, exact to 1e-7 of what their samples differ by, differentiable in the features.

    A mean is a sample of the class plus the mean difference to it. Differences of near samples far from the
    origin are exact in the type of the features, and so small that float32 will do for their sum.

    Args:
        z: (N, d) features, in any order.
        owner: (N,) class of every row; those of no class have number k.
        counts: (k,) rows of every class.
        examples: (k + 1,) a row of every class, one of much mass; the last one any row.
        mass: (N,) what every row counts, one in each class together; None counts all alike.
        strangers: Whether there are rows of no class.

    Returns:
        (k, d) float64.

    Example:
        >>> z, owner = torch.tensor([[1.0], [5.0], [3.0]]), torch.tensor([0, 1, 0])
        >>> class_means(z, owner, torch.tensor([2, 1]), torch.tensor([0, 1, 0]), None, False)
        tensor([[2.],
                [5.]], dtype=torch.float64)
    """
    means: Tensor = _ClassMeans.apply(z, owner, counts, examples, mass, strangers)  # type: ignore[no-untyped-call]
    return means
