"""Sum loss: cross entropy at every level, of probabilities summed up the tree."""

from __future__ import annotations

from torch import Tensor

from cophenet.objectives.base import Objective, StepOutput
from cophenet.objectives.paths import TreePaths
from cophenet.objectives.registry import register_objective
from cophenet.tree import Hierarchy

__all__ = ["SumLoss", "level_cross_entropies"]


def level_cross_entropies(logits: Tensor, labels: Tensor, paths: TreePaths) -> Tensor:
    r"""Cross entropy of each level, with the probabilities of the classes summed below its nodes.

    .. math::

        \mathrm{CE}_l = -\frac{1}{N} \sum_i \log \sum_{c \text{ below } y^l_i} p_i(c)

    y^l is the ancestor of the class at level l. Appendix G of the OT-CPCC paper (arXiv:2410.03052).

    Args:
        logits: (B, classes).
        labels: (B,).
        paths: The paths of the tree.

    Returns:
        (levels,) batch means, the coarsest first; a class above a level is its own node there.

    Example:
        >>> import torch
        >>> tree = Hierarchy.from_paths([("pet", "cat"), ("pet", "dog"), ("car", "bus")])
        >>> level_cross_entropies(torch.zeros(1, 3), torch.tensor([1]), TreePaths(tree)).exp()
        tensor([1.5000, 3.0000])
    """
    below = paths.logsumexp(logits, labels)
    return (below[:, :1] - below[:, 1:]).mean(0)


@register_objective
class SumLoss(Objective):
    r"""Cross entropy of the classes plus that of each coarser level's summed probabilities, with one head.

    .. math::

        \mathrm{loss} = -\sum_l \frac{1}{N} \sum_i \log \sum_{c \text{ below } y^l_i} p_i(c)

    y^l is the ancestor of the class at level l.

    "Sum Loss" in appendix G of the OT-CPCC paper (arXiv:2410.03052).

    Args:
        tree: The label tree, with at least two levels.
    """

    name = "sumloss"

    def __init__(self, tree: Hierarchy) -> None:
        super().__init__(tree)
        self.check_levels("there is no coarser level to sum probabilities at")
        self.paths = TreePaths(tree)

    def terms(self, step: StepOutput) -> dict[str, Tensor]:
        """Cross entropy of the classes, and of each coarser level under its name."""
        losses = level_cross_entropies(step.logits[self.finest], step.labels, self.paths)
        coarser = zip(self.tree.level_names[:-1], losses[:-1], strict=True)
        return {"cross_entropy": losses[-1], **{f"cross_entropy/{name}": loss for name, loss in coarser}}
