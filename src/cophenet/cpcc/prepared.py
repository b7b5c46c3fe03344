"""Batches planned ahead of their features, and checks of values that nobody waits for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from cophenet.cpcc.pearson import is_constant
from cophenet.transport.batch import ClassBatch, LateRead
from cophenet.transport.grouping import PreparedLabels
from cophenet.transport.layout import ClassLayout, HostArrays

if TYPE_CHECKING:
    from cophenet.cpcc.loss import CPCCLoss

__all__ = ["BatchPlan", "LateCheck", "plan_batch", "tree_direction"]


@dataclass(frozen=True, eq=False)
class BatchPlan:
    """What a loss makes of labels alone; it takes it in their place.

    Attributes:
        labels: (B,) int64 on the host.
        prepared: Their classes, with the tree's side of the correlation as `direction`.
        defined: Whether the tree's side has a correlation with anything.
        loss: The loss that made it.
        weight: That of the loss at the time.
    """

    labels: Tensor
    prepared: PreparedLabels
    defined: bool
    loss: CPCCLoss
    weight: float

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
    labels = labels.detach().cpu().long()
    groups = labels.numpy()
    if groups.min() < 0 or groups.max() >= loss.num_classes:
        wrong = groups[(groups < 0) | (groups >= loss.num_classes)][0]
        raise ValueError(
            f"labels must lie in 0..{loss.num_classes - 1}, the classes of the tree, got {wrong}"
        )
    if loss.ancestors is not None:
        groups = loss.ancestors[groups]
    order = groups.argsort(kind="stable")
    layout = ClassLayout.of_sorted(groups[order])
    direction = tree_direction(loss, layout)
    arrays: dict[str, NDArray[np.generic]] = {
        "order": order,
        **({} if direction is None else {"direction": direction}),
    }
    if loss.flow_weights == "uniform":
        arrays |= loss.distance.arrays(layout)
    prepared = PreparedLabels(layout, HostArrays(arrays))
    return BatchPlan(labels, prepared, direction is not None, loss, loss.weight)


def tree_direction(loss: CPCCLoss, layout: ClassLayout | ClassBatch) -> NDArray[np.float64] | None:
    """(P,) the tree's side of `correlation`, of norm `weight` and turned round; None if it is constant."""
    t = loss.tree_distances(layout.classes[layout.first], layout.classes[layout.second])
    if len(t) < 2 or is_constant(t.min(), t.max()):
        return None
    # The tree's side is known on the host: its part of the correlation costs the device nothing.
    direction: NDArray[np.float64] = t - t.mean()
    direction *= -loss.weight / np.linalg.norm(direction)
    return direction


class LateCheck:
    """Whether the values of a step were usable, which is read from the device in the step after it."""

    def __init__(self) -> None:
        self.step = 0
        self._flags: LateRead | None = None

    def next_step(self) -> None:
        """Count a step, and judge the one before.

        Raises:
            ValueError: If the features or the flow weights of the step before were not usable.
        """
        flags, self._flags = self._flags, None
        self.step += 1
        if flags is not None:
            peak, *usable = flags.read().view(-1).tolist()
            late = f"in step {self.step - 1} of this loss, as read from the device in step {self.step}"
            if not np.isfinite(peak):
                raise ValueError(f"features must be finite, got NaN or inf {late}")
            if not all(usable):
                allowed = "finite, not negative, and positive for a sample of every class"
                raise ValueError(f"flow_weights must be {allowed}, which they were not {late}")

    def note(self, flags: Tensor) -> None:
        """Remember the flags of the present step, the features' largest absolute value first."""
        self._flags = LateRead(flags)
