"""What the shells share: states that add up, and states that collect samples."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from cophenet.metrics._checks import check_features

__all__ = ["METRIC_OPTIONS", "SampleMetric", "SumMetric"]

# Options of `torchmetrics.Metric`, for classes that have other options besides.
METRIC_OPTIONS = (
    "compute_on_cpu",
    "compute_with_cache",
    "dist_sync_fn",
    "dist_sync_on_step",
    "distributed_available_fn",
    "process_group",
    "sync_on_compute",
)


class SumMetric(Metric):
    """A metric made of a sum over samples and their number.

    Args:
        shape: Shape of the sum.
        **kwargs: Options of `torchmetrics.Metric`.
    """

    is_differentiable = False
    full_state_update = False
    total: Tensor
    samples: Tensor
    identity: Tensor

    def __init__(self, shape: tuple[int, ...] = (), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.add_state("total", torch.zeros(shape, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("samples", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")
        # A MetricCollection goes on with one state for metrics whose states are equal after a batch. Sums of
        # different metrics may be equal by chance, so each also has a state of its own.
        self.add_state("identity", torch.tensor(list(uuid4().bytes)), dist_reduce_fx="max")

    def add(self, total: Tensor, samples: int | Tensor) -> None:
        """Add a batch to the state."""
        self.total += total
        self.samples += samples


class SampleMetric(Metric):
    """A metric that needs all samples at once: it keeps features and labels.

    In distributed use every process must call `update` at least once, if need be with an empty batch.

    Args:
        num_classes: Labels must lie below it, where it is given.
        **kwargs: Options of `torchmetrics.Metric`.
    """

    is_differentiable = False
    full_state_update = False
    features: list[Tensor]
    labels: list[Tensor]

    def __init__(self, num_classes: int | None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.num_classes = num_classes
        self.add_state("features", [], dist_reduce_fx="cat")
        self.add_state("labels", [], dist_reduce_fx="cat")

    def update(self, features: Tensor, labels: Tensor) -> None:
        """Keep a batch.

        Args:
            features: (B, d).
            labels: (B,) integers.
        """
        labels = check_features(features, labels, self.num_classes)
        self.features.append(features.detach())
        self.labels.append(labels)

    def collected(self) -> tuple[Tensor, Tensor]:
        """All features (N, d) and labels (N,)."""
        if not len(self.features):
            return torch.zeros(0, 1, device=self.device), torch.zeros(
                0, dtype=torch.int64, device=self.device
            )
        return dim_zero_cat(self.features), dim_zero_cat(self.labels)
