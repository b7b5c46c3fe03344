"""Retrieval of test points by class prototypes: the mean average precision (MAP) of the paper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cophenet._common.lazy import torch
from cophenet.metrics._base import SampleMetric
from cophenet.metrics._blocks import full_precision, product, row_blocks
from cophenet.metrics._checks import check_features, check_indices, check_tree, ratio
from cophenet.metrics.cards import Card, EvaluationData, Group, MeasuredNumbers, Missing, register_metric

if TYPE_CHECKING:
    from torch import Tensor

    from cophenet.tree import Hierarchy

__all__ = ["PrototypeMAP", "class_prototypes", "level_labels", "prototype_map"]


def level_labels(labels: Tensor, tree: Hierarchy, level: int | str) -> Tensor:
    """The label of each sample in `tree.cut(level)`. (N,) -> (N,).

    Example:
        >>> from cophenet import Hierarchy
        >>> tree = Hierarchy.from_paths(["pet/cat", "car/bus", "pet/dog"], sep="/")
        >>> level_labels(torch.tensor([0, 1, 2]), tree, "level1")
        tensor([0, 1, 0])
    """
    check_tree(tree)
    labels = check_indices("labels", labels, len(labels), tree.num_classes)
    return torch.tensor(tree.cut(level)[1], device=labels.device)[labels]


def class_prototypes(features: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    r"""Mean feature of each class that has samples; for a level, give `level_labels` of the labels.

    .. math::

        \mu_c = \frac{1}{n_c} \sum_{i : y_i = c} z_i

    Snell et al. 2017, Prototypical Networks for Few-shot Learning, arXiv:1703.05175, equation 1.

    Args:
        features: (N, d).
        labels: (N,) integers.

    Returns:
        (k,) the classes present, ascending; (k, d) their means.

    Raises:
        ValueError: If an argument has a wrong shape, type or value.

    Example:
        >>> class_prototypes(torch.tensor([[1.0, 0.0], [3.0, 0.0], [0.0, 1.0]]), torch.tensor([5, 5, 2]))
        (tensor([2, 5]), tensor([[0., 1.], [2., 0.]]))
    """
    labels = check_features(features, labels)
    values = full_precision(features)
    classes, place, counts = torch.unique(labels, return_inverse=True, return_counts=True)
    sums = torch.zeros(len(classes), values.shape[1], dtype=torch.float64, device=values.device)
    for rows in row_blocks(len(values), values.shape[1]):
        sums.index_add_(0, place[rows], values[rows].double())
    return classes, (sums / counts[:, None]).to(values)


def _sort_rows(scores: Tensor) -> Tensor:
    """Sort rows in ascending order; on the CPU in place by numpy, which is faster without indices."""
    if scores.device.type != "cpu":
        return scores.sort(dim=1).values
    scores.numpy().sort(axis=1)
    return scores


def _precision_sums(scores: Tensor, row: Tensor, sample: Tensor, place: Tensor) -> Tensor:
    """For each class, the sum over its positives of the precision at their score; overwrites the scores.

    The precision at a score is the share of positives among all samples with at least that score, so that
    samples with equal scores are retrieved together.

    Args:
        scores: (k, N).
        row: (m,) class of each positive, as a row of the scores.
        sample: (m,) sample of each positive, as a column of the scores.
        place: (m,) index of each positive among the positives of its class.
    """
    own = scores.new_full((len(scores), int(place.max()) + 1), torch.inf)
    own[row, place] = scores[row, sample]
    retrieved = scores.shape[1] - torch.searchsorted(_sort_rows(scores), own)
    right = torch.isfinite(own).sum(1, keepdim=True) - torch.searchsorted(_sort_rows(own.clone()), own)
    precision = (right.double() / retrieved)[row, place]
    return precision.new_zeros(len(scores)).index_add_(0, row, precision)


def match_prototypes(labels: Tensor, classes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Select the prototypes of classes that have samples, and match each sample to the one of its class.

    Returns:
        (k',) indices of the selected prototypes; (k',) number of samples of each; (N,) index of each sample's
        prototype among the selected, -1 if its class has none.
    """
    ascending, order = classes.sort()
    slot = torch.searchsorted(ascending, labels).clamp(max=len(classes) - 1)
    known = ascending[slot] == labels
    counts = torch.bincount(order[slot[known]], minlength=len(classes))
    used = counts > 0
    row = (used.cumsum(0) - 1)[order[slot]].masked_fill(~known, -1)
    return used.nonzero().flatten(), counts[used], row


def average_precisions(features: Tensor, labels: Tensor, prototypes: Tensor, classes: Tensor) -> Tensor:
    """Average precision of every class that has both a prototype and samples. (k',), with k' <= k."""
    tests = full_precision(features)
    norms = torch.linalg.vector_norm(tests, dim=1).clamp(min=torch.finfo(tests.dtype).tiny)
    used, counts, row = match_prototypes(labels, classes)
    weights = torch.nn.functional.normalize(prototypes.to(tests))[used]
    rows, sample = row.sort(stable=True)
    rows, sample = rows[rows >= 0], sample[rows >= 0]
    ends = counts.cumsum(0)
    place = torch.arange(len(rows), device=rows.device) - (ends - counts)[rows]
    offsets = [0, *ends.tolist()]
    sums = []
    for block in row_blocks(len(weights), len(tests)):
        members = slice(offsets[block.start], offsets[block.stop])
        scores = product(weights[block], tests.T).div_(norms)
        sums.append(_precision_sums(scores, rows[members] - block.start, sample[members], place[members]))
    return torch.cat([*sums, tests.new_zeros(0, dtype=torch.float64)]) / counts


