"""Euclidean distances between the samples that a plan matches, and their gradients.

There are two methods. *Gram*: one matrix product gives all distances of a small batch, and one more
their gradients; pairs that would suffer from cancellation are computed by difference. *Direct*: only
the required pairs, by difference. The first has to know which pairs cancel. On an accelerator that
would need a transfer to the host, so the second is always used there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from cophenet.transport.batch import ClassBatch, is_host, is_transformed, without_autocast
from cophenet.transport.differences import is_product_cheaper, lengths_of_pairs, pull_pairs
from cophenet.transport.plan import TransportPlan
from cophenet.transport.solvers.machine_code import loops_when_hot

__all__ = [
    "CANCELS",
    "distance_strip",
    "first_order",
    "greedy_cost",
    "planned_cost",
    "sample_distances",
    "sum_of_rows",
]

# Below this fraction of the sum of both squared norms a squared distance is lost to cancellation in float32.
CANCELS = 1e-3
_GRAM_ELEMENTS = 1 << 24
# Rows per product when only the upper triangle of the Gram matrix is needed.
_STEP = 64


def first_order(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Make a backward pass raise an error if it is differentiated again, instead of dropping its graph."""

    @wraps(backward)
    def checked(ctx: Any, *grads: Any) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError("class distances have first derivatives only; leave out create_graph=True")
        if is_transformed(*grads):
            raise RuntimeError(
                "class distances have no batched gradients; leave out is_grads_batched=True or vectorize=True"
            )
        return backward(ctx, *grads)

    return checked


def _use_gram(z: Tensor, pairs: int) -> bool:
    """Whether a product of all samples costs less than the differences of that many pairs."""
    entries = len(z) ** 2
    return is_host(z) and entries <= _GRAM_ELEMENTS and is_product_cheaper(entries, pairs, z.shape[1])


def _centered(z: Tensor) -> Tensor:
    """Features (B, d) on the host less their mean, with the same bits by a compiled loop and by NumPy."""
    loops = loops_when_hot(z) if z.shape[1] > 1 else None  # NumPy sums a single column in another order
    if loops is None:
        return z - sum_of_rows(z.resolve_neg()).div_(len(z))
    centered = torch.empty_like(z)
    loops.center_rows(z.numpy(), centered.numpy())
    return centered


def _squared_norms(rows: Tensor) -> Tensor:
    """(n, d) -> (n,), without storing the squares of all entries."""
    norms: Tensor = torch.linalg.vector_norm(rows, dim=1)
    return norms.square_()


def _products(rows: Tensor) -> Tensor:
    """(n, n) Gram matrix of rows; uninitialized below the diagonal if there are many."""
    if len(rows) <= 1.5 * _STEP:
        return rows @ rows.T
    products = rows.new_empty(len(rows), len(rows))
    for start in range(0, len(rows), _STEP):
        part = slice(start, start + _STEP)
        torch.mm(rows[part], rows[start:].T, out=products[part, start:])
    return products


def _flat(size: int, row: Tensor, column: Tensor) -> Tensor:
    """(E,) positions in a flattened (size, size) table."""
    return (row * size).add_(column)


def _rooted(squared: Tensor) -> Tensor:
    """Square roots on the host, rounded as in the compiled loops; torch's are not always the nearest."""
    return torch.from_numpy(np.sqrt(squared.numpy()))


