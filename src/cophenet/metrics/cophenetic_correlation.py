"""Correlation of class distances with tree distances: CPCC over all samples at once."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from cophenet._common.checks import check_choice
from cophenet._common.lazy import torch
from cophenet.metrics._base import METRIC_OPTIONS, SampleMetric
from cophenet.metrics._blocks import full_precision
from cophenet.metrics._checks import check_tree
from cophenet.metrics.cards import Card, EvaluationData, Group, MeasuredNumbers, Missing, register_metric
from cophenet.metrics.mean_average_precision import level_labels

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from cophenet.transport import ClassDistance
    from cophenet.transport.base import MeasuredClasses
    from cophenet.transport.grouping import Scheme
    from cophenet.tree import Hierarchy

__all__ = ["CPCC"]

# Suffix of the name of a distance between unit vectors.
UNIT = "-unit"


@dataclass(frozen=True, eq=False)
class ClassGeometry:
    """Distances between the classes of some samples, and between the same classes in a tree.

    Attributes:
        name: Name of the distance in results.
        features: (N, d).
        labels: (N,) class indices in the tree.
        tree: The label tree.
        distance: Distance between two classes.
        flow_weights: Scheme of the sample weights within a class.
        level: Group the samples by their ancestors at this level instead of by class.
        normalize: Compare unit vectors: each feature vector divided by its norm.
        target: (k, k) target distances of the classes, used instead of tree distances; None for the tree's.

    Example:
        >>> from cophenet import Hierarchy
        >>> from cophenet.transport import create_distance
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/")
        >>> z, y = torch.tensor([[0.0], [1.0], [5.0]]), torch.tensor([0, 1, 2])
        >>> geometry = ClassGeometry("l2", z, y, tree, create_distance("l2"))
        >>> geometry.distances[1], geometry.tree_distances, round(geometry.cpcc().item(), 4)
        (tensor([1., 5., 4.]), tensor([2., 4., 4.], dtype=torch.float64), 0.9707)
    """

    name: str
    features: Tensor
    labels: Tensor
    tree: Hierarchy
    distance: ClassDistance
    flow_weights: Scheme = "uniform"
    level: int | str | None = None
    normalize: bool = False
    target: NDArray[np.float64] | None = None

    @cached_property
    def level_tree(self) -> Hierarchy:
        """The tree whose classes are compared."""
        return self.tree if self.level is None else self.tree.cut(self.level)[0]

    @cached_property
    def _measured(self) -> MeasuredClasses:
        from cophenet.transport.base import measure_classes
        from cophenet.transport.grouping import unit_rows

        labels = self.labels if self.level is None else level_labels(self.labels, self.tree, self.level)
        # A copy, so that a random distance draws the same directions for every evaluation. It is called only
        # once, so a failure to converge must be reported immediately.
        distance = copy.deepcopy(self.distance)
        distance.lazy_checks = False
        features = unit_rows(full_precision(self.features)) if self.normalize else self.features
        return measure_classes(
            features, labels, distance, flow_weights=self.flow_weights, tree=self.level_tree
        )

    @property
    def distances(self) -> tuple[Tensor, Tensor]:
        """(k,) classes that have samples; (P,) distances of their pairs."""
        if not len(self.features):
            return self.labels, self.features.new_zeros(0)
        return self._measured.classes, self._measured.distances

    @property
    def tree_distances(self) -> Tensor:
        """(P,) distances of the class pairs in the tree, or in `target` if given."""
        classes, _ = self.distances
        if self.target is not None:
            chosen = torch.from_numpy(self.target).to(classes.device)[classes][:, classes]
            return chosen[tuple(torch.triu_indices(len(classes), len(classes), 1))]
        return torch.from_numpy(self.level_tree.condensed(classes.cpu().numpy())).to(classes.device)

    def cpcc(self) -> Tensor:
        """Correlation of both kinds of distances; NaN, with a warning, if undefined."""
        from cophenet.cpcc.pearson import cpcc

        with torch.autocast(self.features.device.type, enabled=False):
            if not len(self.features):
                return cpcc(self.features.new_zeros(0), self.tree_distances)
            # With the rounding error of the distances, so that rounding is not mistaken for a difference.
            return cpcc(self._measured.scaled, self.tree_distances, self._measured.rounding)

    def reordered(self, order: Tensor) -> ClassGeometry:
        """Return a copy with the samples permuted by `order` (N,)."""
        return replace(self, features=self.features[order], labels=self.labels[order])


class DistanceMetric(SampleMetric):
    """Base class of metrics of the distances between classes, over all samples.

    Args:
        tree: The label tree.
        distance: Distance between two classes, by name or as an object.
        level: Group the samples by their ancestors at this level instead of by class.
        flow_weights: "uniform", "distance" or "inverse".
        normalize: Compare unit vectors.
        **options: The distance's own options, and those of `torchmetrics.Metric`.
    """

    def __init__(
        self,
        tree: Hierarchy,
        distance: str | ClassDistance = "l2",
        level: int | str | None = None,
        flow_weights: Scheme = "uniform",
        normalize: bool = False,
        **options: Any,
    ) -> None:
        from cophenet.transport import create_distance, grouping

        check_tree(tree)
        check_choice("flow_weights", flow_weights, get_args(grouping.Scheme))
        own = {name: options.pop(name) for name in METRIC_OPTIONS if name in options}
        super().__init__(tree.num_classes, **own)
        self.tree, self.level, self.flow_weights, self.normalize = tree, level, flow_weights, normalize
        level_tree = tree if level is None else tree.cut(level)[0]
        also = ("distance", "level", "flow_weights", "normalize", *METRIC_OPTIONS)
        self.distance = create_distance(distance, level_tree, also, **options)

    def geometry(self) -> ClassGeometry:
        """Class distances of all collected samples."""
        features, labels = self.collected()
        return ClassGeometry(
            self.distance.name,
            features,
            labels,
            self.tree,
            self.distance,
            self.flow_weights,
            self.level,
            self.normalize,
        )


class CPCC(DistanceMetric):
    r"""Cophenetic correlation of class distances and tree distances, over all samples at once.

    Pearson's correlation over all pairs p of classes that have samples, as `cophenet.cpcc`:

    .. math::

        \mathrm{CPCC} = \frac{\sum_p r_p s_p}{\sqrt{\sum_p r_p^2 \sum_p s_p^2}},
        \qquad r = \rho - \bar\rho, \quad s = t - \bar t

    With fewer than two pairs of classes, or where one side is constant, the value is NaN, with a warning.
    Sokal and Rohlf 1962, The Comparison of Dendrograms by Objective Methods, doi:10.2307/1217208; between
    class distances and a label tree Zeng et al. 2025, arXiv:2410.03052.

    Args:
        tree: The label tree.
        distance: Distance between two classes, by name or as an object.
        level: Group the samples by their ancestors at this level, by depth or name, instead of by class.
        flow_weights: "uniform", "distance" or "inverse": scheme of the sample weights within a class.
        normalize: Compare unit vectors, each feature vector divided by its norm, as retrieval by cosine does.
        **options: The distance's own options, such as `reg=10.0` for "sinkhorn", and those of
            `torchmetrics.Metric`.

    Example:
        >>> from cophenet import Hierarchy
        >>> from cophenet.metrics import CPCC
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus", "car/van"], sep="/")
        >>> metric = CPCC(tree, distance="l2")
        >>> metric.update(torch.tensor([[0.0, 1.0], [0.0, 2.0]]), torch.tensor([0, 1]))
        >>> metric.update(torch.tensor([[9.0, 1.0], [9.0, 2.0]]), torch.tensor([2, 3]))
        >>> round(metric.compute().item(), 3)
        1.0
    """

    higher_is_better = True

    def compute(self) -> Tensor:
        """A scalar in [-1, 1]."""
        return self.geometry().cpcc().double()


def _measure(data: EvaluationData) -> MeasuredNumbers:
    return {f"cpcc/{geometry.name}": geometry.cpcc() for geometry in data.geometry}


def _measure_shuffled(data: EvaluationData) -> MeasuredNumbers:
    r"""CPCC with the tree of the training, whose classes were shuffled.

    .. math::

        \mathrm{CPCC}(t_\sigma, \rho), \qquad t_\sigma(u, v) = t(\sigma(u), \sigma(v))

    sigma is the permutation of the classes. The correlation is that of `CPCC`, Zeng et al. 2025,
    arXiv:2410.03052.
    """
    return {f"cpcc-trained-tree/{geometry.name}": geometry.cpcc() for geometry in data.shuffled_geometry}


def _measure_orders(data: EvaluationData) -> MeasuredNumbers:
    """Spread of CPCC over sample orders, see `_order_spread`, of the distances that depend on the order."""
    return {
        f"cpcc-orders/{geometry.name}": _order_spread(geometry, data.settings.orders)
        if data.settings.orders > 1
        else Missing("evaluation.orders is 1, and a spread needs two")
        for geometry in data.geometry
        if geometry.distance.order_dependent
    }


def _order_spread(geometry: ClassGeometry, orders: int) -> float:
    r"""Standard deviation of CPCC over random orders of the samples.

    .. math::

        s = \sqrt{\frac{1}{n - 1} \sum_{k=1}^n (c_k - \bar c)^2}, \qquad c_k \text{ the CPCC in order } k

    n is `orders`, at least two. Greedy matching depends on the order: Algorithm 1 of Zeng et al. 2025,
    arXiv:2410.03052.
    """
    seeds = (torch.Generator().manual_seed(seed) for seed in range(orders))
    drawn = [torch.randperm(len(geometry.labels), generator=seed) for seed in seeds]
    return float(np.std([geometry.reordered(order).cpcc().item() for order in drawn], ddof=1))


_FAITHFULNESS = Group(
    "Faithfulness to the tree",
    "CPCC: how distances between classes correlate with the tree; 100 is perfect.",
)

register_metric(
    Card(
        key="cpcc",
        title="CPCC",
        short="CPCC",
        higher_is_better=True,
        percent=True,
        group=_FAITHFULNESS,
        measure=_measure,
        order=30,
        by="distance",
    )
)
register_metric(
    Card(
        key="cpcc-orders",
        title="spread of CPCC over sample orders",
        short="CPCC ±",
        higher_is_better=False,
        percent=True,
        group=_FAITHFULNESS,
        measure=_measure_orders,
        order=40,
        by="distance",
    )
)
register_metric(
    Card(
        key="cpcc-trained-tree",
        title="CPCC with the shuffled tree it was trained on",
        short="CPCC shuffled",
        higher_is_better=True,
        percent=True,
        group=_FAITHFULNESS,
        measure=_measure_shuffled,
        order=50,
        by="distance",
    )
)
