"""Grouping by class: the one place where a batch is checked, sorted and weighted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NoReturn, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cophenet.transport.batch import ClassBatch, is_host, refuse_transforms, scaled_to_one
from cophenet.transport.class_layout import ClassLayout, ClassRows, HostArrays, Indices
from cophenet.transport.recalled import Recalled
from cophenet.transport.solvers.machine_code import loops_when_hot

__all__ = [
    "FlowWeights",
    "PreparedLabels",
    "Scheme",
    "check_batch",
    "group_by_class",
    "group_read",
    "group_unread",
    "known_groups",
    "raise_not_finite",
    "unit_rows",
]

Scheme = Literal["uniform", "distance", "inverse"]
FlowWeights = Scheme | Tensor

_SCHEMES = get_args(Scheme)


def check_batch(
    features: Tensor, labels: Tensor, flow_weights: FlowWeights = "uniform", *, host_labels: bool = False
) -> None:
    """Check the shapes, types and devices of a batch, which may be empty.

    Args:
        features: (B, d) floating point.
        labels: (B,) integers.
        flow_weights: The name of a scheme, or (B,).
        host_labels: Whether labels may be on the host while features are on another device.

    Example:
        >>> check_batch(torch.zeros(2, 3), torch.tensor([0.5, 1.0]))
        Traceback (most recent call last):
        ValueError: labels must be integers, got torch.float32
    """
    refuse_transforms(features, labels, flow_weights)
    _check_shapes(features, labels)
    if labels.device != features.device and not (host_labels and is_host(labels)):
        raise ValueError(
            f"labels are on {labels.device}, features on {features.device}; put both on one device"
        )
    _check_flow_weights(flow_weights, features)


def _check_shapes(features: Tensor, labels: Tensor) -> None:
    if not isinstance(features, Tensor) or not isinstance(labels, Tensor):
        kinds = f"{type(features).__name__} and {type(labels).__name__}"
        raise ValueError(f"features and labels must be torch tensors, got {kinds}")
    if features.layout != torch.strided:
        raise ValueError(f"features must be a dense tensor, got layout {features.layout}")
    if features.ndim != 2 or not features.is_floating_point():
        given = f"{tuple(features.shape)} {features.dtype}"
        raise ValueError(f"features must be a floating-point tensor of shape (B, d), got {given}")
    if labels.ndim != 1 or len(labels) != len(features):
        raise ValueError(f"labels must have shape ({len(features)},), got {tuple(labels.shape)}")
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise ValueError(f"labels must be integers, got {labels.dtype}")


def _check_flow_weights(weights: FlowWeights, features: Tensor) -> None:
    if not isinstance(weights, Tensor):
        if not isinstance(weights, str) or weights not in _SCHEMES:
            allowed = ", ".join(_SCHEMES)
            given = repr(weights) if isinstance(weights, str) else type(weights).__name__
            raise ValueError(f"flow_weights must be one of {allowed} or a tensor, got {given}")
        return
    if weights.shape != features.shape[:1] or not weights.is_floating_point():
        given = f"{tuple(weights.shape)} {weights.dtype}"
        raise ValueError(
            f"flow_weights must be a floating-point tensor of shape ({len(features)},), got {given}"
        )
    if weights.device != features.device:
        raise ValueError(f"flow_weights are on {weights.device}, features on {features.device}")


def known_groups(labels: Indices, num_classes: int | None = None, regroup: Indices | None = None) -> Indices:
    """Group of every sample.

    Args:
        labels: (B,) on the host.
        num_classes: If given, labels must lie in [0, num_classes).
        regroup: (num_classes,) class that each label is mapped to; None groups by the labels themselves.

    Raises:
        ValueError: If a label is out of range.

    Example:
        >>> known_groups(np.array([2, 0, 1]), 3, np.array([0, 0, 1]))
        array([1, 0, 0])
    """
    if num_classes is not None and len(labels) and not 0 <= labels.min() <= labels.max() < num_classes:
        wrong = labels[(labels < 0) | (labels >= num_classes)][0]
        raise ValueError(f"labels must lie in 0..{num_classes - 1}, the classes of the tree, got {wrong}")
    return labels if regroup is None else regroup[labels]


def _weights_usable(weights: Tensor, ordered_labels: Tensor) -> Tensor:
    """Device flag: weights finite, not negative, and not all zero in any class."""
    starts = torch.ones_like(ordered_labels)
    starts[1:] = ordered_labels[1:] != ordered_labels[:-1]
    run = starts.cumsum(0) - 1
    sums = torch.zeros_like(weights).index_add(0, run, weights)
    return (torch.isfinite(weights) & (weights >= 0)).all() & (sums[run] > 0).all()


def raise_not_finite(features: Tensor) -> NoReturn:
    """Raise an error that counts the non-finite samples of features (B, d) and names the first."""
    bad = (~torch.isfinite(features)).any(dim=1).nonzero().flatten()
    where = f"{len(bad)} of {len(features)} samples (first: sample {int(bad[0])})"
    raise ValueError(f"features must be finite, got NaN or inf in {where}")


def _softmax_weights(batch: ClassBatch, sign: float) -> Tensor:
    """Softmax over each class of the signed distance to the class mean."""
    batch = batch.rescaled()
    z = batch.features.detach()
    offset = z - batch.means().detach()[batch.segments]
    distance: Tensor = torch.linalg.vector_norm(offset, dim=1).to(z.dtype)
    peak = z.new_full((batch.num_classes,), -torch.inf)
    peak = peak.scatter_reduce(0, batch.segments, sign * distance, "amax")
    raw = (sign * distance - peak[batch.segments]).mul_(batch.unit).exp()
    return raw / batch.class_sums(raw)[batch.segments]


def _weighted(batch: ClassBatch, scheme: FlowWeights) -> ClassBatch:
    """The batch with its flow weights; a tensor must already be in the order of its rows."""
    if isinstance(scheme, str) and scheme == "uniform":
        return batch
    return replace(batch, weights=_flow_weights(batch, scheme))


def _flow_weights(batch: ClassBatch, scheme: FlowWeights) -> Tensor:
    """(B,) flow weights, summing to one in every class."""
    if isinstance(scheme, Tensor):
        raw = scheme.double()
        # Dividing by the largest first keeps tiny and huge weights from under- or overflowing.
        peak = raw.new_zeros(batch.num_classes).scatter_reduce(0, batch.segments, raw, "amax")
        raw = raw / peak[batch.segments]
        return (raw / batch.class_sums(raw)[batch.segments]).to(batch.features.dtype)
    return _softmax_weights(batch, 1.0 if scheme == "distance" else -1.0)


def _to_host(parts: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copy tensors to the host in one transfer; those of 8-byte types must come first, for alignment."""
    away = [part for part in parts.values() if not is_host(part)]
    if not away:
        return dict(parts)
    raw = torch.cat([part.contiguous().view(-1).view(torch.uint8) for part in away]).cpu()
    pieces = iter(torch.split(raw, [part.numel() * part.element_size() for part in away]))
    return {
        name: part if is_host(part) else next(pieces).view(part.dtype).view(part.shape)
        for name, part in parts.items()
    }


