"""Curriculum: first a coarse head, then the classes, starting from the features learned before."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from cophenet._common.checks import check_pair, wrong_argument
from cophenet.objectives.base import HeadSpec, Objective, Phase, StepOutput
from cophenet.objectives.registry import register_objective
from cophenet.tree import Hierarchy

__all__ = ["Curriculum"]


@register_objective
class Curriculum(Objective):
    r"""Cross entropy of a coarse level in the first phase, and of the classes in the second.

    .. math::

        \mathrm{loss} = -\frac{1}{N} \sum_i \log p^l_i(y^l_i)

    l is the coarse level in the first phase, and the level of the classes in the second.

    Bengio, Louradour, Collobert and Weston, "Curriculum Learning", ICML 2009, doi:10.1145/1553374.1553380;
    appendix G of the OT-CPCC paper (arXiv:2410.03052).

    Args:
        tree: The label tree, with at least two levels.
        level: The coarse level, by depth or name; 1 is the coarsest.
        epochs: Relative lengths of the two phases, which share the epochs of the training.
    """

    name = "curriculum"
    coarse_labels: Tensor

    def __init__(self, tree: Hierarchy, level: int | str = 1, epochs: Sequence[int] = (50, 200)) -> None:
        super().__init__(tree)
        self.check_levels("there is no coarser task to begin with")
        depth = tree.depth_of(level)
        if depth == tree.height:
            raise wrong_argument(
                "level", f"must be coarser than the classes, depth 1 to {depth - 1}, got {level!r}"
            )
        self.epochs = check_pair("epochs", epochs, "two positive integers, one per phase")
        if not all(type(count) is int and count >= 1 for count in self.epochs):
            raise wrong_argument("epochs", f"must be two positive integers, one per phase, got {epochs!r}")
        self.level = level
        coarse, labels = tree.cut(depth)
        self.register_buffer("coarse_labels", torch.tensor(labels), persistent=False)
        self.heads = (HeadSpec(tree.level_names[depth - 1], depth, coarse.num_classes), *self.heads)

    @property
    def phases(self) -> tuple[Phase, ...]:
        """One phase per head, the coarse one first."""
        return tuple(Phase(h.name, (h.name,), n) for h, n in zip(self.heads, self.epochs, strict=True))

    def terms(self, step: StepOutput) -> dict[str, Tensor]:
        """Cross entropy of the level of the phase."""
        head = self.heads[step.phase].name
        if head == self.finest:
            return {"cross_entropy": cross_entropy(step.logits[head], step.labels)}
        return {f"cross_entropy/{head}": cross_entropy(step.logits[head], self.coarse_labels[step.labels])}
