"""Grouping of a batch by class, from its labels; optionally planned before its features are computed.

Labels on the host determine everything except values. If the features are on an accelerator, nothing is then
read from it in the step, and checks that need values are made in the next step.
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
from cophenet.transport.class_layout import ClassLayout, HostArrays, Indices
from cophenet.transport.grouping import (
    FlowWeights,
    PreparedLabels,
    group_read,
    group_unread,
    known_groups,
    unit_rows,
)
from cophenet.transport.recalled import Recalled

if TYPE_CHECKING:
    from cophenet.cpcc.loss import CPCCLoss
    from cophenet.cpcc.memory import FeatureMemory

__all__ = ["BatchPlan", "LateCheck", "group_batch", "plan_batch"]


@dataclass(frozen=True, eq=False)
class BatchPlan:
    """What a loss computes from labels alone; it can be passed to the loss in place of the labels.

    Attributes:
        labels: (B,) int64 on the host.
        groups: (B,) their classes, at the level of the loss.
        prepared: The labels grouped by class, with the tree's side of the correlation as `direction` unless
            it is constant; None if the loss has a memory, which changes with every step.
        loss: The loss that created the plan.
        weight: Weight of the loss when the plan was created.
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
        """Raise if the plan is used by a loss other than the one that created it.

        Raises:
            ValueError: If it is another loss, or its weight has changed.
        """
        if loss is not self.loss or loss.weight != self.weight:
            given = "another loss" if loss is not self.loss else f"weight {self.weight}, now {loss.weight}"
            raise ValueError(f"labels must be prepared by the loss that is to use them, got those of {given}")


def plan_batch(loss: CPCCLoss, labels: Tensor) -> BatchPlan:
    """Plan a batch by its labels, see `CPCCLoss.prepare`."""
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
    """Everything that depends only on the classes of a batch and of the remembered samples."""
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
    """(P,) the argument `direction` of `correlation`, negated and of norm `weight`; None if constant."""
    t = loss.tree_distances(layout.classes[layout.first], layout.classes[layout.second])
    if len(t) < 2 or is_constant(t.min(), t.max()):
        return None
    # Tree distances are known on the host, so their part of the correlation needs no work on the device.
    direction: NDArray[np.float64] = t - t.mean()
    direction *= -loss.weight / np.linalg.norm(direction)
    return direction


def group_batch(
    loss: CPCCLoss, features: Tensor, labels: Tensor, weights: Tensor | None, plan: BatchPlan | None
) -> tuple[ClassBatch, Tensor | None]:
    """Group a batch and the remembered samples by class.

    Args:
        loss: The loss.
        features: (B, d), checked by `check_batch` together with the other arguments.
        labels: (B,) on the device of the features or on the host.
        weights: (B,) flow weights, in place of the scheme of the loss.
        plan: The plan of the labels, if they were prepared ahead.

    Returns:
        The grouped batch, and the tree's side of the correlation; None in place of the latter if the
        correlation is undefined.

    Raises:
        ValueError: If values are invalid: of this batch, or of the previous one if they were not read then.
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
        # Correlation is scale-invariant: distances of rescaled features can be used, and cannot overflow.
        if distance.degree is not None:
            batch = batch.rescaled()
    if memory is not None:
        memory.store(features, groups, weights)
    if direction is None:
        distance.skip(batch)
    return batch, direction


class LateCheck:
    """Check of the values of a step, which is read from the device in the next step."""

    def __init__(self) -> None:
        self.step = 0
        self._flags: LateRead | Tensor | None = None
        self._memory: FeatureMemory | None = None

    def next_step(self) -> None:
        """Count a step, and check the previous one.

        Raises:
            ValueError: If the features or the flow weights of the previous step were invalid.
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
        """Keep the flags of this step, the largest absolute feature first, and the memory that stores it."""
        self._flags, self._memory = flags if torch.compiler.is_compiling() else LateRead(flags), memory

    def after_compiled_step(self) -> None:
        """Check the last step if it was compiled, because compiled code cannot raise."""
        if isinstance(self._flags, Tensor):
            self.next_step()