def _largest(z: Tensor) -> float:
    """Largest absolute value of features (N, d) on the host; NaN if one of them is."""
    loops = loops_when_hot(z)
    if loops is None:
        return max(abs(float(extreme)) for extreme in z.aminmax())
    integer, real = (np.int32, np.float32) if z.dtype == torch.float32 else (np.int64, np.float64)
    return float(integer(loops.largest_bits(z.numpy().view(integer))).view(real))


def _check_masses(mass: NDArray[np.float64], prepared: PreparedLabels) -> None:
    """Check the values of flow weights (N,) on the host."""
    owner, size = prepared.rows.owner, prepared.rows.num_classes
    known, positive = mass[owner < size], np.bincount(owner[mass > 0], minlength=size)[:size]
    if not ((known >= 0) & np.isfinite(known)).all() or not positive.all():
        raise ValueError(
            "flow_weights must be finite, not negative, and positive for a sample of every class"
        )


def unit_rows(vectors: Tensor) -> Tensor:
    """Rows divided by their Euclidean norm; a zero row stays zero, and its gradient is bounded.

    Args:
        vectors: (n, d) floating point, of any finite scale.

    Returns:
        (n, d).

    Example:
        >>> unit_rows(torch.tensor([[3e-30, 4e-30], [0.0, 0.0]]))
        tensor([[0.6000, 0.8000],
                [0.0000, 0.0000]])
    """
    if vectors.numel() == 0:
        return vectors
    # Scale by a power of two first, which is exact, so that no square is out of range.
    limit = -math.frexp(torch.finfo(vectors.dtype).tiny)[1] + 1
    exponents = vectors.detach().abs().amax(dim=1, keepdim=True).frexp().exponent.clamp(-limit, limit)
    scaled = vectors * torch.exp2(-exponents.to(vectors.dtype))
    norms: Tensor = torch.linalg.vector_norm(scaled, dim=1, keepdim=True)
    return scaled / norms.masked_fill(norms == 0, 1.0)


