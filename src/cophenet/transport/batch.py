"""Features grouped by class: what every distance starts from."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cophenet.transport.layout import ClassRows, HostArrays, computed_once
from cophenet.transport.means import ClassShares, class_means

__all__ = [
    "ClassBatch",
    "LateRead",
    "is_host",
    "is_transformed",
    "out_of_range",
    "refuse_transforms",
    "resolution",
    "scaled_to_one",
    "times_power_of_two",
    "without_autocast",
]

# Largest entries of features from 2^-range to 2^range are computed with as they are: squares, their sums and
# the squares of differences 10^-14 times as large stay far from the ends of the type.
_RANGE = {torch.float32: 16, torch.float64: 128}


def is_host(values: Tensor) -> bool:
    """Whether values can be read: at no cost, and not while a compiler traces what becomes of them."""
    return values.device.type == "cpu" and not torch.compiler.is_compiling()


def is_transformed(values: object) -> bool:
    """Whether values are those of a transform of `torch.func`, such as `vmap`, or batched gradients."""
    if not isinstance(values, Tensor) or torch.compiler.is_compiling():
        return False
    kinds = torch._C._functorch
    return kinds.is_functorch_wrapped_tensor(values) or kinds.is_legacy_batchedtensor(values)


def refuse_transforms(*values: object) -> None:
    """Refuse what a transform of `torch.func` hands on in place of a tensor.

    Raises:
        ValueError: If one of the values is such.
    """
    if any(is_transformed(value) for value in values):
        raise ValueError(
            "class distances and CPCC cannot be transformed by torch.func (vmap, grad, jacrev, jvp), because "
            "which samples are matched is read from their values; call them on plain tensors and use "
            "backward(), torch.autograd.grad or torch.autograd.functional.jacobian"
        )


def without_autocast(values: object) -> AbstractContextManager[None]:
    """Context in which nothing on the device of a tensor is computed in half precision."""
    device = getattr(values, "device", None)
    kind = device.type if isinstance(device, torch.device) else "cpu"
    # Nothing is made where there is nothing to end, which is far cheaper; some devices have no autocast.
    if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
        return torch.autocast(kind, enabled=False)
    return nullcontext()


# Where copies to the host run behind the work of the device; "meta" is for tests.
_QUEUED = ("cuda", "meta")


class LateRead:
    """A value that is copied to the host behind the work of its device, to be read later without a wait."""

    def __init__(self, values: Tensor) -> None:
        queued = values.device.type in _QUEUED
        self._host = torch.empty(values.shape, dtype=values.dtype, pin_memory=values.is_cuda)
        self._host.copy_(values, non_blocking=queued)
        self._event = torch.cuda.Event() if values.is_cuda else None  # type: ignore[no-untyped-call]
        if self._event is not None:
            self._event.record(torch.cuda.current_stream(values.device))

    def read(self) -> Tensor:
        """The value; waits only if the device has not even come to the copy."""
        if self._event is not None:
            self._event.synchronize()
        return self._host

    def __getstate__(self) -> dict[str, Any]:
        """State for pickling and copying: the value alone."""
        return {"_host": self.read(), "_event": None}


class _ScaledToOne(torch.autograd.Function):
    """Features divided by the power of two above their largest entry, which is not read."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        peak: Tensor = torch.linalg.vector_norm(values, torch.inf)
        # All features may be 0; and the power that brings the smallest numbers to 1 is out of range.
        bounded = peak.clamp(min=torch.finfo(values.dtype).tiny)
        share, exponent = torch.frexp(bounded)
        ctx.factor = share.div_(bounded)
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(exponent, peak)
        return values * ctx.factor, exponent, peak

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, *_: None) -> Tensor | None:
        if grad is None:
            return None
        largest = torch.finfo(grad.dtype).max
        scaled: Tensor = grad * ctx.factor
        return scaled.clamp_(-largest, largest)


