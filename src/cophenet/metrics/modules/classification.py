"""torchmetrics shells of the metrics of predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from cophenet._common.checks import check_choice
from cophenet.metrics import accuracy, calibration, decisions, mistakes
from cophenet.metrics._checks import check_k, check_tree
from cophenet.metrics.modules.base import SumMetric

if TYPE_CHECKING:
    from cophenet.tree import Hierarchy

__all__ = [
    "DecisionCost",
    "FullPathAccuracy",
    "HierarchicalDistance",
    "HierarchicalPrecisionRecall",
    "LevelAccuracy",
    "LevelCalibrationError",
    "MistakeSeverity",
]


class LevelAccuracy(SumMetric):
    """Accuracy at each level of the tree, as `level_accuracy`.

    Args:
        tree: The label tree.
        by: "sum" or "argmax".
        top_k: A prediction counts if it is among the `top_k` best.
        **kwargs: Options of `torchmetrics.Metric`.

    Example:
        >>> from cophenet import Hierarchy
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/")
        >>> metric = LevelAccuracy(tree)
        >>> metric.update(torch.tensor([[0.3, 0.3, 0.4], [0.1, 0.8, 0.1]]), torch.tensor([0, 1]))
        >>> {name: value.item() for name, value in metric.compute().items()}
        {'level1': 1.0, 'level2': 0.5}
    """

    higher_is_better = True

    def __init__(self, tree: Hierarchy, by: accuracy.By = "sum", top_k: int = 1, **kwargs: Any) -> None:
        accuracy.check_accuracy_options(tree, by, top_k)
        super().__init__((tree.num_levels,), **kwargs)
        self.tree, self.by, self.top_k = tree, by, top_k

    def update(self, scores: Tensor, labels: Tensor) -> None:
        """Add a batch: scores (B, C), probabilities unless `by="argmax"`, and labels (B,)."""
        self.add(*accuracy.accuracy_update(scores, labels, self.tree, self.by, self.top_k))

    def compute(self) -> dict[str, Tensor]:
        """Accuracy of each level by name."""
        return accuracy.accuracy_compute(self.total, self.samples, self.tree)


class FullPathAccuracy(SumMetric):
    """Share of samples that are right at every level, as `full_path_accuracy`.

    Args:
        tree: The label tree.
        **kwargs: Options of `torchmetrics.Metric`.

    Example:
        >>> from cophenet import Hierarchy
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/")
        >>> metric = FullPathAccuracy(tree)
        >>> metric(torch.tensor([[0.3, 0.3, 0.4], [0.1, 0.8, 0.1]]), torch.tensor([2, 1])).item()
        0.5
    """

    higher_is_better = True

    def __init__(self, tree: Hierarchy, **kwargs: Any) -> None:
        check_tree(tree)
        super().__init__(**kwargs)
        self.tree = tree

    def update(self, probabilities: Tensor, labels: Tensor) -> None:
        """Add a batch: probabilities (B, C) and labels (B,)."""
        self.add(*accuracy.full_path_update(probabilities, labels, self.tree))

    def compute(self) -> Tensor:
        """A scalar in [0, 1]."""
        return accuracy.full_path_compute(self.total, self.samples)


class HierarchicalDistance(SumMetric):
    """Mean height of the lowest common ancestor of label and k best classes, as `hierarchical_distance`.

    Args:
        tree: The label tree.
        k: How many classes to take for each sample.
        best: Take the nearest of the k classes instead of their mean.
        **kwargs: Options of `torchmetrics.Metric`.

    Example:
        >>> from cophenet import Hierarchy
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/")
        >>> metric = HierarchicalDistance(tree, k=2)
        >>> metric(torch.tensor([[3.0, 2.0, 1.0], [3.0, 1.0, 2.0]]), torch.tensor([0, 1])).item()
        1.0
    """

    higher_is_better = False

    def __init__(self, tree: Hierarchy, k: int = 1, best: bool = False, **kwargs: Any) -> None:
        check_tree(tree)
        check_k("k", k, tree.num_classes)
        super().__init__(**kwargs)
        self.tree, self.k, self.best = tree, k, best

    def update(self, scores: Tensor, labels: Tensor) -> None:
        """Add a batch: scores (B, C) and labels (B,)."""
        self.add(*mistakes.distance_update(scores, labels, self.tree, self.k, self.best, mistakes_only=False))

    def compute(self) -> Tensor:
        """A scalar in [0, tree.height]."""
        return mistakes.distance_compute(self.total, self.samples)


class MistakeSeverity(SumMetric):
    """Mean height of the lowest common ancestor of label and prediction over mistakes, as `mistake_severity`.

    Args:
        tree: The label tree.
        k: Average over the k best classes of every mistake.
        **kwargs: Options of `torchmetrics.Metric`.

    Example:
        >>> from cophenet import Hierarchy
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/")
        >>> metric = MistakeSeverity(tree)
        >>> metric(torch.tensor([[3.0, 2.0, 1.0], [3.0, 1.0, 2.0]]), torch.tensor([1, 2])).item()
        1.5
    """

    higher_is_better = False
    mistakes: Tensor

    def __init__(self, tree: Hierarchy, k: int = 1, **kwargs: Any) -> None:
        check_tree(tree)
        check_k("k", k, tree.num_classes)
        super().__init__(**kwargs)
        self.add_state("mistakes", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")
        self.tree, self.k = tree, k

    def update(self, scores: Tensor, labels: Tensor) -> None:
        """Add a batch: scores (B, C) and labels (B,)."""
        total, count = mistakes.distance_update(
            scores, labels, self.tree, self.k, best=False, mistakes_only=True
        )
        self.add(total, len(labels))
        self.mistakes += count

    def compute(self) -> Tensor:
        """A scalar, 0 without mistakes."""
        return mistakes.severity_compute(self.total, self.mistakes, self.samples)


class HierarchicalPrecisionRecall(SumMetric):
    """Precision, recall and F1 of the nodes on the path, as `hierarchical_precision_recall`.

    Args:
        tree: The label tree.
        average: "micro" or "macro".
        nodes: The predictions are node numbers of the tree.
        **kwargs: Options of `torchmetrics.Metric`.

    Example:
        >>> from cophenet import Hierarchy
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/")
        >>> metric = HierarchicalPrecisionRecall(tree)
        >>> metric(torch.tensor([1, 2]), torch.tensor([0, 2]))["f1"].item()
        0.75
    """

    higher_is_better = True

    def __init__(
        self, tree: Hierarchy, average: mistakes.Average = "micro", nodes: bool = False, **kwargs: Any
    ) -> None:
        check_tree(tree)
        check_choice("average", average, ("micro", "macro"))
        super().__init__((3,), **kwargs)
        self.tree, self.average, self.nodes = tree, average, nodes

    def update(self, predictions: Tensor, labels: Tensor) -> None:
        """Add a batch: predicted classes (or nodes) and labels, both (B,)."""
        self.add(*mistakes.path_update(predictions, labels, self.tree, self.average, self.nodes))

    def compute(self) -> dict[str, Tensor]:
        """Scalars "precision", "recall" and "f1"."""
        return mistakes.path_compute(self.total, self.samples, self.average)


class LevelCalibrationError(SumMetric):
    """Expected calibration error at each level, as `level_calibration_error`.

    Args:
        tree: The label tree.
        bins: How many bins of equal width.
        **kwargs: Options of `torchmetrics.Metric`.

    Example:
        >>> from cophenet import Hierarchy
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/")
        >>> metric = LevelCalibrationError(tree)
        >>> metric(torch.tensor([[0.5, 0.25, 0.25]]), torch.tensor([0]))["level2"].item()
        0.5
    """

    higher_is_better = False

    def __init__(self, tree: Hierarchy, bins: int = 15, **kwargs: Any) -> None:
        check_tree(tree)
        check_k("bins", bins, calibration.MOST_BINS)
        super().__init__((tree.num_levels, bins), **kwargs)
        self.tree, self.bins = tree, bins

    def update(self, probabilities: Tensor, labels: Tensor) -> None:
        """Add a batch: probabilities (B, C) and labels (B,)."""
        self.add(*calibration.calibration_update(probabilities, labels, self.tree, self.bins))

    def compute(self) -> dict[str, Tensor]:
        """Error of each level by name."""
        return calibration.calibration_compute(self.total, self.samples, self.tree)


class DecisionCost(SumMetric):
    """Mean cost of the least-expected-cost decisions, as `decision_cost`.

    Args:
        tree: The label tree.
        kind: "lca-height" or "path".
        **kwargs: Options of `torchmetrics.Metric`.

    Example:
        >>> from cophenet import Hierarchy
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/")
        >>> metric = DecisionCost(tree)
        >>> metric(torch.tensor([[0.35, 0.25, 0.4]]), torch.tensor([1])).item()
        1.0
    """

    higher_is_better = False

    def __init__(self, tree: Hierarchy, kind: decisions.Kind = "lca-height", **kwargs: Any) -> None:
        check_tree(tree)
        check_choice("kind", kind, decisions.KINDS)
        super().__init__(**kwargs)
        self.tree, self.kind = tree, kind

    def update(self, probabilities: Tensor, labels: Tensor) -> None:
        """Add a batch: probabilities (B, C) and labels (B,)."""
        self.add(*decisions.decision_update(probabilities, labels, self.tree, self.kind))

    def compute(self) -> Tensor:
        """A scalar, at least 0."""
        return decisions.decision_compute(self.total, self.samples)
