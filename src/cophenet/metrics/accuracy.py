"""Accuracy at every level of the tree, and along the whole path."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from cophenet._common.checks import check_choice
from cophenet._common.lazy import torch
from cophenet.metrics._base import SumMetric
from cophenet.metrics._blocks import full_precision, row_blocks
from cophenet.metrics._checks import check_k, check_probabilities, check_scores, check_tree, ratio
from cophenet.metrics.cards import Card, EvaluationData, Group, MeasuredNumbers, Missing, register_metric
from cophenet.tree.lookup_tables import TreeTables, tree_tables

if TYPE_CHECKING:
    from torch import Tensor

    from cophenet.tree import Hierarchy

__all__ = ["FullPathAccuracy", "LevelAccuracy", "full_path_accuracy", "level_accuracy"]

By = Literal["sum", "argmax"]


def _hits_by_sum(probabilities: Tensor, labels: Tensor, tables: TreeTables, top_k: int) -> Tensor:
    hits = []
    for sums, own in tables.level_sums(full_precision(probabilities), labels):
        best = sums.topk(min(top_k, sums.shape[1]), dim=1).indices
        hits.append((best == own[:, None]).any(1).sum())
    return torch.stack(hits[::-1])


def _hits_by_argmax(scores: Tensor, labels: Tensor, tables: TreeTables, top_k: int) -> Tensor:
    best = scores.topk(top_k, dim=1).indices
    shared = tables.depths[tables.class_ancestors(labels[:, None], best)].amax(1)
    # A class above a level is its own ancestor there, so the correct class is correct at every level.
    shared[(best == labels[:, None]).any(1)] = tables.num_levels
    levels = torch.arange(1, tables.num_levels + 1, device=labels.device)
    return (shared[:, None] >= levels).sum(0)


def accuracy_update(
    scores: Tensor, labels: Tensor, tree: Hierarchy, by: By, top_k: int
) -> tuple[Tensor, int]:
    """Correct samples at each level (num_levels,), and the number of samples."""
    check_accuracy_options(tree, by, top_k)
    labels = check_scores(scores, labels, tree)
    if by == "sum":
        check_probabilities(scores, tree)
    tables = tree_tables(tree, scores.device)
    count = _hits_by_sum if by == "sum" else _hits_by_argmax
    hits = torch.zeros(tree.num_levels, dtype=torch.int64, device=scores.device)
    for rows in row_blocks(len(scores), 2 * tree.num_classes + 16 * top_k):
        hits += count(scores[rows], labels[rows], tables, top_k)
    return hits, len(scores)


def accuracy_compute(hits: Tensor, samples: int | Tensor, tree: Hierarchy) -> dict[str, Tensor]:
    """Accuracy of each level by name."""
    rates = ratio(hits.double(), samples, "accuracy")
    return dict(zip(tree.level_names, rates, strict=True))


def check_accuracy_options(tree: Hierarchy, by: str, top_k: int) -> None:
    """Raise if an option is not allowed."""
    check_tree(tree)
    check_choice("by", by, ("sum", "argmax"))
    check_k("top_k", top_k, tree.num_classes)


def level_accuracy(
    scores: Tensor, labels: Tensor, tree: Hierarchy, by: By = "sum", top_k: int = 1
) -> dict[str, Tensor]:
    r"""Accuracy at each level of the tree.

    With `a_l(y)` the ancestor at level l of class y, the accuracy there, for `by="sum"` and `top_k=1`, is

    .. math::

        \mathrm{acc}_l = \frac{1}{N} \sum_i
        \left[ \operatorname{argmax}_{v \text{ at level } l} p_i(v) = a_l(y_i) \right],
        \qquad p_i(v) = \sum_{c \text{ below } v} p_{ic}

    and for `by="argmax"` the prediction is `a_l(argmax_c p_ic)` instead. A class that lies above a level is
    its own ancestor there. Ties between scores are broken as by `torch.topk`. Without samples the value is
    NaN, with a warning. At the finest level this is plain accuracy; at coarser levels, with `by="sum"`, it is
    the accuracy of Zeng et al. 2025, arXiv:2410.03052.

    Args:
        scores: (N, C) probabilities of the classes; with `by="argmax"` any scores, such as logits.
        labels: (N,) classes.
        tree: The label tree.
        by: "sum" predicts at each level by the summed probabilities below its nodes; "argmax" takes the
            ancestors of the class with the highest score.
        top_k: A sample is correct if its true node is among the `top_k` best. With "sum" these are nodes of
            the level (all of them if it has fewer), with "argmax" the ancestors of the best classes.

    Returns:
        A float64 scalar in [0, 1] for each level name, from the root down.

    Raises:
        ValueError: If an argument has a wrong shape, type or value.

    Example:
        >>> from cophenet import Hierarchy
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/")
        >>> p = torch.tensor([[0.3, 0.3, 0.4], [0.1, 0.8, 0.1]])
        >>> {name: value.item() for name, value in level_accuracy(p, torch.tensor([0, 1]), tree).items()}
        {'level1': 1.0, 'level2': 0.5}
        >>> level_accuracy(p, torch.tensor([0, 1]), tree, by="argmax")["level1"].item()
        0.5
    """
    return accuracy_compute(*accuracy_update(scores, labels, tree, by, top_k), tree)


def _full_path_update(probabilities: Tensor, labels: Tensor, tree: Hierarchy) -> tuple[Tensor, int]:
    """Number of samples that are correct at every level, and the number of samples."""
    check_probabilities(probabilities, tree)
    labels = check_scores(probabilities, labels, tree)
    tables = tree_tables(tree, labels.device)
    right = torch.zeros((), dtype=torch.int64, device=labels.device)
    for rows in row_blocks(len(labels), 2 * tree.num_classes):
        levels = tables.level_sums(full_precision(probabilities[rows]), labels[rows])
        right += torch.stack([sums.argmax(1) == own for sums, own in levels]).all(0).sum()
    return right, len(labels)


def full_path_accuracy(probabilities: Tensor, labels: Tensor, tree: Hierarchy) -> Tensor:
    r"""Share of samples whose prediction by summed probabilities is correct at every level.

    .. math::

        \frac{1}{N} \sum_i \prod_l \left[ \hat y_i^l = a_l(y_i) \right],
        \qquad \hat y_i^l \text{ the prediction at level } l, \; a_l(y_i) \text{ the ancestor there}

    with the predictions of `level_accuracy`, which need not lie on one path. This is the exact-match ratio of
    multi-label classification, for the nodes of a path. Without samples the value is NaN, with a warning.
    Park et al. 2025, Visually Consistent Hierarchical Image Classification, arXiv:2406.11608.

    Args:
        probabilities: (N, C), at least 0, rows summing to 1.
        labels: (N,) classes.
        tree: The label tree.

    Returns:
        A float64 scalar in [0, 1].

    Raises:
        ValueError: If an argument has a wrong shape, type or value.

    Example:
        >>> from cophenet import Hierarchy
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/")
        >>> p = torch.tensor([[0.3, 0.3, 0.4], [0.1, 0.8, 0.1]])
        >>> full_path_accuracy(p, torch.tensor([2, 1]), tree).item()
        0.5
    """
    return ratio(*_full_path_update(probabilities, labels, tree), FullPathAccuracy.quantity)


class LevelAccuracy(SumMetric):
    r"""Accuracy at each level of the tree, as `level_accuracy`.

    .. math::

        \mathrm{acc}_l = \frac{1}{N} \sum_i \left[ \hat y_i^l = a_l(y_i) \right],
        \qquad \hat y_i^l \text{ the prediction at level } l, \; a_l(y_i) \text{ the ancestor there}

    Zeng et al. 2025, arXiv:2410.03052.

    Args:
        tree: The label tree.
        by: "sum" or "argmax".
        top_k: A sample is correct if its true node is among the `top_k` best.
        **kwargs: Options of `torchmetrics.Metric`.

    Example:
        >>> from cophenet import Hierarchy
        >>> from cophenet.metrics import LevelAccuracy
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/")
        >>> metric = LevelAccuracy(tree)
        >>> metric.update(torch.tensor([[0.3, 0.3, 0.4], [0.1, 0.8, 0.1]]), torch.tensor([0, 1]))
        >>> {name: value.item() for name, value in metric.compute().items()}
        {'level1': 1.0, 'level2': 0.5}
    """

    higher_is_better = True

    def __init__(self, tree: Hierarchy, by: By = "sum", top_k: int = 1, **kwargs: Any) -> None:
        check_accuracy_options(tree, by, top_k)
        super().__init__(tree, (tree.num_levels,), **kwargs)
        self.by, self.top_k = by, top_k

    def update(self, scores: Tensor, labels: Tensor) -> None:
        """Add a batch: scores (B, C), probabilities unless `by="argmax"`, and labels (B,)."""
        self.add(*accuracy_update(scores, labels, self.tree, self.by, self.top_k))

    def compute(self) -> dict[str, Tensor]:
        """Accuracy of each level by name."""
        return accuracy_compute(self.total, self.samples, self.tree)


class FullPathAccuracy(SumMetric):
    r"""Share of samples that are correct at every level, as `full_path_accuracy`.

    .. math::

        \frac{1}{N} \sum_i \prod_l \left[ \hat y_i^l = a_l(y_i) \right],
        \qquad \hat y_i^l \text{ the prediction at level } l, \; a_l(y_i) \text{ the ancestor there}

    Park et al. 2025, arXiv:2406.11608.

    Args:
        tree: The label tree.
        **kwargs: Options of `torchmetrics.Metric`.

    Example:
        >>> from cophenet import Hierarchy
        >>> from cophenet.metrics import FullPathAccuracy
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/")
        >>> metric = FullPathAccuracy(tree)
        >>> metric(torch.tensor([[0.3, 0.3, 0.4], [0.1, 0.8, 0.1]]), torch.tensor([2, 1])).item()
        0.5
    """

    higher_is_better = True
    quantity = "full-path accuracy"

    def __init__(self, tree: Hierarchy, **kwargs: Any) -> None:
        super().__init__(tree, **kwargs)

    def update(self, probabilities: Tensor, labels: Tensor) -> None:
        """Add a batch: probabilities (B, C) and labels (B,)."""
        self.add(*_full_path_update(probabilities, labels, self.tree))


def _measure(data: EvaluationData) -> MeasuredNumbers:
    """Accuracy at every level by summed probabilities; for new classes the finest by a few-shot head."""
    rates = cache(lambda labels: level_accuracy(data.probabilities, labels, data.trained_tree))
    numbers: dict[str, Tensor | float | Missing] = {}
    for level in data.levels:
        if data.new_classes and level == data.levels[-1]:
            number = _few_shot_accuracy(data)
        else:
            labels = data.labels_as_trained(level)
            number = labels if isinstance(labels, Missing) else rates(labels)[level]
        numbers[f"accuracy/{level}"] = number
    return numbers


def _few_shot_accuracy(data: EvaluationData) -> Tensor | Missing:
    scores, test = data.few_shot_scores(), data.test
    if isinstance(scores, Missing):
        return scores
    return level_accuracy(scores, test.labels, test.tree, by="argmax")[test.tree.level_names[-1]]


register_metric(
    Card(
        key="accuracy",
        title="accuracy",
        short="Acc",
        higher_is_better=True,
        percent=True,
        group=Group("Accuracy", "How many test samples are put into the right class, or the right group."),
        measure=_measure,
        order=10,
        by="level",
        target=True,
        headline="accuracy at {}",
        guesses=("chance", "majority"),
    )
)
