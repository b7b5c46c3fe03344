"""Euclidean distances between one point per class (given, or the class mean), by one matrix product."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from cophenet.transport.batch import (
    ClassBatch,
    is_host,
    out_of_range,
    times_power_of_two,
    without_autocast,
)
from cophenet.transport.class_layout import Indices
from cophenet.transport.ground import CANCELS, first_order, sum_of_rows
from cophenet.transport.grouping import raise_not_finite
from cophenet.transport.means import ClassShares
from cophenet.transport.solvers.machine_code import loops_when_hot

__all__ = ["distances_of_means", "euclidean"]

# Points are rescaled unless their largest squared norm is between this and its reciprocal.
_SQUARES = {torch.float32: 2.0**-32, torch.float64: 2.0**-256}


def _centered(z: Tensor, shares: ClassShares | None) -> tuple[Tensor, Tensor]:
    """(k, d) centred points in float64, and in the type of `z`: points, or features if there are shares."""
    points = z.clone() if shares is None else shares.means(z)
    points.sub_(sum_of_rows(points).div_(len(points)))
    return points, points.to(z.dtype)


def _springs(grad: Tensor, distance: Tensor, first: Indices, second: Indices, size: int) -> Tensor:
    """(k, k) symmetric matrix of grad / distance, summed over the pairs."""
    springs = grad.new_zeros(size * size)
    springs.index_add_(0, torch.from_numpy(first * size + second), grad / distance)
    springs = springs.view(size, size)
    return springs + springs.T


class _PointDistances(torch.autograd.Function):
    """Distances of k points, given in float64 or as means of features, by one product in the type of `z`.

    Works at any scale: very large or very small points are divided by a power of two.
    """

    @staticmethod
    def forward(ctx: Any, z: Tensor, shares: ClassShares | None, first: Indices, second: Indices) -> Tensor:
        ctx.shares, ctx.first, ctx.second = shares, first, second
        points, narrow = _centered(z, shares)
        gram = narrow @ narrow.T
        largest, exponent = float(gram.diagonal().amax()), 0
        if not _SQUARES[z.dtype] < largest < 1 / _SQUARES[z.dtype]:  # also NaN
            peak = float(points.abs().amax())
            if shares is not None and not math.isfinite(peak):
                raise_not_finite(z)
            exponent = out_of_range(peak, z.dtype)
            points = times_power_of_two(points, -exponent)
            narrow = points.to(z.dtype)
            gram = narrow @ narrow.T
            largest = float(gram.diagonal().amax())
        square = gram.diagonal()
        norms = square[:, None] + square
        table = norms.sub(gram, alpha=2).fill_diagonal_(math.inf)
        ctx.near = None
        if not table.amin() > 2 * CANCELS * largest:
            ctx.near = (table <= norms.mul_(CANCELS)).nonzero(as_tuple=True)
        table.sqrt_()
        if ctx.near is not None:
            row, column = ctx.near
            ctx.gaps = points[row] - points[column]
            table[ctx.near] = torch.linalg.vector_norm(ctx.gaps, dim=1).to(z.dtype)
            ctx.apart = table[ctx.near] > 0
        distance = table.view(-1).index_select(0, torch.from_numpy(first * len(table) + second))
        ctx.save_for_backward(narrow, distance)  # as by loops, which a recomputed forward pass may use
        # A copy, because the caller may modify the result in place.
        return times_power_of_two(distance, exponent) if exponent else distance.clone()

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        narrow, distance = ctx.saved_tensors
        shares: ClassShares | None = ctx.shares
        with without_autocast(narrow):
            springs = _springs(grad, distance, ctx.first, ctx.second, len(narrow))
            if ctx.near is not None:
                pull = torch.where(ctx.apart, springs[ctx.near], 0)
                springs[ctx.near] = 0
                close = torch.zeros_like(narrow, dtype=torch.float64)
                close.index_add_(0, ctx.near[0], ctx.gaps * pull[:, None])
            springs = sum_of_rows(springs).diag().sub_(springs)
            forces = (springs if shares is None else shares.per_row(springs)) @ narrow
            if ctx.near is not None:
                forces = (close if shares is None else shares.per_row(close)).add_(forces)
            return forces if shares is None else shares.spread(forces, narrow.dtype), None, None, None


class _Parts(NamedTuple):
    """The compiled loops and their arguments: rows, pairs (P,), and counts (k,), empty unless uniform."""

    loops: ModuleType
    shares: ClassShares
    first: Indices
    second: Indices
    counts: Indices


class _PointDistancesByLoops(torch.autograd.Function):
    """As `_PointDistances`, bit for bit, by compiled code; only if no pair is near or out of range."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, narrow: Tensor, squared: Tensor, parts: _Parts) -> Tensor:
        _ = z  # the input that the gradient is taken for
        ctx.parts = parts
        distance = squared.sqrt()
        ctx.save_for_backward(narrow, distance)
        return distance.clone()  # the caller may modify the result in place

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        narrow, distance = ctx.saved_tensors
        loops, shares, *pairs = ctx.parts
        with without_autocast(narrow):
            springs = narrow.new_empty(len(narrow), len(narrow))
            loops.springs_of_pairs(grad.contiguous().numpy(), distance.numpy(), *pairs, springs.numpy())
            return shares.spread(springs @ narrow, narrow.dtype), None, None, None


def _by_loops(z: Tensor, shares: ClassShares, first: Indices, second: Indices) -> Tensor | None:
    """(P,) distances of class means by compiled code; None if it is unavailable or would be inaccurate."""
    # NumPy sums a single column in another order.
    loops = loops_when_hot(z) if z.shape[1] > 1 and len(shares.owner) == len(z) else None
    if loops is None:
        return None
    first, second = np.ascontiguousarray(first), np.ascontiguousarray(second)
    owner, mass, counts = shares.arrays
    narrow = z.new_empty(len(counts), z.shape[1])
    loops.centered_means(z.detach().numpy(), owner, mass, counts, narrow.numpy())
    gram = (narrow @ narrow.T).numpy()
    squared = narrow.new_empty(len(first))
    arrays = first, second, _SQUARES[z.dtype], gram.dtype.type(CANCELS), squared.numpy()
    if not loops.squared_distances(gram, *arrays):
        return None
    parts = _Parts(loops, shares, first, second, counts[:0] if len(mass) else counts)
    distance: Tensor = _PointDistancesByLoops.apply(z, narrow, squared, parts)  # type: ignore[no-untyped-call]
    return distance


def euclidean(points: Tensor, batch: ClassBatch) -> Tensor:
    """(P,) distances of a batch's class pairs, each class represented by a point of (k, d) in float64."""
    if not is_host(points):  # finding near points would need a transfer
        table = torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist")
        return table[batch.on_device(batch.first), batch.on_device(batch.second)]
    return _by_product(points, batch, None)


def distances_of_means(batch: ClassBatch) -> Tensor:
    """(P,) distances of the class means of a batch's pairs; in float64 on an accelerator."""
    if not is_host(batch.given):
        return torch.pdist(batch.means())
    distance = _by_loops(batch.given, batch.shares, batch.first, batch.second)
    return _by_product(batch.given, batch, batch.shares) if distance is None else distance


def _by_product(z: Tensor, batch: ClassBatch, shares: ClassShares | None) -> Tensor:
    pairs = batch.first, batch.second
    distance: Tensor = _PointDistances.apply(z, shares, *pairs)  # type: ignore[no-untyped-call]
    return distance
