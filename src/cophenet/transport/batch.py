"""Features grouped by class: the input of every distance."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cophenet.transport.class_layout import ClassRows, HostArrays, computed_once
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

# Features whose largest entry is between 2^-range and 2^range are not rescaled: squares, their sums and the
# squares of differences 10^-14 times as large stay in the range of the type.
_RANGE = {torch.float32: 16, torch.float64: 128}


def is_host(values: Tensor) -> bool:
    """Whether values can be read without a device transfer, and no compiler is tracing."""
    return values.device.type == "cpu" and not torch.compiler.is_compiling()


def is_transformed(*values: object) -> bool:
    """Whether a value is wrapped by a transform of `torch.func`, such as `vmap`, or batched gradients."""
    if torch.compiler.is_compiling():
        return False
    kinds = torch._C._functorch
    return any(
        kinds.is_functorch_wrapped_tensor(value) or kinds.is_legacy_batchedtensor(value)
        for value in values
        if isinstance(value, Tensor)
    )


def refuse_transforms(*values: object) -> None:
    """Check that no value is wrapped by a transform of `torch.func`.

    Raises:
        ValueError: If one of the values is.
    """
    if is_transformed(*values):
        raise ValueError(
            "class distances and CPCC cannot be transformed by torch.func (vmap, grad, jacrev, jvp), because "
            "which samples are matched is read from their values; call them on plain tensors and use "
            "backward(), torch.autograd.grad or torch.autograd.functional.jacobian"
        )


def without_autocast(values: object) -> AbstractContextManager[None]:
    """Context manager that turns autocast off on the device of a tensor."""
    device = getattr(values, "device", None)
    kind = device.type if isinstance(device, torch.device) else "cpu"
    # A null context where autocast is off is far cheaper; some devices have no autocast.
    if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
        return torch.autocast(kind, enabled=False)
    return nullcontext()


# Devices whose copies to the host are asynchronous; "meta" is for tests.
_QUEUED = ("cuda", "meta")


class LateRead:
    """A value that is copied to the host asynchronously, to be read later without waiting."""

    def __init__(self, values: Tensor) -> None:
        queued = values.device.type in _QUEUED
        self._host = torch.empty(values.shape, dtype=values.dtype, pin_memory=values.is_cuda)
        self._host.copy_(values, non_blocking=queued)
        self._event = torch.cuda.Event() if values.is_cuda else None  # type: ignore[no-untyped-call]
        if self._event is not None:
            self._event.record(torch.cuda.current_stream(values.device))

    def read(self) -> Tensor:
        """The value; waits only if the copy is not finished yet."""
        if self._event is not None:
            self._event.synchronize()
        return self._host

    def __getstate__(self) -> dict[str, Any]:
        """State for pickling and copying: the value alone."""
        return {"_host": self.read(), "_event": None}


class _ScaledToOne(torch.autograd.Function):
    """Features divided by the power of two above their largest entry, without a device read."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        peak: Tensor = torch.linalg.vector_norm(values, torch.inf)
        # All features may be 0; and the power of two that scales the smallest numbers to 1 would overflow.
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
        # The gradient w.r.t. features of size 1e-40 is about 1e40: clamped to the largest number of the type.
        largest = torch.finfo(grad.dtype).max
        return _shifted(grad, ctx.exponent).clamp(-largest, largest), None, None


def _shifted(values: Tensor, exponent: int) -> Tensor:
    # In two steps, because the power alone may be out of range.
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
    """Exponent of two to rescale features by whose largest absolute entry is `peak`; 0 if in range.

    Example:
        >>> out_of_range(3.0, torch.float32), out_of_range(3e30, torch.float32)
        (0, 101)
    """
    exponent = math.frexp(peak)[1] - 1 if peak else 0
    return exponent if abs(exponent) > _RANGE[dtype] else 0


def resolution(dtype: torch.dtype, samples: int) -> float:
    """Relative rounding error of features and of what is computed from them.

    Every entry z has a rounding error of eps |z|, hence a feature vector one of eps times its norm, and the
    difference of two vectors twice that; doubled again for rounding in the network before. Means and
    projections of n samples are summed in float64, which adds n eps of that type.

    Args:
        dtype: Type of the computation, float32 or float64.
        samples: Number of samples in the largest class.
    """
    return 4 * torch.finfo(dtype).eps + samples * torch.finfo(torch.float64).eps


