"""An objective with `weight * (1 - CPCC)` added, Flat or any other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from cophenet.correlation import CPCCLoss
from cophenet.objectives.base import Objective, Phase, StepOutput

__all__ = ["WithCPCC"]


class WithCPCC(Objective):
    """Another objective's terms and, in each of its phases, that of CPCC on the classes.

    Args:
        base: The objective to add to.
        cpcc: A class distance by name, or the arguments of `CPCCLoss` after the tree.
    """

    def __init__(self, base: Objective, cpcc: str | Mapping[str, Any]) -> None:
        if not isinstance(base, Objective):
            raise ValueError(f"base must be an objective, got {type(base).__name__}")
        super().__init__(base.tree)
        self.base, self.heads = base, base.heads
        self.criterion = CPCCLoss(base.tree, **_arguments(cpcc))
        distance = self.criterion.distance
        self.name = distance.name if base.name == "flat" else f"{base.name}+{distance.name}"
        self.order_dependent = base.order_dependent or distance.order_dependent

    @property
    def phases(self) -> tuple[Phase, ...]:
        """Those of the objective it is added to."""
        return self.base.phases

    def _check_values(self, step: StepOutput) -> None:
        """Nothing: CPCC reads and checks the values itself, and does so first."""

    def terms(self, step: StepOutput) -> dict[str, Tensor]:
        """The base's terms and `cpcc`."""
        cpcc = self.criterion(step.features, step.labels)
        terms = self.base.terms(step)
        if "cpcc" in terms:
            raise ValueError(f"objective {self.base.name!r} has a term 'cpcc' of its own; leave out cpcc=")
        return {**terms, "cpcc": cpcc}


def _arguments(cpcc: str | Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments of `CPCCLoss` after the tree; it checks their names and values itself."""
    if isinstance(cpcc, str):
        return {"distance": cpcc}
    if not isinstance(cpcc, Mapping):
        raise ValueError(f"cpcc must be a distance name or a mapping of options, got {cpcc!r}")
    for name in cpcc:
        if not isinstance(name, str):
            raise ValueError(f"cpcc must have option names as keys, got {name!r}")
    if "tree" in cpcc:
        raise ValueError("cpcc must not hold 'tree', because the objective's own tree is used; leave it out")
    return cpcc
