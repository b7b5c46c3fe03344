"""Pearson's correlation with a known vector, and its gradient, in a few passes over the data."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cophenet.transport.ground import first_order

__all__ = ["correlation", "is_constant", "unit_vector"]


def is_constant(low: float, high: float, tolerance: float = 1e-12) -> bool:
    """Whether values from `low` to `high` are too alike for a correlation.

    Example:
        >>> is_constant(1.0, 1.0 + 1e-13), is_constant(1.0, 1.1)
        (True, False)
    """
    return high - low <= tolerance * max(abs(low), abs(high))


def unit_vector(values: Tensor) -> Tensor:
    """Centred values (P,) scaled to norm one; by their spread first, so that squares stay finite.

    Example:
        >>> unit_vector(torch.tensor([1.0, 3.0, 2.0]))
        tensor([-0.7071,  0.7071,  0.0000])
    """
    centered = (values - values.mean()) / (values.amax() - values.amin())
    length: Tensor = torch.linalg.vector_norm(centered)
    return centered / length


class _Correlation(torch.autograd.Function):
    """`offset + scale * r`, r Pearson's correlation with a unit vector, and whether r is undefined.

    It then counts as 0 with gradient 0. NaN and inf are not undefined, so that they are never hidden.
    """

    @staticmethod
    def forward(
        ctx: Any, rho: Tensor, direction: Tensor, scale: float, offset: float, rounding: Tensor
    ) -> tuple[Tensor, Tensor]:
        tolerance = 1e-12 if rho.dtype == torch.float64 else 1e-6
        low, high = rho.aminmax(dim=-1, keepdim=True)
        spread = high - low
        noise = torch.maximum(tolerance * torch.maximum(high, -low), rounding)
        undefined = (spread <= noise) & torch.isfinite(spread)
        centered = (rho - rho.mean(-1, keepdim=True)).div_(spread)
        norm: Tensor = torch.linalg.vector_norm(centered, dim=-1, keepdim=True)
        unit = centered.div_(norm)
        r = (unit * direction).sum(-1, keepdim=True)
        slope = (direction - r * unit).mul_(scale / (norm * spread)).masked_fill_(undefined, 0.0)
        ctx.save_for_backward(slope)
        undefined = undefined.squeeze(-1)
        ctx.mark_non_differentiable(undefined)
        r = r.squeeze(-1).masked_fill_(undefined, 0.0).clamp_(-1, 1)
        return r.mul_(scale).add_(offset), undefined

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor, _: None) -> tuple[Tensor, None, None, None, None]:
        (slope,) = ctx.saved_tensors
        return grad.unsqueeze(-1) * slope, None, None, None, None


def correlation(
    rho: Tensor,
    direction: Tensor,
    scale: float = 1.0,
    offset: float = 0.0,
    rounding: Tensor | float = 0.0,
) -> tuple[Tensor, Tensor]:
    """`offset + scale * r`, r the correlation of rho (..., P) and a unit vector (P,); and if r is undefined.

    It is undefined if rho is constant: if its spread is at most 1e-6 of its largest absolute value (1e-12 in
    float64), or at most `rounding`, what rounding of the features can do to it.

    Example:
        >>> correlation(torch.tensor([1.0, 2.0]), unit_vector(torch.tensor([4.0, 3.0])))[0].round()
        tensor(-1.)
    """
    result: tuple[Tensor, Tensor]
    result = _Correlation.apply(rho, direction.to(rho), scale, offset, torch.as_tensor(rounding).to(rho))  # type: ignore[no-untyped-call]
    return result