def _distances_by_product(z: Tensor, gram: Tensor, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """(E,) distances of pairs, and the numbers of those that were computed by difference."""
    square = gram.diagonal().contiguous()
    norms = square.index_select(0, source).add_(square.index_select(0, target))
    above = _flat(len(z), torch.minimum(source, target), torch.maximum(source, target))
    squared = norms.sub(gram.view(-1).index_select(0, above), alpha=2)
    near = (squared <= norms.mul_(CANCELS)).nonzero().view(-1)
    distance = _rooted(squared.clamp_(min=0))
    if len(near):
        # From the original features: centring rounds, a difference of close numbers does not.
        distance[near] = lengths_of_pairs(z, source[near], target[near])
    return distance, near


def _cancelling(centered: Tensor, source: Tensor, target: Tensor, distance: Tensor) -> Tensor:
    """Numbers of the pairs whose gradient a product would lose, given their distances (E,)."""
    square = _squared_norms(centered)
    norms = square.index_select(0, source).add_(square.index_select(0, target))
    return (distance.square() <= norms.mul_(CANCELS)).nonzero().view(-1)


def _plan_loops(plan: TransportPlan, *values: Tensor) -> ModuleType | None:
    """The compiled loops, if they are available and can read a plan and values of its type."""
    entries, offsets = len(plan.mass), plan.offsets
    whole = len(plan.source) == len(plan.target) == entries and offsets[0] == 0 and offsets[-1] == entries
    readable = whole and plan.source.is_contiguous() and plan.target.is_contiguous()
    alike = all(value.dtype == plan.mass.dtype for value in values)
    return loops_when_hot(plan.mass, *values) if readable and alike else None


def _costs_by_loops(gram: Tensor, plan: TransportPlan) -> tuple[Tensor, Tensor] | None:
    """(E,) distances and (P,) costs; None if loops are unavailable or a pair suffers from cancellation."""
    loops = _plan_loops(plan, gram)
    if loops is None:
        return None
    table = gram.numpy()
    distance, cost = np.empty(len(plan.mass), table.dtype), np.empty(len(plan.offsets) - 1, table.dtype)
    if not loops.planned_costs(table, plan.arrays, plan.offsets, table.dtype.type(CANCELS), distance, cost):
        return None
    return torch.from_numpy(distance), torch.from_numpy(cost)


def sum_of_rows(rows: Tensor) -> Tensor:
    """Sum rows (n, d) on the host one after the other, as the compiled loops do; torch uses another order."""
    with np.errstate(invalid="ignore", over="ignore"):  # non-finite values are reported elsewhere
        return torch.from_numpy(rows.numpy().sum(0))


def _springs(plan: TransportPlan, distance: Tensor, grad: Tensor, size: int) -> Tensor:
    """(B, B) Laplacian of the graph with weights grad * mass / distance."""
    springs = distance.new_empty(size, size)
    loops = _plan_loops(plan, grad, distance)
    if loops is not None:
        loops.springs_of_entries(grad.numpy(), distance.numpy(), plan.arrays, plan.offsets, springs.numpy())
        return springs
    pull = plan.spread(grad).mul_(plan.mass).div_(distance)
    flat = springs.zero_().view(-1)
    flat.scatter_add_(0, _flat(size, plan.source, plan.target), pull)
    flat.scatter_add_(0, _flat(size, plan.target, plan.source), pull)
    return sum_of_rows(springs).diag().sub_(springs)


def sample_distances(z: Tensor, source: Tensor, target: Tensor) -> Tensor:
    """Distances |z[source] - z[target]|, (E,), without gradient.

    Example:
        >>> z = torch.tensor([[0.0, 0.0], [3.0, 4.0]])
        >>> sample_distances(z, torch.tensor([0, 0]), torch.tensor([1, 0]))
        tensor([5., 0.])
    """
    z = z.detach()
    if _use_gram(z, len(source)):
        return _distances_by_product(z, _products(_centered(z)), source, target)[0]
    return lengths_of_pairs(z, source, target)


def distance_strip(z: Tensor, rows: slice, columns: slice) -> Tensor:
    """Distances of some rows to some columns, (r, c), without gradient, safe against cancellation.

    Example:
        >>> distance_strip(torch.tensor([[0.0], [3.0], [5.0]]), slice(0, 1), slice(1, 3))
        tensor([[3., 5.]])
    """
    z = z.detach()
    a, b = z[rows], z[columns]
    if not is_host(z):
        return torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist")
    center = (a if len(a) > len(b) else b).mean(0)
    bc = b - center
    ac = bc if rows == columns else a - center
    column_norms = _squared_norms(bc)
    row_norms = column_norms if ac is bc else _squared_norms(ac)
    squared = torch.addmm(column_norms, ac, bc.T, alpha=-2).add_(row_norms[:, None])
    first_row, first_column = rows.start or 0, columns.start or 0
    # Distances of samples to themselves, where rows and columns overlap.
    same = squared[max(0, first_column - first_row) :, max(0, first_row - first_column) :]
    same.fill_diagonal_(torch.inf)
    near = None
    if bool(squared.amin() < CANCELS * (row_norms.amax() + column_norms.amax())):
        norms = row_norms[:, None] + column_norms
        near = (squared < norms.mul_(CANCELS)).nonzero(as_tuple=True)
    distance = squared.clamp_(min=0).sqrt_()
    same.fill_diagonal_(0)
    if near is not None:
        distance[near] = lengths_of_pairs(z, near[0] + first_row, near[1] + first_column)
    return distance


class _Costs(NamedTuple):
    """Costs (P,) of a plan, and what their gradient is computed from.

    Attributes:
        cost: (P,).
        plan: Its samples number the rows of the features.
        centered: (B, d) features less their mean.
        distance: (E,) distances of the plan's entries.
        near: Numbers of the entries that would suffer from cancellation.
    """

    cost: Tensor
    plan: TransportPlan
    centered: Tensor
    distance: Tensor
    near: Tensor


class _CostByProduct(torch.autograd.Function):
    """<P, D> of every pair with P constant; the gradient of D is a unit vector, or 0 where D is 0."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, costs: _Costs) -> Tensor:
        ctx.plan, ctx.near = costs.plan, costs.near
        # A copy of z, which may be the caller's own tensor, and only if it is needed.
        ctx.save_for_backward(
            costs.centered, costs.distance, z.clone() if len(costs.near) else costs.distance[:0]
        )
        return costs.cost

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        centered, distance, z = ctx.saved_tensors
        plan, near, grad = ctx.plan, ctx.near, grad.contiguous()
        with without_autocast(centered):
            if len(near):
                pull = plan.spread(grad)[near].mul_(plan.mass[near]).div_(distance[near])
                pull.masked_fill_(distance[near] == 0, 0)
                distance = distance.index_fill(0, near, torch.inf)
            out = _springs(plan, distance, grad, len(centered)) @ centered
            if len(near):
                pull_pairs(out, z, plan.source[near], plan.target[near], pull)
            return out, None


class _CostByDifference(torch.autograd.Function):
    """As `_CostByProduct`, of the planned pairs only; `constant` marks rows that need no gradient."""

    @staticmethod
    def forward(
        ctx: Any, z: Tensor, plan: TransportPlan, distance: Tensor | None, constant: Tensor | None
    ) -> Tensor:
        if distance is None:
            distance = lengths_of_pairs(z, plan.source, plan.target)
        ctx.plan, ctx.constant = plan, constant
        ctx.save_for_backward(z, distance)
        return plan.total(plan.mass * distance)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        z, distance = ctx.saved_tensors
        plan: TransportPlan = ctx.plan
        with without_autocast(z):
            pull = plan.spread(grad).mul_(plan.mass).div_(distance).masked_fill_(distance == 0, 0)
            out, source, target = torch.zeros_like(z), plan.source, plan.target
            if ctx.constant is not None and is_host(z):
                # Skip pairs of two constant samples (most are); on an accelerator that would need a transfer.
                kept = (~(ctx.constant[source] & ctx.constant[target])).nonzero().view(-1)
                source, target, pull = source[kept], target[kept], pull[kept]
            pull_pairs(out, z, source, target, pull)
            return out, None, None, None


def _typical_entries(samples: int) -> int:
    """About how many entries a sparse plan has, at least (m + n) / 2, given the sum of m + n over all pairs.

    A decision by it does not depend on whether the plan is known already.
    """
    return 3 * samples // 4


def planned_cost(batch: ClassBatch, plan: TransportPlan, distance: Tensor | None = None) -> Tensor:
    """Cost of a constant plan for every pair of a batch, (P,), differentiable in its features.

    Args:
        batch: The grouped batch, whose rows the plan's samples number.
        plan: Sparse plan of P pairs.
        distance: (E,) the distances of the plan's entries, if they are known already.
    """
    z, entries = batch.given, len(plan.mass)
    if is_host(z):
        samples = int((batch.counts[batch.first] + batch.counts[batch.second]).sum())
        entries = entries if entries > samples else _typical_entries(samples)  # dense plans have more
    if batch.rows.strangers or not _use_gram(z, entries):
        z = batch.features
    else:
        # Products need no order: on unsorted rows neither the features nor their gradients are copied.
        source, target = (batch.order.index_select(0, side) for side in (plan.source, plan.target))
        plan = replace(plan, source=source, target=target)
    cost: Tensor
    if _use_gram(z, entries):
        cost = _CostByProduct.apply(z, _by_product(z.detach(), plan, distance))  # type: ignore[no-untyped-call]
    else:
        cost = _CostByDifference.apply(z, plan, distance, batch.constant)  # type: ignore[no-untyped-call]
    return cost


def _by_product(z: Tensor, plan: TransportPlan, distance: Tensor | None) -> _Costs:
    centered = _centered(z)
    if distance is None:
        return _from_gram(z, plan, centered, _products(centered))
    near = _cancelling(centered, plan.source, plan.target, distance)
    return _Costs(plan.total(plan.mass * distance), plan, centered, distance, near)


def _from_gram(z: Tensor, plan: TransportPlan, centered: Tensor, gram: Tensor) -> _Costs:
    by_loops = _costs_by_loops(gram, plan)
    if by_loops is not None:
        distance, cost = by_loops
        return _Costs(cost, plan, centered, distance, plan.source[:0])
    distance, near = _distances_by_product(z, gram, plan.source, plan.target)
    return _Costs(plan.total(plan.mass * distance), plan, centered, distance, near)


def greedy_cost(batch: ClassBatch) -> Tensor | None:
    """Cost of the greedy plan of uniform weights for all pairs of classes, (P,), by one compiled loop.

    The same bits as `planned_cost` of `uniform_plan`. None if the loop is unavailable, or not the right one.
    """
    z, count, pairs = batch.given, batch.num_classes, batch.num_pairs
    known = batch.weights is not None or batch.rows.strangers or batch.ahead.host
    entries = _typical_entries((count - 1) * len(z))  # as every class is in count - 1 pairs
    if known or pairs != count * (count - 1) // 2 or not _use_gram(z, entries):
        return None
    loops = loops_when_hot(z)
    if loops is None:
        return None
    values = z.detach()
    centered = _centered(values)
    gram = _products(centered)
    table, layout = gram.numpy(), (batch.counts, batch.first, batch.second)
    cancels = table.dtype.type(CANCELS)
    arrays, distance, cost, accurate = loops.greedy_costs(table, batch.rows.order, *layout, cancels)
    source, target, mass, offsets = arrays
    sides = torch.from_numpy(source), torch.from_numpy(target)
    plan = TransportPlan(*sides, torch.from_numpy(mass), offsets)
    if accurate:
        lengths = torch.from_numpy(distance)
        costs = _Costs(torch.from_numpy(cost), plan, centered, lengths, plan.source[:0])
    else:
        costs = _from_gram(values, plan, centered, gram)
    rho: Tensor = _CostByProduct.apply(z, costs)  # type: ignore[no-untyped-call]
    return rho
