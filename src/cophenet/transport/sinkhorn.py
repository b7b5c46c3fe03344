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
from cophenet.transport.ground import CANCELS, distance_strip, first_order, planned_cost, pull_direct
from cophenet.transport.plan import TransportPlan

__all__ = ["Sinkhorn"]

Differentiate = Literal["plan-constant", "through"]

_TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12}
# Where the error cannot be looked at, the number of iterations starts here and doubles when it was too small.
_FIRST_BUDGET = 64
# With cost differences of at most this many regs no entry of the kernel and no scaling
# leaves the range of the type, whatever the weights: exp(-87) and exp(-708) are the smallest numbers.
_SAFE_RANGE = {torch.float32: 30.0, torch.float64: 300.0}
# The summed error of marginals above which no plan counts as converged, unless a larger one is asked for.
_LARGEST_ERROR = 1e-6
# Keeps the factorisation positive where a plan falls into parts that exchange no mass.
_RIDGE = 1e-12
# Relative accuracy of what that factorisation solves.
_SOLVED = 1e-10


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
    """Entries whose samples cancel in a product, given the squared norms (B,) of the centred samples."""
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
        pull_direct(out, z, strip.row_samples(pair, i), strip.column_samples(pair, j), force[springs.near])
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
    # To know which entries cancel in a product would stall an accelerator; cdist never forms one here.
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
    """<P, D> of every pair. All that the gradient needs is known with the plan, so it is kept as springs."""

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

        \rho(u, v) = \langle P, D \rangle, \qquad P = \arg\min_P \langle P, D \rangle - \varepsilon H(P)
        \quad \text{subject to} \quad P 1 = a, \; P^\top 1 = b

    H(P) = -sum_ij P_ij (log P_ij - 1), so that P = diag(x) exp(-D / reg) diag(y); epsilon is `reg`.

    Cuturi, "Sinkhorn Distances: Lightspeed Computation of Optimal Transport", NeurIPS 2013, arXiv:1306.0895;
    sections 3.1 and 3.3 of the OT-CPCC paper (arXiv:2410.03052).

    Args:
        reg: Strength of the entropy. The paper's 10, on raw distances, is close to the product plan.
        relative: Take `reg` as a multiple of each pair's mean cost under the product plan,
            which makes the distance scale with the features.
        differentiate: "plan-constant", the authors' gradient; or "through", that of the value.
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
        return planned_cost(batch.features, plan) if constant else self(batch), plan

    def _solve(self, batch: ClassBatch) -> Iterator[_Solution]:
        """Solve strip by strip, then say whether all of it converged."""
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
            # In float64, which holds what features and reg of any size give.
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
        """(p, m, n) what a pair's distance gains per unit of each sample distance."""
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


def _times(blocks: Tensor, vector: Tensor) -> Tensor:
    """(p, m, n), (p, n) -> (p, m)."""
    return torch.bmm(blocks, vector[:, :, None])[:, :, 0]


def _times_transposed(blocks: Tensor, vector: Tensor) -> Tensor:
    """(p, m, n), (p, m) -> (p, n)."""
    return torch.bmm(vector[:, None, :], blocks)[:, 0, :]


def _scale(kernel: Tensor, a: Tensor, b: Tensor, tolerance: float, iterations: int) -> tuple[Tensor, Tensor]:
    """Sinkhorn's iteration; the kernel becomes the plan. Returns it and its error (p,)."""
    v = torch.ones_like(b)
    row_sums = kernel.sum(2)
    for _ in range(iterations):
        u = a / row_sums
        v = b / _times_transposed(kernel, u)
        row_sums = _times(kernel, v)
        # The columns are exact after an update of v, so the rows hold all of the error.
        error = (u * row_sums).sub_(a).abs_().sum(1)
        if is_host(error) and float(error.max()) <= tolerance:
            break
    return kernel.mul_(u[:, :, None]).mul_(v[:, None, :]), error


def _scale_logarithms(
    logits: Tensor, a: Tensor, b: Tensor, tolerance: Tensor, iterations: int
) -> tuple[Tensor, Tensor]:
    """The same iteration on logarithms. The plan has mass one, whatever its error."""
    # Reduced costs give the same plan; those of a class with one sample are all 0.
    logits = logits.sub_(logits.amax(2, keepdim=True))
    logits = logits.sub_(logits.amax(1, keepdim=True))
    log_a, log_b = a.log(), b.log()
    f = log_a - logits.logsumexp(2)
    for _ in range(iterations):
        g = log_b - (logits + f[:, :, None]).logsumexp(1)
        row_sums = (logits + g[:, None, :]).logsumexp(2)
        error = (f + row_sums).exp_().sub_(a).abs_().sum(1)
        last, f = f, log_a - row_sums
        if is_host(error) and bool((error <= tolerance).all()):
            break
    # Shares of every column, which add up to one where logarithms are too large for exp(f + g - C) to do so.
    plan = logits.add_(last[:, :, None]).softmax(1).mul_(b[:, None, :])
    return plan, plan.sum(2).sub_(a).abs_().sum(1)


