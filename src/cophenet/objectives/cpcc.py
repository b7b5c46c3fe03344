"""Add `weight * (1 - CPCC)` to an objective, Flat or any other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from cophenet._common.checks import wrong_argument
from cophenet.cpcc.loss import CPCCLoss
from cophenet.objectives.base import Objective, Phase, StepOutput

__all__ = ["WithCPCC", "cpcc_arguments"]


class WithCPCC(Objective):
    r"""Another objective's terms plus, in each of its phases, the CPCC term of the classes.

    .. math::

        \mathrm{loss} = \mathrm{base} + \lambda \, (1 - \mathrm{CPCC}(t, \rho))

    With cross entropy as the base this is equation 1 of the OT-CPCC paper (arXiv:2410.03052).

    Args:
        base: The objective that CPCC is added to.
        cpcc: Name of a class distance, or the arguments of `CPCCLoss` after the tree.
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
        """The CPCC loss that is added."""
        return self.criterion

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The phases of the base."""
        return self.base.phases

    @property
    def _generators(self) -> list[torch.Generator | None]:
        """Those of the base, and that of the distance."""
        return [*self.base._generators, self.generator]

    @property
    def _draws_in_terms(self) -> bool:
        """As in the base: the generator here is that of the distance."""
        return self.base._draws_in_terms

    def _flags(self, step: StepOutput) -> None:
        """None: CPCC reads and checks the values itself, before the other terms."""

    def check_heads(self, step: StepOutput) -> None:
        """Check the heads of the base."""
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
    """The arguments of `CPCCLoss` after the tree, which checks their names and values itself.

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
