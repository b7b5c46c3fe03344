"""torchmetrics shells of the metrics of class distances."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, get_args

import torch
from torch import Tensor

from cophenet._common.checks import check_choice
from cophenet.cpcc.loss import cpcc
from cophenet.metrics._checks import check_tree, undefined
from cophenet.metrics.geometry import delta_hyperbolicity, tree_distortion
from cophenet.metrics.mean_average_precision import level_labels
from cophenet.metrics.modules.base import METRIC_OPTIONS, SampleMetric
from cophenet.transport import ClassDistance, class_distances, create_distance
from cophenet.transport.grouping import Scheme

if TYPE_CHECKING:
    from cophenet.tree import Hierarchy

__all__ = ["CPCC", "DeltaHyperbolicity", "TreeDistortion"]


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
        check_tree(tree)
        check_choice("flow_weights", flow_weights, get_args(Scheme))
        own = {name: options.pop(name) for name in METRIC_OPTIONS if name in options}
        super().__init__(tree.num_classes, **own)
        self.tree, self.level, self.flow_weights = tree, level, flow_weights
        self.level_tree = tree if level is None else tree.cut(level)[0]
        also = ("distance", "level", "flow_weights", *METRIC_OPTIONS)
        self.distance = create_distance(distance, self.level_tree, also, **options)

    def distances(self) -> tuple[Tensor, Tensor]:
        """(k,) classes present; (P,) distances of their pairs."""
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


def _nothing(name: str, rho: Tensor) -> Tensor:
    value = undefined(name, "there are no samples")
    return torch.tensor(value, dtype=torch.float64, device=rho.device)


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
        classes, rho = self.distances()
        with torch.autocast(rho.device.type, enabled=False):
            # In the precision of the distances, so that equal ones are told from rounding.
            return cpcc(rho, self.tree_distances(classes)).double()


class TreeDistortion(DistanceMetric):
    """How unevenly class distances stretch the tree metric, as `tree_distortion`.

    Without samples the values are NaN, with a warning.

    Args:
        tree: The label tree.
        distance: Distance between two classes, by name or as an object.
        level: Group the samples by their ancestors at this level, by depth or name, instead of by class.
        flow_weights: "uniform", "distance" or "inverse": how much each sample of a class weighs.
        **options: The distance's own options, such as `reg=10.0` for "sinkhorn", and those of
            `torchmetrics.Metric`.

    Example:
        >>> from cophenet import Hierarchy
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/")
        >>> values = TreeDistortion(tree)(torch.tensor([[0.0], [2.0], [5.0]]), torch.tensor([0, 1, 2]))
        >>> round(values["average"].item(), 4), round(values["worst"].item(), 4)
        (0.1667, 1.6667)
    """

    higher_is_better = False

    def compute(self) -> dict[str, Tensor]:
        """Scalars "average" and "worst"."""
        classes, rho = self.distances()
        if not len(classes):
            nothing = _nothing("tree distortion", rho)
            return {"average": nothing, "worst": nothing}
        return tree_distortion(rho, self.tree_distances(classes))


class DeltaHyperbolicity(DistanceMetric):
    """Gromov's four-point delta of the class distances, as `delta_hyperbolicity`, over all quadruples.

    Without samples the values are NaN, with a warning.

    Args:
        tree: The label tree.
        distance: Distance between two classes, by name or as an object.
        level: Group the samples by their ancestors at this level, by depth or name, instead of by class.
        flow_weights: "uniform", "distance" or "inverse": how much each sample of a class weighs.
        **options: The distance's own options, such as `reg=10.0` for "sinkhorn", and those of
            `torchmetrics.Metric`.

    Example:
        >>> from cophenet import Hierarchy
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus", "car/van"], sep="/")
        >>> corners = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
        >>> round(DeltaHyperbolicity(tree)(corners, torch.arange(4))["delta"].item(), 4)
        0.4142
    """

    higher_is_better = False

    def compute(self) -> dict[str, Tensor]:
        """Scalars "delta" and "relative"."""
        classes, rho = self.distances()
        if not len(classes):
            nothing = _nothing("delta-hyperbolicity", rho)
            return {"delta": nothing, "relative": nothing}
        return delta_hyperbolicity(rho)
