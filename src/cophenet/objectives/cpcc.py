"""An objective with `weight * (1 - CPCC)` added, Flat or any other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from cophenet._common.checks import wrong_argument
from cophenet.cpcc.loss import CPCCLoss
from cophenet.objectives.base import Objective, Phase, StepOutput

__all__ = ["WithCPCC", "cpcc_arguments"]


class WithCPCC(Objective):
    r"""Another objective's terms and, in each of its phases, that of CPCC on the classes.

    .. math::

        \mathrm{loss} = \mathrm{base} + \lambda \, (1 - \mathrm{CPCC}(t, \rho))

    With cross entropy as the base this is equation 1 of the OT-CPCC paper (arXiv:2410.03052).

    Args:
        base: The objective to add to.
        cpcc: A class distance by name, or the arguments of `CPCCLoss` after the tree.
    """

    def __init__(self, base: Objective, cpcc: str | Mapping[str, Any]) -> None:
        if not isinstance(base, Objective):
            raise ValueError(f"base must be an objective, got {type(base).__name__}")
        super().__init__(base.tree)
        self.base, self.heads = base, base.heads
        self.criterion = CPCCLoss(base.tree, **cpcc_arguments(cpcc))
        distance = self.criterion.distance
        self.name = base.name_with(distance.name)
        self.gather = self.criterion.gather
        self.generator = getattr(distance, "generator", None)
        self.order_dependent = base.order_dependent or distance.order_dependent

    @property
    def cpcc(self) -> CPCCLoss:
        """What is added."""
        return self.criterion

    @property
    def phases(self) -> tuple[Phase, ...]:
        """Those of the objective it is added to."""
        return self.base.phases

    @property
    def _draws_in_terms(self) -> bool:
        """As the base: the generator here is that of the distance."""
        return self.base._draws_in_terms

    def _flags(self, step: StepOutput) -> None:
        """Nothing: CPCC reads and checks the values itself, and does so first."""

    def check_heads(self, step: StepOutput) -> None:
        """As the base does."""
        self.base.check_heads(step)

    def terms(self, step: StepOutput) -> dict[str, Tensor]:
        """The base's terms."""
        return self._beside(self.base.terms(step))

    def batch_terms(self, step: StepOutput) -> dict[str, Tensor]:
        """The base's terms that compare samples, and `cpcc`."""
        labels = step.labels if step.host_labels is None else step.host_labels
        cpcc = self.criterion.of_checked(step.features, labels, step.shards)
        return {**self._beside(self.base.batch_terms(step)), "cpcc": cpcc}

    def _beside(self, terms: dict[str, Tensor]) -> dict[str, Tensor]:
        if "cpcc" in terms:
            raise ValueError(f"objective {self.base.name!r} has a term 'cpcc' of its own; leave out cpcc=")
        return terms


def cpcc_arguments(cpcc: str | Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments of `CPCCLoss` after the tree; it checks their names and values itself.

    Example:
        >>> cpcc_arguments("l2")
        {'distance': 'l2'}
    """
    if isinstance(cpcc, str):
        return {"distance": cpcc}
    if not isinstance(cpcc, Mapping):
        raise wrong_argument("cpcc", f"must be a distance name or a mapping of options, got {cpcc!r}")
    for name in cpcc:
        if not isinstance(name, str):
            raise wrong_argument("cpcc", f"must have option names as keys, got {name!r}")
    if "tree" in cpcc:
        raise wrong_argument(
            "cpcc", "must not hold 'tree', because the objective's own tree is used; leave it out"
        )
    return cpcc
