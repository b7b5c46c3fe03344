"""Fast FlowTree: the greedy plan on the augmented label tree, linear in the data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cophenet._common.checks import check_choice, check_whole, wrong_argument
from cophenet.transport.base import PlanDistance, register_distance
from cophenet.transport.batch import ClassBatch
from cophenet.transport.class_layout import ClassLayout
from cophenet.transport.ground import greedy_cost, planned_cost, sample_distances
from cophenet.transport.plan import TransportPlan, greedy_plan, uniform_arrays

__all__ = ["FastFlowTree", "principal_directions"]

Order = Literal["batch", "principal"]

_POWER_ITERATIONS = 8


def principal_directions(rows: Tensor, count: int) -> Tensor:
    """Leading eigenvectors of the second moment of some rows, by power iteration, one after the other.

    Args:
        rows: (n, d), without gradient.
        count: How many directions.

    Returns:
        (d, count) orthonormal directions; the first ones are the same for any larger count.
    """
    # The same start for all batches: the plan is then a function of the batch alone.
    generator = torch.Generator().manual_seed(0)
    leading: list[Tensor] = []
    for _ in range(count):
        direction = torch.randn(rows.shape[1], 1, generator=generator).to(rows, non_blocking=True)
        direction = _unit_beside(leading, direction)
        for _ in range(_POWER_ITERATIONS):
            direction = _unit_beside(leading, rows.T @ (rows @ direction))
        leading.append(direction)
    return torch.cat(leading, dim=1)


def _unit_beside(others: list[Tensor], direction: Tensor) -> Tensor:
    """A direction (d, 1) made orthogonal to others and scaled to norm one."""
    for other in others:
        direction = direction - other @ (other.T @ direction)
    unit: Tensor = torch.linalg.qr(direction).Q
    return unit


def _principal_scores(batch: ClassBatch, count: int) -> Tensor:
    """(count, B) projections of the centred samples on the leading within-class directions."""
    z = batch.features.detach()
    # Centring keeps the order within a class, and is accurate for tight classes far from the origin.
    residual = (z - batch.means().detach()[batch.segments]).to(z.dtype)
    rows = residual
    if batch.weights is not None:
        share = batch.weights * batch.on_device(batch.counts).to(z.dtype)[batch.segments]
        rows = residual * share.sqrt()[:, None]
    directions = principal_directions(rows, count)
    # One product each: the rounding of a score must not depend on the number of scores.
    return torch.cat([direction[None] @ residual.T for direction in directions.T.contiguous()])


@register_distance
class FastFlowTree(PlanDistance):
    r"""Fast FlowTree: samples are matched greedily, in a fixed order.

    .. math::

        \rho(u, v) = \langle P, D \rangle, \qquad P_{ij} = \left| [A_{i-1}, A_i) \cap [B_{j-1}, B_j) \right|

    A and B are the running sums of a and b: P_ij is the length by which two intervals overlap.

    Section 3.2 and Algorithm 1 (greedy flow matching, the north-west-corner rule) of the OT-CPCC paper
    (arXiv:2410.03052), whose Theorem 3.2 shows that it is Algorithm 2 on the augmented label tree.
    On the label tree with the samples attached below their classes all samples of two classes are
    equally far apart, so any greedy matching is optimal *for the tree*, and the plan costs one
    pass over the samples. Its cost in feature space is at least the exact EMD.

    Args:
        order: "batch" matches samples in batch order, as the paper does; "principal" sorts the
            samples of every class along one direction, the leading eigenvector of the pooled
            within-class covariance, which brings the plan close to the optimal one.
        n_orders: With "principal": try that many leading eigenvectors and keep the cheapest plan
            of each pair; a larger number never increases the cost.

    Example:
        >>> from cophenet.transport.grouping import group_by_class
        >>> z = torch.tensor([[0.0], [9.0], [10.0], [1.0]])
        >>> batch = group_by_class(z, torch.tensor([0, 0, 1, 1]))
        >>> FastFlowTree()(batch), FastFlowTree(order="principal")(batch)
        (tensor([9.]), tensor([1.]))
    """

    name = "fastft"
    order_dependent = True
    stateless = True

    def __init__(self, order: Order = "batch", n_orders: int = 1) -> None:
        super().__init__()
        check_choice("order", order, get_args(Order))
        check_whole("n_orders", n_orders, 1)
        if order == "batch" and n_orders != 1:
            raise wrong_argument("n_orders", f"must be 1 with order='batch', got {n_orders}")
        self.order = order
        self.traceable = order == "batch"
        self.n_orders = n_orders

    def arrays(self, layout: ClassLayout) -> Mapping[str, NDArray[np.generic]]:
        """The plan of every pair."""
        return uniform_arrays(layout)

    def plan(self, batch: ClassBatch) -> TransportPlan:
        """The north-west-corner plan of every pair, in the chosen order of samples."""
        return self._planned(batch)[0]

    def forward(self, batch: ClassBatch) -> Tensor:
        """(P,) distances of the batch's pairs."""
        cost = greedy_cost(batch) if self.order == "batch" else None
        return super().forward(batch) if cost is None else cost

    def with_plan(self, batch: ClassBatch) -> tuple[Tensor, TransportPlan]:
        """The distances and the plan behind them."""
        plan, distance = self._planned(batch)
        return planned_cost(batch, plan, distance), plan

    def _planned(self, batch: ClassBatch) -> tuple[TransportPlan, Tensor | None]:
        """The plan, and the distances of its entries if they had to be computed, else None."""
        if self.order == "batch":
            return greedy_plan(batch), None
        count = min(self.n_orders, batch.given.shape[1])
        arrangements = batch.sort_within_classes(_principal_scores(batch, count))
        plans = [greedy_plan(batch, arrangement) for arrangement in arrangements]
        if count == 1:
            return plans[0], None
        return _cheapest(batch, plans)


def _cheapest(batch: ClassBatch, plans: list[TransportPlan]) -> tuple[TransportPlan, Tensor]:
    """For every pair the cheapest of several plans, all with the same entries per pair."""
    source = torch.stack([plan.source for plan in plans])
    target = torch.stack([plan.target for plan in plans])
    mass = torch.stack([plan.mass for plan in plans])
    distance = sample_distances(batch.features, source.flatten(), target.flatten()).view_as(mass)
    costs = torch.stack([plan.total(plan.mass * row) for plan, row in zip(plans, distance, strict=True)])
    best = plans[0].spread(costs.argmin(dim=0))[None]
    source, target, mass, distance = (x.gather(0, best)[0] for x in (source, target, mass, distance))
    return TransportPlan(source, target, mass, plans[0].offsets), distance