@dataclass(frozen=True, eq=False)
class PreparedLabels:
    """Labels that were read on the host, and arrays computed from them before the features are available.

    Attributes:
        layout: Their classes and class pairs.
        rows: The class of every sample of the batch, followed by the remembered samples.
        ahead: Arrays to move to a device in one transfer: the `order` of rows, and those of a distance.
        largest: Number of samples in the largest class; 0 if not known yet.
    """

    layout: ClassLayout
    rows: ClassRows
    ahead: HostArrays = field(default_factory=HostArrays)
    largest: int = 0

    @classmethod
    def of(cls, groups: Indices, recalled: Recalled | None = None) -> PreparedLabels:
        """Prepare samples of the given classes (B,), followed by the remembered samples."""
        if recalled is None:
            return cls(*ClassLayout.of(groups))
        size = len(groups)
        layout, known = ClassLayout.of(np.concatenate((groups, recalled.classes)))
        owner = np.full(size + len(recalled.features), known.num_classes)
        owner[:size] = known.owner[:size]
        owner[size + recalled.rows] = known.owner[size:]
        strangers = len(recalled.rows) < len(recalled.features)
        return cls(layout, ClassRows(owner, known.num_classes, strangers))

    def batch(self, z: Tensor, **known: Any) -> ClassBatch:
        """The batch of features (N, d), without weights."""
        layout, ahead = self.layout, self.ahead
        if not ahead.host and not is_host(z):
            ahead = HostArrays({"order": self.rows.order})
        parts = (layout.classes, layout.counts, None, layout.first, layout.second)
        return ClassBatch(z, self.rows, *parts, largest=self.largest, ahead=ahead, **known)


def group_by_class(
    features: Tensor,
    labels: Tensor,
    *,
    flow_weights: FlowWeights = "uniform",
    num_classes: int | None = None,
    regroup: Indices | None = None,
    keep_host: bool = False,
) -> ClassBatch:
    """Check a batch and group it by class, with one transfer from the device to the host.

    Args:
        features: (B, d) floating point; half precision is computed in float32.
        labels: (B,) integers.
        flow_weights: "uniform"; "distance" or "inverse", the softmax over a class of the
            distance to its mean or of its negative; or a tensor (B,) of masses, scaled to
            sum to one within each class. Constant in the backward pass.
        num_classes: if given, labels must lie in [0, num_classes).
        regroup: (num_classes,) class that each label is mapped to; None groups by the labels themselves.
        keep_host: Also bring features and weights to the host, in the same transfer.

    Returns:
        The grouped batch, with all class pairs in `itertools.combinations` order.

    Raises:
        ValueError: If a shape, type, label or weight is wrong, or a feature is not finite.

    Example:
        >>> batch = group_by_class(torch.eye(3), torch.tensor([7, 2, 7]))
        >>> batch.classes.tolist(), batch.counts.tolist(), batch.order.tolist()
        ([2, 7], [1, 2], [1, 0, 2])
    """
    check_batch(features, labels, flow_weights)
    return group_read(features, labels, flow_weights, num_classes, regroup, keep_host=keep_host)[0]


