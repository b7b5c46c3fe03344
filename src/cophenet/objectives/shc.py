"""Soft hierarchical consistency: each head agrees with the next finer one, summed up the tree."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, log_softmax

from cophenet.checks import check_choice, check_number
from cophenet.objectives.base import Objective, StepOutput, level_heads
from cophenet.objectives.checks import check_levels
from cophenet.objectives.levels import LevelMaps, group_logsumexp
from cophenet.objectives.registry import register
from cophenet.tree import Hierarchy

__all__ = ["SHC", "soft_consistency"]


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
    middle = torch.logaddexp(one, other) - torch.log(one.new_tensor(2.0))
    divergence = one.exp() * (one - middle) + other.exp() * (other - middle)
    return 0.5 * divergence.sum(1).mean()


@register
class SHC(Objective):
    """Cross entropy of the classes and the consistency of adjacent levels' heads (Garg et al., 2022).

    Only the finest head has a cross entropy.

    Args:
        tree: The label tree, with at least two levels.
        weight: Factor of the consistency.
        variant: "paper"; or "haf", as in its authors' code, whose heads have weight rows of norm one.
    """

    name = "shc"

    def __init__(
        self, tree: Hierarchy, weight: float = 1.0, variant: Literal["paper", "haf"] = "paper"
    ) -> None:
        super().__init__(tree)
        check_choice("variant", variant, ("paper", "haf"))
        check_levels(self.name, tree, "there are no two levels to be consistent")
        check_number("weight", weight)
        self.weight, self.variant = weight, variant
        self.heads = level_heads(tree, normalize_rows=variant == "haf")
        self.maps = LevelMaps(tree)

    def terms(self, step: StepOutput) -> dict[str, Tensor]:
        """Cross entropy, and the sum over adjacent levels of their consistency."""
        logits = [step.logits[head.name] for head in self.heads]
        gaps = [soft_consistency(c, f, self.maps.parents(i)) for i, (c, f) in enumerate(pairwise(logits))]
        return {
            "cross_entropy": cross_entropy(logits[-1], step.labels),
            "shc": self.weight * torch.stack(gaps).sum(),
        }
