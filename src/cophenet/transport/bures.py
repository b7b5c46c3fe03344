"""The 2-Wasserstein distance of Gaussians fitted to the classes, without a square root of a covariance."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cophenet.transport.base import ClassDistance, register_distance
from cophenet.transport.batch import ClassBatch, is_host, without_autocast
from cophenet.transport.blocks import pair_strips
from cophenet.transport.centroid import euclidean
from cophenet.transport.ground import first_order
from cophenet.transport.solvers.problem import thread_count

__all__ = ["Bures"]

# A difference of traces below this share of their sum is rounding.
_ROUNDING = 64 * torch.finfo(torch.float64).eps
# Shares of the largest singular value: up to the first another is 0 but for rounding of squares, from the
# second on its square is exact enough.
_ZERO, _CLEAR = 1e-10, 3e-5


def _by_values(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Nuclear norms (p,) of matrices (p, m, n) and their gradient U V^T, from singular values.

    Centred rows make every matrix singular. Directions of zero singular value, whose singular vectors
    are arbitrary, are left out of the gradient: the subgradient of smallest norm.
    """
    u, singular, vh = torch.linalg.svd(blocks, full_matrices=False)
    negligible = 8 * torch.finfo(blocks.dtype).eps * max(blocks.shape[1:]) * singular[:, :1]
    return singular.sum(1), (u * (singular > negligible)[:, None, :]) @ vh


def _by_squares(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """The same from the eigenvectors u of M M^T, in less than half the time: s = |M^T u| and v = M^T u / s.

    A few matrices with singular values whose squares would be lost to rounding are done by `_by_values`.
    """
    if blocks.shape[1] > blocks.shape[2]:
        norms, factors = _by_squares(blocks.mT)
        return norms, factors.mT
    u = torch.linalg.eigh(blocks @ blocks.mT)[1]
    images = u.mT @ blocks
    singular: Tensor = torch.linalg.vector_norm(images, dim=2)
    largest = singular.amax(1, keepdim=True)
    clear = singular > _CLEAR * largest
    lost = (~clear & (singular > _ZERO * largest)).any(1).nonzero().view(-1)
    singular = singular.where(clear, 0.0)
    norms = singular.sum(1)
    factors = (u / singular.where(clear, torch.inf)[:, None, :]) @ images
    if len(lost):
        norms[lost], factors[lost] = _by_values(blocks[lost])
    return norms, factors


def _polar_factors(blocks: Tensor, exact: bool) -> tuple[Tensor, Tensor]:
    """Nuclear norms (p,) of matrices (p, m, n) and their gradient U V^T; `exact` to the last places."""
    if exact or not is_host(blocks):  # which matrices are lost would have to be asked
        return _by_values(blocks)
    threads = thread_count()
    if threads == 1 or len(blocks) < 2 * threads:
        return _by_squares(blocks)
    with ThreadPoolExecutor(threads) as pool:  # LAPACK takes one small matrix after the other
        norms, factors = zip(*pool.map(_by_squares, blocks.chunk(threads)), strict=True)
    return torch.cat(norms), torch.cat(factors)


def _triangles(rows: Tensor, batch: ClassBatch) -> tuple[Tensor, ClassBatch, dict[int, Tensor]]:
    """Classes of more samples than dimensions as d rows R each, by Y = Q R with Q^T Q = 1.

    Then Y_u Y_v^T = Q_u (R_u R_v^T) Q_v^T: what is decomposed is no larger than (d, d), and a gradient by R
    is one by Y after a product with Q.

    Returns:
        The rows, the batch they make, and Q of the classes that were made smaller.
    """
    width = rows.shape[1]
    large = np.flatnonzero(batch.counts > width)
    if not len(large):
        return rows, batch, {}
    pieces, bases = list(torch.split(rows, batch.counts.tolist())), {}
    for c in large.tolist():
        bases[c], pieces[c] = torch.linalg.qr(pieces[c])
    rows = torch.cat(pieces)
    counts = np.minimum(batch.counts, width)
    small = replace(batch, given=rows, order=batch.order[: len(rows)], counts=counts, weights=None)
    return rows, small, bases


class _CrossNuclearNorms(torch.autograd.Function):
    """Nuclear norm of Y_u Y_v^T for every pair of classes, Y_c the rows (n_c, d) of a class."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, batch: ClassBatch) -> Tensor:
        norms = rows.new_zeros(batch.num_pairs)
        exact = batch.given.dtype == torch.float64
        ctx.factors = []
        with without_autocast(rows):
            rows, batch, ctx.bases = _triangles(rows, batch)
            for strip in pair_strips(batch):
                gram = rows[strip.rows.rows] @ rows[strip.columns.rows].T
                # Padding repeats samples; here it must be zero.
                blocks = strip.take(gram).mul_(strip.filled)
                norms[strip.pairs], factors = _polar_factors(blocks, exact)
                if ctx.needs_input_grad[0]:
                    ctx.factors.append((strip, factors))
        ctx.small_counts = batch.counts
        ctx.save_for_backward(rows)
        return norms

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (rows,) = ctx.saved_tensors
        out = torch.zeros_like(rows)
        with without_autocast(rows):
            for strip, factors in ctx.factors:
                matrix = strip.put(factors * grad[strip.pairs][:, None, None])
                a, b = strip.rows.rows, strip.columns.rows
                out.index_add_(0, a, matrix @ rows[b])
                out.index_add_(0, b, matrix.T @ rows[a])
            if ctx.bases:
                pieces = list(torch.split(out, ctx.small_counts.tolist()))
                for c, basis in ctx.bases.items():
                    pieces[c] = basis @ pieces[c]
                out = torch.cat(pieces)
        return out, None


@register_distance
class Bures(ClassDistance):
    r"""2-Wasserstein distance (with its root) of the Gaussians with the classes' means and covariances.

    .. math::

        \rho(u, v)^2 = \|\mu_u - \mu_v\|^2
        + \operatorname{tr}\left( S_u + S_v - 2 \left( S_u^{1/2} S_v S_u^{1/2} \right)^{1/2} \right)

    Equation 7 (appendix C) of the OT-CPCC paper (arXiv:2410.03052); Dowson and Landau 1982,
    doi:10.1016/0047-259X(82)90077-X; Bhatia, Jain and Lim 2019, doi:10.1016/j.exmath.2018.01.002. Covariances
    S are divided by n. The last trace is the nuclear norm of the centred cross-Gram matrix (m, n); a class of
    more samples than dimensions is first made d rows of the same covariance, so that no matrix is larger than
    classes and dimensions allow. Computed in float64, since W is a small difference of large traces for
    classes of like shape.

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
        with without_autocast(batch.given):
            z, mass = batch.features.double(), batch.exact_mass
            first, second = batch.on_device(batch.first), batch.on_device(batch.second)
            means = batch.class_sums(z * mass[:, None])
            # Rows scaled by the roots of their masses: Y^T Y is the covariance.
            rows = (z - means[batch.segments]) * mass.sqrt()[:, None]
            traces = batch.class_sums(rows.square().sum(1))
            both = traces[first] + traces[second]
            norms: Tensor = _CrossNuclearNorms.apply(rows, batch)  # type: ignore[no-untyped-call]
            spread = both - 2 * norms
            # Never negative but for rounding; at its minimum 0 it has no gradient either.
            spread = torch.where(spread > _ROUNDING * both, spread, 0.0)
            squared = euclidean(means, batch, means.dtype).square() + spread
            apart = squared > 0
            # Where W = 0 the root has no derivative; 0 is taken.
            distance = torch.where(apart, squared, 1.0).sqrt() * apart
            return distance.to(batch.features.dtype)
