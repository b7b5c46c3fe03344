"""TestCPCC: how the class distances of all test samples correlate with the tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from cophenet.cpcc.loss import cpcc
from cophenet.objectives.cpcc import WithCPCC
from cophenet.transport import ClassDistance, class_distances, create_distance

if TYPE_CHECKING:
    from collections.abc import Callable

    from cophenet.objectives import Objective
    from cophenet.transport.grouping import Scheme
    from cophenet.tree import Hierarchy

__all__ = ["Measure", "order_spread", "plain_l2", "trained_measure"]


@dataclass(frozen=True, eq=False)
class Measure:
    """A way to compare the classes of a set of features with a tree.

    Attributes:
        name: For the keys.
        tree: The tree, as training sees it.
        distance: Between the classes.
        flow_weights: Masses of the samples of a class.
        level: The level that is compared; None for the classes.
    """

    name: str
    tree: Hierarchy
    distance: ClassDistance
    flow_weights: Scheme = "uniform"
    level: int | str | None = None

    def distances(self, features: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """(k,) classes present, or their groups at the level, and (k (k - 1) / 2,) their distances."""
        tree = self.tree
        if self.level is not None:
            tree, groups = tree.cut(self.level)
            labels = torch.tensor(groups)[labels]
        return class_distances(features, labels, self.distance, flow_weights=self.flow_weights, tree=tree)

    def correlate(self, classes: Tensor, rho: Tensor) -> Tensor:
        """CPCC of the distances with the tree; NaN, with a warning, where it is undefined."""
        tree = self.tree if self.level is None else self.tree.cut(self.level)[0]
        return cpcc(rho, tree.condensed(classes.tolist()))


def plain_l2(tree: Hierarchy) -> Measure:
    """Distances of the class means, by which all objectives are compared.

    Example:
        >>> from cophenet.tree import Hierarchy
        >>> measure = plain_l2(Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/"))
        >>> classes, rho = measure.distances(torch.tensor([[0.0], [1.0], [5.0]]), torch.tensor([0, 1, 2]))
        >>> rho, round(measure.correlate(classes, rho).item(), 4)
        (tensor([1., 5., 4.]), 0.9707)
    """
    return Measure("l2", tree, create_distance("l2"))


def trained_measure(objective: Objective) -> Measure | None:
    """What the objective was trained with; None for objectives without CPCC.

    L2 with flow weights or at a coarser level is called "l2-trained", as "l2" is the plain one.

    Example:
        >>> from cophenet.objectives import create
        >>> from cophenet.tree import Hierarchy
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/")
        >>> trained_measure(create("l2", tree, flow_weights="inverse")).name
        'l2-trained'
        >>> trained_measure(create("flat", tree)) is None
        True
    """
    if not isinstance(objective, WithCPCC):
        return None
    criterion = objective.criterion
    distance, weights, level = criterion.distance, criterion.flow_weights, criterion.level
    # Nothing comes after this call, so what it has to say is read at once.
    distance.lazy_checks = False
    plain = weights == "uniform" and level is None
    name = distance.name if distance.name != "l2" or plain else "l2-trained"
    return Measure(name, objective.tree, distance, weights, level)


def order_spread(make: Callable[[], Measure], features: Tensor, labels: Tensor, orders: int) -> float:
    """Standard deviation (n - 1) of CPCC over random orders of the samples; NaN for a single one.

    Args:
        make: Makes the measure anew for each order, so that only the order differs.
        features: (N, d).
        labels: (N,).
        orders: How many.
    """
    values = []
    for seed in range(orders):
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
        measure = make()
        values.append(measure.correlate(*measure.distances(features[order], labels[order])).item())
    return float(np.std(values, ddof=1)) if orders > 1 else float("nan")
