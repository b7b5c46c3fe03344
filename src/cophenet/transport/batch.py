"""Features grouped by class: the one place where a batch is checked, sorted and weighted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["ClassBatch", "FlowWeights", "group_by_class"]

FlowWeights = Literal["uniform", "distance", "inverse"] | Tensor

_SCHEMES = ("uniform", "distance", "inverse")


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
    """

    features: Tensor
    order: Tensor
    classes: NDArray[np.int64]
    counts: NDArray[np.int64]
    weights: Tensor | None
    first: NDArray[np.int64]
    second: NDArray[np.int64]

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
        return self.class_sums(self.features.double() * self.mass.double()[:, None])

    def sort_within_classes(self, scores: Tensor) -> Tensor:
        """Rows in ascending order of a score, class by class, for each column: (B, L) -> (B, L)."""
        by_score = scores.argsort(dim=0, stable=True)
        by_class = self.segments[by_score].argsort(dim=0, stable=True)
        return by_score.gather(0, by_class)


def _check_shapes(features: Tensor, labels: Tensor) -> None:
    if not isinstance(features, Tensor) or not isinstance(labels, Tensor):
        kinds = f"{type(features).__name__} and {type(labels).__name__}"
        raise ValueError(f"features and labels must be torch tensors, got {kinds}")
    if features.ndim != 2 or not features.is_floating_point():
        given = f"{tuple(features.shape)} {features.dtype}"
        raise ValueError(f"features must be a floating-point tensor of shape (B, d), got {given}")
    if labels.ndim != 1 or len(labels) != len(features):
        raise ValueError(f"labels must have shape ({len(features)},), got {tuple(labels.shape)}")
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise ValueError(f"labels must be integers, got {labels.dtype}")
    if labels.device != features.device:
        raise ValueError(
            f"labels are on {labels.device}, features on {features.device}; put both on one device"
        )
    if features.numel() == 0:
        raise ValueError(f"features must hold at least one sample, got shape {tuple(features.shape)}")


def _check_given_weights(weights: Tensor, features: Tensor) -> None:
    if weights.shape != features.shape[:1] or not weights.is_floating_point():
        given = f"{tuple(weights.shape)} {weights.dtype}"
        raise ValueError(
            f"flow_weights must be a floating-point tensor of shape ({len(features)},), got {given}"
        )
    if weights.device != features.device:
        raise ValueError(f"flow_weights are on {weights.device}, features on {features.device}")


def _known_groups(labels: Tensor, num_classes: int, regroup: Tensor | None) -> Tensor:
    """Group of every sample; -1 marks a label out of range, so that the one transfer shows it."""
    known = (labels >= 0) & (labels < num_classes)
    groups = labels if regroup is None else regroup[labels.clamp(0, num_classes - 1)]
    return groups.masked_fill(~known, -1)


def _weights_usable(weights: Tensor, ordered_labels: Tensor) -> Tensor:
    """Device flag: weights finite, not negative, and not all zero in any class."""
    starts = torch.ones_like(ordered_labels)
    starts[1:] = ordered_labels[1:] != ordered_labels[:-1]
    run = starts.cumsum(0) - 1
    sums = torch.zeros_like(weights).index_add(0, run, weights)
    return (torch.isfinite(weights) & (weights >= 0)).all() & (sums[run] > 0).all()


def _raise_not_finite(features: Tensor) -> None:
    bad = (~torch.isfinite(features)).any(dim=1).nonzero().flatten()
    # A finite batch whose sum overflows also lands here, and is fine.
    if len(bad):
        where = f"{len(bad)} of {len(features)} samples (first: sample {int(bad[0])})"
        raise ValueError(f"features must be finite, got NaN or inf in {where}")


