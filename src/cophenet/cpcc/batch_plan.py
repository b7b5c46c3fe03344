"""The batch of a loss, grouped by class: planned by its labels, if need be ahead of its features.

Labels that are known on the host decide everything but values. Where features are on an accelerator nothing
is then read from it, and what only values show is checked in the step after.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cophenet.cpcc.exchange import process_count
from cophenet.cpcc.pearson import is_constant
from cophenet.transport.batch import ClassBatch, LateRead, is_host
from cophenet.transport.grouping import (
    FlowWeights,
    PreparedLabels,
    group_read,
    group_unread,
    known_groups,
    unit_rows,
)
from cophenet.transport.layout import ClassLayout, HostArrays, Indices
from cophenet.transport.recalled import Recalled

if TYPE_CHECKING:
    from cophenet.cpcc.loss import CPCCLoss
    from cophenet.cpcc.memory import FeatureMemory

__all__ = ["BatchPlan", "LateCheck", "group_batch", "plan_batch"]


@dataclass(frozen=True, eq=False)
class BatchPlan:
    """What a loss makes of labels alone; it takes it in their place.

    Attributes:
        labels: (B,) int64 on the host.
        groups: (B,) their classes, at the level of the loss.
        prepared: These class by class, with the tree's side of the correlation as `direction` unless that is
            constant; None if the loss has a memory, which changes with every step.
        loss: The loss that made it.
        weight: That of the loss at the time.
    """

    labels: Tensor
    groups: Indices
    prepared: PreparedLabels | None
    loss: CPCCLoss
    weight: float

    def is_traceable(self, weights: Tensor | None) -> bool:
        """Whether a compiler can trace the loss of this batch."""
        loss = self.loss
        uniform = weights is None and loss.flow_weights == "uniform" and self.prepared is not None
        return uniform and loss.distance.traceable and process_count(loss.gather) == 1

    def check(self, loss: CPCCLoss) -> None:
        """Refuse to be used by another loss than the one that made it.

        Raises:
            ValueError: If it is another, or its weight has changed.
        """
        if loss is not self.loss or loss.weight != self.weight:
            given = "another loss" if loss is not self.loss else f"weight {self.weight}, now {loss.weight}"
            raise ValueError(f"labels must be prepared by the loss that is to use them, got those of {given}")


def plan_batch(loss: CPCCLoss, labels: Tensor) -> BatchPlan:
    """As `CPCCLoss.prepare`."""
    if not isinstance(labels, Tensor) or labels.ndim != 1 or labels.is_floating_point() or not len(labels):
        given = (
            f"{tuple(labels.shape)} {labels.dtype}" if isinstance(labels, Tensor) else type(labels).__name__
        )
        raise ValueError(f"labels must be integers of shape (B,), at least one, got {given}")
    labels = labels.detach().to("cpu", torch.int64, copy=True)
    groups = known_groups(labels.numpy(), loss.num_classes, loss.ancestors)
    prepared = _prepared(loss, groups, None) if loss.memory is None else None
    return BatchPlan(labels, groups, prepared, loss, loss.weight)


def _prepared(loss: CPCCLoss, groups: Indices, recalled: Recalled | None) -> PreparedLabels:
    """All that follows from the classes of a batch, and of what is remembered."""
    prepared = PreparedLabels.of(groups, recalled)
    rows, counts = prepared.rows, prepared.layout.counts
    arrays: dict[str, NDArray[np.generic]] = {"order": rows.order, "owner": rows.owner, "counts": counts}
    direction = _tree_direction(loss, prepared.layout)
    if direction is not None:
        arrays["direction"] = direction
    if loss.flow_weights == "uniform":
        arrays |= loss.distance.arrays(prepared.layout)
    return replace(prepared, ahead=HostArrays(arrays), largest=int(counts.max()))


def _tree_direction(loss: CPCCLoss, layout: ClassLayout | ClassBatch) -> NDArray[np.float64] | None:
    """(P,) the tree's side of `correlation`, of norm `weight` and turned round; None if it is constant."""
    t = loss.tree_distances(layout.classes[layout.first], layout.classes[layout.second])
    if len(t) < 2 or is_constant(t.min(), t.max()):
        return None
    # The tree's side is known on the host: its part of the correlation costs the device nothing.
    direction: NDArray[np.float64] = t - t.mean()
    direction *= -loss.weight / np.linalg.norm(direction)
    return direction


