"""Base class of the two consistency objectives: a head per level, and gaps between adjacent levels."""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from cophenet._common.checks import check_choice, check_number
from cophenet.objectives.base import Objective, StepOutput, level_heads
from cophenet.objectives.paths import LevelMaps
from cophenet.tree import Hierarchy

__all__ = ["Consistency"]


class Consistency(Objective):
    """Cross entropy of the classes, plus the disagreement of adjacent levels.

    Args:
        tree: The label tree, with at least two levels.
        weight: Weight of the consistency term.
        variant: "paper"; or "haf", as in the authors' code, whose heads have weight rows of norm one.
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
        """One scalar for each pair of adjacent levels, the coarsest first."""

    def terms(self, step: StepOutput) -> dict[str, Tensor]:
        """Cross entropy, and the sum over adjacent levels of their gaps."""
        flat = cross_entropy(step.logits[self.finest], step.labels)
        return {"cross_entropy": flat, self.name: self.weight * torch.stack(self.gaps(step)).sum()}
