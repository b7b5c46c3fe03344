"""Tree Wasserstein: transport in closed form, on a given tree or on one fitted to the samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from cophenet._common.checks import check_choice, check_number
from cophenet.transport.base import ClassDistance, register_distance
from cophenet.transport.batch import ClassBatch, is_host, without_autocast
from cophenet.transport.ground import CANCELS, distance_strip, first_order
from cophenet.transport.tree_fit import TreeFit, fit_edges, label_splits

if TYPE_CHECKING:
    from cophenet.tree import Hierarchy

__all__ = ["TreeWasserstein", "tree_wasserstein"]

Fit = Literal["batch", "pair"]

_BISECTIONS = 60
_TINY = 1e-12
# A penalty compared with which all distances of features of about 1 are negligible.
_HUGE = 1e100
_STRIP_ELEMENTS = 1 << 20


def tree_wasserstein(tree: Hierarchy, a: Tensor, b: Tensor) -> Tensor:
    r"""Wasserstein distance of masses on the classes of a tree, in its metric.

    .. math::

        W(a, b) = \| \mathrm{diag}(w) \, B \, (a - b) \|_1

    w are the edge weights, and B_ec = 1 where class c lies below edge e.

    Le, Yamada, Fukumizu and Cuturi, "Tree-Sliced Variants of Wasserstein Distances", NeurIPS 2019,
    arXiv:1902.00342; appendix A of the OT-CPCC paper (arXiv:2410.03052).

    The flow along an edge is the difference of the masses below it. The mass below a node is one
    difference of running sums in tree order, so the cost is linear in the nodes at any depth.

    Args:
        tree: The label tree, with k classes.
        a: (..., k) masses in label order.
        b: (..., k) masses of the same sums; the leading dimensions broadcast with those of `a`.

    Returns:
        (...) the distances, differentiable in `a` and `b`.

    Raises:
        ValueError: If a mass is no floating-point tensor over the tree's classes.

    Example:
        >>> from cophenet.tree import Hierarchy
        >>> tree = Hierarchy.from_paths(["animal/cat", "animal/dog", "vehicle/car"], sep="/")
        >>> tree_wasserstein(tree, torch.tensor([1.0, 0.0, 0.0]), torch.tensor([0.0, 0.5, 0.5]))
        tensor(3.)
    """
    for name, mass in (("a", a), ("b", b)):
        if not mass.is_floating_point() or mass.shape[-1:] != (tree.num_classes,):
            given = f"{mass.dtype} of shape {tuple(mass.shape)}"
            raise ValueError(f"{name} must be floating point of shape (..., {tree.num_classes}), got {given}")
    order = tree.class_order
    nodes = np.arange(1, len(tree.parents))
    start = np.searchsorted(tree.leaves[order], nodes)
    end = np.searchsorted(tree.leaves[order], nodes + tree.sizes[1:])
    on_device = [torch.tensor(array, device=a.device) for array in (order, start, end)]
    # In float64: a sum below a node is a difference of two sums over many classes.
    running = (a - b).double().index_select(-1, on_device[0]).cumsum(-1)
    running = torch.nn.functional.pad(running, (1, 0))
    flow = running.index_select(-1, on_device[2]) - running.index_select(-1, on_device[1])
    weights = torch.from_numpy(np.array(tree.edge_weights[1:], dtype=np.float64)).to(a.device)
    return (flow.abs() @ weights).to(torch.result_type(a, b))


@register_distance
class TreeWasserstein(ClassDistance):
    r"""Tree Wasserstein distance on the augmented label tree, its edges fitted to the features.

    .. math::

        \rho(u, v) = \| \mathrm{diag}(w) \, B \, (a - b) \|_1
        = \sum_i a_i w_i + \sum_j b_j w_j + \mathrm{path}(u, v)

    Yamada, Takezawa, Sato, Bao, Kozareva and Ravi, "Approximating 1-Wasserstein Distance with Trees", TMLR
    2022, arXiv:2206.12116; appendix A of the OT-CPCC paper (arXiv:2410.03052).

    The tree has the classes present, every sample a leaf below its class, and edge lengths w >= 0.
    Each pair of classes is transported in the tree's metric, whose closed form on this tree is the
    sum of the mean sample edges of both classes and the path between the classes.

    `fit="batch"`: one w for the whole call minimises
    `1/2 sum_{i<j} (D_ij - t_ij)^2 + penalty * sum w` over *all* pairs of samples, those of one class
    included, t being the tree metric and D the Euclidean distances; flow weights enter the closed
    form, not the fit. The distances depend on w only through t, which is unique even where w is not.

    `fit="pair"`: a separate w for each class pair, from the distances across the two classes:
    `1/2 sum_ij m n a_i b_j (D_ij - t_ij)^2 + penalty * sum w`, a and b the flow weights of the m and
    n samples. The distance is `sum_ij a_i b_j D_ij - penalty / (m n)` as long as the best
    fit needs no negative path between the two classes. Without penalty that is so when the smallest
    mean distance of a sample to the other class, added up for both classes, is at least the mean over
    all. Where it fails (each class has an outlier amid the other) the distance is larger.

    The gradient goes through the fit: on the set of edges longer than 0, w is linear in D.

    Args:
        tree: The label tree; not needed for `fit="pair"`.
        fit: "batch" or "pair".
        penalty: Weight of the sum of all edges (lasso), at least 0, in units of distance.

    Raises:
        ValueError: If an option is wrong, or `fit="batch"` has no tree.

    Example:
        >>> from cophenet.transport.grouping import group_by_class
        >>> from cophenet.tree import Hierarchy
        >>> tree = Hierarchy.from_paths(["animal/cat", "animal/dog", "vehicle/car"], sep="/")
        >>> batch = group_by_class(torch.tensor([[0.0], [2.0], [7.0]]), torch.tensor([0, 1, 2]))
        >>> TreeWasserstein(tree)(batch)
        tensor([2., 7., 5.])
    """

    name = "twd"
    degree = 1
    compares_samples = True
    pair_cost = "none"  # one fit, or sums over all samples, for all pairs together
    needs_tree = True

    def __init__(self, tree: Hierarchy | None = None, fit: Fit = "batch", penalty: float = 0.0) -> None:
        super().__init__()
        check_choice("fit", fit, get_args(Fit))
        if fit == "batch" and tree is None:
            raise ValueError("tree is needed by distance 'twd' with fit='batch': give one, or use fit='pair'")
        check_number("penalty", penalty)
        self.tree, self.fit, self.penalty = tree, fit, float(penalty)

    def forward(self, batch: ClassBatch) -> Tensor:
        """(P,) tree Wasserstein distances of the batch's pairs."""
        if batch.num_pairs == 0:
            return batch.features.sum() * batch.features.new_zeros(0)
        penalty = self.penalty / batch.unit if self.penalty else 0.0
        penalty = penalty.clamp(max=_HUGE) if isinstance(penalty, Tensor) else min(penalty, _HUGE)
        if self.fit == "pair" or self.tree is None:
            square = _pair_fits(batch, penalty)
        else:
            square = _batch_fit(batch, self.tree, penalty)
        first, second = batch.on_device(batch.first), batch.on_device(batch.second)
        return square[first, second].to(batch.features.dtype)


