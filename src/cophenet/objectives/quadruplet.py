"""Quadruplet loss: a sample's class is closer than sibling classes, and these are closer than the rest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from cophenet._common.checks import check_number, check_pair, wrong_argument
from cophenet.objectives.base import Objective, StepOutput
from cophenet.objectives.registry import register_objective
from cophenet.transport.grouping import unit_rows
from cophenet.tree import Hierarchy

__all__ = ["Quadruplet", "quadruplet_loss"]


def _nearest(distances: Tensor, allowed: Tensor) -> Tensor:
    """Index of the closest allowed sample: (B, B), (B, B) -> (B,)."""
    return distances.masked_fill(~allowed, torch.inf).argmin(1)


def quadruplet_loss(
    features: Tensor, labels: Tensor, groups: Tensor, margins: Sequence[float] = (0.25, 0.15)
) -> Tensor:
    r"""Quadruplet loss of squared Euclidean distances: half the mean over anchors that violate both margins.

    .. math::

        \frac{1}{2A} \sum_r [D(r, p) - D(r, s) + m_1 - m_2] + [D(r, s) - D(r, n) + m_2]

    over the A anchors r for which both brackets are positive, with p of the own class, s of a sibling class
    and n of another group. Zhang et al., CVPR 2016, arXiv:1512.02895.

    Each anchor is compared with the first other sample of its class, the closest sample of another class in
    its group, and the closest sample of another group. Anchors without one of these are ignored. The own
    class should be closer than siblings by the difference of the margins, and siblings closer than other
    groups by the second margin.

    Args:
        features: (B, d), not normalized here.
        labels: (B,) classes.
        groups: (B,) group of each sample's class.
        margins: Margin of the own class to other groups, and of siblings to other groups.

    Returns:
        A scalar; 0 with zero gradients if there is no such anchor.

    Example:
        >>> features = torch.tensor([[0.0], [0.5], [0.5], [0.5]])
        >>> quadruplet_loss(features, torch.tensor([0, 0, 1, 2]), torch.tensor([0, 0, 0, 1]))
        tensor(0.1875)
    """
    first, second = margins
    same_class = labels[:, None] == labels
    same_group = groups[:, None] == groups
    others = same_class & ~torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    kinds = torch.stack((others, same_group & ~same_class, ~same_group))
    valid = kinds.any(2).all(0)
    # By differences: matrix products are too inexact to choose between samples that are close together.
    fixed = features.detach()
    apart = torch.cdist(fixed, fixed, compute_mode="donot_use_mm_for_euclid_dist")
    # argmax returns the first of equal values: the first positive in batch order.
    chosen = torch.stack((others.long().argmax(1), _nearest(apart, kinds[1]), _nearest(apart, kinds[2])))
    # Only the three selected distances of each anchor carry gradients, computed exactly by differences.
    own, sibling, other = (features - features[chosen]).square().sum(2)
    closer, farther = own - sibling + first - second, sibling - other + second
    violating = valid & (closer > 0) & (farther > 0)
    count = violating.sum().clamp(min=1)
    return torch.where(violating, closer + farther, 0.0).sum().div(2 * count)


@register_objective
class Quadruplet(Objective):
    r"""Quadruplet loss on features of norm one, with cross entropy.

    .. math::

        \mathrm{loss} = (1 - \lambda) \, \mathrm{CE} + \frac{\lambda}{2A} \sum_r
        [D(r, p) - D(r, s) + m_1 - m_2] + [D(r, s) - D(r, n) + m_2]

    over the A anchors r for which both brackets are positive; p is a sample of r's class, s of a sibling
    class, n of another group; D is the squared Euclidean distance. Zhang, Zhou, Lin and Zhang, "Embedding
    Label Structures for Fine-Grained Feature Representation", CVPR 2016, arXiv:1512.02895; appendix G of the
    OT-CPCC paper (arXiv:2410.03052).

    Args:
        tree: The label tree, with at least two levels.
        weight: Weight of the quadruplet loss; cross entropy has the weight 1 - `weight`.
        margins: Margin of the own class to other groups, and of siblings to other groups.
        level: The level whose nodes are the groups, by depth or name; None for the parents of the classes, at
            whatever depth they are. A class directly below the root then has no siblings.
    """

    name = "quadruplet"
    compares_features = True
    order_dependent = True
    groups: Tensor

    def __init__(
        self,
        tree: Hierarchy,
        weight: float = 0.2,
        margins: Sequence[float] = (0.25, 0.15),
        level: int | str | None = None,
    ) -> None:
        super().__init__(tree)
        self.check_levels("without groups of classes there are no siblings")
        check_number("weight", weight)
        if weight > 1:
            raise wrong_argument(
                "weight", f"must be at most 1, because cross entropy has the rest, got {weight}"
            )
        self.margins = check_pair("margins", margins, "two numbers")
        for margin in self.margins:
            check_number("margins", margin)
        # By default siblings have the same parent, and a class directly below the root has none.
        own = tree.parents[tree.leaves]
        groups = np.where(own == 0, tree.leaves, own) if level is None else tree.cut(level)[1]
        count = len(np.unique(groups))
        if not 1 < count < tree.num_classes:
            where = "the parents of the classes" if level is None else f"level {level!r}"
            raise ValueError(
                f"objective {self.name!r} cannot use {where}: there are {count} groups of "
                f"{tree.num_classes} classes, so no siblings or no others"
            )
        self.weight, self.level = weight, level
        self.register_buffer("groups", torch.tensor(groups), persistent=False)

    def terms(self, step: StepOutput) -> dict[str, Tensor]:
        """Cross entropy, times its weight."""
        return {"cross_entropy": (1 - self.weight) * cross_entropy(step.logits[self.finest], step.labels)}

    def batch_terms(self, step: StepOutput) -> dict[str, Tensor]:
        """The quadruplet loss, times its weight."""
        loss = quadruplet_loss(unit_rows(step.features), step.labels, self.groups[step.labels], self.margins)
        return {"quadruplet": self.weight * loss}
