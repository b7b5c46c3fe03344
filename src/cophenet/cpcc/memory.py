"""The cross-batch memory: recent features of every class, so that small batches show whole classes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from cophenet.transport.grouping import ABSENT, Recalled

__all__ = ["FeatureMemory", "amplify_gradients"]

_NEVER = -1
_PARTS = ("features", "weights", "stored", "written", "step")


class FeatureMemory(nn.Module):
    """The newest samples of every class: equally many places for each, of which the oldest is overwritten.

    The idea of Wang, Zhang, Huang and Scott, "Cross-Batch Memory for Embedding Learning", CVPR 2020,
    arXiv:1912.06798, with places by class.

    A class that comes rarely keeps what it has until it is too old, however many samples others have. All
    tensors have fixed sizes (the width is that of the first batch), and none is read on the host. They are
    no buffers of the module, because DistributedDataParallel would send those around in every step.

    Args:
        num_classes: How many classes there are.
        capacity: Samples in all, at least one per class; each class has `capacity // num_classes` places.
        max_age: A sample counts in that many steps after its own, not longer.

    Example:
        >>> memory = FeatureMemory(num_classes=2, capacity=4, max_age=10)
        >>> memory.store(torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([1, 1, 1]))
        >>> memory.recall(torch.zeros(1, 1)).features.tolist()
        [[0.0], [0.0], [3.0], [2.0]]
    """

    features: Tensor
    weights: Tensor
    stored: Tensor
    written: Tensor
    step: Tensor

    def __init__(self, num_classes: int, capacity: int, max_age: int) -> None:
        super().__init__()
        if capacity < num_classes:
            raise ValueError(
                f"memory must have a place for each of {num_classes} classes, got {capacity}; 0 for none"
            )
        self.num_classes, self.capacity, self.max_age = num_classes, capacity, max_age
        self.places = capacity // num_classes
        slots = num_classes * self.places
        self.features = torch.zeros(slots, 0)
        self.weights = torch.ones(slots, dtype=torch.float64)
        self.stored = torch.full((slots,), _NEVER)
        self.written = torch.zeros(num_classes, dtype=torch.int64)
        self.step = torch.zeros((), dtype=torch.int64)

    def extra_repr(self) -> str:
        """The sizes, for printing."""
        return f"classes={self.num_classes}, places={self.places}, max_age={self.max_age}"

    @property
    def shared_state(self) -> str:
        """A digest of all that is remembered, which is the same on all processes; reads it on the host."""
        parts = (getattr(self, name).cpu().numpy().tobytes() for name in _PARTS)
        return hashlib.sha256(b"".join(parts)).hexdigest()[:8]

    def recall(self, features: Tensor) -> Recalled:
        """What is remembered for a batch with features (B, d).

        Raises:
            ValueError: If the features have another width than those in the memory.
        """
        if self.features.shape[1] == 0:
            self.to(features.device)
            return Recalled(features.detach()[:0], self.written[:0], self.weights[:0])
        self._fit(features)
        classes = torch.arange(self.num_classes, device=features.device).repeat_interleave(self.places)
        too_old = (self.stored == _NEVER) | (self.step - self.stored > self.max_age)
        return Recalled(self.features, classes.masked_fill_(too_old, ABSENT), self.weights)

    @torch.no_grad()
    def store(self, features: Tensor, classes: Tensor, weights: Tensor | None = None) -> None:
        """Remember a batch, and count a step.

        Args:
            features: (B, d).
            classes: (B,) from 0 to `num_classes` - 1.
            weights: (B,) masses of the samples; None for 1 each.
        """
        self._fit(features)
        ordered, order = torch.sort(classes, stable=True)
        counts = torch.zeros_like(self.written).index_add_(0, ordered, torch.ones_like(ordered))
        rank = torch.arange(len(ordered), device=ordered.device) - (counts.cumsum(0) - counts)[ordered]
        slot = ordered * self.places + (self.written[ordered] + rank) % self.places
        # Samples that fall on one place all write the newest of them: in whatever order, the same remains.
        later = (counts[ordered] - 1 - rank) // self.places * self.places
        source = order[torch.arange(len(order), device=order.device) + later]
        self.features.index_copy_(0, slot, features.detach()[source].to(self.features.dtype))
        mass = torch.ones_like(slot) if weights is None else weights[source]
        self.weights.index_copy_(0, slot, mass.to(self.weights.dtype))
        self.stored.index_copy_(0, slot, self.step.expand(len(slot)))
        self.written += counts
        self.step += 1

    def get_extra_state(self) -> dict[str, Tensor]:
        """All that is remembered, for `state_dict`."""
        return {name: getattr(self, name) for name in _PARTS}

    def set_extra_state(self, state: dict[str, Tensor]) -> None:
        """Restore what was remembered, also before the first batch.

        Raises:
            ValueError: If it is of a memory of another size, or of none.
        """
        missing = [name for name in _PARTS if name not in state]
        if missing:
            raise ValueError(f"memory cannot be loaded from a state without {', '.join(missing)}")
        for name in ("weights", "written"):
            given, own = tuple(state[name].shape), tuple(getattr(self, name).shape)
            if given != own:
                raise ValueError(f"memory of {own[0]} {name} cannot be loaded from one of {given[0]}")
        for name in _PARTS:
            setattr(self, name, state[name].detach().to(self.stored.device, copy=True))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        """Move to another device with the module; what is remembered keeps its precision."""
        for name in _PARTS:
            own = getattr(self, name)
            setattr(self, name, own.to(fn(own).device))
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]

    def _fit(self, features: Tensor) -> None:
        """Be where the features are, in their precision, and as wide."""
        if self.stored.device != features.device:
            self.to(features.device)
        if self.features.shape[1] == 0:
            self.features = self.features.new_zeros(len(self.stored), features.shape[1])
        if self.features.shape[1] != features.shape[1]:
            had, width = self.features.shape[1], features.shape[1]
            raise ValueError(f"features must have the width {had} of those in memory, got {width}")
        if features.dtype == torch.float64:
            self.features = self.features.double()


class _Amplified(torch.autograd.Function):
    """Rows as they are, their gradients multiplied."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, factors: Tensor) -> Tensor:
        ctx.save_for_backward(factors)
        return rows.view_as(rows)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (factors,) = ctx.saved_tensors
        return grad * factors[:, None].to(grad.dtype), None


