"""The 2-Wasserstein distance of Gaussians fitted to the classes, without a square root of a covariance."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cophenet.transport.base import ClassDistance, register_distance
from cophenet.transport.batch import ClassBatch, is_host, without_autocast
from cophenet.transport.blocks import pair_strips
from cophenet.transport.ground import first_order
from cophenet.transport.point_distances import euclidean

__all__ = ["Bures"]

# A difference of traces below this share of their sum is rounding.
_ROUNDING = 64 * torch.finfo(torch.float64).eps
# Fractions of the largest singular value: values up to the first are 0 except for rounding of squares; the
# squares of values above the second are accurate enough.
_ZERO, _CLEAR = 1e-10, 3e-5
# Number of matrix entries up to which torch uses no threads of its own, which would compete with ours.
_SERIAL = 1 << 14
# Up to this many samples the products of all strips come first: torch's threads spin for a while after one.
_TOGETHER = 1 << 12
# Smallest ratio of diagonal entries of R down to which the Cholesky factor of Y^T Y is accurate.
_WELL_CONDITIONED = 1e-2


def _by_values(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Nuclear norms (p,) of matrices (p, m, n) and their gradient U V^T, from singular values.

    Centred rows make every matrix singular. Directions of zero singular value, whose singular vectors
    are arbitrary, are left out of the gradient: the subgradient of smallest norm.
    """
    u, singular, vh = torch.linalg.svd(blocks, full_matrices=False)
    negligible = 8 * torch.finfo(blocks.dtype).eps * max(blocks.shape[1:]) * singular[:, :1]
    return singular.sum(1), (u * (singular > negligible)[:, None, :]) @ vh


