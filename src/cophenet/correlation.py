"""The cophenetic correlation coefficient (CPCC) and the loss made of it."""

from __future__ import annotations

import warnings
from typing import Any, cast, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cophenet.checks import check_choice, check_number
from cophenet.transport.base import ClassDistance, create_distance
from cophenet.transport.first_order import first_order
from cophenet.transport.grouping import FlowWeights, Scheme, group_by_class, without_autocast
from cophenet.tree import Hierarchy

__all__ = ["CPCCLoss", "cpcc"]

# Larger trees get no table of all distances; theirs are looked up pair by pair.
_TABLE_CLASSES = 2048
_ARGUMENTS = ("distance", "weight", "flow_weights", "level")


def _is_constant(low: float, high: float, tolerance: float = 1e-12) -> bool:
    return high - low <= tolerance * max(abs(low), abs(high))


def _unit(values: Tensor) -> Tensor:
    """Centred values scaled to norm one; by their spread first, so that squares stay finite."""
    centered = (values - values.mean()) / (values.amax() - values.amin())
    length: Tensor = torch.linalg.vector_norm(centered)
    return centered / length


class _Correlation(torch.autograd.Function):
    """`offset + scale * r`, r Pearson's correlation with a unit vector, and whether r is undefined.

    It then counts as 0 with gradient 0. NaN and inf are not undefined, so that they are never hidden.
    """

    @staticmethod
    def forward(
        ctx: Any, rho: Tensor, direction: Tensor, scale: float, offset: float
    ) -> tuple[Tensor, Tensor]:
        tolerance = 1e-12 if rho.dtype == torch.float64 else 1e-6
        low, high = rho.aminmax()
        spread = high - low
        undefined = (spread <= tolerance * torch.maximum(high, -low)) & torch.isfinite(spread)
        centered = (rho - rho.mean()).div_(spread)
        norm: Tensor = torch.linalg.vector_norm(centered)
        unit = centered.div_(norm)
        r = (unit * direction).sum()
        slope = (direction - r * unit).mul_(scale / (norm * spread)).masked_fill_(undefined, 0.0)
        ctx.save_for_backward(slope)
        ctx.mark_non_differentiable(undefined)
        return r.masked_fill_(undefined, 0.0).clamp_(-1, 1).mul_(scale).add_(offset), undefined

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor, _: None) -> tuple[Tensor, None, None, None]:
        (slope,) = ctx.saved_tensors
        return grad * slope, None, None, None


def _correlation(
    rho: Tensor, direction: Tensor, scale: float = 1.0, offset: float = 0.0
) -> tuple[Tensor, Tensor]:
    result: tuple[Tensor, Tensor]
    result = _Correlation.apply(rho, direction.to(rho), scale, offset)  # type: ignore[no-untyped-call]
    return result


def cpcc(rho: Tensor, t: Tensor | NDArray[np.float64]) -> Tensor:
    """Cophenetic correlation: Pearson's correlation of class distances and tree distances.

    Undefined with fewer than two pairs or where one side is constant (max - min at most 1e-6 of
    the largest absolute value, 1e-12 in float64): the result is then NaN, with a warning.

    Args:
        rho: (P,) distances of class pairs in feature space.
        t: (P,) distances of the same pairs in the tree.

    Returns:
        A scalar in [-1, 1], differentiable in `rho`.

    Raises:
        ValueError: If the shapes differ or a distance is not finite.

    Example:
        >>> round(cpcc(torch.tensor([1.0, 2.0, 2.0]), torch.tensor([2.0, 4.0, 4.0])).item(), 3)
        1.0
    """
    if not isinstance(rho, Tensor):
        raise ValueError(f"rho must be a torch tensor, got {type(rho).__name__}")
    t = torch.as_tensor(t)
    if t.requires_grad:
        raise ValueError("t is the tree's side and gets no gradient, but requires it; are rho and t swapped?")
    if rho.ndim != 1 or rho.shape != t.shape:
        raise ValueError(f"rho and t must have one shape (P,), got {tuple(rho.shape)} and {tuple(t.shape)}")
    if not rho.is_floating_point():
        raise ValueError(f"rho must be a floating-point tensor, got {rho.dtype}")
    if len(rho) >= 2:
        for name, values in (("rho", rho), ("t", t)):
            if not torch.isfinite(values).all():
                raise ValueError(f"{name} must be finite, got NaN or inf")
        tolerance = 1e-12 if t.dtype == torch.float64 else 1e-6
        if not _is_constant(t.min().item(), t.max().item(), tolerance):
            wide = rho if rho.dtype == torch.float64 else rho.float()
            r, undefined = _correlation(wide, _unit(t.double()))
            if not undefined:
                return r
        reason = "one side is constant"
    else:
        reason = f"it needs at least two class pairs, got {len(rho)}"
    warnings.warn(f"CPCC is undefined, returning NaN: {reason}", RuntimeWarning, stacklevel=2)
    return rho.sum() * 0 + torch.nan


