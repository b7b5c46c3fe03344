"""Base classes of the metric classes: summed states, collected samples, torchmetrics on first use.

Importing torchmetrics takes longer than importing torch, and it is optional. So a metric class is defined
next to its function without it, and `with_torchmetrics` adds the torchmetrics base class on first use.
"""

from __future__ import annotations

import types
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from cophenet._common.lazy import torch
from cophenet._common.packages import import_optional
from cophenet.metrics._checks import check_features, check_tree, ratio

if TYPE_CHECKING:
    from torch import Tensor
    from torchmetrics import Metric

    from cophenet.tree import Hierarchy
else:
    Metric = object

__all__ = ["METRIC_OPTIONS", "MetricClass", "SampleMetric", "SumMetric", "with_torchmetrics"]

# Options of `torchmetrics.Metric`, for classes that also take other keyword options.
METRIC_OPTIONS = (
    "compute_on_cpu",
    "compute_with_cache",
    "dist_sync_fn",
    "dist_sync_on_step",
    "distributed_available_fn",
    "process_group",
    "sync_on_compute",
)


class MetricClass(Metric):
    """A metric class without torchmetrics; `cophenet.metrics` exports the usable class by the same name."""

    is_differentiable = False
    full_state_update = False

    def __init__(self, **kwargs: Any) -> None:
        if with_torchmetrics(type(self)) is not type(self):
            raise TypeError(f"make it as cophenet.metrics.{type(self).__name__}, which is complete")
        super().__init__(**kwargs)

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Plot values with matplotlib, as `torchmetrics.Metric.plot` does.

        Args:
            val: A result of `compute` or `forward`, or a list of them, one for each step; None to compute it.
            ax: The axes to draw in; None creates new ones.

        Returns:
            Figure and axes.
        """
        return self._plot(val, ax)


C = TypeVar("C", bound=type[MetricClass])


@cache
def with_torchmetrics(cls: C) -> C:
    """Return the same metric class as a subclass of `torchmetrics.Metric`.

    Raises:
        ImportError: If torchmetrics is missing; the message says how to install it.

    Example:
        >>> from torchmetrics import Metric
        >>> from cophenet.metrics.accuracy import LevelAccuracy
        >>> issubclass(LevelAccuracy, Metric), issubclass(with_torchmetrics(LevelAccuracy), Metric)
        (False, True)
    """
    purpose = f"cophenet.metrics.{cls.__name__} needs"
    Metric = import_optional("torchmetrics", purpose, "cophenet[metrics]").Metric  # noqa: N806
    if Metric in cls.__mro__:
        return cls
    # Pickle finds the class by the name that the package exports.
    members = {"__doc__": cls.__doc__, "__module__": "cophenet.metrics"}
    made: Any = types.new_class(cls.__name__, (cls, Metric), exec_body=lambda space: space.update(members))
    return made  # type: ignore[no-any-return]


class SumMetric(MetricClass):
    """A metric computed from a sum over samples and the number of samples.

    Attributes:
        quantity: Name of the metric in the warning for an undefined mean.

    Args:
        tree: The label tree.
        shape: Shape of the sum.
        **kwargs: Options of `torchmetrics.Metric`.
    """

    quantity = ""
    total: Tensor
    samples: Tensor
    identity: Tensor

    def __init__(self, tree: Hierarchy, shape: tuple[int, ...] = (), **kwargs: Any) -> None:
        check_tree(tree)
        super().__init__(**kwargs)
        self.tree = tree
        self.add_state("total", torch.zeros(shape, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("samples", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")
        # A MetricCollection merges metrics whose states are equal after the first batch. Sums of different
        # metrics may be equal by chance, so each instance also has a unique state.
        self.add_state("identity", torch.tensor(list(uuid4().bytes)), dist_reduce_fx="max")

    def add(self, total: Tensor, samples: int | Tensor) -> None:
        """Add a batch to the state."""
        self.total += total
        self.samples += samples

    def compute(self) -> Any:
        """Return the mean per sample; NaN with a warning without samples."""
        return ratio(self.total, self.samples, self.quantity)


class SampleMetric(MetricClass):
    """A metric that needs all samples at once: it collects features and labels.

    In distributed use every process must call `update` at least once, if necessary with an empty batch.

    Args:
        num_classes: Labels must be smaller than this; None for no upper bound.
        **kwargs: Options of `torchmetrics.Metric`.
    """

    features: list[Tensor]
    labels: list[Tensor]

    def __init__(self, num_classes: int | None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.num_classes = num_classes
        self.add_state("features", [], dist_reduce_fx="cat")
        self.add_state("labels", [], dist_reduce_fx="cat")

    def update(self, features: Tensor, labels: Tensor) -> None:
        """Collect a batch.

        Args:
            features: (B, d).
            labels: (B,) integers.
        """
        labels = check_features(features, labels, self.num_classes)
        self.features.append(features.detach())
        self.labels.append(labels)

    def collected(self) -> tuple[Tensor, Tensor]:
        """All features (N, d) and labels (N,)."""
        from torchmetrics.utilities import dim_zero_cat

        if not len(self.features):
            return torch.zeros(0, 1, device=self.device), torch.zeros(
                0, dtype=torch.int64, device=self.device
            )
        return dim_zero_cat(self.features), dim_zero_cat(self.labels)