def _by_squares(blocks: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
    """The same from the eigenvectors u of M M^T, in less than half the time: s = |M^T u| and v = M^T u / s.

    The few matrices with singular values too small for accurate squares are left to `_by_values`.
    """
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


def _eigenvectors(squares: list[Tensor]) -> list[Tensor]:
    """Eigenvectors (columns) of symmetric matrices (p, n, n); small ones in threads, unlike torch."""
    many = sum(square.numel() for square in squares) > 4 * _SERIAL
    if not many or torch.get_num_threads() == 1 or any(s.shape[1] ** 2 > _SERIAL for s in squares):
        return [torch.linalg.eigh(square)[1] for square in squares]
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        parts = [torch.split(square, _SERIAL // square.shape[1] ** 2) for square in squares]
        jobs = [[pool.submit(torch.linalg.eigh, part) for part in few] for few in parts]
        return [torch.cat([job.result()[1] for job in few]) for few in jobs]


def _polar_factors(blocks: list[Tensor], exact: bool) -> list[tuple[Tensor, Tensor]]:
    """Nuclear norms (p,) of matrices (p, m, n) and their gradient U V^T; `exact` for full precision."""
    if exact or not all(map(is_host, blocks)):  # finding inaccurate matrices needs a read
        return [_by_values(block) for block in blocks]
    vectors = _eigenvectors([block @ block.mT for block in blocks])
    return [_by_squares(block, u) for block, u in zip(blocks, vectors, strict=True)]


@dataclass(frozen=True, eq=False)
class _Reflections:
    """Reduces the rows Y of a class by one, where a^T Y = 0 for the unit vector a of roots of its masses.

    The reflection that maps a to the first axis makes the first row 0 and preserves Y^T Y. The other rows
    become Y_i - a_i / (1 + a_0) Y_0.

    Attributes:
        kept: The remaining rows: all but the first of every class, and the only row of classes of one sample.
        first: For each remaining row, the first row of its class.
        share: (kept, 1) the factor a_i / (1 + a_0) of the first row.
        counts: (k,) remaining rows of each class.
    """

    kept: Tensor
    first: Tensor
    share: Tensor
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, batch: ClassBatch, roots: Tensor) -> _Reflections:
        """The reflections of a batch, given the square roots (B,) of its masses."""
        starts = np.repeat(batch.offsets[:-1], batch.counts)
        alone = np.repeat(batch.counts == 1, batch.counts)
        kept = np.flatnonzero(alone | (np.arange(len(starts)) != starts))
        index, first = batch.on_device(kept), batch.on_device(starts[kept])
        share = roots.index_select(0, index) / (1 + roots.index_select(0, first))
        return cls(index, first, share[:, None], np.maximum(batch.counts - 1, 1))

    def apply(self, rows: Tensor) -> Tensor:
        """(B, d) -> (kept, d)."""
        first = rows.index_select(0, self.first)
        return rows.index_select(0, self.kept).addcmul_(first, self.share, value=-1)

    def back(self, grad: Tensor, size: int) -> Tensor:
        """Gradients (kept, d) -> (B, d)."""
        out = grad.new_zeros(size, grad.shape[1]).index_add_(0, self.first, grad * self.share, alpha=-1)
        return out.index_add_(0, self.kept, grad)


def _triangle(rows: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """R (d, d) of rows Y = Q R with Q^T Q = 1, and a function that multiplies by Q.

    The function maps a gradient w.r.t. R to one w.r.t. Y. If Y is well conditioned, R is the Cholesky factor
    of Y^T Y, and Q = Y R^-1 is not formed, which takes half the time.
    """
    if is_host(rows):
        factor, failed = torch.linalg.cholesky_ex(rows.mT @ rows, upper=True)
        diagonal = factor.diagonal()
        if not failed and bool(diagonal.amin() > _WELL_CONDITIONED * diagonal.amax()):
            return factor, lambda grad: rows @ torch.linalg.solve_triangular(factor, grad, upper=True)
    basis, factor = torch.linalg.qr(rows)
    return factor, lambda grad: basis @ grad


def _triangles(
    rows: Tensor, batch: ClassBatch
) -> tuple[Tensor, ClassBatch, dict[int, Callable[[Tensor], Tensor]]]:
    """Reduce classes of more samples than dimensions to d rows R each, by Y = Q R with Q^T Q = 1.

    Then Y_u Y_v^T = Q_u (R_u R_v^T) Q_v^T: no decomposed matrix is larger than (d, d), and a gradient w.r.t.
    R times Q is one w.r.t. Y.

    Returns:
        The rows, their batch, and for every reduced class the function that multiplies by Q.
    """
    width = rows.shape[1]
    large = np.flatnonzero(batch.counts > width)
    if not len(large):
        return rows, batch, {}
    pieces, products = list(torch.split(rows, batch.counts.tolist())), {}
    for c in large.tolist():
        pieces[c], products[c] = _triangle(pieces[c])
    rows = torch.cat(pieces)
    counts = np.minimum(batch.counts, width)
    small = replace(batch, given=rows, counts=counts, weights=None)
    return rows, small, products


class _Moments(torch.autograd.Function):
    """Means (k, d), traces of covariances (k,), and the nuclear norm of Y_u Y_v^T for every pair (P,).

    Y are the centred rows of a class times the square roots of their masses: Y^T Y is the covariance.
    """

    @staticmethod
    def forward(ctx: Any, z: Tensor, batch: ClassBatch) -> tuple[Tensor, Tensor, Tensor]:
        exact, mass = z.dtype == torch.float64, batch.exact_mass[:, None]
        ctx.batch, ctx.dtype, ctx.factors = batch, z.dtype, []
        z = z.double()
        means = batch.class_sums(z * mass)
        rows = (z - means.index_select(0, batch.segments)).mul_(mass.sqrt())
        traces = batch.class_sums(torch.linalg.vector_norm(rows, dim=1).square_())
        norms = rows.new_zeros(batch.num_pairs)
        ctx.reflections = _Reflections.of(batch, mass.sqrt()[:, 0])
        small = ctx.reflections.apply(rows)
        fewer = replace(batch, given=small, counts=ctx.reflections.counts, weights=None)
        small, fewer, ctx.products = _triangles(small, fewer)
        strips = pair_strips(fewer)
        for few in [list(strips)] if len(small) <= _TOGETHER else ([strip] for strip in strips):
            sides = [[small.index_select(0, side.rows) for side in (s.rows, s.columns)] for s in few]
            # Padding repeats samples; here it must be zero.
            blocks = [s.take(a @ b.T).mul_(s.filled) for s, (a, b) in zip(few, sides, strict=True)]
            for strip, (norm, factors) in zip(few, _polar_factors(blocks, exact), strict=True):
                norms[strip.pairs] = norm
                if ctx.needs_input_grad[0]:
                    ctx.factors.append((strip, factors))
        ctx.small_counts = fewer.counts
        ctx.save_for_backward(rows, small)
        return means, traces, norms

    @staticmethod
    @first_order
    def backward(ctx: Any, by_means: Tensor, by_traces: Tensor, by_norms: Tensor) -> tuple[Tensor, None]:
        rows, small = ctx.saved_tensors
        batch: ClassBatch = ctx.batch
        with without_autocast(rows):
            out = torch.zeros_like(small)
            for strip, factors in ctx.factors:
                matrix = strip.put(factors * by_norms[strip.pairs][:, None, None])
                a, b = strip.rows.rows, strip.columns.rows
                if strip.rows is strip.columns:
                    out.index_add_(0, a, (matrix + matrix.T) @ small.index_select(0, a))
                    continue
                out.index_add_(0, a, matrix @ small.index_select(0, b))
                out.index_add_(0, b, matrix.T @ small.index_select(0, a))
            if ctx.products:
                pieces = list(torch.split(out, ctx.small_counts.tolist()))
                for c, product in ctx.products.items():
                    pieces[c] = product(pieces[c])
                out = torch.cat(pieces)
            mass = batch.exact_mass[:, None]
            force = ctx.reflections.back(out, len(rows))
            force.addcmul_(rows, by_traces[batch.segments][:, None], value=2).mul_(mass.sqrt())
            common = by_means - batch.class_sums(force)
            force.addcmul_(common.index_select(0, batch.segments), mass)
            return force.to(ctx.dtype), None


@register_distance
class Bures(ClassDistance):
    r"""2-Wasserstein distance (not squared) of the Gaussians with the classes' means and covariances.

    .. math::

        \rho(u, v)^2 = \|\mu_u - \mu_v\|^2
        + \operatorname{tr}\left( S_u + S_v - 2 \left( S_u^{1/2} S_v S_u^{1/2} \right)^{1/2} \right)

    Equation 7 (appendix C) of the OT-CPCC paper (arXiv:2410.03052); Dowson and Landau 1982,
    doi:10.1016/0047-259X(82)90077-X; Bhatia, Jain and Lim 2019, doi:10.1016/j.exmath.2018.01.002. Covariances
    S are normalized by n. The last trace is the nuclear norm of the centred cross-Gram matrix (m, n); a class
    of n samples is first reduced to min(n - 1, d) rows with the same covariance, which keeps the matrices
    small. Computed in float64, because the distance of classes of similar shape is a small difference of
    large traces.

    Example:
        >>> from cophenet.transport.grouping import group_by_class
        >>> features = torch.tensor([[0.0], [2.0], [3.0], [7.0]])
        >>> Bures()(group_by_class(features, torch.tensor([0, 0, 1, 1])))  # means 1, 5; deviations 1, 2
        tensor([4.1231])
    """

    name = "bures"
    degree = 1
    pair_cost = "product"
    stateless = True

    def forward(self, batch: ClassBatch) -> Tensor:
        """(P,) distances of the batch's pairs, differentiable in its features."""
        with without_autocast(batch.given):
            first, second = batch.on_device(batch.first), batch.on_device(batch.second)
            means, traces, norms = _Moments.apply(batch.features, batch)  # type: ignore[no-untyped-call]
            both = traces[first] + traces[second]
            spread = both - 2 * norms
            # Negative only by rounding; at its minimum 0 its gradient is 0, too.
            spread = torch.where(spread > _ROUNDING * both, spread, 0.0)
            squared = euclidean(means, batch).square() + spread
            apart = squared > 0
            # At 0 the square root has no derivative; 0 is used.
            distance = torch.where(apart, squared, 1.0).sqrt() * apart
            return distance.to(batch.given.dtype)
