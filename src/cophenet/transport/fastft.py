"""Fast FlowTree: the greedy plan on the augmented label tree, linear in the data."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from cophenet.transport.base import PlanDistance, register_distance
from cophenet.transport.batch import ClassBatch
from cophenet.transport.plan import TransportPlan, greedy_plan

__all__ = ["FastFlowTree"]

Order = Literal["batch", "principal"]


@register_distance
class FastFlowTree(PlanDistance):
    """Fast FlowTree (Algorithm 1 of the OT-CPCC paper): first come, first served."""

    name = "fastft"
    order_dependent = True

    def plan(self, batch: ClassBatch) -> TransportPlan:
        """The north-west-corner plan of every pair."""
        return greedy_plan(batch)
