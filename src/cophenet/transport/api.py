"""Class distances of a batch in one call."""

from __future__ import annotations

from typing import Any, Literal, overload

from torch import Tensor

from cophenet.transport.base import ClassDistance, create_distance
from cophenet.transport.grouping import FlowWeights, group_by_class, without_autocast
from cophenet.transport.plan import TransportPlan
from cophenet.tree import Hierarchy

__all__ = ["class_distances"]


@overload
def class_distances(
    features: Tensor,
    labels: Tensor,
    distance: str | ClassDistance = ...,
    *,
    flow_weights: FlowWeights = ...,
    tree: Hierarchy | None = ...,
    return_plan: Literal[False] = ...,
    **options: Any,
) -> tuple[Tensor, Tensor]: ...


@overload
def class_distances(
    features: Tensor,
    labels: Tensor,
    distance: str | ClassDistance = ...,
    *,
    flow_weights: FlowWeights = ...,
    tree: Hierarchy | None = ...,
    return_plan: Literal[True],
    **options: Any,
) -> tuple[Tensor, Tensor, TransportPlan]: ...


def class_distances(
    features: Tensor,
    labels: Tensor,
    distance: str | ClassDistance = "fastft",
    *,
    flow_weights: FlowWeights = "uniform",
    tree: Hierarchy | None = None,
    return_plan: bool = False,
    **options: Any,
) -> tuple[Tensor, Tensor] | tuple[Tensor, Tensor, TransportPlan]:
    """Distances between the feature clouds of all classes of a batch.

    Args:
        features: (B, d) floating point; half precision is computed in float32.
        labels: (B,) integers; with a tree, positions in its classes.
        distance: "l2", "l1", "poincare", "emd", "sinkhorn", "swd", "twd", "ft", "fastft", "bures",
            or a distance object.
        flow_weights: "uniform", "distance", "inverse", or masses (B,), scaled to sum to one in each class.
        tree: The label tree; only "twd" uses it.
        return_plan: Also return the transport plans, in the batch's sample numbers.
        **options: The distance's own options, such as `reg=10.0` for "sinkhorn".

    Returns:
        (k,) the classes present, ascending; (k(k-1)/2,) the distances in the order of
        `itertools.combinations`; and the plans if asked for.

    Raises:
        ValueError: If an argument is wrong, or the distance has no plan to return.

    Example:
        >>> import torch
        >>> z = torch.tensor([[0.0, 0.0], [0.0, 2.0], [3.0, 0.0], [3.0, 2.0]])
        >>> classes, rho = class_distances(z, torch.tensor([4, 4, 9, 9]), "fastft")
        >>> classes, rho
        (tensor([4, 9]), tensor([3.]))
    """
    if tree is not None and not isinstance(tree, Hierarchy):
        raise ValueError(f"tree must be a cophenet.Hierarchy, got {type(tree).__name__}")
    measure = create_distance(distance, tree, **options)
    known = None if tree is None else tree.num_classes
    with without_autocast(features):
        batch = group_by_class(
            features,
            labels,
            flow_weights=flow_weights,
            num_classes=known,
            keep_host=measure.plans_on_host,
        )
        classes = batch.on_device(batch.classes)
        if not return_plan:
            return classes, measure(batch)
        rho, plan = measure.with_plan(batch)
        return classes, rho, plan.in_batch_order(batch)
