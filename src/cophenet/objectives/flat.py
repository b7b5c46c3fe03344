"""Cross entropy of the classes, without the tree."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import cross_entropy

from cophenet.objectives.base import Objective, StepOutput
from cophenet.objectives.registry import register_objective

__all__ = ["Flat"]


@register_objective
class Flat(Objective):
    r"""Cross entropy of the classes alone.

    .. math::

        \mathrm{loss} = -\frac{1}{N} \sum_i \log p_i(y_i), \qquad p = \mathrm{softmax}(\mathrm{logits})

    Equation 1 of the OT-CPCC paper (arXiv:2410.03052) without its regularizer; "Flat" in its appendix G.

    Args:
        tree: The label tree.
    """

    name = "flat"

    def name_with(self, distance: str) -> str:
        """The name of the distance alone, as in the paper."""
        return distance

    def terms(self, step: StepOutput) -> dict[str, Tensor]:
        """Cross entropy."""
        return {"cross_entropy": cross_entropy(step.logits[self.finest], step.labels)}
