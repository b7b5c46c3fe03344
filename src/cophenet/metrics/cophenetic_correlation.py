"""How class distances correlate with the tree: CPCC of all samples at once."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, get_args

from cophenet._common.checks import check_choice
from cophenet._common.lazy import torch
from cophenet.metrics._base import METRIC_OPTIONS, SampleMetric
from cophenet.metrics._checks import check_tree
from cophenet.metrics.mean_average_precision import level_labels

if TYPE_CHECKING:
    from torch import Tensor

    from cophenet.transport import ClassDistance
    from cophenet.transport.grouping import Scheme
    from cophenet.tree import Hierarchy

__all__ = ["CPCC"]


class DistanceMetric(SampleMetric):
    """A metric of the distances between the classes of all samples.

    Args:
        tree: The label tree.
        distance: Distance between two classes, by name or as an object.
        level: Group the samples by their ancestors at this level instead of by class.
        flow_weights: "uniform", "distance" or "inverse".
        **options: The distance's own options, and those of `torchmetrics.Metric`.
    """

    def __init__(
        self,
        tree: Hierarchy,
        distance: str | ClassDistance = "l2",
        level: int | str | None = None,
        flow_weights: Scheme = "uniform",
        **options: Any,
    ) -> None:
        from cophenet.transport import create_distance, grouping

        check_tree(tree)
        check_choice("flow_weights", flow_weights, get_args(grouping.Scheme))
        own = {name: options.pop(name) for name in METRIC_OPTIONS if name in options}
        super().__init__(tree.num_classes, **own)
        self.tree, self.level, self.flow_weights = tree, level, flow_weights
        self.level_tree = tree if level is None else tree.cut(level)[0]
        also = ("distance", "level", "flow_weights", *METRIC_OPTIONS)
        self.distance = create_distance(distance, self.level_tree, also, **options)

    def distances(self) -> tuple[Tensor, Tensor]:
        """(k,) classes present; (P,) distances of their pairs."""
        from cophenet.transport import class_distances

        features, labels = self.collected()
        if not len(features):
            return labels, features.new_zeros(0)
        if self.level is not None:
            labels = level_labels(labels, self.tree, self.level)
        # A copy, so that a random distance draws the same directions each time it is asked. There is no later
        # call of it, so it must say at once if it did not converge.
        measure = copy.deepcopy(self.distance)
        measure.lazy_checks = False
        return class_distances(
            features, labels, measure, flow_weights=self.flow_weights, tree=self.level_tree
        )

    def tree_distances(self, classes: Tensor) -> Tensor:
        """(P,) tree distances of the pairs of classes."""
        return torch.from_numpy(self.level_tree.condensed(classes.cpu().numpy())).to(classes.device)


class CPCC(DistanceMetric):
    """Cophenetic correlation of class distances and tree distances, over all samples at once.

    With fewer than two pairs of classes, or where one side is constant, the value is NaN, with a warning.

    Args:
        tree: The label tree.
        distance: Distance between two classes, by name or as an object.
        level: Group the samples by their ancestors at this level, by depth or name, instead of by class.
        flow_weights: "uniform", "distance" or "inverse": how much each sample of a class weighs.
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
        from cophenet.cpcc.loss import cpcc

        classes, rho = self.distances()
        with torch.autocast(rho.device.type, enabled=False):
            # In the precision of the distances, so that equal ones are told from rounding.
            return cpcc(rho, self.tree_distances(classes)).double()