def group_batch(
    loss: CPCCLoss, features: Tensor, labels: Tensor, weights: Tensor | None, plan: BatchPlan | None
) -> tuple[ClassBatch, Tensor | None]:
    """The batch, with what is remembered, and the tree's side of the correlation; None if it is undefined.

    Args:
        loss: The loss.
        features: (B, d), which passed `check_batch` with the rest.
        labels: (B,) on the device of the features or on the host.
        weights: (B,) flow weights, in place of those the loss makes.
        plan: What was made of the labels ahead.

    Raises:
        ValueError: If values are wrong: of this batch, or of the one before where they were not read.
    """
    if not torch.compiler.is_compiling():
        loss._checks.next_step()
    if loss.normalize:
        features = unit_rows(features if features.dtype == torch.float64 else features.float())
    memory, distance = loss.memory if loss.training else None, loss.distance
    recalled = None if memory is None else memory.recall(features)
    scheme: FlowWeights = loss.flow_weights if weights is None else weights
    unread = not is_host(features) and distance.degree is not None and not distance.plans_on_host
    direction: Tensor | None = None
    if unread and (plan is not None or is_host(labels)):
        plan = plan or plan_batch(loss, labels)
        ready = plan.prepared if plan.prepared is not None else _prepared(loss, plan.groups, recalled)
        in_range = distance.wide and scheme == "uniform" and features.dtype != torch.float64
        groups = plan.groups
        batch, flags = group_unread(features, groups, ready, scheme, in_range=in_range, recalled=recalled)
        loss._checks.note(flags, memory)
        direction = ready.ahead.on(features.device).get("direction")
    else:
        known = (loss.num_classes, loss.ancestors)
        batch, groups = group_read(
            features, labels, scheme, *known, keep_host=distance.plans_on_host, recalled=recalled
        )
        side = _tree_direction(loss, batch)
        direction = None if side is None else batch.on_device(side)
        # A correlation does not see scale: the distances of rescaled features will do, and cannot overflow.
        if distance.degree is not None:
            batch = batch.rescaled()
    if memory is not None:
        memory.store(features, groups, weights)
    if direction is None:
        distance.skip(batch)
    return batch, direction


class LateCheck:
    """Whether the values of a step were usable, which is read from the device in the step after it."""

    def __init__(self) -> None:
        self.step = 0
        self._flags: LateRead | Tensor | None = None
        self._memory: FeatureMemory | None = None

    def next_step(self) -> None:
        """Count a step, and judge the one before.

        Raises:
            ValueError: If the features or the flow weights of the step before were not usable.
        """
        flags, self._flags = self._flags, None
        self.step += 1
        if flags is None:
            return
        flags = LateRead(flags) if isinstance(flags, Tensor) else flags
        peak, *usable = flags.read().view(-1).tolist()
        if np.isfinite(peak) and all(usable):
            return
        if self._memory is not None:
            self._memory.forget_latest()
        late = f"in step {self.step - 1} of this loss, as read from the device in step {self.step}"
        if not np.isfinite(peak):
            raise ValueError(f"features must be finite, got NaN or inf {late}")
        allowed = "finite, not negative, and positive for a sample of every class"
        raise ValueError(f"flow_weights must be {allowed}, which they were not {late}")

    def note(self, flags: Tensor, memory: FeatureMemory | None = None) -> None:
        """Remember the flags of the present step, the largest absolute feature first, and who stores it."""
        self._flags, self._memory = flags if torch.compiler.is_compiling() else LateRead(flags), memory

    def after_compiled_step(self) -> None:
        """Judge a step that was compiled, because what is compiled cannot raise."""
        if isinstance(self._flags, Tensor):
            self.next_step()