def _batch_fit(batch: ClassBatch, tree: Hierarchy, penalty: float | Tensor) -> Tensor:
    """(k, k) distances of all classes on one fitted tree."""
    if batch.classes[-1] >= tree.num_classes:
        raise ValueError(f"labels must lie in 0..{tree.num_classes - 1}, got {batch.classes[-1]}")
    size = len(batch.features)
    sums = distance_sums(batch, torch.ones(size, dtype=torch.float64, device=batch.features.device))
    if size == 2:  # one distance, one edge
        return (sums[:1, 1:] - penalty).clamp(min=0).expand(2, 2)
    member = batch.on_device(label_splits(tree, batch.classes, batch.counts))
    fit = TreeFit.of(batch.segments, batch.on_device(batch.counts).double(), member)
    cuts = ((batch.class_sums(sums) @ (1 - member)) * member).sum(0)
    sample, label = fit_edges(fit, sums.sum(1) - penalty, cuts - penalty)
    mean = batch.class_sums(batch.exact_mass * sample)
    common = (member * label) @ member.T
    reach = mean + common.diagonal()
    return reach[:, None] + reach[None, :] - 2 * common


def _pair_fits(batch: ClassBatch, penalty: float | Tensor) -> Tensor:
    """(k, k) distances of all classes, with a separate fitted tree for every pair.

    With the path's length c free the mean of the fit is that of the distances. Otherwise c = 0, and
    the mean sample edges x, y of the two sides solve x = sum a (r - y)_+ and y = sum b (q - x)_+,
    where r and q are the mean distances of every sample to the other class. A convex problem: c = 0
    is right exactly when it gives the larger value.
    """
    mass = batch.exact_mass[:, None]
    means = distance_sums(batch, mass[:, 0])
    counts = batch.on_device(batch.counts).double()
    share = penalty / (counts[:, None] * counts)
    # A sample without mass, or with next to none, is not fitted at all: lean is -inf, its edge 0.
    lean = means - torch.where(mass > 0, share[batch.segments] / mass, torch.inf)
    free_path = batch.class_sums(mass * means) - share
    lowest = torch.full_like(free_path, torch.inf)
    fitted = lean.detach().masked_fill(mass == 0, torch.inf)
    lowest = lowest.scatter_reduce(0, batch.segments[:, None].expand_as(lean), fitted, "amin")
    if is_host(lowest) and bool((lowest + lowest.T >= free_path.detach()).all()):
        return free_path
    partner = _mean_edges(batch, mass, lean.detach()).T
    free = mass * (lean.detach() > partner[batch.segments])
    held, total = batch.class_sums(free), batch.class_sums(free * lean.where(free > 0, 0.0))
    # On the free edges x = total - held y, and y likewise: two linear equations.
    determinant = 1 - held * held.T
    unique = determinant > _TINY
    own = (total - held * total.T) / torch.where(unique, determinant, 1.0)
    no_path = own + own.T
    return torch.where(unique & (no_path > free_path), no_path, free_path)


