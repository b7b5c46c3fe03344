"""Features grouped by class: what every distance starts from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["ClassBatch", "is_host"]


def is_host(values: Tensor) -> bool:
    """Whether reading values costs no transfer from a device."""
    return values.device.type == "cpu"


@dataclass(frozen=True, eq=False)
class ClassBatch:
    """A batch whose samples stand class by class, each class in batch order.

    What decides shapes and loops (classes, counts, pairs) is kept on the host as numpy
    arrays; what is computed with (features, weights) stays on its device.

    Attributes:
        features: (B, d) float32 or float64, rows of one class contiguous; carries gradient.
        order: (B,) position in the caller's batch of every row.
        classes: (k,) labels present, ascending.
        counts: (k,) samples of every class.
        weights: (B,) flow weights, summing to one in every class; None means uniform.
        first: (P,) position in `classes` of the first class of every pair.
        second: (P,) position in `classes` of the second class of every pair.
        copy: The same batch on the host, if it was asked for and the features are elsewhere.
        constant: (B,) which rows are of earlier batches and need no gradient; None if all need one.
    """

    features: Tensor
    order: Tensor
    classes: NDArray[np.int64]
    counts: NDArray[np.int64]
    weights: Tensor | None
    first: NDArray[np.int64]
    second: NDArray[np.int64]
    copy: ClassBatch | None = None
    constant: Tensor | None = None

    @property
    def on_host(self) -> ClassBatch:
        """The batch where its values can be read freely."""
        if self.copy is not None:
            return self.copy
        if is_host(self.features):
            return self
        raise RuntimeError("the batch was grouped without a copy on the host")

    @property
    def num_classes(self) -> int:
        """How many classes are present."""
        return len(self.classes)

    @property
    def num_pairs(self) -> int:
        """How many class pairs are asked for."""
        return len(self.first)

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """(k + 1,) class c owns the rows `offsets[c]:offsets[c + 1]`."""
        return np.concatenate(([0], np.cumsum(self.counts)))

    @cached_property
    def segments(self) -> Tensor:
        """(B,) position in `classes` of every row."""
        return self.on_device(np.repeat(np.arange(self.num_classes), self.counts))

    @cached_property
    def mass(self) -> Tensor:
        """(B,) the flow weights, uniform ones written out."""
        if self.weights is not None:
            return self.weights
        return self.on_device(np.repeat(1.0 / self.counts, self.counts)).to(self.features.dtype)

    @cached_property
    def exact_mass(self) -> Tensor:
        """(B,) the flow weights in float64, where float32 ones would miss their sum of one."""
        mass = self.mass.double()
        return mass / self.class_sums(mass)[self.segments]

    def on_device(self, array: NDArray[np.generic]) -> Tensor:
        """Move a host array to the device of the features."""
        return torch.from_numpy(array).to(self.features.device, non_blocking=True)

    def class_sums(self, values: Tensor) -> Tensor:
        """Sum rows by class: (B, ...) -> (k, ...), differentiable."""
        zeros = values.new_zeros(self.num_classes, *values.shape[1:])
        return zeros.index_add(0, self.segments, values)

    def means(self) -> Tensor:
        """(k, d) float64 class means under the flow weights, differentiable.

        In float64, because the difference of two close means far from the origin is what matters.
        """
        return self.class_sums(self.features.double() * self.exact_mass[:, None])

    def sort_within_classes(self, scores: Tensor) -> Tensor:
        """Rows in ascending order of a score, class by class, for every score: (L, B) -> (L, B).

        One sort of keys instead of two: the class, plus where in its spread a row stands, which float64
        resolves as finely as the scores themselves.
        """
        starts = self.on_device(np.repeat(self.offsets[:-1], self.counts))
        spread = scores.double() - scores.double().index_select(1, starts)
        reach = spread.abs().amax(dim=1, keepdim=True).clamp_(min=torch.finfo(torch.float64).tiny)
        return (spread.div_(4 * reach)).add_(self.segments).argsort(dim=1, stable=True)
