"""The cophenetic correlation coefficient (CPCC): Pearson's correlation with distances in the tree."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cophenet._common.checks import UndefinedWarning
from cophenet.transport.batch import refuse_transforms
from cophenet.transport.ground import first_order

__all__ = ["constant_below", "correlation", "cpcc", "is_constant", "unit_vector"]


def is_constant(low: float, high: float, tolerance: float = 1e-12) -> bool:
    """Whether values from `low` to `high` are too close to each other for a correlation.

    Example:
        >>> is_constant(1.0, 1.0 + 1e-13), is_constant(1.0, 1.1)
        (True, False)
    """
    return high - low <= tolerance * max(abs(low), abs(high))


def constant_below(dtype: torch.dtype) -> float:
    """Relative tolerance: values are constant if max - min is at most this times the largest magnitude."""
    return 1e-12 if dtype == torch.float64 else 1e-6


def unit_vector(values: Tensor) -> Tensor:
    """Centred values (P,) scaled to norm one; divided by max - min first, so that squares stay finite.

    Example:
        >>> unit_vector(torch.tensor([1.0, 3.0, 2.0]))
        tensor([-0.7071,  0.7071,  0.0000])
    """
    centered = (values - values.mean()) / (values.amax() - values.amin())
    length: Tensor = torch.linalg.vector_norm(centered)
    return centered / length


class _Correlation(torch.autograd.Function):
    """Computes `correlation`, in float64: squares of float32 stay in range, and sums are accurate enough."""

    @staticmethod
    def forward(
        ctx: Any,
        rho: Tensor,
        direction: Tensor,
        length: float,
        offset: float,
        rounding: Tensor,
        tolerance: float,
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        rows = rho.ndim > 1
        wide = rho.double()
        # `aminmax` for a single row only: along a dimension it is ten times slower.
        low, high = (wide.amin(-1, True), wide.amax(-1, True)) if rows else wide.aminmax()
        undefined = high - low <= torch.maximum(high * tolerance, rounding)
        centered = wide - wide.mean(-1, keepdim=rows)
        norm: Tensor = torch.linalg.vector_norm(centered, dim=-1, keepdim=rows)
        # Division by infinity makes undefined correlations 0, with gradient 0; NaN and inf are never hidden.
        norm.masked_fill_(undefined, torch.inf)
        r = centered @ direction
        r = (r.unsqueeze(-1) if rows else r) / norm
        slope = torch.addcmul(direction, centered, r / norm, value=-1).div_(norm)
        ctx.save_for_backward(slope.to(rho.dtype))
        r = r.add_(offset).clamp_(offset - length, offset + length)
        if rows:
            r, undefined = r.squeeze(-1), undefined.squeeze(-1)
        ctx.mark_non_differentiable(undefined)
        return r.to(dtype), undefined

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor | None, _: None) -> tuple[Tensor | None, ...]:
        if grad is None:
            return (None,) * 7
        (slope,) = ctx.saved_tensors
        return (grad.unsqueeze(-1) if grad.ndim else grad) * slope, *(None,) * 6


def correlation(
    rho: Tensor,
    direction: Tensor,
    length: float = 1.0,
    offset: float = 0.0,
    rounding: Tensor | float = 0.0,
    dtype: torch.dtype | None = None,
) -> tuple[Tensor, Tensor]:
    """`offset + length * r`, with r Pearson's correlation of rho and a vector; and whether r is undefined.

    r is undefined, and set to 0 with gradient 0, if rho is constant: if its max - min is at most 1e-6 of its
    largest absolute value (1e-12 in float64), or at most `rounding`, the difference that rounding of the
    features can cause. NaN and inf in rho do not count as undefined.

    Args:
        rho: (..., P), not negative, with squares in the range of float64.
        direction: (P,) centred, of norm `length`.
        length: Norm of `direction`, not negative.
        offset: Constant that is added.
        rounding: Absolute tolerance, see above.
        dtype: Original dtype of rho, which sets the relative tolerance and is that of the result; None for
            the current dtype of rho.

    Example:
        >>> correlation(torch.tensor([1.0, 2.0]), unit_vector(torch.tensor([4.0, 3.0])))[0].round()
        tensor(-1.)
    """
    result: tuple[Tensor, Tensor]
    direction, rounding = direction.to(rho.device, torch.float64), torch.as_tensor(rounding).to(rho.device)
    dtype = dtype or rho.dtype
    tolerance = constant_below(dtype)
    result = _Correlation.apply(rho, direction, length, offset, rounding, tolerance, dtype)  # type: ignore[no-untyped-call]
    return result


def cpcc(rho: Tensor, t: Tensor | NDArray[np.float64], rounding: Tensor | float = 0.0) -> Tensor:
    r"""Cophenetic correlation: Pearson's correlation of class distances and tree distances.

    .. math::

        \mathrm{CPCC}(t, \rho) =
        \frac{\sum_{u<v} (t_{uv} - \bar t)(\rho_{uv} - \bar\rho)}
        {\sqrt{\sum_{u<v} (t_{uv} - \bar t)^2} \sqrt{\sum_{u<v} (\rho_{uv} - \bar\rho)^2}}

    Sokal and Rohlf, "The Comparison of Dendrograms by Objective Methods", 1962, doi:10.2307/1217208; equation
    2 of the OT-CPCC paper (arXiv:2410.03052).

    Undefined with fewer than two pairs or if one side is constant (max - min at most 1e-6 of
    the largest absolute value, 1e-12 in float64): the result is then NaN, with a warning.

    Args:
        rho: (P,) distances of class pairs in feature space.
        t: (P,) distances of the same pairs in the tree.
        rounding: Largest difference of two distances that rounding of the features alone can cause, see
            `ClassDistance.rounding`. rho also counts as constant if its max - min is at most that.

    Returns:
        A scalar in [-1, 1], differentiable in `rho`.

    Raises:
        ValueError: If the shapes differ or a distance is not finite.

    Example:
        >>> round(cpcc(torch.tensor([1.0, 2.0, 2.0]), torch.tensor([2.0, 4.0, 4.0])).item(), 3)
        1.0
    """
    if not isinstance(rho, Tensor):
        raise ValueError(f"rho must be a torch tensor, got {type(rho).__name__}")
    t = torch.as_tensor(t)
    refuse_transforms(rho, t)
    if t.requires_grad:
        raise ValueError("t is the tree's side and gets no gradient, but requires it; are rho and t swapped?")
    if rho.ndim != 1 or rho.shape != t.shape:
        raise ValueError(f"rho and t must have one shape (P,), got {tuple(rho.shape)} and {tuple(t.shape)}")
    if not rho.is_floating_point():
        raise ValueError(f"rho must be a floating-point tensor, got {rho.dtype}")
    if len(rho) >= 2:
        for name, values in (("rho", rho), ("t", t)):
            if not torch.isfinite(values).all():
                raise ValueError(f"{name} must be finite, got NaN or inf")
        if not is_constant(t.min().item(), t.max().item(), constant_below(t.dtype)):
            # Correlation is scale-invariant; for values of about 1 no square is out of range.
            peak = rho.detach().abs().amax().clamp(min=torch.finfo(rho.dtype).tiny)
            wide = rho / peak if rho.dtype == torch.float64 else rho.float() / peak
            limit = torch.as_tensor(rounding / peak).clamp(min=constant_below(wide.dtype))
            r, undefined = correlation(wide, unit_vector(t.double()), rounding=limit)
            if not undefined:
                return r
        reason = "one side is constant"
    else:
        reason = f"it needs at least two class pairs, got {len(rho)}"
    warnings.warn(UndefinedWarning("CPCC", reason), stacklevel=2)
    return rho.sum() * 0 + torch.nan
