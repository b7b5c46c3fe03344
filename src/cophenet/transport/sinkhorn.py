"""Entropic optimal transport between classes, all pairs of a batch at once."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from cophenet._common.checks import check_choice, check_number, check_whole
from cophenet.transport.base import ClassDistance, register_distance
from cophenet.transport.batch import ClassBatch, LateRead, is_host, without_autocast
from cophenet.transport.blocks import Strip, pair_strips
from cophenet.transport.differences import pull_pairs
from cophenet.transport.ground import CANCELS, distance_strip, first_order, planned_cost
from cophenet.transport.plan import TransportPlan
from cophenet.transport.solvers.entropic import entropic_plan, implicit_gradient

__all__ = ["Sinkhorn"]

Differentiate = Literal["plan-constant", "through"]

_TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12}
# Where the error cannot be read, the number of iterations starts here and is doubled if it was too small.
_FIRST_BUDGET = 64


@dataclass(frozen=True, eq=False)
class _Solution:
    """Costs, plans and regs of a strip: (p, m, n), (p, m, n), (p,)."""

    strip: Strip
    cost: Tensor
    plan: Tensor
    reg: Tensor


@dataclass(frozen=True, eq=False)
class _Springs:
    """Per unit of a pair's gradient, sample i gets the gradient stiffness * (z_i - z_j), and j its negative.

    Attributes:
        strip: The pairs.
        stiffness: (p, m, n).
        near: Entries (pair, row slot, column slot) whose samples are too close for a matrix product.
    """

    strip: Strip
    stiffness: Tensor
    near: tuple[Tensor, Tensor, Tensor] | None


def _near(strip: Strip, cost: Tensor, square: Tensor) -> tuple[Tensor, Tensor, Tensor] | None:
    """Entries that cancel in a matrix product, given the squared norms (B,) of the centred samples."""
    if not is_host(cost) or float(cost.min()) ** 2 >= 2 * CANCELS * float(square.max()):
        return None
    row = square[strip.rows.rows[strip.rows.padded]].view_as(strip.rows.mass)[strip.row_class]
    column = square[strip.columns.rows[strip.columns.padded]].view_as(strip.columns.mass)[strip.column_class]
    norms = row[:, :, None] + column[:, None, :]
    pair, i, j = (cost.square() < norms.mul_(CANCELS)).nonzero(as_tuple=True)
    return (pair, i, j) if len(pair) else None


def _pull(out: Tensor, z: Tensor, centered: Tensor, springs: _Springs, grad: Tensor) -> None:
    """Add the forces of a strip's springs to the gradient (B, d) of the features."""
    strip = springs.strip
    force = springs.stiffness * grad[strip.pairs][:, None, None]
    if springs.near is not None:
        pair, i, j = springs.near
        pull_pairs(out, z, strip.row_samples(pair, i), strip.column_samples(pair, j), force[springs.near])
        force[springs.near] = 0
    rows, columns = strip.rows.rows, strip.columns.rows
    matrix = strip.put(force)
    if not is_host(z):
        _pull_by_difference(out, z, strip, matrix)
    elif strip.rows is strip.columns:
        _pull_by_product(out, centered, rows, rows, matrix + matrix.T)
    else:
        _pull_by_product(out, centered, rows, columns, matrix)
        _pull_by_product(out, centered, columns, rows, matrix.T)


def _pull_by_product(out: Tensor, centered: Tensor, to: Tensor, by: Tensor, matrix: Tensor) -> None:
    own = centered[to].mul_(matrix.sum(1, keepdim=True))
    out.index_add_(0, to, torch.addmm(own, matrix, centered[by], alpha=-1))


def _pull_by_difference(out: Tensor, z: Tensor, strip: Strip, matrix: Tensor) -> None:
    # Finding the entries that cancel in a product would stall an accelerator; this cdist uses no product.
    with torch.enable_grad():
        a, b = (z[side.rows].requires_grad_() for side in (strip.rows, strip.columns))
        distance = torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist")
    for side, force in zip(
        (strip.rows, strip.columns),
        torch.autograd.grad(distance, (a, b), matrix * distance.detach()),
        strict=True,
    ):
        out.index_add_(0, side.rows, force)


