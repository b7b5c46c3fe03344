"""Severity of mistakes: how far predictions are from the labels in the tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from cophenet._common.checks import check_choice
from cophenet._common.lazy import torch
from cophenet.metrics._base import SumMetric
from cophenet.metrics._blocks import row_blocks
from cophenet.metrics._checks import check_indices, check_k, check_scores, check_tree, ratio
from cophenet.metrics.cards import Card, EvaluationData, Group, MeasuredNumbers, Missing, register_metric
from cophenet.tree.lookup_tables import tree_tables

if TYPE_CHECKING:
    from torch import Tensor

    from cophenet.tree import Hierarchy

__all__ = [
    "HierarchicalDistance",
    "HierarchicalPrecisionRecall",
    "MistakeSeverity",
    "hierarchical_distance",
    "hierarchical_precision_recall",
    "mistake_severity",
]

Average = Literal["micro", "macro"]


def _distance_update(
    scores: Tensor, labels: Tensor, tree: Hierarchy, k: int, best: bool, mistakes_only: bool
) -> tuple[Tensor, Tensor]:
    """Sum over samples of the distance of label and k best classes, and the number of samples in the sum."""
    labels = check_scores(scores, labels, tree)
    check_k("k", k, tree.num_classes)
    tables = tree_tables(tree, scores.device)
    total = torch.zeros((), dtype=torch.float64, device=scores.device)
    count = torch.zeros((), dtype=torch.int64, device=scores.device)
    for rows in row_blocks(len(scores), tree.num_classes + 8 * k):
        own = labels[rows, None]
        ranked = scores[rows].detach().topk(k, dim=1).indices
        heights = tables.heights[tables.class_ancestors(own, ranked)].double()
        value = heights.amin(1) if best else heights.mean(1)
        chosen = (ranked[:, 0] != labels[rows]) | (not mistakes_only)
        total += value[chosen].sum()
        count += chosen.sum()
    return total, count


def _severity_compute(total: Tensor, mistakes: Tensor, samples: int | Tensor) -> Tensor:
    """Mean distance per mistake; 0 if no sample is a mistake."""
    if int(samples) and not int(mistakes):
        return torch.zeros_like(total)
    return ratio(total, mistakes, "mistake severity")


def hierarchical_distance(
    scores: Tensor, labels: Tensor, tree: Hierarchy, k: int = 1, best: bool = False
) -> Tensor:
    r"""Hierarchical distance@k: mean height of the lowest common ancestor of label and k best classes.

    .. math::

        \mathrm{HD@}k = \frac{1}{N} \sum_i \frac{1}{k} \sum_{c \text{ among the } k \text{ best of } i}
        \mathrm{height}(\mathrm{LCA}(y_i, c))

    The height of a node is the number of edges down to its deepest class; a class itself has height 0.
    Without samples the value is NaN, with a warning. Bertinetto et al. 2020, Making Better Mistakes,
    arXiv:1912.09393, where it is called average hierarchical distance of the top k.

    Args:
        scores: (N, C), the higher the better, such as logits or negated expected costs.
        labels: (N,) classes.
        tree: The label tree.
        k: How many classes to take for each sample.
        best: Take the distance of the nearest of the k classes instead of the mean of all k.

    Returns:
        A float64 scalar in [0, tree.height].

    Raises:
        ValueError: If an argument has a wrong shape, type or value.

    Example:
        >>> from cophenet import Hierarchy
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/")
        >>> scores = torch.tensor([[3.0, 2.0, 1.0], [3.0, 1.0, 2.0]])
        >>> hierarchical_distance(scores, torch.tensor([0, 1]), tree).item()
        0.5
        >>> hierarchical_distance(scores, torch.tensor([0, 1]), tree, k=2).item()
        1.0
    """
    sums = _distance_update(scores, labels, tree, k, best, mistakes_only=False)
    return ratio(*sums, HierarchicalDistance.quantity)


def mistake_severity(scores: Tensor, labels: Tensor, tree: Hierarchy, k: int = 1) -> Tensor:
    r"""Mean height of the lowest common ancestor of label and prediction, over the mistakes.

    .. math::

        \mathrm{severity} =
        \operatorname{mean}_{i : \hat y_i \ne y_i} \mathrm{height}(\mathrm{LCA}(y_i, \hat y_i))

    A mistake is a sample whose best class is wrong. Without mistakes the value is 0; without samples it is
    NaN, with a warning. Bertinetto et al. 2020, Making Better Mistakes, arXiv:1912.09393, where it is called
    hierarchical distance of a mistake.

    Args:
        scores: (N, C), the higher the better.
        labels: (N,) classes.
        tree: The label tree.
        k: Average over the k best classes of every mistake.

    Returns:
        A float64 scalar, 0 or in [1, tree.height] for k = 1.

    Raises:
        ValueError: If an argument has a wrong shape, type or value.

    Example:
        >>> from cophenet import Hierarchy
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/")
        >>> scores = torch.tensor([[3.0, 2.0, 1.0], [3.0, 1.0, 2.0]])
        >>> mistake_severity(scores, torch.tensor([1, 2]), tree).item()
        1.5
    """
    total, mistakes = _distance_update(scores, labels, tree, k, best=False, mistakes_only=True)
    return _severity_compute(total, mistakes, len(scores))


def _path_update(
    predictions: Tensor, labels: Tensor, tree: Hierarchy, average: Average, nodes: bool
) -> tuple[Tensor, int]:
    """Three sums over samples, and the number of samples.

    The sums are those of the numbers of shared, predicted and true nodes ("micro"), or of each sample's
    precision, recall and F1 ("macro").
    """
    check_tree(tree)
    check_choice("average", average, ("micro", "macro"))
    bound = tree.num_nodes if nodes else tree.num_classes
    predictions = check_indices("predictions", predictions, len(predictions), bound)
    labels = check_indices("labels", labels, len(predictions), tree.num_classes)
    tables = tree_tables(tree, labels.device)
    true = tables.leaves[labels]
    guess = predictions if nodes else tables.leaves[predictions]
    together = (tables.common_ancestors(true, guess), guess, true)
    shared, predicted, wanted = (tables.depths[node].double() for node in together)
    if average == "macro":
        precision = shared / predicted.clamp(min=1)
        shared, predicted, wanted = precision, shared / wanted, 2 * shared / (predicted + wanted)
    return torch.stack((shared.sum(), predicted.sum(), wanted.sum())), len(labels)


def _path_compute(sums: Tensor, samples: int | Tensor, average: Average) -> dict[str, Tensor]:
    """Precision, recall and F1 from the sums."""
    means = ratio(sums, samples, "hierarchical precision and recall")
    if average == "micro":
        shared, predicted, wanted = means
        means = torch.stack((shared / predicted, shared / wanted, 2 * shared / (predicted + wanted)))
        means = torch.where(predicted == 0, torch.zeros_like(means), means)
    return dict(zip(("precision", "recall", "f1"), means, strict=True))


def hierarchical_precision_recall(
    predictions: Tensor, labels: Tensor, tree: Hierarchy, average: Average = "micro", nodes: bool = False
) -> dict[str, Tensor]:
    r"""Precision, recall and F1 of the nodes on the predicted path, without the root.

    With P_i the nodes on the predicted and T_i those on the true path, for "micro":

    .. math::

        \mathrm{hP} = \frac{\sum_i |P_i \cap T_i|}{\sum_i |P_i|}, \qquad
        \mathrm{hR} = \frac{\sum_i |P_i \cap T_i|}{\sum_i |T_i|}, \qquad
        \mathrm{hF} = \frac{2 \, \mathrm{hP} \, \mathrm{hR}}{\mathrm{hP} + \mathrm{hR}}

    For "macro", precision, recall and F1 are computed for each sample and averaged. A prediction that stops
    at the root has an empty path: precision, recall and F1 are then 0. Without samples all are NaN, with a
    warning. Kiritchenko et al. 2006, doi:10.1007/11766247_34; recommended by Silla and Freitas 2011,
    doi:10.1007/s10618-010-0175-9.

    Args:
        predictions: (N,) predicted classes.
        labels: (N,) classes.
        tree: The label tree.
        average: "micro" sums the nodes of all samples first; "macro" averages over the samples.
        nodes: Whether predictions are node numbers of the tree, so that they may stop above the classes.

    Returns:
        Float64 scalars in [0, 1]: "precision", "recall" and "f1".

    Raises:
        ValueError: If an argument has a wrong shape, type or value.

    Example:
        >>> from cophenet import Hierarchy
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/")
        >>> both = hierarchical_precision_recall(torch.tensor([1, 2]), torch.tensor([0, 2]), tree)
        >>> both["precision"].item(), both["recall"].item()
        (0.75, 0.75)
        >>> stop = torch.tensor([tree.node("pet")])
        >>> hierarchical_precision_recall(stop, torch.tensor([0]), tree, nodes=True)["recall"].item()
        0.5
    """
    return _path_compute(*_path_update(predictions, labels, tree, average, nodes), average)


class HierarchicalDistance(SumMetric):
    r"""Mean height of the lowest common ancestor of label and k best classes, as `hierarchical_distance`.

    .. math::

        \mathrm{HD@}k = \frac{1}{N} \sum_i \frac{1}{k} \sum_{c \text{ among the } k \text{ best of } i}
        \mathrm{height}(\mathrm{LCA}(y_i, c))

    Bertinetto et al. 2020, arXiv:1912.09393.

    Args:
        tree: The label tree.
        k: How many classes to take for each sample.
        best: Take the distance of the nearest of the k classes instead of the mean of all k.
        **kwargs: Options of `torchmetrics.Metric`.

    Example:
        >>> from cophenet import Hierarchy
        >>> from cophenet.metrics import HierarchicalDistance
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/")
        >>> metric = HierarchicalDistance(tree, k=2)
        >>> metric(torch.tensor([[3.0, 2.0, 1.0], [3.0, 1.0, 2.0]]), torch.tensor([0, 1])).item()
        1.0
    """

    higher_is_better = False
    quantity = "hierarchical distance"

    def __init__(self, tree: Hierarchy, k: int = 1, best: bool = False, **kwargs: Any) -> None:
        super().__init__(tree, **kwargs)
        check_k("k", k, tree.num_classes)
        self.k, self.best = k, best

    def update(self, scores: Tensor, labels: Tensor) -> None:
        """Add a batch: scores (B, C) and labels (B,)."""
        self.add(*_distance_update(scores, labels, self.tree, self.k, self.best, mistakes_only=False))


class MistakeSeverity(SumMetric):
    r"""Mean height of the lowest common ancestor of label and prediction in mistakes, as `mistake_severity`.

    .. math::

        \mathrm{severity} =
        \operatorname{mean}_{i : \hat y_i \ne y_i} \mathrm{height}(\mathrm{LCA}(y_i, \hat y_i))

    Bertinetto et al. 2020, arXiv:1912.09393.

    Args:
        tree: The label tree.
        k: Average over the k best classes of every mistake.
        **kwargs: Options of `torchmetrics.Metric`.

    Example:
        >>> from cophenet import Hierarchy
        >>> from cophenet.metrics import MistakeSeverity
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/")
        >>> metric = MistakeSeverity(tree)
        >>> metric(torch.tensor([[3.0, 2.0, 1.0], [3.0, 1.0, 2.0]]), torch.tensor([1, 2])).item()
        1.5
    """

    higher_is_better = False
    mistakes: Tensor

    def __init__(self, tree: Hierarchy, k: int = 1, **kwargs: Any) -> None:
        super().__init__(tree, **kwargs)
        check_k("k", k, tree.num_classes)
        self.add_state("mistakes", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")
        self.k = k

    def update(self, scores: Tensor, labels: Tensor) -> None:
        """Add a batch: scores (B, C) and labels (B,)."""
        total, count = _distance_update(scores, labels, self.tree, self.k, best=False, mistakes_only=True)
        self.add(total, len(labels))
        self.mistakes += count

    def compute(self) -> Tensor:
        """A scalar, 0 without mistakes."""
        return _severity_compute(self.total, self.mistakes, self.samples)


class HierarchicalPrecisionRecall(SumMetric):
    r"""Precision, recall and F1 of the nodes on the path, as `hierarchical_precision_recall`.

    .. math::

        \mathrm{hP} = \frac{\sum_i |P_i \cap T_i|}{\sum_i |P_i|}, \qquad
        \mathrm{hR} = \frac{\sum_i |P_i \cap T_i|}{\sum_i |T_i|}, \qquad
        \mathrm{hF} = \frac{2 \, \mathrm{hP} \, \mathrm{hR}}{\mathrm{hP} + \mathrm{hR}}

    P_i are the nodes on the predicted path, T_i those on the true one, without the root. Kiritchenko et al.
    2006, doi:10.1007/11766247_34.

    Args:
        tree: The label tree.
        average: "micro" or "macro".
        nodes: Whether predictions are node numbers of the tree.
        **kwargs: Options of `torchmetrics.Metric`.

    Example:
        >>> from cophenet import Hierarchy
        >>> from cophenet.metrics import HierarchicalPrecisionRecall
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/")
        >>> metric = HierarchicalPrecisionRecall(tree)
        >>> metric(torch.tensor([1, 2]), torch.tensor([0, 2]))["f1"].item()
        0.75
    """

    higher_is_better = True

    def __init__(
        self, tree: Hierarchy, average: Average = "micro", nodes: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(tree, (3,), **kwargs)
        check_choice("average", average, ("micro", "macro"))
        self.average, self.nodes = average, nodes

    def update(self, predictions: Tensor, labels: Tensor) -> None:
        """Add a batch: predicted classes (or nodes) and labels, both (B,)."""
        self.add(*_path_update(predictions, labels, self.tree, self.average, self.nodes))

    def compute(self) -> dict[str, Tensor]:
        """Scalars "precision", "recall" and "f1"."""
        return _path_compute(self.total, self.samples, self.average)


def _measure_severity(data: EvaluationData) -> MeasuredNumbers:
    return {"severity": mistake_severity(data.test.logits, data.test.labels, data.test.tree)}


def _measure_distance(data: EvaluationData) -> MeasuredNumbers:
    test, classes = data.test, data.test.tree.num_classes
    return {
        f"hierarchical-distance@{k}": hierarchical_distance(test.logits, test.labels, test.tree, k)
        if k <= classes
        else Missing(f"there are only {classes} classes")
        for k in data.settings.neighbours
    }


_MISTAKES = Group(
    "Mistakes",
    "How far off: height of the lowest group that holds both classes, for mistakes (Sev) "
    "and for the k best guesses (HD@k).",
)

register_metric(
    Card(
        key="severity",
        title="mistake severity",
        short="Sev",
        higher_is_better=False,
        percent=False,
        in_levels=True,
        group=_MISTAKES,
        measure=_measure_severity,
        order=60,
        headline="distance of mistakes",
    )
)
register_metric(
    Card(
        key="hierarchical-distance",
        title="hierarchical distance",
        short="HD",
        higher_is_better=False,
        percent=False,
        in_levels=True,
        group=_MISTAKES,
        measure=_measure_distance,
        order=70,
    )
)