@dataclass(frozen=True, eq=False)
class ClassBatch:
    """A batch with its samples sorted by class, in batch order within each class.

    Arrays that determine shapes and loops (classes, counts, pairs) are NumPy arrays on the host; features
    and weights stay on their device.

    Attributes:
        given: (N, d) float32 or float64 features in the caller's order; carries gradient.
        rows: The class of each of them; some may not belong to the batch.
        classes: (k,) labels present, ascending.
        counts: (k,) samples of every class.
        weights: (B,) flow weights, summing to one in every class; None means uniform.
        first: (P,) position in `classes` of the first class of every pair.
        second: (P,) position in `classes` of the second class of every pair.
        copy: The same batch on the host, if requested and the features are on another device.
        constant: (B,) True for rows of earlier batches, which need no gradient; None if all need one.
        peak: The largest absolute entry of the features.
        exponent: The caller's features were divided by 2^exponent, see `rescaled`. A tensor if it is not
            known on the host.
        largest: Number of samples in the largest class; 0 if not known yet.
        ahead: Arrays computed from the labels before the features were available.
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
        """(B,) position of every row in `given`."""
        if "order" in self.ahead.host:
            return self.ahead.on(self.given.device)["order"]
        return self.on_device(self.rows.order)

    @computed_once
    def features(self) -> Tensor:
        """(B, d) the features, rows of one class contiguous; carries gradient."""
        return self.given.index_select(0, self.order)

    @property
    def on_host(self) -> ClassBatch:
        """The batch with features and weights on the host."""
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
        """How many class pairs are to be computed."""
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
        """(B,) the flow weights, as a tensor also if they are uniform."""
        if self.weights is not None:
            return self.weights
        return self.on_device(np.repeat(1.0 / self.counts, self.counts)).to(self.given.dtype)

    @computed_once
    def exact_mass(self) -> Tensor:
        """(B,) the flow weights in float64, rescaled: float32 weights do not sum to one exactly."""
        mass = self.mass.double()
        return mass / self.class_sums(mass)[self.segments]

    @property
    def unit(self) -> float | Tensor:
        """2^exponent: what distances of these features are multiplied by to get those of the caller's."""
        if isinstance(self.exponent, Tensor):
            return torch.exp2(self.exponent.double())
        return 2.0**self.exponent

    @computed_once
    def excess(self) -> int:
        """Exponent of two to rescale the features by, so that computations stay in range; 0 for none."""
        return out_of_range(self.peak, self.given.dtype)

    def rescaled(self, straight: bool = False) -> ClassBatch:
        """The batch with very large or very small features rescaled to about 1; otherwise unchanged.

        Features are divided by a power of two, which is exact, so that every distance works at every scale.

        Args:
            straight: Do not scale the gradient, for a straight `times_power_of_two` of the distances.
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
        """Relative rounding error of the features, see the function `resolution`."""
        return resolution(self.given.dtype, self.largest or int(self.counts.max()))

    def largest_norm(self, order: Literal[1, 2] = 2) -> Tensor:
        """The largest norm of a sample with positive mass, a scalar without gradient."""
        z = self.given
        wide = None if is_host(z) else torch.float64  # on an accelerator features may be out of range
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
        """Class and weight of every row of `given`."""
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
        """Row numbers sorted by class and then by score, for each of L scores: (L, B) -> (L, B).

        A single sort: the key is the class number plus a row's position in the range of scores of its class,
        scaled to [-1/4, 1/4], which float64 resolves as finely as the scores themselves.
        """
        starts = self.on_device(np.repeat(self.offsets[:-1], self.counts))
        spread = scores.double() - scores.double().index_select(1, starts)
        reach = spread.new_full((len(scores), self.num_classes), torch.finfo(torch.float64).tiny)
        reach.scatter_reduce_(1, self.segments.expand_as(spread), spread.abs(), "amax")
        keys = spread.div_(4 * reach.index_select(1, self.segments)).add_(self.segments)
        return keys.argsort(dim=1, stable=True)