class _EntropicCost(torch.autograd.Function):
    """<P, D> of every pair; the forward pass stores what the gradient needs, as springs."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, batch: ClassBatch, distance: Sinkhorn) -> Tensor:
        value = z.new_zeros(batch.num_pairs)
        ctx.springs = []
        with without_autocast(z):
            square = (z - z.mean(0)).square_().sum(1) if ctx.needs_input_grad[0] else None
            for solution in distance._solve(batch):
                strip, cost = solution.strip, solution.cost
                value[strip.pairs] = (solution.plan * cost).sum((1, 2))
                if square is not None:
                    stiffness = distance._cost_gradient(solution).div_(cost).masked_fill_(cost == 0, 0)
                    ctx.springs.append(_Springs(strip, stiffness, _near(strip, cost, square)))
        ctx.save_for_backward(z)
        return value

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (z,) = ctx.saved_tensors
        out = torch.zeros_like(z)
        with without_autocast(z):
            centered = z - z.mean(0)
            for springs in ctx.springs:
                _pull(out, z, centered, springs, grad)
        return out, None, None


@register_distance
class Sinkhorn(ClassDistance):
    r"""Cost of the entropic plan, D the Euclidean distances of the samples.

    .. math::

        \rho(u, v) = \langle P, D \rangle, \qquad
        P = \operatorname{argmin}_P \langle P, D \rangle - \varepsilon H(P)
        \quad \text{subject to} \quad P 1 = a, \; P^\top 1 = b

    H(P) = -sum_ij P_ij (log P_ij - 1), so that P = diag(x) exp(-D / reg) diag(y); epsilon is `reg`.

    Cuturi, "Sinkhorn Distances: Lightspeed Computation of Optimal Transport", NeurIPS 2013, arXiv:1306.0895;
    sections 3.1 and 3.3 of the OT-CPCC paper (arXiv:2410.03052).

    Args:
        reg: Strength of the entropy. The paper's 10, on raw distances, is close to the product plan.
        relative: Take `reg` as a multiple of each pair's mean cost under the product plan,
            which makes the distance scale with the features.
        differentiate: "plan-constant", as the authors do; or "through", also differentiating the plan.
        tolerance: Summed error of a pair's marginals at which its plan is converged; by
            default 1e-6 in float32 and 1e-12 in float64.
        max_iterations: Iterations before giving up with a warning, given once per object.

    Example:
        >>> from cophenet.transport.grouping import group_by_class
        >>> features = torch.tensor([[0.0], [1.0], [3.0], [4.0]])
        >>> batch = group_by_class(features, torch.tensor([0, 0, 1, 1]))
        >>> Sinkhorn(reg=0.1)(batch)
        tensor([3.])
    """

    name = "sinkhorn"
    degree = 1
    compares_samples = True
    pair_cost = "product"

    def __init__(
        self,
        reg: float = 10.0,
        relative: bool = False,
        differentiate: Differentiate = "plan-constant",
        tolerance: float | None = None,
        max_iterations: int = 1000,
    ) -> None:
        super().__init__()
        check_number("reg", reg, least=False)
        check_choice("differentiate", differentiate, get_args(Differentiate))
        if tolerance is not None:
            check_number("tolerance", tolerance, least=False)
        check_whole("max_iterations", max_iterations, 1)
        self.reg = float(reg)
        self.relative = relative
        self.differentiate = differentiate
        self.tolerance = tolerance
        self.max_iterations = max_iterations
        self._budget = min(_FIRST_BUDGET, max_iterations)
        self._pending: LateRead | None = None
        self._warned = False

    def extra_repr(self) -> str:
        """The options, for printing."""
        return f"reg={self.reg}, relative={self.relative}, differentiate={self.differentiate!r}"

    def forward(self, batch: ClassBatch) -> Tensor:
        """(P,) costs <P, D> of the batch's pairs."""
        cost: Tensor = _EntropicCost.apply(batch.features, batch, self)  # type: ignore[no-untyped-call]
        return cost

    def with_plan(self, batch: ClassBatch) -> tuple[Tensor, TransportPlan]:
        """The distances and the plans, with all m * n entries of every pair."""
        m, n = batch.counts[batch.first], batch.counts[batch.second]
        offsets = np.concatenate(([0], np.cumsum(m * n)))
        source, target = (
            torch.empty(int(offsets[-1]), dtype=torch.int64, device=batch.order.device) for _ in "st"
        )
        mass = batch.features.new_empty(int(offsets[-1]))
        start, columns = batch.on_device(offsets[:-1]), batch.on_device(n)
        local = batch.on_device(np.arange(len(batch.features)) - np.repeat(batch.offsets[:-1], batch.counts))
        for solution in self._solve(batch):
            strip, blocks = solution.strip, solution.plan
            pair, i, j = strip.filled.nonzero(as_tuple=True)
            swapped = batch.on_device(strip.swapped)[pair]
            row, column = strip.row_samples(pair, i), strip.column_samples(pair, j)
            sender, receiver = torch.where(swapped, column, row), torch.where(swapped, row, column)
            place = start[strip.pairs][pair] + local[sender] * columns[strip.pairs][pair] + local[receiver]
            source[place], target[place], mass[place] = sender, receiver, blocks[pair, i, j]
        plan = TransportPlan(source, target, mass, offsets)
        constant = self.differentiate == "plan-constant"
        return planned_cost(batch, plan) if constant else self(batch), plan

    def _solve(self, batch: ClassBatch) -> Iterator[_Solution]:
        """Solve strip by strip, then check whether all strips converged."""
        z = batch.features.detach()
        if self._pending is not None:
            self._judge(bool(self._pending.read()))
        iterations = self._budget if self._lazy(z) else self.max_iterations
        tolerance = self.tolerance or _TOLERANCE[z.dtype]
        converged = []
        for strip in pair_strips(batch):
            samples = z.index_select(0, torch.cat((strip.rows.rows, strip.columns.rows)))
            split = len(strip.rows.rows)
            cost = strip.take(distance_strip(samples, slice(0, split), slice(split, len(samples))))
            a, b = strip.row_mass, strip.column_mass
            # In float64, whose range suffices for features and reg of any size.
            reg = torch.full_like(cost[:, 0, 0], self.reg, dtype=torch.float64)
            if self.relative:
                mean = torch.einsum("pi,pij,pj->p", a, cost, b)
                # All samples of the pair coincide: any reg gives the same plan.
                reg = (reg * mean).masked_fill_(mean == 0, 1)
            else:
                reg /= batch.unit
            plan, done = entropic_plan(cost, a, b, reg, tolerance, iterations)
            converged.append(done.all())
            yield _Solution(strip, cost, plan, reg)
        if converged:
            self._note(torch.stack(converged).all())

    def _cost_gradient(self, solution: _Solution) -> Tensor:
        """(p, m, n) derivative of a pair's distance w.r.t. each sample distance."""
        cost, plan, reg = solution.cost, solution.plan, solution.reg
        if self.differentiate == "plan-constant":
            return plan.clone()
        change = implicit_gradient(cost, plan, reg)
        if self.relative:
            # reg = r <a b^T, D> scales D / reg down as D grows.
            a, b = solution.strip.row_mass, solution.strip.column_mass
            mean = (reg / self.reg).to(cost.dtype)[:, None, None]
            along = (change * cost).sum((1, 2))[:, None, None] / mean
            change -= along * a[:, :, None] * b[:, None, :]
        return change.add_(plan)

    def _lazy(self, values: Tensor) -> bool:
        return self.lazy_checks and not is_host(values)

    def _note(self, converged: Tensor) -> None:
        if not self._lazy(converged):
            self._judge(bool(converged))
            return
        # Read in the next step, so that this one does not wait.
        self._pending = LateRead(converged)

    def _judge(self, converged: bool) -> None:
        on_budget = self._pending is not None and self._budget < self.max_iterations
        self._pending = None
        if converged:
            return
        if on_budget:
            self._budget = min(2 * self._budget, self.max_iterations)
        elif not self._warned:
            self._warned = True
            warnings.warn(
                f"sinkhorn did not converge within {self.max_iterations} iterations; "
                "raise max_iterations, reg or tolerance",
                RuntimeWarning,
                stacklevel=2,
            )
