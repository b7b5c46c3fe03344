"""The 2-Wasserstein distance of Gaussians fitted to the classes, without a square root of a covariance."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cophenet.transport.base import ClassDistance, register_distance
from cophenet.transport.batch import ClassBatch
from cophenet.transport.blocks import pair_strips
from cophenet.transport.ground import first_order

__all__ = ["Bures"]

# A difference of traces below this share of their sum is rounding.
_ROUNDING = 64 * torch.finfo(torch.float64).eps


def _polar_factors(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Nuclear norms (p,) of matrices (p, m, n) and their gradient U V^T.

    Centred rows make every matrix singular. Directions of zero singular value, whose singular vectors
    are arbitrary, are left out of the gradient: the subgradient of smallest norm.
    """
    u, singular, vh = torch.linalg.svd(blocks, full_matrices=False)
    negligible = torch.finfo(blocks.dtype).eps * max(blocks.shape[1:]) * singular[:, :1]
    return singular.sum(1), (u * (singular > negligible)[:, None, :]) @ vh


class _CrossNuclearNorms(torch.autograd.Function):
    """Nuclear norm of Y_u Y_v^T for every pair of classes, Y_c the rows (n_c, d) of a class."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, batch: ClassBatch) -> Tensor:
        norms = rows.new_zeros(batch.num_pairs)
        ctx.factors = []
        with torch.autocast(rows.device.type, enabled=False):
            for strip in pair_strips(batch):
                gram = rows[strip.rows.rows] @ rows[strip.columns.rows].T
                # Padding repeats samples; here it must be zero.
                blocks = strip.take(gram).mul_(strip.filled)
                norms[strip.pairs], factors = _polar_factors(blocks)
                if ctx.needs_input_grad[0]:
                    ctx.factors.append((strip, factors))
        ctx.save_for_backward(rows)
        return norms

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (rows,) = ctx.saved_tensors
        out = torch.zeros_like(rows)
        with torch.autocast(rows.device.type, enabled=False):
            for strip, factors in ctx.factors:
                matrix = strip.put(factors * grad[strip.pairs][:, None, None])
                a, b = strip.rows.rows, strip.columns.rows
                out.index_add_(0, a, matrix @ rows[b])
                out.index_add_(0, b, matrix.T @ rows[a])
        return out, None


@register_distance
class Bures(ClassDistance):
    r"""2-Wasserstein distance (with its root) of the Gaussians with the classes' means and covariances.

    .. math::

        \rho(u, v)^2 = \|\mu_u - \mu_v\|^2
        + \operatorname{tr}\left( S_u + S_v - 2 \left( S_u^{1/2} S_v S_u^{1/2} \right)^{1/2} \right)

    Equation 7 (appendix C) of the OT-CPCC paper (arXiv:2410.03052); Dowson and Landau 1982,
    doi:10.1016/0047-259X(82)90077-X; Bhatia, Jain and Lim 2019, doi:10.1016/j.exmath.2018.01.002. Covariances
    S are divided by n. The last trace is the nuclear norm of the centred cross-Gram matrix (m, n), so nothing
    of size (d, d) appears. Computed in float64, since W is a small difference of large traces for classes of
    like shape.

    Example:
        >>> from cophenet.transport.grouping import group_by_class
        >>> features = torch.tensor([[0.0], [2.0], [3.0], [7.0]])
        >>> Bures()(group_by_class(features, torch.tensor([0, 0, 1, 1])))  # means 1, 5; deviations 1, 2
        tensor([4.1231])
    """

    name = "bures"
    degree = 1
    pair_cost = "product"

    def forward(self, batch: ClassBatch) -> Tensor:
        """(P,) distances of the batch's pairs, differentiable in its features."""
        with torch.autocast(batch.features.device.type, enabled=False):
            z, mass = batch.features.double(), batch.exact_mass
            first, second = batch.on_device(batch.first), batch.on_device(batch.second)
            means = batch.means()
            # Rows scaled by the roots of their masses: Y^T Y is the covariance.
            rows = (z - means[batch.segments]) * mass.sqrt()[:, None]
            traces = batch.class_sums(rows.square().sum(1))
            both = traces[first] + traces[second]
            norms: Tensor = _CrossNuclearNorms.apply(rows, batch)  # type: ignore[no-untyped-call]
            spread = both - 2 * norms
            # Never negative but for rounding; at its minimum 0 it has no gradient either.
            spread = torch.where(spread > _ROUNDING * both, spread, 0.0)
            squared = (means[first] - means[second]).square().sum(1) + spread
            apart = squared > 0
            # Where W = 0 the root has no derivative; 0 is taken.
            distance = torch.where(apart, squared, 1.0).sqrt() * apart
            return distance.to(batch.features.dtype)