def check_prototypes(prototypes: Tensor, classes: Tensor | None) -> Tensor:
    """Return the class of each prototype; raise unless there are any, all finite and of distinct classes."""
    if not isinstance(prototypes, torch.Tensor):
        hint = "; unpack what class_prototypes gives: classes, prototypes = class_prototypes(...)"
        given = f"{type(prototypes).__name__}{hint if isinstance(prototypes, tuple) else ''}"
        raise ValueError(f"prototypes must be a torch tensor, got {given}")
    if classes is None:
        classes = torch.arange(len(prototypes), device=prototypes.device)
    classes = check_features(prototypes, classes, names=("prototypes", "classes"))
    if not len(classes) or len(torch.unique(classes)) != len(classes):
        raise ValueError(f"classes must be at least one and all different, got {classes.tolist()}")
    return classes


def _prototype_compute(features: Tensor, labels: Tensor, prototypes: Tensor, classes: Tensor) -> Tensor:
    """Mean of the average precisions."""
    if len(features) and prototypes.shape[1] != features.shape[1]:
        given, wanted = tuple(prototypes.shape), features.shape[1]
        raise ValueError(f"prototypes must have shape (k, {wanted}), got {given}")
    precisions = average_precisions(features, labels, prototypes, classes)
    return ratio(precisions.sum(), len(precisions), "prototype MAP", "no class has a prototype and samples")


def prototype_map(
    features: Tensor, labels: Tensor, prototypes: Tensor, classes: Tensor | None = None
) -> Tensor:
    r"""Mean average precision of retrieving the samples of each class by the cosine to its prototype.

    For each class c all samples are ranked by their cosine to its prototype. With n_c samples in the class,
    and precision@i the share of the class among all samples that score at least as high as sample i:

    .. math::

        \mathrm{AP}_c = \frac{1}{n_c} \sum_{i : y_i = c} \mathrm{precision@}i,
        \qquad \mathrm{MAP} = \frac{1}{C} \sum_c \mathrm{AP}_c

    Equal scores are retrieved together, as in scikit-learn's `average_precision_score`. The mean is over the
    classes that have both a prototype and samples; samples of other classes still count as wrong answers.
    Without such a class the value is NaN, with a warning. The cosine of an all-zero vector is 0. For a level
    of a tree, give `level_labels` of the labels, here and in `class_prototypes`. The MAP of Zeng et al. 2025,
    arXiv:2410.03052.

    Args:
        features: (N, d) test features.
        labels: (N,) integers.
        prototypes: (k, d) one for each class, such as the mean training features.
        classes: (k,) class of each prototype; 0, 1, ... by default.

    Returns:
        A float64 scalar in [0, 1].

    Raises:
        ValueError: If an argument has a wrong shape, type or value.

    Example:
        >>> prototypes = torch.eye(2)
        >>> features = torch.tensor([[1.0, 0.1], [0.9, 0.3], [0.2, 1.0], [0.8, 0.4]])
        >>> round(prototype_map(features, torch.tensor([0, 0, 1, 1]), prototypes).item(), 4)
        1.0
        >>> round(prototype_map(features, torch.tensor([0, 1, 1, 0]), prototypes).item(), 4)
        0.8333
    """
    labels = check_features(features, labels)
    return _prototype_compute(features, labels, prototypes, check_prototypes(prototypes, classes))


class PrototypeMAP(SampleMetric):
    r"""Mean average precision of retrieving test samples by class prototypes, as `prototype_map`.

    .. math::

        \mathrm{AP}_c = \frac{1}{n_c} \sum_{i : y_i = c} \mathrm{precision@}i,
        \qquad \mathrm{MAP} = \frac{1}{C} \sum_c \mathrm{AP}_c

    Zeng et al. 2025, arXiv:2410.03052.

    Args:
        prototypes: (k, d) one for each class, such as the mean training features.
        classes: (k,) class of each prototype; 0, 1, ... by default. At a level, classes of `tree.cut(level)`.
        tree: The label tree, needed with `level`.
        level: Group the labels that `update` gets by their ancestors at this level.
        **kwargs: Options of `torchmetrics.Metric`.

    Example:
        >>> from cophenet.metrics import PrototypeMAP
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
        return _prototype_compute(features, labels, self.prototypes, self.classes)


def _measure(data: EvaluationData) -> MeasuredNumbers:
    """MAP at every level with mean training features as prototypes; the class level only if trained on."""
    train = data.training
    numbers: dict[str, Tensor | float | Missing] = {}
    for level in data.levels[:-1] if data.new_classes else data.levels:
        labels = data.labels_as_trained(level)
        if isinstance(train, Missing) or isinstance(labels, Missing):
            numbers[f"map/{level}"] = train if isinstance(train, Missing) else labels
            continue
        classes, prototypes = class_prototypes(train.features, level_labels(train.labels, train.tree, level))
        wanted = level_labels(labels, train.tree, level)
        numbers[f"map/{level}"] = prototype_map(data.test.features, wanted, prototypes, classes)
    return numbers


register_metric(
    Card(
        key="map",
        title="mean average precision",
        short="MAP",
        higher_is_better=True,
        percent=True,
        group=Group(
            "Retrieval", "Mean average precision (MAP) when class prototypes search the test samples."
        ),
        measure=_measure,
        order=20,
        by="level",
        target=True,
        headline="retrieval at {} (MAP)",
        guesses=("chance",),
    )
)