def group_read(
    features: Tensor,
    labels: Tensor,
    flow_weights: FlowWeights,
    num_classes: int | None,
    regroup: Indices | None,
    *,
    keep_host: bool = False,
    wide: bool = False,
    recalled: Recalled | None = None,
) -> tuple[ClassBatch, Indices]:
    """As `group_by_class`, for a batch that passed `check_batch`; values are checked here.

    Labels may already be on the host, and `recalled` samples are appended to the batch. With `wide`, features
    may be left unchecked, because the distance checks them. Also returns the group of every sample, (B,).
    """
    if features.numel() == 0:
        raise ValueError(f"features must hold at least one sample, got shape {tuple(features.shape)}")
    z = features if features.dtype == torch.float64 else features.float()
    given = flow_weights.detach().double() if isinstance(flow_weights, Tensor) else None
    parts, mass = [z.detach()], given
    if recalled is not None and len(recalled.features):
        parts.append(recalled.features.to(z.dtype))
        mass = None if given is None else torch.cat((given, recalled.weights))
    sent = {"labels": labels.long()}
    uniform = isinstance(flow_weights, str) and flow_weights == "uniform"
    unchecked = wide and uniform and is_host(z) and z.dtype == torch.float32
    # The largest absolute value shows whether all features are finite, and how large they are.
    extremes = [] if unchecked or not is_host(z) else [_largest(part) for part in parts]
    if not is_host(z):
        sent["flags"] = torch.stack([extreme for part in parts for extreme in part.aminmax()]).double()
    if mass is not None:
        sent["mass"] = mass
    if keep_host and not is_host(z):
        sent["features"] = parts[0] if len(parts) == 1 else torch.cat(parts)
    host = _to_host(sent)
    if "flags" in host:
        extremes = host["flags"].numpy().tolist()
    if not all(map(math.isfinite, extremes)):
        raise_not_finite(features.detach())
    peak = max(map(abs, extremes), default=1.0)
    groups = known_groups(host["labels"].numpy(), num_classes, regroup)
    prepared = PreparedLabels.of(groups, recalled)
    if "mass" in host:
        _check_masses(host["mass"].numpy(), prepared)
    batch = _whole(z, groups, given, prepared, recalled, peak=peak)
    if "features" not in host:
        return _weighted(batch, flow_weights if mass is None else mass[batch.order]), groups
    copy = prepared.batch(host["features"], peak=peak)
    copy = _weighted(copy, host["mass"][copy.order] if "mass" in host else flow_weights)
    weights = None if copy.weights is None else copy.weights.to(z.device, non_blocking=True)
    return replace(batch, weights=weights, copy=copy), groups


def _whole(
    z: Tensor,
    groups: Indices,
    given: Tensor | None,
    prepared: PreparedLabels,
    recalled: Recalled | None,
    **known: Any,
) -> ClassBatch:
    """The batch, followed by remembered samples if there are any, without weights."""
    if recalled is None:
        return prepared.batch(z, **known)
    batch = prepared.batch(recalled.behind(z, groups, given), **known)
    return replace(batch, constant=batch.order >= len(z))


def group_unread(
    features: Tensor,
    groups: Indices,
    prepared: PreparedLabels,
    flow_weights: FlowWeights,
    *,
    in_range: bool = False,
    recalled: Recalled | None = None,
) -> tuple[ClassBatch, Tensor]:
    """Group features on an accelerator by labels known on the host, without reading from the device.

    Args:
        features: (B, d) floating point, which passed `check_batch`.
        groups: (B,) their classes.
        prepared: The prepared labels of these and of `recalled`.
        flow_weights: As for `group_by_class`.
        in_range: Whether features of any size are accepted and need not be rescaled.
        recalled: Remembered samples to append.

    Returns:
        The batch, its features divided by a power of two so that the largest is about 1, unless `in_range`;
        and a device tensor with the largest absolute feature and, for given weights, whether they are valid.
    """
    z = features if features.dtype == torch.float64 else features.float()
    given = flow_weights.detach().double() if isinstance(flow_weights, Tensor) else None
    batch = _whole(z, groups, given, prepared, recalled)
    if in_range:
        with torch.no_grad():
            peak: Tensor = torch.linalg.vector_norm(batch.given, torch.inf)
    else:
        z, exponent, peak = scaled_to_one(batch.given)
        batch = replace(batch, given=z, exponent=exponent)
    if given is None:
        return _weighted(batch, flow_weights), peak
    mass = given if recalled is None else torch.cat((given, recalled.weights))
    mass = mass[batch.order]
    flags = torch.stack((peak.double(), _weights_usable(mass, batch.segments).double()))
    return _weighted(batch, mass), flags
