"""Sums of all sample distances by class, without holding the distance matrix."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from cophenet.transport.batch import ClassBatch, is_host
from cophenet.transport.first_order import first_order
from cophenet.transport.ground import CANCELS, distance_strip

__all__ = ["distance_sums"]

_STRIP_ELEMENTS = 1 << 20


def _strips(size: int) -> Iterator[slice]:
    step = max(1, _STRIP_ELEMENTS // size)
    return (slice(start, min(start + step, size)) for start in range(0, size, step))


def _pull_by_product(z: Tensor, centered: Tensor, rows: slice, distance: Tensor, pull: Tensor) -> Tensor:
    """Sum over j of pull_ij (z_i - z_j) / D_ij for some rows: a product, near samples by difference."""
    square = torch.linalg.vector_norm(centered, dim=1).square_()
    norms = square[rows, None] + square[None, :]
    spring = pull / distance
    row, column = (distance.square() <= norms.mul_(CANCELS)).nonzero(as_tuple=True)
    near = spring[row, column].masked_fill_(distance[row, column] == 0, 0)
    spring[row, column] = 0
    out = torch.addmm(centered[rows] * spring.sum(1, keepdim=True), spring, centered, alpha=-1)
    step = max(1, _STRIP_ELEMENTS // z.shape[1])
    own = z[rows]
    for start in range(0, len(row), step):
        part = slice(start, start + step)
        force = (own[row[part]] - z[column[part]]).mul_(near[part, None])
        out.index_add_(0, row[part], force)
    return out


def _pull_by_difference(z: Tensor, rows: slice, pull: Tensor) -> Tensor:
    """The same without asking which samples are near, which on an accelerator would be a transfer."""
    with torch.enable_grad():
        own = z[rows].detach().requires_grad_()
        distance = torch.cdist(own, z.detach(), compute_mode="donot_use_mm_for_euclid_dist")
        return torch.autograd.grad(distance, own, pull)[0]


class _DistanceSums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, weights: Tensor, segments: Tensor, num_classes: int) -> Tensor:
        ctx.save_for_backward(z, weights, segments)
        by_class = weights.new_zeros(len(z), num_classes)
        by_class.scatter_(1, segments[:, None], weights[:, None])
        strips = (distance_strip(z, rows, slice(0, len(z))) for rows in _strips(len(z)))
        return torch.cat([strip.double() @ by_class for strip in strips])

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        z, weights, segments = ctx.saved_tensors
        with torch.autocast(z.device.type, enabled=False):
            centered = z - z.mean(0)
            parts = []
            for rows in _strips(len(z)):
                # D_ij enters the sum of sample i over j's class, and that of j over i's.
                pull = grad[rows].index_select(1, segments).mul_(weights)
                pull += grad.index_select(1, segments[rows]).T * weights[rows, None]
                pull = pull.to(z.dtype)
                if is_host(z):
                    distance = distance_strip(z, rows, slice(0, len(z)))
                    parts.append(_pull_by_product(z, centered, rows, distance, pull))
                else:
                    parts.append(_pull_by_difference(z, rows, pull))
            return torch.cat(parts), None, None, None


def distance_sums(batch: ClassBatch, weights: Tensor) -> Tensor:
    """Weighted sums of the distances of every sample to the samples of every class.

    Made in strips of the distance matrix; differentiable in the features, the gradient being 0
    where two samples coincide.

    Args:
        batch: The grouped batch.
        weights: (B,) float64, weight of every sample in the sum of its class; a constant.

    Returns:
        (B, k) float64.

    Example:
        >>> from cophenet.transport.grouping import group_by_class
        >>> batch = group_by_class(torch.tensor([[0.0], [1.0], [5.0]]), torch.tensor([0, 0, 1]))
        >>> distance_sums(batch, torch.ones(3, dtype=torch.float64))
        tensor([[1., 5.],
                [1., 4.],
                [9., 0.]], dtype=torch.float64)
    """
    sums: Tensor = _DistanceSums.apply(  # type: ignore[no-untyped-call]
        batch.features, weights, batch.segments, batch.num_classes
    )
    return sums