def entropic_plan(
    cost: Tensor, a: Tensor, b: Tensor, reg: Tensor, tolerance: float, iterations: int
) -> tuple[Tensor, Tensor]:
    r"""The plans of smallest <P, C> - reg * entropy(P) with marginals a and b, by Sinkhorn's iteration.

    .. math::

        x \leftarrow \frac{a}{K y}, \quad y \leftarrow \frac{b}{K^\top x}, \qquad
        K = e^{-C / \varepsilon}, \quad P = \mathrm{diag}(x) \, K \, \mathrm{diag}(y)

    Algorithm 1 of Cuturi 2013 (arXiv:1306.0895), on logarithms where K would leave the range of the type.
    Samples without mass, and padding, get none; their cost only has to be finite.

    Args:
        cost: (p, m, n) ground costs.
        a: (p, m) masses of the rows.
        b: (p, n) masses of the columns.
        reg: (p,) positive, in float64.
        tolerance: Summed error of the marginals at which the iteration ends.
        iterations: How many there are at most; on an accelerator exactly so many are made,
            because looking at the error would stall the device every time.

    Returns:
        (p, m, n) plans, and (p,) whether each is converged.

    Example:
        >>> plan, converged = entropic_plan(
        ...     torch.tensor([[[0.0, 1.0], [1.0, 0.0]]]), torch.full((1, 2), 0.5), torch.full((1, 2), 0.5),
        ...     torch.tensor([0.1]).double(), tolerance=1e-6, iterations=10,
        ... )
        >>> plan.round(decimals=3), converged
        (tensor([[[0.5000, 0.0000], [0.0000, 0.5000]]]), tensor([True]))
    """
    low, high = cost.amin((1, 2)), cost.amax((1, 2))
    spread = (high - low).double() / reg
    # An accelerator is not asked whether scaling is safe, and always takes the safe way.
    widest = float(spread.max()) if is_host(cost) else float("inf")
    kind = cost.dtype if widest <= _SAFE_RANGE[cost.dtype] else torch.float64
    scale = reg.to(kind).clamp_(min=torch.finfo(kind).tiny)
    logits = (low[:, None, None] - cost).to(kind).div_(scale[:, None, None])
    a, b = a.to(kind), b.to(kind)
    if widest <= _SAFE_RANGE[kind]:
        plan, error = _scale(logits.exp_(), a, b, tolerance, iterations)
        return plan.to(cost.dtype), error <= tolerance
    # A logarithm of size L has a rounding error of L * eps, which exp makes a relative error of
    # the mass; nothing below that can be asked of the marginals. Above a limit it is no plan any more.
    reachable = (4 * torch.finfo(kind).eps * spread.to(kind)).clamp(max=_LARGEST_ERROR).clamp(min=tolerance)
    plan, error = _scale_logarithms(logits.clamp_(min=-1e300), a, b, reachable, iterations)
    return plan.to(cost.dtype), error <= reachable


def _inverse_root(mass: Tensor) -> Tensor:
    return torch.where(mass > 0, mass, 1.0).rsqrt() * (mass > 0)


def implicit_gradient(cost: Tensor, plan: Tensor, reg: Tensor) -> Tensor:
    """How <P(C / reg), C> changes with the first C, that is through the plan alone, (p, m, n).

    With P = exp(f + g - X) the marginals stay, which determines df and dg linearly. The adjoint of
    that linear system is solved here once, on the side of the rows, so no iteration is differentiated.
    """
    p, c = plan.double(), cost.double()
    a, b = p.sum(2), p.sum(1)
    root_a, root_b = _inverse_root(a), _inverse_root(b)
    q = p * root_a[:, :, None] * root_b[:, None, :]
    moved = p * c
    # Scaled by the roots of the masses: x + q y = left, q^T x + y = right.
    left, right = moved.sum(2) * root_a, moved.sum(1) * root_b
    gauge = a.sqrt()
    system = torch.baddbmm(gauge[:, :, None] * gauge[:, None, :], q, q.transpose(1, 2), alpha=-1)
    system.diagonal(dim1=1, dim2=2).add_(1 + _RIDGE)
    factor = torch.linalg.cholesky_ex(system)[0]
    half = torch.linalg.solve_triangular(factor, (left - _times(q, right))[:, :, None], upper=False)
    x = torch.linalg.solve_triangular(factor.mT, half, upper=True)[:, :, 0]
    y = right - _times_transposed(q, x)
    row, column = (x * root_a)[:, :, None], (y * root_b)[:, None, :]
    change: Tensor = row + column - c
    # Of a plan that is all but fixed only the solution's rounding is left, which a small reg would magnify.
    change.masked_fill_(change.abs() <= _SOLVED * (row.abs() + column.abs() + c), 0.0)
    return change.mul_(p).div_(reg[:, None, None]).to(cost.dtype)
