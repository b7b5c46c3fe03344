"""Cosine heads at every level, with CPCC of unit vectors: for both retrieval and accuracy."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from cophenet._common.checks import check_number, wrong_argument
from cophenet.objectives.base import Objective, StepOutput, level_heads
from cophenet.objectives.mtl import level_terms
from cophenet.objectives.paths import LevelMaps
from cophenet.objectives.registry import register_objective
from cophenet.tree import Hierarchy

__all__ = ["Cosine"]


@register_objective
class Cosine(Objective):
    r"""Cross entropy of cosine heads: of the classes, and with a smaller weight of the levels above them.

    .. math::

        \mathrm{loss} = \mathrm{CE}(p, y) + \lambda_c \operatorname{mean}_l \mathrm{CE}(p^l, y^l)
        + \lambda \, (1 - \mathrm{CPCC}(t, \rho)), \qquad p^l = \mathrm{softmax}_j(s \cos(z, w^l_j))

    l runs over the levels above the classes, and y^l is the ancestor there; s is `scale`, and the two weights
    are `coarse_weight` and `weight`.

    `create_objective("cosine", tree)` adds the last term: FastFT between unit vectors, weight 0.1; `cpcc=`
    replaces it, and `cpcc={"weight": 0}` leaves it out. Cosine heads: Wang et al., "NormFace", ACM Multimedia
    2017, arXiv:1704.06369; a head for each level: Caruana, "Multitask Learning", 1997,
    doi:10.1023/A:1007379606734; CPCC of OT distances: Zeng et al. 2025, arXiv:2410.03052.

    Args:
        tree: The label tree; with a single level there is no coarse term.
        scale: Factor from cosines to logits.
        coarse_weight: Weight of the mean over the levels above the classes.
    """

    name = "cosine"
    default_cpcc: ClassVar = {"distance": "fastft", "weight": 0.1, "normalize": True}

    def __init__(self, tree: Hierarchy, scale: float = 12.0, coarse_weight: float = 0.1) -> None:
        super().__init__(tree)
        check_number("scale", scale)
        if scale == 0:
            raise wrong_argument("scale", "must be positive, or all logits are equal, got 0")
        check_number("coarse_weight", coarse_weight)
        self.scale, self.coarse_weight = scale, coarse_weight
        self.heads = level_heads(tree, scale=scale)
        self.maps = LevelMaps(tree)

    def name_with(self, distance: str) -> str:
        """Its own name for the default distance, else a combination of both names."""
        return self.name if distance == self.default_cpcc["distance"] else super().name_with(distance)

    def terms(self, step: StepOutput) -> dict[str, Tensor]:
        """Cross entropy of the classes, and of each coarser level under its name, times its weight."""
        return level_terms(step, self.heads, self.maps, self.coarse_weight / max(1, len(self.heads) - 1))
