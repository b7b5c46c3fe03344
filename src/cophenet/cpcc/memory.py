"""The cross-batch memory: recent features of every class, so that small batches represent whole classes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cophenet.transport.class_layout import HostArrays
from cophenet.transport.recalled import Recalled

__all__ = ["FeatureMemory"]

_NEVER = -1
# Tensors on the device of the features; and tensors on the host, which depend on labels only.
_VALUES, _PLACES = ("features", "weights"), ("stored", "written", "step")
_PARTS = (*_VALUES, *_PLACES)


class FeatureMemory(nn.Module):
    """The newest samples of every class: a ring buffer with an equal number of slots for each class.

    The idea of Wang, Zhang, Huang and Scott, "Cross-Batch Memory for Embedding Learning", CVPR 2020,
    arXiv:1912.06798, with slots per class.

    A rare class keeps its samples until they are too old, however many samples other classes have. All
    tensors have fixed sizes (the width is that of the first batch); no features are read on the host. None of
    them is a buffer of the module, because DistributedDataParallel would broadcast buffers in every step.

    Args:
        num_classes: Number of classes.
        capacity: Total number of samples, at least one per class; each class has `capacity // num_classes`
            slots.
        max_age: Number of steps for which a sample is used after its own step.

    Example:
        >>> memory = FeatureMemory(num_classes=2, capacity=4, max_age=10)
        >>> memory.store(torch.tensor([[1.0], [2.0], [3.0]]), np.array([1, 1, 1]))
        >>> recalled = memory.recall(torch.zeros(1, 1))
        >>> recalled.features.tolist(), recalled.rows, recalled.classes
        ([[0.0], [0.0], [3.0], [2.0]], array([2, 3]), array([1, 1]))
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
        """A digest of the contents, which must be equal on all processes; copies the contents to the host."""
        parts = (getattr(self, name).cpu().numpy().tobytes() for name in _PARTS)
        return hashlib.sha256(b"".join(parts)).hexdigest()[:8]

    def recall(self, features: Tensor) -> Recalled:
        """The remembered samples, for a batch with features (B, d).

        Raises:
            ValueError: If the width of the features differs from that of the memory.
        """
        if self.features.shape[1] == 0:
            self.to(features.device)
            empty = np.empty(0, np.int64)
            return Recalled(features.detach()[:0], self.weights[:0], empty, empty)
        self._fit(features)
        stored = self.stored.numpy()
        rows = np.flatnonzero((stored != _NEVER) & (stored >= self.step.numpy() - self.max_age))
        return Recalled(self.features, self.weights, rows, rows // self.places)

    @torch.no_grad()
    def store(self, features: Tensor, classes: NDArray[np.int64], weights: Tensor | None = None) -> None:
        """Store a batch, and count a step.

        Args:
            features: (B, d).
            classes: (B,) from 0 to `num_classes` - 1.
            weights: (B,) masses of the samples; None for 1 each.
        """
        self._fit(features)
        order = classes.argsort(kind="stable")
        ordered, counts = classes[order], np.bincount(classes, minlength=self.num_classes)
        rank = np.arange(len(order)) - (np.cumsum(counts) - counts)[ordered]
        newest = rank >= (counts - self.places)[ordered]  # the others would be overwritten immediately
        slot = (ordered * self.places + (self.written.numpy()[ordered] + rank) % self.places)[newest]
        at = HostArrays({"slot": slot, "source": order[newest]}).on(features.device)
        rows = features.detach().index_select(0, at["source"])
        self.features.index_copy_(0, at["slot"], rows.to(self.features.dtype))
        if weights is None:
            self.weights.index_fill_(0, at["slot"], 1)
        else:
            self.weights.index_copy_(0, at["slot"], weights[at["source"]].to(self.weights.dtype))
        self.stored[slot] = self.step
        self.written += torch.from_numpy(counts)
        self.step += 1

    @torch.no_grad()
    def forget_latest(self) -> None:
        """Drop the samples stored by the last step, because they turned out to be invalid."""
        rows = np.flatnonzero(self.stored.numpy() == self.step.numpy() - 1)
        at = HostArrays({"rows": rows}).on(self.features.device)["rows"]
        self.features.index_fill_(0, at, 0)
        self.weights.index_fill_(0, at, 1)
        self.stored[rows] = _NEVER

    def get_extra_state(self) -> dict[str, Tensor]:
        """The contents of the memory, for `state_dict`."""
        return {name: getattr(self, name) for name in _PARTS}

    def set_extra_state(self, state: dict[str, Tensor]) -> None:
        """Restore the contents of the memory, also before the first batch.

        Raises:
            ValueError: If the state is incomplete, or that of a memory of another size.
        """
        missing = [name for name in _PARTS if name not in state]
        if missing:
            raise ValueError(f"memory cannot be loaded from a state without {', '.join(missing)}")
        for name in ("weights", "written"):
            given, own = tuple(state[name].shape), tuple(getattr(self, name).shape)
            if given != own:
                raise ValueError(f"memory of {own[0]} {name} cannot be loaded from one of {given[0]}")
        for name in _PARTS:
            setattr(self, name, state[name].detach().to(getattr(self, name).device, copy=True))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        """Move to another device with the module; the dtype of the contents does not change."""
        for name in _VALUES:
            own = getattr(self, name)
            setattr(self, name, own.to(fn(own).device))
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]

    def _fit(self, features: Tensor) -> None:
        """Move to the device of the features; set or check the width; convert to float64 if they are."""
        if self.weights.device != features.device:
            self.to(features.device)
        if self.features.shape[1] == 0:
            self.features = self.features.new_zeros(len(self.stored), features.shape[1])
        if self.features.shape[1] != features.shape[1]:
            had, width = self.features.shape[1], features.shape[1]
            raise ValueError(f"features must have the width {had} of those in memory, got {width}")
        if features.dtype == torch.float64:
            self.features = self.features.double()