def _softmax_weights(batch: ClassBatch, sign: float) -> Tensor:
    """Softmax over each class of the signed distance to the class mean."""
    z = batch.features.detach()
    offset = z - batch.means().detach()[batch.segments]
    distance: Tensor = torch.linalg.vector_norm(offset, dim=1).to(z.dtype)
    peak = z.new_full((batch.num_classes,), -torch.inf)
    peak = peak.scatter_reduce(0, batch.segments, sign * distance, "amax")
    raw = (sign * distance - peak[batch.segments]).exp()
    return raw / batch.class_sums(raw)[batch.segments]


def _flow_weights(batch: ClassBatch, scheme: FlowWeights) -> Tensor | None:
    if isinstance(scheme, Tensor):
        raw = scheme.detach().to(batch.features.dtype).index_select(0, batch.order)
        # Scaling by the largest first keeps tiny and huge given weights from under- or overflowing.
        peak = torch.zeros_like(raw[: batch.num_classes]).scatter_reduce(0, batch.segments, raw, "amax")
        raw = raw / peak[batch.segments]
        return raw / batch.class_sums(raw)[batch.segments]
    if scheme == "uniform":
        return None
    return _softmax_weights(batch, 1.0 if scheme == "distance" else -1.0)


def group_by_class(
    features: Tensor,
    labels: Tensor,
    *,
    flow_weights: FlowWeights = "uniform",
    num_classes: int | None = None,
    regroup: Tensor | None = None,
) -> ClassBatch:
    """Check a batch and group it by class, with one transfer from the device to the host.

    Args:
        features: (B, d) floating point; half precision is computed in float32.
        labels: (B,) integers.
        flow_weights: "uniform"; "distance" or "inverse", the softmax over a class of the
            distance to its mean or of its negative; or a tensor (B,) of masses, scaled to
            sum to one within each class. Constant in the backward pass.
        num_classes: if given, labels must lie in [0, num_classes).
        regroup: (num_classes,) class that each label stands for; None groups by the labels themselves.

    Returns:
        The grouped batch, with all class pairs in `itertools.combinations` order.

    Raises:
        ValueError: If a shape, type, label or weight is wrong, or a feature is not finite.

    Example:
        >>> batch = group_by_class(torch.eye(3), torch.tensor([7, 2, 7]))
        >>> batch.classes.tolist(), batch.counts.tolist(), batch.order.tolist()
        ([2, 7], [1, 2], [1, 0, 2])
    """
    _check_shapes(features, labels)
    if isinstance(flow_weights, Tensor):
        _check_given_weights(flow_weights, features)
    elif flow_weights not in _SCHEMES:
        raise ValueError(
            f"flow_weights must be one of {', '.join(_SCHEMES)} or a tensor, got {flow_weights!r}"
        )
    z = features if features.dtype == torch.float64 else features.float()
    groups = labels.long()
    if num_classes is not None:
        groups = _known_groups(groups, num_classes, regroup)
    ordered_labels, order = torch.sort(groups, stable=True)
    flags = [torch.isfinite(z.detach().sum())]
    if isinstance(flow_weights, Tensor):
        flags.append(_weights_usable(flow_weights.detach()[order], ordered_labels))
    host = torch.cat((ordered_labels, torch.stack(flags).long())).cpu().numpy()
    if not host[len(labels)]:
        _raise_not_finite(features.detach())
    if not host[-1] and isinstance(flow_weights, Tensor):
        raise ValueError(
            "flow_weights must be finite, not negative, and positive for a sample of every class"
        )
    on_host = host[: len(labels)]
    if num_classes is not None and on_host[0] < 0:
        wrong = labels[(labels < 0) | (labels >= num_classes)][0].item()
        raise ValueError(f"labels must lie in 0..{num_classes - 1}, the classes of the tree, got {wrong}")
    starts = np.flatnonzero(np.concatenate(([True], on_host[1:] != on_host[:-1])))
    first, second = np.triu_indices(len(starts), 1)
    batch = ClassBatch(
        features=z.index_select(0, order),
        order=order,
        classes=on_host[starts],
        counts=np.diff(starts, append=len(on_host)),
        weights=None,
        first=first,
        second=second,
    )
    return replace(batch, weights=_flow_weights(batch, flow_weights))