def _mean_edges(batch: ClassBatch, mass: Tensor, lean: Tensor) -> Tensor:
    """(k, k) mean sample edge of the row's class, for trees whose path has no length; by bisection.

    Args:
        batch: The grouped batch.
        mass: (B, 1) flow weights.
        lean: (B, k) mean distances of every sample to the other class, less the penalty's share.
    """

    def answer(other: Tensor) -> Tensor:
        return batch.class_sums(mass * (lean - other.T[batch.segments]).clamp(min=0))

    low = torch.zeros_like(lean[: batch.num_classes])
    high = low + lean.amax().clamp(min=0)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        rises = answer(answer(middle)) > middle
        low, high = torch.where(rises, middle, low), torch.where(rises, high, middle)
    return high.triu(1) + answer(high).tril(-1)


def _strips(size: int) -> list[slice]:
    step = max(1, _STRIP_ELEMENTS // size)
    return [slice(start, min(start + step, size)) for start in range(0, size, step)]


def _pull_by_product(z: Tensor, centered: Tensor, rows: slice, distance: Tensor, pull: Tensor) -> Tensor:
    """Sum over j of pull_ij (z_i - z_j) / D_ij for some rows; near samples by difference."""
    square = torch.linalg.vector_norm(centered, dim=1).square_()
    distance[:, rows].fill_diagonal_(torch.inf)  # no sample pulls itself
    spring = pull / distance
    row = column = torch.empty(0, dtype=torch.int64)
    if bool(distance.amin().square() <= 2 * CANCELS * square.amax()):  # most batches have none
        norms = square[rows, None] + square[None, :]
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
    """The same without reading which samples are near, which on an accelerator would need a transfer."""
    with torch.enable_grad():
        own = z[rows].detach().requires_grad_()
        distance = torch.cdist(own, z.detach(), compute_mode="donot_use_mm_for_euclid_dist")
        return torch.autograd.grad(distance, own, pull)[0]


class _DistanceSums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, weights: Tensor, segments: Tensor, num_classes: int) -> Tensor:
        ctx.save_for_backward(z, weights, segments)
        strips, sums = _strips(len(z)), []
        for columns in strips:
            distance = distance_strip(z, slice(0, len(z)), columns)
            by_class = weights.new_zeros(num_classes, distance.shape[1])
            sums.append(by_class.index_add_(0, segments, distance * weights[:, None]).T)
        ctx.distance = distance if len(strips) == 1 and is_host(z) else None
        return torch.cat(sums)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        z, weights, segments = ctx.saved_tensors
        with without_autocast(z):
            centered = z - z.mean(0)
            grad, weights = grad.to(z.dtype), weights.to(z.dtype)
            by_class = grad.T.contiguous()
            parts = []
            for rows in _strips(len(z)):
                # D_ij enters the sum of sample i over j's class, and that of j over i's.
                own = grad[rows]
                pull = own.gather(1, segments.expand(len(own), -1)).mul_(weights)
                pull += by_class.index_select(0, segments[rows]).mul_(weights[rows, None])
                if is_host(z):
                    distance = ctx.distance
                    if distance is None:
                        distance = distance_strip(z, rows, slice(0, len(z)))
                    parts.append(_pull_by_product(z, centered, rows, distance, pull))
                else:
                    parts.append(_pull_by_difference(z, rows, pull))
            return torch.cat(parts), None, None, None


def distance_sums(batch: ClassBatch, weights: Tensor) -> Tensor:
    """Weighted sums of the distances of every sample to the samples of every class.

    Computed in strips of the distance matrix; differentiable in the features, the gradient being 0
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
