"""Hierarchical cross entropy: log-probabilities of the steps down the tree, weighted by depth."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from cophenet._common.checks import check_flag, check_number
from cophenet.objectives.base import Objective, StepOutput
from cophenet.objectives.paths import TreePaths
from cophenet.objectives.registry import register_objective
from cophenet.tree import Hierarchy

__all__ = ["HXE", "hierarchical_cross_entropy"]


def hierarchical_cross_entropy(logits: Tensor, labels: Tensor, paths: TreePaths, weights: Tensor) -> Tensor:
    r"""Negative weighted sum of log p(node | its parent) on the path to the true class, batch mean.

    .. math::

        -\frac{1}{N} \sum_i \sum_h w_h \log p_i(C_h \mid C_{h-1})

    C_h is the ancestor of y_i at depth h, w_h its weight. Bertinetto et al., CVPR 2020, arXiv:1912.09393.

    Args:
        logits: (B, classes).
        labels: (B,).
        paths: The paths of the tree.
        weights: (D,) weight of a step to depth 1, 2, ...

    Returns:
        A scalar, finite for finite logits.

    Example:
        >>> import torch
        >>> tree = Hierarchy.from_paths([("pet", "cat"), ("pet", "dog"), ("car", "bus")])
        >>> weights = torch.tensor([1.0, 0.0])
        >>> hierarchical_cross_entropy(torch.zeros(1, 3), torch.tensor([1]), TreePaths(tree), weights).exp()
        tensor(1.5000)
    """
    steps = paths.logsumexp(logits, labels).diff(dim=1)
    return -(steps @ weights.to(steps)).mean()


@register_objective
class HXE(Objective):
    r"""Hierarchical cross entropy.

    .. math::

        \mathrm{loss} = -\frac{1}{N} \sum_i \sum_h e^{-\alpha h} \log p_i(C_h \mid C_{h-1}), \qquad
        p(C_h \mid C_{h-1}) = \frac{\sum_{c \text{ below } C_h} p(c)}{\sum_{c \text{ below } C_{h-1}} p(c)}

    C_h is the ancestor of y_i at depth h.

    Bertinetto, Mueller, Tertikas, Samangooei and Lord, "Making Better Mistakes", CVPR 2020, arXiv:1912.09393;
    appendix G of the OT-CPCC paper (arXiv:2410.03052).

    Args:
        tree: The label tree, of any height.
        alpha: A step to depth h has the weight `exp(-alpha * h)`.
        normalize: Whether to divide the weights by their sum over all nodes, including 1 for the root.
    """

    name = "hxe"

    def __init__(self, tree: Hierarchy, alpha: float = 0.4, normalize: bool = False) -> None:
        super().__init__(tree)
        check_number("alpha", alpha)
        check_flag("normalize", normalize)
        self.alpha, self.normalize = alpha, normalize
        self.paths = TreePaths(tree)
        weights = np.exp(-alpha * np.arange(1, tree.height + 1))
        if normalize:
            weights /= np.exp(-alpha * tree.depths).sum()
        self.register_exact_buffer("weights", weights)

    def terms(self, step: StepOutput) -> dict[str, Tensor]:
        """The hierarchical cross entropy, which replaces the plain one."""
        logits = step.logits[self.finest]
        weights = self.exact_buffer("weights")
        return {"hxe": hierarchical_cross_entropy(logits, step.labels, self.paths, weights)}
