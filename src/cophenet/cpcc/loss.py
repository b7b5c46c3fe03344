"""The loss `weight * (1 - CPCC)` of a batch, on one process or on several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cophenet._common.checks import check_choice, check_number, check_whole
from cophenet.cpcc.batch_plan import BatchPlan, LateCheck, group_batch, plan_batch
from cophenet.cpcc.exchange import (
    Gather,
    Shards,
    add_up_with_errors,
    gather_rows,
    meet,
    own_pairs,
    process_count,
    raise_errors,
)
from cophenet.cpcc.memory import FeatureMemory
from cophenet.cpcc.module_setup import Setup, setup_of
from cophenet.cpcc.pearson import correlation
from cophenet.cpcc.target import check_target
from cophenet.transport.base import ClassDistance, create_distance
from cophenet.transport.batch import ClassBatch, without_autocast
from cophenet.transport.ground import first_order
from cophenet.transport.grouping import Scheme, check_batch
from cophenet.tree import Hierarchy

__all__ = ["CPCCLoss"]

# For trees with more classes there is no table of all distances; they are computed pair by pair.
_TABLE_CLASSES = 2048
_ARGUMENTS = (
    "distance",
    "weight",
    "flow_weights",
    "level",
    "gather",
    "memory",
    "memory_age",
    "normalize",
    "target",
)


class CPCCLoss(nn.Module):
    r"""The regularizer `weight * (1 - CPCC)` of a batch.

    .. math::

        \mathrm{loss} = \lambda \, (1 - \mathrm{CPCC}(t, \rho))

    t(u, v) is the path between two classes in the tree, rho(u, v) their distance.

    The term lambda R of equation 1 with the CPCC of equation 2 in Zeng, Du, Yamada and Zhao, "Learning
    Structured Representations by Embedding Class Hierarchy with Fast Optimal Transport", ICLR 2025,
    arXiv:2410.03052.

    Add it to any training loss. If the correlation is undefined (fewer than two class pairs, or one side
    constant), the loss is exactly `weight`, with zero gradients. Distances also count as constant if their
    differences can be explained by rounding of the features, as for collapsed features.

    If features are on an accelerator, labels may stay on the host, or be prepared ahead (`prepare`): the step
    then does not wait for the device. NaN or inf in the features then give a loss of NaN, and an error in the
    next step.

    With several processes of torch.distributed the batch is that of all processes, in the order of their
    ranks: each returns the loss of the whole batch, and the gradients averaged by DistributedDataParallel
    equal those of one process with the whole batch.

    Args:
        tree: The label tree; labels are indices of its classes. None if there is only a `target`.
        distance: Distance between two classes, by name or as an object.
        weight: Factor of the loss, the paper's lambda.
        flow_weights: "uniform", "distance" or "inverse"; masses of a batch are passed to `forward`.
        level: Correlate at this level of the tree, by depth or name, instead of at the leaves:
            samples are regrouped by their ancestor there.
        gather: "all" for the loss of the batch of all processes; "none" for the loss of each process's own
            batch.
        memory: Total number of samples of earlier batches to include as constants: the newest of each class,
            with an equal number of slots per class; 0 for none. Gradients of a batch are amplified to make up
            for the remembered samples, so that `weight` keeps its meaning. Not used in `eval()`.
        memory_age: Number of steps after which a sample is dropped from the memory.
        normalize: Compare unit vectors, each feature vector divided by its norm, as retrieval by cosine does.
        target: (k, k) dissimilarities of the classes (of those at `level`), in place of distances in the
            tree: symmetric, finite, with zeros on the diagonal; they need not be distances of a tree.
        **options: Options of the distance, such as `reg=10.0` for "sinkhorn".

    Example:
        >>> from cophenet import CPCCLoss, Hierarchy
        >>> tree = Hierarchy.from_paths([("pet", "cat"), ("pet", "dog"), ("car", "bus"), ("car", "van")])
        >>> criterion = CPCCLoss(tree, distance="fastft", weight=1.0)
        >>> features = torch.tensor([[0.0, 1.0], [0.0, 2.0], [5.0, 1.0], [5.0, 2.0]], requires_grad=True)
        >>> loss = criterion(features, torch.tensor([0, 1, 2, 3]))
        >>> round(loss.item(), 3)
        0.0

        Dissimilarities from elsewhere, without a tree:

        >>> meaning = torch.tensor([[0.0, 1.0, 3.0], [1.0, 0.0, 3.0], [3.0, 3.0, 0.0]])
        >>> criterion = CPCCLoss(None, distance="l2", target=meaning)
        >>> round(criterion(torch.tensor([[0.0], [1.0], [3.5]]), torch.tensor([0, 1, 2])).item(), 3)
        0.082
    """

    _setup: Setup | None = None  # created at the first exchange

    def __init__(
        self,
        tree: Hierarchy | None,
        distance: str | ClassDistance = "fastft",
        weight: float = 1.0,
        flow_weights: Scheme = "uniform",
        level: int | str | None = None,
        gather: Gather = "all",
        memory: int = 0,
        memory_age: int = 100,
        normalize: bool = False,
        target: NDArray[np.float64] | Tensor | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        if not isinstance(tree, Hierarchy) and (tree is not None or target is None):
            raise ValueError(f"tree must be a cophenet.Hierarchy, got {type(tree).__name__}")
        check_number("weight", weight)
        if isinstance(flow_weights, Tensor):
            raise ValueError("flow_weights must be the name of a scheme; masses of a batch go to forward")
        check_choice("flow_weights", flow_weights, get_args(Scheme))
        check_choice("gather", gather, get_args(Gather))
        check_whole("memory", memory, 0)
        check_whole("memory_age", memory_age, 1)
        if not isinstance(normalize, bool):
            raise ValueError(f"normalize must be True or False, got {normalize!r}")
        self.ancestors: NDArray[np.int64] | None = None
        if level is not None:
            if tree is None:
                raise ValueError(f"level needs a tree, got level={level!r} and tree=None")
            tree, self.ancestors = tree.cut(level)
        known = None if tree is None else tree.num_classes
        self.target = None if target is None else check_target(target, known)
        groups = known if self.target is None else len(self.target)
        assert groups is not None  # as without a tree there is a target
        self.num_classes = groups if self.ancestors is None else len(self.ancestors)
        self.tree = tree
        self.distance = create_distance(distance, tree, _ARGUMENTS, **options)
        self.distance.lazy_checks = True
        self.weight = weight
        self.flow_weights = flow_weights
        self.level = level
        self.gather: Gather = gather
        self.normalize = normalize
        self.memory = FeatureMemory(groups, memory, memory_age) if memory else None
        self._checks = LateCheck()
        self._table = self.target
        if tree is not None and target is None and groups <= _TABLE_CLASSES:
            self._table = tree.distances()

    def extra_repr(self) -> str:
        """Settings of the loss, for printing."""
        parts = [
            f"classes={self.num_classes}",
            f"weight={self.weight}",
            f"flow_weights={self.flow_weights!r}",
        ]
        parts += [] if self.level is None else [f"level={self.level!r}"]
        parts += ["normalize=True"] * self.normalize + ["target=matrix"] * (self.target is not None)
        return ", ".join(parts)

    def prepare(self, labels: Tensor, device: torch.device | str = "cpu") -> BatchPlan:
        """Plan a batch before its features are known, for example while an accelerator computes them.

        The loss is bitwise the same. With a plan `torch.compile` traces the loss of "l2" and "fastft" (in
        batch order, uniform weights, no memory, one process) together with the network; NaN and inf in the
        features of such a step are reported by the next call of `prepare`.

        Args:
            labels: (B,) integers, indices of the tree's classes, preferably on the host.
            device: Device of the features, to which the plan is copied.

        Returns:
            A plan, which `forward` accepts in place of the labels, any number of times.

        Raises:
            ValueError: If a label is invalid, or the features of the previous compiled step were.

        Example:
            >>> from cophenet import CPCCLoss, Hierarchy
            >>> tree = Hierarchy.from_paths([("pet", "cat"), ("pet", "dog"), ("car", "bus")])
            >>> criterion, labels = CPCCLoss(tree, distance="l2"), torch.tensor([0, 1, 2])
            >>> plan = criterion.prepare(labels)
            >>> features = torch.tensor([[0.0], [1.0], [3.0]])
            >>> criterion(features, plan) == criterion(features, labels)
            tensor(True)
        """
        self._checks.after_compiled_step()
        plan = plan_batch(self, labels)
        if plan.prepared is not None:
            plan.prepared.ahead.on(torch.empty(0, device=device).device)
        return plan

    def forward(
        self,
        features: Tensor,
        labels: Tensor | BatchPlan,
        flow_weights: Tensor | None = None,
        shards: Shards | None = None,
    ) -> Tensor:
        """Compute the loss of a batch.

        Args:
            features: (B, d) floating point.
            labels: (B,) integers, indices of any of the tree's classes, on the device of the features or on
                the host; or the result of `prepare`.
            flow_weights: (B,) masses of the samples, instead of the scheme given at construction.
            shards: The result of `exchange.meet`, if the batch has already been gathered from all processes.

        Returns:
            A scalar, in float32 or float64.
        """
        traceable = isinstance(labels, BatchPlan) and labels.is_traceable(flow_weights)
        return (_loss if traceable else _untraced(_loss))(self, features, labels, flow_weights, shards)

    def of_checked(self, features: Tensor, labels: Tensor, shards: Shards | None) -> Tensor:
        """Compute the loss of a batch that an objective has already checked, and gathered if given shards.

        Args:
            features: (B, d) float32 or float64.
            labels: (B,) int64, on the device of the features or on the host.
            shards: As for `forward`.
        """
        return _untraced(_loss_of_checked)(self, features, labels, None, shards)

    def tree_distances(self, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.float64]:
        """(P,) tree distances of class pairs, or those of `target`."""
        if self._table is not None:
            return np.asarray(self._table[first, second])
        assert self.tree is not None  # as without a tree there is a target
        return self.tree.pair_distances(first, second)


_Loss = Callable[[CPCCLoss, Tensor, Any, "Tensor | None", "Shards | None"], Tensor]


def _untraced(loss: _Loss) -> _Loss:
    """Exclude a loss from tracing by a compiler, because grouping depends on the data."""
    if not torch.compiler.is_compiling():  # `torch.compiler.disable` takes a second of imports
        return loss
    return cast(_Loss, torch.compiler.disable(loss))  # type: ignore[no-untyped-call]


def _loss(
    criterion: CPCCLoss,
    features: Tensor,
    labels: Tensor | BatchPlan,
    weights: Tensor | None,
    shards: Shards | None,
) -> Tensor:
    with without_autocast(features):
        plan = labels if isinstance(labels, BatchPlan) else None
        labels = labels.labels if isinstance(labels, BatchPlan) else labels
        if shards is None and process_count(criterion.gather) > 1:
            shards = _meet(criterion, features, labels, weights, plan)
            features, labels, weights = gather_rows(shards, features, labels, weights)
            plan = None
        else:
            _check(criterion, features, labels, weights, plan)
        return _loss_of_checked(criterion, features, labels, weights, shards, plan)


def _check(
    criterion: CPCCLoss, features: Tensor, labels: Tensor, weights: Tensor | None, plan: BatchPlan | None
) -> None:
    if plan is not None:
        plan.check(criterion)
    check_batch(features, labels, "uniform" if weights is None else weights, host_labels=True)


def _loss_of_checked(
    criterion: CPCCLoss,
    features: Tensor,
    labels: Tensor,
    weights: Tensor | None,
    shards: Shards | None,
    plan: BatchPlan | None = None,
) -> Tensor:
    with without_autocast(features):
        wide = features if features.dtype == torch.float64 else features.float()
        if criterion.weight == 0 and criterion.memory is None:
            return (wide * 0).sum()
        if shards is None or criterion.distance.pair_cost == "none":
            batch, direction = group_batch(criterion, features, labels, weights, plan)
            if direction is None:
                return (batch.features * 0).sum() + criterion.weight
            return _weighted(criterion, criterion.distance(batch), direction, batch)
        loss: Tensor = _SharedLoss.apply(wide, criterion, labels, weights, shards.differentiable)  # type: ignore[no-untyped-call]
        return loss


def _weighted(criterion: CPCCLoss, rho: Tensor, direction: Tensor, batch: ClassBatch) -> Tensor:
    """`weight * (1 - CPCC)`, given the batch's distances and the result of `_tree_direction`."""
    weight, rounding = criterion.weight, criterion.distance.rounding(batch)
    return correlation(rho, direction, weight, weight, rounding, batch.given.dtype)[0]