def amplify_gradients(
    features: Tensor, classes: Tensor, recalled: Recalled, num_classes: int, weights: Tensor | None = None
) -> Tensor:
    """The features, whose gradients count for what is remembered of their class as well.

    What is remembered has mass but no gradient, so that of a batch would shrink as the memory fills. The
    samples of a batch represent their class: their gradient is multiplied by the class's mass over the
    batch's share of it, and has the size it has without a memory.

    Args:
        features: (B, d).
        classes: (B,) from 0 to `num_classes` - 1; -1 for none.
        recalled: What is remembered.
        num_classes: How many classes there are.
        weights: (B,) masses of the samples; None for equal ones.

    Example:
        >>> z = torch.zeros(2, 1, requires_grad=True)
        >>> recalled = Recalled(torch.zeros(3, 1), torch.tensor([0, 0, 0]), torch.ones(3))
        >>> amplify_gradients(z, torch.tensor([0, 1]), recalled, 2).sum().backward()
        >>> z.grad.flatten().tolist()
        [4.0, 1.0]
    """
    own = torch.ones_like(classes, dtype=torch.float64) if weights is None else weights.double()
    old = torch.ones_like(own[:1]).expand(len(recalled.classes)) if weights is None else recalled.weights
    rows, empty = classes.clamp(min=0), own.new_zeros(num_classes + 1)
    batch = empty.index_add(0, rows, own)[rows]
    rest = empty.index_add(0, recalled.classes.clamp(max=num_classes), old.double())[rows]
    factors = torch.where(batch > 0, 1 + rest / batch, 1.0)
    amplified: Tensor = _Amplified.apply(features, factors)  # type: ignore[no-untyped-call]
    return amplified