class CPCCLoss(nn.Module):
    """The regularizer `weight * (1 - CPCC)` of a batch.

    Add it to any training loss. Where the correlation is undefined (fewer than two class pairs,
    or one side constant) the loss is exactly `weight`, with zero gradients.

    Args:
        tree: The label tree; labels are positions in its classes.
        distance: Distance between two classes, by name or as an object.
        weight: Factor of the loss, the paper's lambda.
        flow_weights: "uniform", "distance" or "inverse"; masses of a batch go to `forward`.
        level: Correlate at this level of the tree, by depth or name, instead of at the leaves:
            samples are regrouped by their ancestor there.
        **options: The distance's own options, such as `reg=10.0` for "sinkhorn".

    Example:
        >>> from cophenet import CPCCLoss, Hierarchy
        >>> tree = Hierarchy.from_paths([("pet", "cat"), ("pet", "dog"), ("car", "bus"), ("car", "van")])
        >>> criterion = CPCCLoss(tree, distance="fastft", weight=1.0)
        >>> features = torch.tensor([[0.0, 1.0], [0.0, 2.0], [5.0, 1.0], [5.0, 2.0]], requires_grad=True)
        >>> loss = criterion(features, torch.tensor([0, 1, 2, 3]))
        >>> round(loss.item(), 3)
        0.0
    """

    regroup: Tensor | None

    def __init__(
        self,
        tree: Hierarchy,
        distance: str | ClassDistance = "fastft",
        weight: float = 1.0,
        flow_weights: Scheme = "uniform",
        level: int | str | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        if not isinstance(tree, Hierarchy):
            raise ValueError(f"tree must be a cophenet.Hierarchy, got {type(tree).__name__}")
        check_number("weight", weight)
        if isinstance(flow_weights, Tensor):
            raise ValueError("flow_weights must be the name of a scheme; masses of a batch go to forward")
        check_choice("flow_weights", flow_weights, get_args(Scheme))
        self.num_classes = tree.num_classes
        regroup = None
        if level is not None:
            tree, ancestors = tree.cut(level)
            regroup = torch.tensor(ancestors)
        self.register_buffer("regroup", regroup, persistent=False)
        self.tree = tree
        self.distance = create_distance(distance, tree, _ARGUMENTS, **options)
        self.distance.lazy_checks = True
        self.weight = weight
        self.flow_weights = flow_weights
        self.level = level
        self._table: NDArray[np.float64] | None = None
        if tree.num_classes <= _TABLE_CLASSES:
            self._table = tree.distances()

    def extra_repr(self) -> str:
        """What the loss was made with, for printing."""
        level = "" if self.level is None else f", level={self.level!r}"
        return f"classes={self.num_classes}, weight={self.weight}, flow_weights={self.flow_weights!r}{level}"

    def forward(self, features: Tensor, labels: Tensor, flow_weights: Tensor | None = None) -> Tensor:
        """The loss of a batch.

        Args:
            features: (B, d) floating point.
            labels: (B,) integers, positions in the tree's classes; any subset of them.
            flow_weights: (B,) masses of the samples, instead of the scheme given at construction.

        Returns:
            A scalar, in float32 or float64.
        """
        scheme: FlowWeights = self.flow_weights if flow_weights is None else flow_weights
        if torch.compiler.is_compiling():
            # What is grouped depends on the data, so it is not traced; to say so costs a second of imports.
            eager = torch.compiler.disable(_loss)  # type: ignore[no-untyped-call]
            return cast(Tensor, eager(self, features, labels, scheme))
        return _loss(self, features, labels, scheme)

    def tree_distances(self, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.float64]:
        """(P,) tree distances of class pairs."""
        if self._table is None:
            return self.tree.pair_distances(first, second)
        return np.asarray(self._table[first, second])


def _loss(criterion: CPCCLoss, features: Tensor, labels: Tensor, flow_weights: FlowWeights) -> Tensor:
    with without_autocast(features):
        batch = group_by_class(
            features,
            labels,
            flow_weights=flow_weights,
            num_classes=criterion.num_classes,
            regroup=criterion.regroup,
            keep_host=criterion.distance.plans_on_host,
        )
        t = criterion.tree_distances(batch.classes[batch.first], batch.classes[batch.second])
        if len(t) < 2 or _is_constant(t.min(), t.max()):
            criterion.distance.skip(batch)
            return (batch.features * 0).sum() + criterion.weight
        # The tree's side is known on the host: its part of the correlation costs the device nothing.
        direction = t - t.mean()
        direction /= np.linalg.norm(direction)
        rho, weight = criterion.distance(batch), criterion.weight
        return _correlation(rho, batch.on_device(direction), scale=-weight, offset=weight)[0]
