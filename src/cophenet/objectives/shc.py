"""Soft hierarchical consistency: each head agrees with the next finer one, summed up the tree.

What the two consistency objectives share is here too: a head per level, and gaps between adjacent ones.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, log_softmax

from cophenet._common.checks import check_choice, check_number
from cophenet.objectives.base import Objective, StepOutput, level_heads
from cophenet.objectives.paths import LevelMaps, group_logsumexp
from cophenet.objectives.registry import register
from cophenet.tree import Hierarchy

__all__ = ["SHC", "Consistency", "soft_consistency"]


def soft_consistency(coarse_logits: Tensor, fine_logits: Tensor, parents: Tensor) -> Tensor:
    """Jensen-Shannon divergence of a head and the finer head's summed probabilities, batch mean.

    Args:
        coarse_logits: (B, m).
        fine_logits: (B, n).
        parents: (n,) coarse label of each fine label.

    Returns:
        A scalar in nats, from 0 to log 2.

    Example:
        >>> parents = torch.tensor([0, 0, 1])
        >>> coarse, fine = torch.tensor([[2.0, 1.0]]).log(), torch.zeros(1, 3)
        >>> soft_consistency(coarse, fine, parents).abs() < 1e-6
        tensor(True)
    """
    one = log_softmax(coarse_logits, dim=1)
    other = group_logsumexp(log_softmax(fine_logits, dim=1), parents, coarse_logits.shape[1])
    middle = torch.logaddexp(one, other) - math.log(2.0)
    divergence = one.exp() * (one - middle) + other.exp() * (other - middle)
    return 0.5 * divergence.sum(1).mean()


class Consistency(Objective):
    """Cross entropy of the classes, and what adjacent levels disagree by.

    Args:
        tree: The label tree, with at least two levels.
        weight: Factor of the consistency.
        variant: "paper"; or "haf", as in its authors' code, whose heads have weight rows of norm one.
    """

    def __init__(
        self, tree: Hierarchy, weight: float = 1.0, variant: Literal["paper", "haf"] = "paper"
    ) -> None:
        super().__init__(tree)
        check_choice("variant", variant, ("paper", "haf"))
        self.check_levels("there are no two levels to be consistent")
        check_number("weight", weight)
        self.weight: float = weight
        self.variant: Literal["paper", "haf"] = variant
        self.heads = level_heads(tree, normalize_rows=variant == "haf")
        self.maps = LevelMaps(tree)

    @abstractmethod
    def gaps(self, step: StepOutput) -> list[Tensor]:
        """One scalar for each two adjacent levels, the coarsest first."""

    def terms(self, step: StepOutput) -> dict[str, Tensor]:
        """Cross entropy, and the sum over adjacent levels of their gaps."""
        flat = cross_entropy(step.logits[self.finest], step.labels)
        return {"cross_entropy": flat, self.name: self.weight * torch.stack(self.gaps(step)).sum()}


@register
class SHC(Consistency):
    r"""Cross entropy of the classes and the consistency of adjacent levels' heads.

    .. math::

        \mathrm{loss} = \mathrm{CE} + \lambda \sum_l \mathrm{JSD}(p^l \,\|\, q^l),
        \qquad q^l_i = \sum_{j \text{ child of } i} p^{l+1}_j

    Garg, Sani and Anand, "Learning Hierarchy Aware Features for Reducing Mistake Severity", ECCV 2022,
    arXiv:2207.12646; appendix G of the OT-CPCC paper (arXiv:2410.03052).

    Only the finest head has a cross entropy.

    Args:
        tree: The label tree, with at least two levels.
        weight: Factor of the consistency.
        variant: "paper"; or "haf", as in its authors' code, whose heads have weight rows of norm one.
    """

    name = "shc"

    def gaps(self, step: StepOutput) -> list[Tensor]:
        """Divergences of the heads, level by level."""
        logits = [step.logits[head.name] for head in self.heads]
        return [soft_consistency(c, f, self.maps.parents(i)) for i, (c, f) in enumerate(pairwise(logits))]
