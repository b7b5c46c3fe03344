"""Whether confidence matches accuracy, at every level of the tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cophenet._common.lazy import torch
from cophenet.metrics._base import SumMetric
from cophenet.metrics._blocks import full_precision, row_blocks
from cophenet.metrics._checks import check_k, check_probabilities, check_scores, check_tree, ratio
from cophenet.metrics.cards import Card, EvaluationData, Group, MeasuredNumbers, register_metric
from cophenet.tree.lookup_tables import tree_tables

if TYPE_CHECKING:
    from torch import Tensor

    from cophenet.tree import Hierarchy

__all__ = ["LevelCalibrationError", "level_calibration_error"]

# With more bins than this, hardly any bin would contain samples.
MOST_BINS = 10_000


def _calibration_update(
    probabilities: Tensor, labels: Tensor, tree: Hierarchy, bins: int
) -> tuple[Tensor, int]:
    """(num_levels, bins) sums of confidence minus correctness, and the number of samples."""
    check_probabilities(probabilities, tree)
    labels = check_scores(probabilities, labels, tree)
    tables = tree_tables(tree, labels.device)
    gaps = torch.zeros(tree.num_levels, bins, dtype=torch.float64, device=labels.device)
    for rows in row_blocks(len(labels), 2 * tree.num_classes):
        levels = tables.level_sums(full_precision(probabilities[rows]), labels[rows])
        for level, (sums, own) in enumerate(levels):
            confidence, best = sums.max(1)
            # Bins are open on the left; a sum of probabilities may exceed 1 by rounding.
            place = (confidence.double() * bins).ceil().long().clamp(1, bins) - 1
            gaps[-1 - level].index_add_(0, place, confidence.double() - (best == own).double())
    return gaps, len(labels)


def _calibration_compute(gaps: Tensor, samples: int | Tensor, tree: Hierarchy) -> dict[str, Tensor]:
    """Expected calibration error of each level by name."""
    errors = ratio(gaps.abs().sum(1), samples, "calibration error")
    return dict(zip(tree.level_names, errors, strict=True))


def level_calibration_error(
    probabilities: Tensor, labels: Tensor, tree: Hierarchy, bins: int = 15
) -> dict[str, Tensor]:
    r"""Expected calibration error (ECE) at each level, by summed probabilities.

    At each level the prediction is the node with the largest summed probability, and that sum is its
    confidence. Samples are assigned by confidence to bins B_b of equal width, ((b - 1) / bins, b / bins]:

    .. math::

        \mathrm{ECE} = \sum_b \frac{|B_b|}{N} \left| \mathrm{accuracy}(B_b) - \mathrm{confidence}(B_b) \right|

    An empty bin adds nothing. Without samples the value is NaN, with a warning. Guo et al. 2017, On
    Calibration of Modern Neural Networks, arXiv:1706.04599, equation 3; here at every level of a tree.

    Args:
        probabilities: (N, C), at least 0, rows summing to 1.
        labels: (N,) classes.
        tree: The label tree.
        bins: Number of bins.

    Returns:
        A float64 scalar in [0, 1] for each level name, from the root down.

    Raises:
        ValueError: If an argument has a wrong shape, type or value.

    Example:
        >>> from cophenet import Hierarchy
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/")
        >>> errors = level_calibration_error(torch.tensor([[0.5, 0.25, 0.25]]), torch.tensor([0]), tree)
        >>> {name: error.item() for name, error in errors.items()}
        {'level1': 0.25, 'level2': 0.5}
    """
    check_k("bins", bins, MOST_BINS)
    return _calibration_compute(*_calibration_update(probabilities, labels, tree, bins), tree)


class LevelCalibrationError(SumMetric):
    r"""Expected calibration error at each level, as `level_calibration_error`.

    .. math::

        \mathrm{ECE} = \sum_b \frac{|B_b|}{N} \left| \mathrm{accuracy}(B_b) - \mathrm{confidence}(B_b) \right|

    over the bins B_b of confidence. Guo et al. 2017, arXiv:1706.04599, equation 3.

    Args:
        tree: The label tree.
        bins: Number of bins of equal width.
        **kwargs: Options of `torchmetrics.Metric`.

    Example:
        >>> from cophenet import Hierarchy
        >>> from cophenet.metrics import LevelCalibrationError
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/")
        >>> metric = LevelCalibrationError(tree)
        >>> metric(torch.tensor([[0.5, 0.25, 0.25]]), torch.tensor([0]))["level2"].item()
        0.5
    """

    higher_is_better = False

    def __init__(self, tree: Hierarchy, bins: int = 15, **kwargs: Any) -> None:
        check_tree(tree)
        check_k("bins", bins, MOST_BINS)
        super().__init__(tree, (tree.num_levels, bins), **kwargs)
        self.bins = bins

    def update(self, probabilities: Tensor, labels: Tensor) -> None:
        """Add a batch: probabilities (B, C) and labels (B,)."""
        self.add(*_calibration_update(probabilities, labels, self.tree, self.bins))

    def compute(self) -> dict[str, Tensor]:
        """Error of each level by name."""
        return _calibration_compute(self.total, self.samples, self.tree)


def _measure(data: EvaluationData) -> MeasuredNumbers:
    bins, test = data.settings.calibration_bins, data.test
    errors = level_calibration_error(data.probabilities, test.labels, test.tree, bins)
    return {f"calibration/{level}": error for level, error in errors.items()}


register_metric(
    Card(
        key="calibration",
        title="calibration error",
        short="ECE",
        higher_is_better=False,
        percent=True,
        group=Group("Calibration", "How far stated probabilities are from how often they are right."),
        measure=_measure,
        order=80,
        by="level",
        headline="calibration error at {}",
        headline_levels=1,
    )
)
