"""Rank loss: sample pairs sorted by feature distance should be in the order of the tree."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, pdist

from cophenet._common.checks import check_choice, check_number
from cophenet.objectives.base import Objective, StepOutput
from cophenet.objectives.paths import TreePaths
from cophenet.objectives.registry import register_objective
from cophenet.tree import Hierarchy

__all__ = ["Rank", "rank_loss"]

# Sums of the same edge weights in another order differ by rounding; such distances have the same rank.
_SAME_RANK = 1e-9


def rank_loss(
    features: Tensor, tree_distances: Tensor, target: Literal["mean", "published"] = "mean"
) -> Tensor:
    r"""Squared difference to the target distance of misplaced pairs, mean over all pairs.

    .. math::

        \frac{1}{P} \sum_p (1 - I_p) (\rho_p - \mathrm{target}_p)^2

    I_p is 1 if pair p is at a place of its rank, else 0. Nolasco and Stowell, ICASSP 2022, arXiv:2110.05941.

    Sorted by feature distance, the closest pairs should be those with the smallest tree distance: each rank,
    a value of the tree distance, has as many consecutive places as it has pairs.

    Args:
        features: (B, d).
        tree_distances: (B * (B - 1) / 2,) of the pairs, in the order of `itertools.combinations`.
        target: "mean" of the feature distances at the rank's places, constant in the backward pass; or
            "published", as in the authors' code: the feature distance at the place whose index is the tree
            distance, or at the last place if there are fewer; with a gradient.

    Returns:
        A scalar; 0 with zero gradients if there is no pair.

    Example:
        >>> features = torch.tensor([[0.0], [2.0], [1.0]])
        >>> rank_loss(features, torch.tensor([0.0, 4.0, 4.0]))
        tensor(0.4167)
    """
    if len(features) < 2:
        return (features * 0).sum()
    by_tree = tree_distances.argsort(stable=True)
    steps = tree_distances[by_tree]
    owner = (steps.diff(prepend=steps[:1]) > _SAME_RANK * steps[-1]).cumsum(0)
    # Equal feature distances are sorted by rank, so that ties do not depend on the order of the batch.
    distances, order = pdist(features)[by_tree].sort(stable=True)
    rank = owner[order]
    if target == "published":
        goal = distances[steps[order].round().long().clamp(max=len(steps) - 1)]
    else:
        sums = torch.zeros_like(distances).index_add(0, owner, distances.detach())
        counts = torch.zeros_like(owner).index_add(0, owner, torch.ones_like(owner))  # bincount would sync
        goal = (sums / counts)[rank]
    return ((distances - goal).square() * (rank != owner)).mean()


@register_objective
class Rank(Objective):
    r"""Cross entropy and the rank loss of all sample pairs.

    .. math::

        \mathrm{loss} = \mathrm{CE} + \frac{\lambda}{P} \sum_p (1 - I_p) (\rho_p - \mathrm{target}_p)^2

    where I_p is 1 if pair p is at a place of its rank, else 0, when the P pairs are sorted by their feature
    distance rho. Nolasco and Stowell, "Rank-based loss for learning hierarchical representations", ICASSP
    2022, arXiv:2110.05941; appendix G of the OT-CPCC paper (arXiv:2410.03052).

    Args:
        tree: The label tree; with integer edge weights for `target="published"`.
        weight: Weight of the rank loss.
        target: "mean" or "published", see `rank_loss`.
    """

    name = "rank"
    compares_features = True

    def __init__(
        self, tree: Hierarchy, weight: float = 1.0, target: Literal["mean", "published"] = "mean"
    ) -> None:
        super().__init__(tree)
        check_number("weight", weight)
        check_choice("target", target, ("mean", "published"))
        if target == "published" and (tree.edge_weights != np.round(tree.edge_weights)).any():
            raise ValueError("target='published' cannot use a tree whose edge weights are not whole numbers")
        self.weight: float = weight
        self.target: Literal["mean", "published"] = target
        self.paths = TreePaths(tree)
        self.register_exact_buffer("depths", tree.weighted_depths[self.paths.nodes])

    def terms(self, step: StepOutput) -> dict[str, Tensor]:
        """Cross entropy."""
        return {"cross_entropy": cross_entropy(step.logits[self.finest], step.labels)}

    def batch_terms(self, step: StepOutput) -> dict[str, Tensor]:
        """The rank loss."""
        labels, depths = step.labels, self.exact_buffer("depths")
        own = depths[labels, -1]
        apart = own[:, None] + own - 2 * self.paths.shared(depths, labels, labels)
        first, second = torch.triu_indices(len(labels), len(labels), 1, device=labels.device)
        loss = rank_loss(step.features, apart[first, second], self.target)
        return {"rank": self.weight * loss}