def scaled_to_one(values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Values times 2^-exponent so that none is above 1, the exponent, and the largest absolute value before.

    Nothing is read from a device, and nothing is rounded. The peak is NaN or inf if one of the values is.

    Example:
        >>> scaled_to_one(torch.tensor([1e-3, 3.0]))
        (tensor([2.5000e-04, 7.5000e-01]), tensor(2, dtype=torch.int32), tensor(3.))
    """
    result: tuple[Tensor, Tensor, Tensor] = _ScaledToOne.apply(values)  # type: ignore[no-untyped-call]
    return result


class _TimesPowerOfTwo(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, exponent: int, straight: bool) -> Tensor:
        ctx.exponent = 0 if straight else exponent
        return _shifted(values, exponent)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        # The gradient of a loss by features of 1e-40 is 1e40: the largest number of the type stands for more.
        largest = torch.finfo(grad.dtype).max
        return _shifted(grad, ctx.exponent).clamp(-largest, largest), None, None


def _shifted(values: Tensor, exponent: int) -> Tensor:
    # In two steps: the power alone may lie outside of the type.
    return values * 2.0 ** (exponent // 2) * 2.0 ** (exponent - exponent // 2)


def times_power_of_two(values: Tensor, exponent: int, straight: bool = False) -> Tensor:
    """Multiply by 2^exponent, exactly; `straight` passes the gradient through as it is.

    A function f with f(c z) = c f(z) has the same gradient at z and at c z: scaling down before it and up
    after it, both straight, is exact for values and gradients of any size.

    Example:
        >>> times_power_of_two(torch.tensor([1e-40, 3.0]), 10)
        tensor([1.0240e-37, 3.0720e+03])
    """
    scaled: Tensor = _TimesPowerOfTwo.apply(values, exponent, straight)  # type: ignore[no-untyped-call]
    return scaled


def out_of_range(peak: float, dtype: torch.dtype) -> int:
    """The power of two to divide features by whose largest absolute entry is `peak`; 0 if they may stay.

    Example:
        >>> out_of_range(3.0, torch.float32), out_of_range(3e30, torch.float32)
        (0, 101)
    """
    exponent = math.frexp(peak)[1] - 1 if peak else 0
    return exponent if abs(exponent) > _RANGE[dtype] else 0


def resolution(dtype: torch.dtype, samples: int) -> float:
    """What of the magnitude of features is rounding, as a share of it.

    Every entry z of a feature is known to eps |z|, its last place: so a feature is known to eps times its
    norm, and the difference of two to twice that; twice again, for what the network before rounded. Means and
    projections of n samples are summed in float64, which adds n eps of that type.

    Args:
        dtype: What is computed in, float32 or float64.
        samples: Samples of the largest class.
    """
    return 4 * torch.finfo(dtype).eps + samples * torch.finfo(torch.float64).eps


@dataclass(frozen=True, eq=False)
class ClassBatch:
    """A batch whose samples stand class by class, each class in batch order.

    What decides shapes and loops (classes, counts, pairs) is kept on the host as numpy
    arrays; what is computed with (features, weights) stays on its device.

    Attributes:
        given: (N, d) float32 or float64 features as the caller has them; carries gradient.
        rows: Which of them belong to which class; there may be some that do not belong to the batch.
        classes: (k,) labels present, ascending.
        counts: (k,) samples of every class.
        weights: (B,) flow weights, summing to one in every class; None means uniform.
        first: (P,) position in `classes` of the first class of every pair.
        second: (P,) position in `classes` of the second class of every pair.
        copy: The same batch on the host, if it was asked for and the features are elsewhere.
        constant: (B,) which rows are of earlier batches and need no gradient; None if all need one.
        peak: The largest absolute entry of the features.
        exponent: The features are those that were given divided by 2^exponent; see `rescaled`. A tensor where
            it is not known on the host.
        largest: Samples of the largest class, if it is known already.
        ahead: What was made of the labels ahead of the features.
    """

    given: Tensor
    rows: ClassRows
    classes: NDArray[np.int64]
    counts: NDArray[np.int64]
    weights: Tensor | None
    first: NDArray[np.int64]
    second: NDArray[np.int64]
    copy: ClassBatch | None = None
    constant: Tensor | None = None
    peak: float = 1.0
    exponent: int | Tensor = 0
    largest: int = 0
    ahead: HostArrays = field(default_factory=HostArrays)

    @computed_once
    def order(self) -> Tensor:
        """(B,) position in the features as given of every row."""
        if "order" in self.ahead.host:
            return self.ahead.on(self.given.device)["order"]
        return self.on_device(self.rows.order)

    @computed_once
    def features(self) -> Tensor:
        """(B, d) the features, rows of one class contiguous; carries gradient."""
        return self.given.index_select(0, self.order)

    @property
    def on_host(self) -> ClassBatch:
        """The batch where its values can be read freely."""
        if self.copy is not None:
            return self.copy
        if is_host(self.given):
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

    @computed_once
    def offsets(self) -> NDArray[np.int64]:
        """(k + 1,) class c owns the rows `offsets[c]:offsets[c + 1]`."""
        return np.concatenate(([0], np.cumsum(self.counts)))

    @computed_once
    def segments(self) -> Tensor:
        """(B,) position in `classes` of every row."""
        return self.on_device(np.repeat(np.arange(self.num_classes), self.counts))

    @computed_once
    def mass(self) -> Tensor:
        """(B,) the flow weights, uniform ones written out."""
        if self.weights is not None:
            return self.weights
        return self.on_device(np.repeat(1.0 / self.counts, self.counts)).to(self.given.dtype)

    @computed_once
    def exact_mass(self) -> Tensor:
        """(B,) the flow weights in float64, where float32 ones would miss their sum of one."""
        mass = self.mass.double()
        return mass / self.class_sums(mass)[self.segments]

    @property
    def unit(self) -> float | Tensor:
        """What a distance of 1 between these features is between those that were given."""
        if isinstance(self.exponent, Tensor):
            return torch.exp2(self.exponent.double())
        return 2.0**self.exponent

    @computed_once
    def excess(self) -> int:
        """The power of two to divide the features by, so that what is computed of them stays in range."""
        return out_of_range(self.peak, self.given.dtype)

    def rescaled(self, straight: bool = False) -> ClassBatch:
        """The batch with features of about 1 where theirs are very large or very small, else as it is.

        Divided by a power of two, so nothing is rounded: every distance then works at every scale.

        Args:
            straight: Leave the gradient as it is, for `times_power_of_two` afterwards.
        """
        excess = self.excess
        if not excess:
            return self
        return replace(
            self,
            given=times_power_of_two(self.given, -excess, straight),
            copy=None if self.copy is None else self.copy.rescaled(),
            peak=math.ldexp(self.peak, -excess),
            exponent=self.exponent + excess,
        )

    @property
    def resolution(self) -> float:
        """What of the features' magnitude is rounding, see `resolution`."""
        return resolution(self.given.dtype, self.largest or int(self.counts.max()))

    def largest_norm(self, order: Literal[1, 2] = 2) -> Tensor:
        """The largest norm of a sample that carries mass, a scalar without gradient."""
        z = self.given
        wide = None if is_host(z) else torch.float64  # there features need not be in range
        with torch.no_grad():
            # torch's own norm of order 1 is five times slower than this.
            norms: Tensor = (
                z.abs().sum(dim=1) if order == 1 else torch.linalg.vector_norm(z, dim=1, dtype=wide)
            )
            if self.weights is not None or self.rows.strangers:
                norms = norms.index_select(0, self.order)
            if self.weights is not None:
                norms = norms * (self.weights > 0)
            return norms.amax()

    def on_device(self, array: NDArray[np.generic]) -> Tensor:
        """Move a host array to the device of the features."""
        return torch.from_numpy(array).to(self.given.device, non_blocking=True)

    def class_sums(self, values: Tensor) -> Tensor:
        """Sum rows by class: (B, ...) -> (k, ...), differentiable."""
        zeros = values.new_zeros(self.num_classes, *values.shape[1:])
        return zeros.index_add(0, self.segments, values)

    def means(self) -> Tensor:
        """(k, d) float64 class means under the flow weights, differentiable; see `class_means`."""
        return class_means(self.given, self.shares)

    @computed_once
    def shares(self) -> ClassShares:
        """What every one of the features as given counts in its class."""
        if "owner" in self.ahead.host:
            ready = self.ahead.on(self.given.device)
            owner, counts = ready["owner"], ready["counts"]
        else:
            owner, counts = self.on_device(self.rows.owner), self.on_device(self.counts)
        mass = None
        if self.weights is not None:
            share = self.exact_mass
            mass = share.new_zeros(len(self.given)).index_copy_(0, self.order, share)
        return ClassShares(owner, counts[:, None], mass, self.rows.strangers)

    def sort_within_classes(self, scores: Tensor) -> Tensor:
        """Rows in ascending order of a score, class by class, for every score: (L, B) -> (L, B).

        One sort of keys instead of two: the class, plus where in its own spread a row stands, which float64
        resolves as finely as the scores themselves.
        """
        starts = self.on_device(np.repeat(self.offsets[:-1], self.counts))
        spread = scores.double() - scores.double().index_select(1, starts)
        reach = spread.new_full((len(scores), self.num_classes), torch.finfo(torch.float64).tiny)
        reach.scatter_reduce_(1, self.segments.expand_as(spread), spread.abs(), "amax")
        keys = spread.div_(4 * reach.index_select(1, self.segments)).add_(self.segments)
        return keys.argsort(dim=1, stable=True)
