"""Soft hierarchical consistency: each head agrees with the summed probabilities of the next finer one."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn.functional import log_softmax

from cophenet.objectives.base import StepOutput
from cophenet.objectives.consistency import Consistency
from cophenet.objectives.paths import group_logsumexp
from cophenet.objectives.registry import register_objective

__all__ = ["SHC", "soft_consistency"]


def soft_consistency(coarse_logits: Tensor, fine_logits: Tensor, parents: Tensor) -> Tensor:
    r"""Jensen-Shannon divergence of a head and the finer head's summed probabilities, batch mean.

    .. math::

        \frac{\mathrm{KL}(p \,\|\, m) + \mathrm{KL}(q \,\|\, m)}{2}, \qquad
        m = \frac{p + q}{2}, \qquad q_i = \sum_{j \text{ child of } i} p'_j

    p are the coarse, p' the fine probabilities. Garg et al., ECCV 2022, arXiv:2207.12646.

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


@register_objective
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
        weight: Weight of the consistency term.
        variant: "paper"; or "haf", as in the authors' code, whose heads have weight rows of norm one.
    """

    name = "shc"

    def gaps(self, step: StepOutput) -> list[Tensor]:
        """Divergences of the heads, level by level."""
        logits = [step.logits[head.name] for head in self.heads]
        return [soft_consistency(c, f, self.maps.parents(i)) for i, (c, f) in enumerate(pairwise(logits))]
