"""Data of a batch that depends on labels only: computed on the host, moved to a device in one transfer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cophenet.transport.solvers.machine_code import loops_when_hot

__all__ = ["ClassLayout", "ClassRows", "HostArrays", "Indices", "computed_once"]

Indices = NDArray[np.int64]
_Value = TypeVar("_Value")

# Labels that span less than this are counted instead of sorted.
_COUNTED = 1 << 16


class computed_once(Generic[_Value]):  # noqa: N801, because it is used like `property`
    """As `functools.cached_property`, but without a lock, which a compiler cannot trace."""

    def __init__(self, compute: Callable[[Any], _Value]) -> None:
        self.compute, self.name, self.__doc__ = compute, compute.__name__, compute.__doc__

    def __get__(self, instance: Any, owner: type | None = None) -> _Value:
        """Compute the value, and store it in the instance, which hides this descriptor from then on."""
        if instance is None:  # accessed on the class, as by documentation tools
            return self  # type: ignore[return-value]
        value = self.compute(instance)
        instance.__dict__[self.name] = value
        return value


@dataclass(frozen=True, eq=False)
class HostArrays:
    """Named int64 and float64 arrays that are moved to a device together.

    Example:
        >>> HostArrays({"order": np.array([1, 0])}).on(torch.device("cpu"))
        {'order': tensor([1, 0])}
    """

    host: Mapping[str, NDArray[np.generic]] = field(default_factory=dict)
    _moved: dict[torch.device, dict[str, Tensor]] = field(default_factory=dict)

    def on(self, device: torch.device) -> Mapping[str, Tensor]:
        """The arrays on a device: moved once, in one transfer, without waiting for it."""
        if device not in self._moved:
            self._moved[device] = self._move(device)
        return self._moved[device]

    def _move(self, device: torch.device) -> dict[str, Tensor]:
        if device.type == "cpu":
            return {name: torch.from_numpy(array) for name, array in self.host.items()}
        # Integers first, then floats with their bits viewed as int64.
        names = [name for name, array in self.host.items() if array.dtype.kind == "i"]
        floats = [name for name in self.host if name not in names]
        sent = torch.from_numpy(
            np.concatenate([self.host[name].view(np.int64) for name in (*names, *floats)])
        )
        # Only pinned memory is copied asynchronously.
        sent = (sent.pin_memory() if device.type == "cuda" else sent).to(device, non_blocking=True)
        lengths = [len(self.host[name]) for name in names]
        *parts, rest = torch.split(sent, [*lengths, len(sent) - sum(lengths)])
        moved = dict(zip(names, parts, strict=True))
        if floats:
            numbers = rest.view(torch.float64)
            many = len(floats) > 1
            split = torch.split(numbers, [len(self.host[name]) for name in floats]) if many else [numbers]
            moved.update(zip(floats, split, strict=True))
        return moved


@dataclass(frozen=True, eq=False)
class ClassRows:
    """The class of every row of some features; rows are sorted on first access of `order`.

    Attributes:
        owner: (N,) class number of every row; k for rows without a class.
        num_classes: k.
        strangers: Whether there are rows without a class.
    """

    owner: Indices
    num_classes: int
    strangers: bool = False

    @computed_once
    def order(self) -> Indices:
        """(B,) rows that have a class, sorted by class, in their original order within a class."""
        # NumPy uses radix sort for 16-bit integers, which is several times faster.
        short = self.num_classes < 1 << 15
        order: Indices = (self.owner.astype(np.int16) if short else self.owner).argsort(kind="stable")
        return order[: np.count_nonzero(self.owner < self.num_classes)] if self.strangers else order


@lru_cache(maxsize=8)
def _all_pairs(count: int) -> tuple[Indices, Indices]:
    """First and second class of every pair, in `itertools.combinations` order."""
    first, second = np.triu_indices(count, 1)
    return first, second


def _present(labels: Indices) -> tuple[Indices, Indices, Indices]:
    """Distinct labels, ascending; their counts; and the position among them of each of the labels (B,)."""
    readable = len(labels) > 0 and labels.dtype == np.int64 and labels.flags.c_contiguous
    loops = loops_when_hot() if readable else None
    if loops is not None:
        classes, counts, owner = loops.count_labels(labels, _COUNTED)
        if len(classes):
            return classes, counts, owner
    low, high = (int(labels.min()), int(labels.max())) if len(labels) else (0, 0)
    if high - low >= _COUNTED:
        classes, owner, counts = np.unique(labels, return_inverse=True, return_counts=True)
        return classes, counts, owner
    owner = labels - low
    sizes = np.bincount(owner)
    classes = sizes.nonzero()[0]
    counts = sizes[classes]
    if len(classes) < len(sizes):
        owner = ((sizes > 0).cumsum() - 1)[owner]
    return classes + low, counts, owner


@dataclass(frozen=True, eq=False)
class ClassLayout:
    """The classes of a batch, their sizes, and the class pairs.

    Attributes:
        classes: (k,) labels present, ascending.
        counts: (k,) samples of every class.
        first: (P,) position in `classes` of the first class of every pair.
        second: (P,) position in `classes` of the second class of every pair.

    Example:
        >>> layout, rows = ClassLayout.of(np.array([7, 2, 7]))
        >>> layout.classes, layout.counts, layout.first, layout.second
        (array([2, 7]), array([1, 2]), array([0]), array([1]))
        >>> rows.owner, rows.order
        (array([1, 0, 1]), array([1, 0, 2]))
    """

    classes: Indices
    counts: Indices
    first: Indices
    second: Indices

    @classmethod
    def of(cls, labels: Indices) -> tuple[ClassLayout, ClassRows]:
        """Layout of labels (B,), all pairs in `itertools.combinations` order; and the class of each row."""
        classes, counts, owner = _present(labels)
        first, second = (side.copy() for side in _all_pairs(len(classes)))
        return cls(classes, counts, first, second), ClassRows(owner, len(classes))
