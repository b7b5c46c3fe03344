"""torchmetrics shells of the metrics of retrieval."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from cophenet.metrics import hierarchical_precision as hierarchical
from cophenet.metrics import retrieval
from cophenet.metrics._checks import check_tree
from cophenet.metrics.mean_average_precision import check_prototypes, level_labels, prototype_compute
from cophenet.metrics.modules.base import SampleMetric

if TYPE_CHECKING:
    from cophenet.tree import Hierarchy

__all__ = ["AverageHierarchicalPrecision", "HierarchicalPrecisionAtK", "MAPAtR", "PrototypeMAP"]


class PrototypeMAP(SampleMetric):
    """Mean average precision of retrieving test samples by class prototypes, as `prototype_map`.

    Args:
        prototypes: (k, d) one for each class, such as the mean training features.
        classes: (k,) class of each prototype; 0, 1, ... by default. At a level, classes of `tree.cut(level)`.
        tree: The label tree, needed with `level`.
        level: Group the labels that `update` gets by their ancestors at this level.
        **kwargs: Options of `torchmetrics.Metric`.

    Example:
        >>> import torch
        >>> metric = PrototypeMAP(torch.eye(2))
        >>> metric.update(torch.tensor([[1.0, 0.1], [0.9, 0.3]]), torch.tensor([0, 1]))
        >>> metric.update(torch.tensor([[0.2, 1.0], [0.8, 0.4]]), torch.tensor([1, 0]))
        >>> round(metric.compute().item(), 4)
        0.8333
    """

    higher_is_better = True
    prototypes: Tensor
    classes: Tensor

    def __init__(
        self,
        prototypes: Tensor,
        classes: Tensor | None = None,
        tree: Hierarchy | None = None,
        level: int | str | None = None,
        **kwargs: Any,
    ) -> None:
        if (tree is None) != (level is None):
            raise ValueError(f"tree and level go together, got {tree!r} and level {level!r}")
        if tree is not None:
            check_tree(tree)
        super().__init__(None if tree is None else tree.num_classes, **kwargs)
        self.tree, self.level = tree, level
        self.register_buffer("classes", check_prototypes(prototypes, classes), persistent=False)
        self.register_buffer("prototypes", prototypes.detach(), persistent=False)

    def compute(self) -> Tensor:
        """A scalar in [0, 1]."""
        features, labels = self.collected()
        if self.tree is not None and self.level is not None:
            labels = level_labels(labels, self.tree, self.level)
        return prototype_compute(features, labels, self.prototypes, self.classes)


class MAPAtR(SampleMetric):
    """MAP@R of samples searching each other, as `map_at_r`.

    Args:
        **kwargs: Options of `torchmetrics.Metric`.

    Example:
        >>> import torch
        >>> metric = MAPAtR()
        >>> features = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.6, 0.5]])
        >>> metric(features, torch.tensor([0, 0, 1, 1])).item()
        0.75
    """

    higher_is_better = True

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(None, **kwargs)

    def compute(self) -> Tensor:
        """A scalar in [0, 1]."""
        return retrieval.map_at_r_compute(retrieval.make_search(*self.collected(), None))


class HierarchicalPrecisionAtK(SampleMetric):
    """HP@k of samples searching each other, as `hierarchical_precision_at_k`.

    Args:
        tree: The label tree.
        k: How many samples to retrieve, fewer than there are samples.
        similarity: "lca-height" or "wu-palmer".
        **kwargs: Options of `torchmetrics.Metric`.

    Example:
        >>> import torch
        >>> from cophenet import Hierarchy
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/")
        >>> metric = HierarchicalPrecisionAtK(tree, k=1)
        >>> features = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.6, 0.5]])
        >>> metric(features, torch.tensor([0, 0, 2, 1])).item()
        1.0
    """

    higher_is_better = True

    def __init__(
        self, tree: Hierarchy, k: int, similarity: hierarchical.Similarity = "lca-height", **kwargs: Any
    ) -> None:
        hierarchical.check_precision_options(tree, k, similarity, average=False)
        super().__init__(tree.num_classes, **kwargs)
        self.tree, self.k, self.similarity = tree, k, similarity

    def compute(self) -> Tensor:
        """A scalar in [0, 1]."""
        search = retrieval.make_search(*self.collected(), None, self.num_classes)
        return hierarchical.precision_compute(search, self.tree, self.k, self.similarity, average=False)


class AverageHierarchicalPrecision(SampleMetric):
    """AHP of samples searching each other, as `average_hierarchical_precision`.

    Args:
        tree: The label tree.
        k: The last rank, at least 2 and fewer than there are samples; None for all.
        similarity: "lca-height" or "wu-palmer".
        **kwargs: Options of `torchmetrics.Metric`.

    Example:
        >>> import torch
        >>> from cophenet import Hierarchy
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/")
        >>> metric = AverageHierarchicalPrecision(tree, k=2)
        >>> features = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.6, 0.5]])
        >>> metric(features, torch.tensor([0, 0, 2, 1])).item()
        0.5
    """

    higher_is_better = True

    def __init__(
        self,
        tree: Hierarchy,
        k: int | None = None,
        similarity: hierarchical.Similarity = "lca-height",
        **kwargs: Any,
    ) -> None:
        hierarchical.check_precision_options(tree, k, similarity, average=True)
        super().__init__(tree.num_classes, **kwargs)
        self.tree, self.k, self.similarity = tree, k, similarity

    def compute(self) -> Tensor:
        """A scalar in [0, 1)."""
        search = retrieval.make_search(*self.collected(), None, self.num_classes)
        return hierarchical.precision_compute(search, self.tree, self.k, self.similarity, average=True)
