"""Entropic plans of many small problems at once, by Sinkhorn's iteration, and their derivative by costs."""

from __future__ import annotations

import torch
from torch import Tensor

from cophenet.transport.batch import is_host

__all__ = ["entropic_plan", "implicit_gradient"]

# With cost differences of at most this many regs no entry of the kernel and no scaling
# leaves the range of the type, whatever the weights: exp(-87) and exp(-708) are the smallest numbers.
_SAFE_RANGE = {torch.float32: 30.0, torch.float64: 300.0}
# No plan with a larger summed error of marginals counts as converged, unless `tolerance` is larger.
_LARGEST_ERROR = 1e-6
# Keeps the system positive definite where a plan consists of parts that exchange no mass.
_RIDGE = 1e-12
# Relative accuracy of the solution of that system.
_SOLVED = 1e-10


def _times(blocks: Tensor, vector: Tensor) -> Tensor:
    """(p, m, n), (p, n) -> (p, m)."""
    return torch.bmm(blocks, vector[:, :, None])[:, :, 0]


def _times_transposed(blocks: Tensor, vector: Tensor) -> Tensor:
    """(p, m, n), (p, m) -> (p, n)."""
    return torch.bmm(vector[:, None, :], blocks)[:, 0, :]


def _scale(kernel: Tensor, a: Tensor, b: Tensor, tolerance: float, iterations: int) -> tuple[Tensor, Tensor]:
    """Sinkhorn's iteration; the kernel is overwritten by the plan. Returns the plan and its error (p,)."""
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
    """The same iteration in the log domain. The plan has mass one, whatever its error."""
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
    # A softmax per column adds up to one even where logarithms are too large for exp(f + g - C) to do so.
    plan = logits.add_(last[:, :, None]).softmax(1).mul_(b[:, None, :])
    return plan, plan.sum(2).sub_(a).abs_().sum(1)


def entropic_plan(
    cost: Tensor, a: Tensor, b: Tensor, reg: Tensor, tolerance: float, iterations: int
) -> tuple[Tensor, Tensor]:
    r"""The plans that minimise <P, C> - reg * entropy(P) with marginals a and b, by Sinkhorn's iteration.

    .. math::

        x \leftarrow \frac{a}{K y}, \quad y \leftarrow \frac{b}{K^\top x}, \qquad
        K = e^{-C / \varepsilon}, \quad P = \mathrm{diag}(x) \, K \, \mathrm{diag}(y)

    Algorithm 1 of Cuturi 2013 (arXiv:1306.0895), in the log domain where K would be out of range.
    Samples without mass, and padding, get none; their cost only has to be finite.

    Args:
        cost: (p, m, n) ground costs.
        a: (p, m) masses of the rows.
        b: (p, n) masses of the columns.
        reg: (p,) positive, in float64.
        tolerance: Summed error of the marginals at which the iteration ends.
        iterations: Maximum number of iterations; on an accelerator always this many,
            because reading the error would stall the device every time.

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
    # On an accelerator the spread is not read, and the log domain is always used.
    widest = float(spread.max()) if is_host(cost) else float("inf")
    kind = cost.dtype if widest <= _SAFE_RANGE[cost.dtype] else torch.float64
    scale = reg.to(kind).clamp_(min=torch.finfo(kind).tiny)
    logits = (low[:, None, None] - cost).to(kind).div_(scale[:, None, None])
    a, b = a.to(kind), b.to(kind)
    if widest <= _SAFE_RANGE[kind]:
        plan, error = _scale(logits.exp_(), a, b, tolerance, iterations)
        return plan.to(cost.dtype), error <= tolerance
    # A logarithm of size L has a rounding error of L * eps, which exp turns into a relative error
    # of the mass; marginals cannot be more accurate than that. Above a limit the result is no plan any more.
    reachable = (4 * torch.finfo(kind).eps * spread.to(kind)).clamp(max=_LARGEST_ERROR).clamp(min=tolerance)
    plan, error = _scale_logarithms(logits.clamp_(min=-1e300), a, b, reachable, iterations)
    return plan.to(cost.dtype), error <= reachable


def _inverse_root(mass: Tensor) -> Tensor:
    return torch.where(mass > 0, mass, 1.0).rsqrt() * (mass > 0)


def implicit_gradient(cost: Tensor, plan: Tensor, reg: Tensor) -> Tensor:
    """(p, m, n) derivative of <P(C / reg), C> w.r.t. the first C, that is through the plan alone.

    P = exp(f + g - X) keeps its marginals, which makes df and dg linear in dX. The adjoint of that
    linear system is solved here once, reduced to the rows, so no iteration is differentiated.
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
    # For a plan that hardly changes only rounding of the solution is left, which a small reg would amplify.
    change.masked_fill_(change.abs() <= _SOLVED * (row.abs() + column.abs() + c), 0.0)
    return change.mul_(p).div_(reg[:, None, None]).to(cost.dtype)
