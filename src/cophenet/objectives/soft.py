"""Soft labels: targets that are spread over the classes by the height of common ancestors."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import kl_div, log_softmax

from cophenet._common.checks import check_number
from cophenet.objectives.base import Objective, StepOutput
from cophenet.objectives.paths import TreePaths
from cophenet.objectives.registry import register_objective
from cophenet.tree import Hierarchy

__all__ = ["SoftLabels", "soft_label_loss"]


def soft_label_loss(logits: Tensor, distances: Tensor, beta: float) -> Tensor:
    r"""KL divergence from the prediction to `softmax(-beta * distances)`, batch mean.

    .. math::

        \frac{1}{N} \sum_i \sum_c q_i(c) \log \frac{q_i(c)}{p_i(c)},
        \qquad q_i(c) = \frac{e^{-\beta d_i(c)}}{\sum_k e^{-\beta d_i(k)}}

    Bertinetto et al., CVPR 2020, arXiv:1912.09393.

    Args:
        logits: (B, classes).
        distances: (B, classes) between the true class of each sample and every class, at most 1.
        beta: Sharpness of the targets.

    Returns:
        A scalar.

    Example:
        >>> import torch
        >>> soft_label_loss(torch.zeros(1, 3), torch.tensor([[0.0, 0.0, 0.0]]), beta=10.0)
        tensor(0.)
    """
    targets = log_softmax(-beta * distances, dim=1)
    return kl_div(log_softmax(logits, dim=1), targets, reduction="batchmean", log_target=True)


@register_objective
class SoftLabels(Objective):
    r"""Soft labels: the targets are spread over the classes by the height of common ancestors.

    .. math::

        \mathrm{loss} = \frac{1}{N} \sum_i \mathrm{KL}(q_i \,\|\, p_i),
        \qquad q_i(c) = \frac{e^{-\beta d(c, y_i)}}{\sum_k e^{-\beta d(k, y_i)}}

    Bertinetto, Mueller, Tertikas, Samangooei and Lord, "Making Better Mistakes", CVPR 2020, arXiv:1912.09393
    (whose cross entropy with q differs by a constant); appendix G of the OT-CPCC paper
    (arXiv:2410.03052).

    The distance of two classes is the height of their lowest common ancestor in edges, divided by the
    largest one between two classes.

    Args:
        tree: The label tree, with at least two classes.
        beta: Sharpness of the targets; the larger, the closer to one-hot.
    """

    name = "soft"
    heights: Tensor

    def __init__(self, tree: Hierarchy, beta: float = 10.0) -> None:
        super().__init__(tree)
        check_number("beta", beta)
        if tree.num_classes < 2:
            raise ValueError(f"objective {self.name!r} cannot use a tree of one class: it has no distances")
        self.beta = beta
        self.paths = TreePaths(tree)
        self.register_buffer("heights", self.paths.along(tree.heights), persistent=False)
        # All classes lie below the common ancestor of the first and the last one in tree order.
        ends = self.paths.position.argsort()[[0, -1]]
        self.largest = int(self.paths.shared(self.heights, ends).max())

    def terms(self, step: StepOutput) -> dict[str, Tensor]:
        """The divergence, which replaces cross entropy."""
        logits = step.logits[self.finest]
        distances = self.paths.shared(self.heights, step.labels).to(logits.dtype) / self.largest
        return {"soft_labels": soft_label_loss(logits, distances, self.beta)}
