"""torchmetrics shells of the metrics of class distances."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from cophenet.correlation import cpcc
from cophenet.metrics.checks import undefined
from cophenet.metrics.geometry import delta_hyperbolicity, tree_distortion
from cophenet.metrics.modules.base import SampleMetric
from cophenet.metrics.prototypes import level_labels
from cophenet.transport import ClassDistance, class_distances, create_distance

if TYPE_CHECKING:
    from cophenet.tree import Hierarchy

__all__ = ["CPCC", "DeltaHyperbolicity", "TreeDistortion"]


class DistanceMetric(SampleMetric):
    """A metric of the distances between the classes of all samples.

    Args:
        tree: The label tree.
        distance: Distance between two classes, by name or as an object.
        level: Group the samples by their ancestors at this level instead of by class.
        **options: The distance's own options.
    """

    def __init__(
        self,
        tree: Hierarchy,
        distance: str | ClassDistance = "l2",
        level: int | str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(tree.num_classes)
        self.tree, self.level = tree, level
        self.level_tree = tree if level is None else tree.cut(level)[0]
        self.distance = create_distance(distance, self.level_tree, **options)

    def distances(self) -> tuple[Tensor, Tensor]:
        """(k,) classes present; (P,) distances of their pairs."""
        features, labels = self.collected()
        if not len(features):
            return labels, features.new_zeros(0)
        if self.level is not None:
            labels = level_labels(labels, self.tree, self.level)
        # A copy, so that a random distance draws the same directions each time it is asked.
        return class_distances(features, labels, copy.deepcopy(self.distance), tree=self.level_tree)

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
        **options: The distance's own options, such as `reg=10.0` for "sinkhorn".

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
            return cpcc(rho, self.tree_distances(classes))


class TreeDistortion(DistanceMetric):
    """How unevenly class distances stretch the tree metric, as `tree_distortion`.

    Without samples the values are NaN, with a warning.

    Args:
        tree: The label tree.
        distance: Distance between two classes, by name or as an object.
        level: Group the samples by their ancestors at this level, by depth or name, instead of by class.
        **options: The distance's own options, such as `reg=10.0` for "sinkhorn".

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
            nothing = torch.tensor(undefined("tree distortion", "there are no samples"), device=rho.device)
            return {"average": nothing, "worst": nothing}
        return tree_distortion(rho, self.tree_distances(classes))


class DeltaHyperbolicity(DistanceMetric):
    """Gromov's four-point delta of the class distances, as `delta_hyperbolicity`, over all quadruples.

    Without samples the values are NaN, with a warning.

    Args:
        tree: The label tree.
        distance: Distance between two classes, by name or as an object.
        level: Group the samples by their ancestors at this level, by depth or name, instead of by class.
        **options: The distance's own options, such as `reg=10.0` for "sinkhorn".

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
            nothing = torch.tensor(
                undefined("delta-hyperbolicity", "there are no samples"), device=rho.device
            )
            return {"delta": nothing, "relative": nothing}
        return delta_hyperbolicity(rho)
