"""Multi-task learning: one head and one cross entropy per level."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor
from torch.nn.functional import cross_entropy

from cophenet.objectives.base import HeadSpec, Objective, StepOutput, level_heads
from cophenet.objectives.paths import LevelMaps
from cophenet.objectives.registry import register_objective
from cophenet.tree import Hierarchy

__all__ = ["MTL", "level_terms"]


def level_terms(
    step: StepOutput, heads: Sequence[HeadSpec], maps: LevelMaps, share: float = 1.0
) -> dict[str, Tensor]:
    """Cross entropy of the classes, and of each coarser level under its name, times a weight.

    Args:
        step: The step, with the logits of all heads.
        heads: One per level, the coarsest first.
        maps: The maps of the same tree.
        share: Weight of the coarser levels.
    """
    targets = maps.labels[:, step.labels]
    *above, classes = (cross_entropy(step.logits[h.name], t) for h, t in zip(heads, targets, strict=True))
    named = zip(heads[:-1], above, strict=True)
    return {"cross_entropy": classes, **{f"cross_entropy/{h.name}": share * loss for h, loss in named}}


@register_objective
class MTL(Objective):
    r"""Sum of the cross entropies of one head per level.

    .. math::

        \mathrm{loss} = -\sum_l \frac{1}{N} \sum_i \log p^l_i(y^l_i)

    p^l is the softmax of the head of level l, y^l the ancestor there.

    Caruana, "Multitask Learning", 1997, doi:10.1023/A:1007379606734; appendix G of the OT-CPCC paper
    (arXiv:2410.03052).

    Args:
        tree: The label tree, with at least two levels.
    """

    name = "mtl"

    def __init__(self, tree: Hierarchy) -> None:
        super().__init__(tree)
        self.check_levels("there is no coarser task to learn beside the classes")
        self.heads = level_heads(tree)
        self.maps = LevelMaps(tree)

    def terms(self, step: StepOutput) -> dict[str, Tensor]:
        """Cross entropy of the classes, and of each coarser level under its name."""
        return level_terms(step, self.heads, self.maps)
