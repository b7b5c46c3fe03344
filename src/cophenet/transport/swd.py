"""Sliced Wasserstein distance: one-dimensional transport along random directions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cophenet._common.checks import check_number, check_whole, wrong_argument
from cophenet.transport.base import SeededDistance, register_distance
from cophenet.transport.batch import ClassBatch, is_host, without_autocast
from cophenet.transport.class_layout import ClassLayout
from cophenet.transport.ground import first_order
from cophenet.transport.plan import TransportPlan, uniform_arrays, uniform_plan, weighted_plan
from cophenet.transport.solvers.machine_code import loops_when_hot

__all__ = ["SlicedWasserstein"]

# Maximum number of gaps stored for the backward pass; computing them again takes a third of its time.
_KEPT_ELEMENTS = 1 << 22


class _Projected(torch.autograd.Function):
    """Projections (L, B) of features (B, d) in float64; the gradient is in the type of the features."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, directions: Tensor) -> Tensor:
        ctx.turned = directions.T.to(z.dtype)
        return directions.T @ z.double().T

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        with without_autocast(grad):
            return grad.T.to(ctx.turned.dtype) @ ctx.turned, None


class _SlicedCost(torch.autograd.Function):
    """Mean over the rows of sum P |x_i - x_j|^p for every pair, with P constant.

    Projections are rows: summing along the last dimension is several times faster than along the first.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, plan: TransportPlan, p: float) -> Tensor:
        ctx.plan, ctx.p, ctx.gaps = plan, p, []
        ctx.save_for_backward(x)
        power = torch.zeros_like(plan.mass)
        loops = loops_when_hot(x) if p == 2 else None
        if loops is not None:
            loops.add_powers(x.detach().numpy(), plan.source.numpy(), plan.target.numpy(), power.numpy())
            return plan.total(power.mul_(plan.mass)).div_(len(x))
        kept = ctx.needs_input_grad[0] and len(x) * len(power) <= _KEPT_ELEMENTS
        for part in _parts(x):
            gap = _gap(part, plan)
            power += (gap.square() if p == 2 else gap.abs().pow_(p)).sum_to_size(power.shape)
            if kept:
                ctx.gaps.append(gap)
        return plan.total(power.mul_(plan.mass)).div_(len(x))

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (x,) = ctx.saved_tensors
        plan: TransportPlan = ctx.plan
        strength = plan.spread(grad).mul_(plan.mass).mul_(ctx.p / len(x))
        out, back = torch.zeros_like(x), torch.zeros_like(x)
        loops = loops_when_hot(x) if ctx.p == 2 else None
        if loops is not None:
            entries = plan.source.numpy(), plan.target.numpy(), strength.numpy()
            loops.add_forces(x.detach().numpy(), *entries, out.numpy(), back.numpy())
            return out.sub_(back), None, None
        gaps = ctx.gaps or (_gap(part, plan) for part in _parts(x))
        for gap, given, taken in zip(gaps, _parts(out), _parts(back), strict=True):
            force = (gap if ctx.p == 2 else gap.sign().mul_(gap.abs().pow_(ctx.p - 1))) * strength
            given.scatter_add_(-1, plan.source.expand_as(force), force)
            taken.scatter_add_(-1, plan.target.expand_as(force), force)
        return out.sub_(back), None, None


def _parts(x: Tensor) -> tuple[Tensor, ...]:
    """Parts of x (l, B) that are processed together: single rows on the host, which fit the cache."""
    return x.unbind() if is_host(x) else (x,)


def _gap(x: Tensor, plan: TransportPlan) -> Tensor:
    """x_i - x_j of every entry of the plan: (..., B) -> (..., E)."""
    return x.index_select(-1, plan.source).sub_(x.index_select(-1, plan.target))


def _root(power: Tensor, p: float) -> Tensor:
    """power^(1/p), with gradient 0 at 0."""
    nonzero = power != 0
    return torch.where(nonzero, power.where(nonzero, 1.0).pow(1 / p), 0.0)


def _check_directions(directions: Tensor) -> None:
    wanted = "must be a finite floating-point tensor (d, n_projections)"
    if not isinstance(directions, Tensor) or not directions.is_floating_point():
        given = getattr(directions, "dtype", type(directions).__name__)
        raise wrong_argument("directions", f"{wanted}, got {given}")
    if directions.ndim != 2 or not directions.numel() or not torch.isfinite(directions).all():
        given = f"shape {tuple(directions.shape)} or NaN or inf in it"
        raise wrong_argument("directions", f"{wanted}, got {given}")


@register_distance
class SlicedWasserstein(SeededDistance):
    r"""Sliced Wasserstein distance, one-dimensional transport along L random directions theta_l.

    .. math::

        \rho(u, v) = \left( \frac{1}{L} \sum_l W_p(\theta_l \cdot z, \theta_l \cdot z')^p \right)^{1/p}

    Rabin, Peyre, Delon and Bernot 2012, doi:10.1007/978-3-642-24785-9_37; Bonneel, Rabin, Peyre and Pfister
    2015, doi:10.1007/s10851-014-0506-3; section 3.1 and appendix A of the OT-CPCC paper (arXiv:2410.03052).

    One set of directions per call is shared by all pairs, every class is sorted once, and
    unequal sizes and weights are matched exactly, by the greedy plan on the sorted projections.

    Args:
        n_projections: How many random directions each call draws.
        p: Order of the one-dimensional transport, at least 1.
        generator: CPU generator of the directions; by default a new one with seed 0.
        directions: (d, n_projections) fixed directions, used as they are instead of random ones.

    Example:
        >>> from cophenet.transport.grouping import group_by_class
        >>> z = torch.tensor([[0.0, 7.0], [4.0, 7.0], [3.0, 1.0]])
        >>> batch = group_by_class(z, torch.tensor([0, 0, 1]))
        >>> SlicedWasserstein(p=1, directions=torch.tensor([[1.0], [0.0]]))(batch)
        tensor([2.])
    """

    name = "swd"
    degree = 1
    directions: Tensor | None

    def __init__(
        self,
        n_projections: int = 10,
        p: float = 2.0,
        generator: torch.Generator | None = None,
        directions: Tensor | None = None,
    ) -> None:
        super().__init__(generator)
        check_whole("n_projections", n_projections, 1)
        check_number("p", p, above=1.0)
        if directions is not None:
            _check_directions(directions)
        self.n_projections = n_projections
        self.p = float(p)
        self.register_buffer("directions", None if directions is None else directions.double())

    def arrays(self, layout: ClassLayout) -> Mapping[str, NDArray[np.generic]]:
        """The plan of every pair."""
        return uniform_arrays(layout)

    def draw(self, width: int) -> Tensor:
        """(width, n_projections) float64 directions: new ones, or those given."""
        if self.directions is None:
            raw = torch.randn(width, self.n_projections, generator=self.generator, dtype=torch.float64)
            length: Tensor = torch.linalg.vector_norm(raw, dim=0)
            return raw / length
        if len(self.directions) != width:
            raise ValueError(
                f"directions are for features of width {len(self.directions)}, got width {width}"
            )
        return self.directions.double()  # the module may have been cast since

    def forward(self, batch: ClassBatch) -> Tensor:
        """(P,) distances of the batch's pairs."""
        # In float64: the gaps after sorting are small compared with the projections themselves.
        directions = self.draw(batch.given.shape[1]).to(batch.given.device, non_blocking=True)
        x: Tensor = _Projected.apply(batch.given, directions)  # type: ignore[no-untyped-call]
        ranks = batch.sort_within_classes(x.detach().index_select(1, batch.order))
        ordered = x.gather(1, batch.order[ranks])
        if batch.weights is None:
            power = self._cost(ordered, uniform_plan(batch))
        else:
            rows = zip(ordered, batch.exact_mass[ranks], strict=True)
            power = torch.stack([self._cost(row[None], weighted_plan(batch, w)) for row, w in rows]).mean(0)
        return _root(power, self.p).to(batch.given.dtype)

    def magnitude(self, batch: ClassBatch) -> Tensor:
        """Root mean square projection of the largest features, if their entries are independent."""
        if self.directions is None:  # random unit vectors
            return batch.largest_norm() / math.sqrt(batch.given.shape[1])
        peaks = batch.features.detach().abs()
        if batch.weights is not None:
            peaks = peaks * (batch.weights > 0)[:, None]
        seen: Tensor = torch.linalg.vector_norm(self.directions * peaks.amax(0).double()[:, None])
        return (seen / math.sqrt(self.directions.shape[1])).to(peaks.dtype)

    def _cost(self, ordered: Tensor, plan: TransportPlan) -> Tensor:
        exact = TransportPlan(plan.source, plan.target, plan.mass.double(), plan.offsets)
        cost: Tensor = _SlicedCost.apply(ordered, exact, self.p)  # type: ignore[no-untyped-call]
        return cost