def _meet(
    criterion: CPCCLoss, features: Tensor, labels: Tensor, weights: Tensor | None, plan: BatchPlan | None
) -> Shards:
    """Exchange the shapes of the batches with the other processes, and errors of this one's checks."""
    problem = None
    try:
        criterion._setup = criterion._setup or setup_of(criterion)
        _check(criterion, features, labels, weights, plan)
    except Exception as error:
        problem = error
    return meet(
        features,
        problem=problem,
        weighted=weights is not None,
        generators=[getattr(criterion.distance, "generator", None)],
        setup=criterion._setup,
    )


class _SharedLoss(torch.autograd.Function):
    """The loss of a batch that all processes hold, where each process computes a share of the pairs.

    The gradient is computed and exchanged in the forward pass, too.
    """

    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        criterion: CPCCLoss,
        labels: Tensor,
        flow_weights: Tensor | None,
        differentiable: bool,
    ) -> Tensor:
        with torch.enable_grad():
            own = features.detach().requires_grad_(differentiable)
            batch, direction = group_batch(criterion, own, labels, flow_weights, None)
            if direction is None:
                ctx.save_for_backward(torch.zeros_like(features))
                return features.new_full((), criterion.weight)
            mine, part, problem = own_pairs(criterion.distance, batch)
        rho = batch.features.new_zeros(batch.num_pairs)
        if part is not None:
            rho[mine] = part.detach()
        rho, failed = add_up_with_errors(problem, rho)
        gradient = torch.zeros_like(own)
        with torch.enable_grad():
            leaf = rho.requires_grad_()
            loss = _weighted(criterion, leaf, direction, batch)
            if differentiable:
                (slopes,) = torch.autograd.grad(loss, leaf)
                try:
                    if part is not None:
                        (gradient,) = torch.autograd.grad(part, own, slopes[mine])
                except Exception as error:
                    problem = error
        if differentiable:
            flat, failed = add_up_with_errors(problem, gradient.flatten())
            gradient = flat.view_as(own)
        # Errors in the distances and in their gradients, with a single read from the device.
        raise_errors(failed, problem)
        ctx.save_for_backward(gradient)
        return loss.detach()

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None, None]:
        (gradient,) = ctx.saved_tensors
        return grad * gradient, None, None, None, None
