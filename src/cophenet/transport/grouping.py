"""Grouping by class: the one place where a batch is checked, sorted and weighted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cophenet.transport.batch import ClassBatch, is_host, refuse_transforms, scaled_to_one
from cophenet.transport.layout import ClassLayout, HostArrays

__all__ = [
    "ABSENT",
    "FlowWeights",
    "PreparedLabels",
    "Recalled",
    "Scheme",
    "check_batch",
    "group_by_class",
    "group_checked",
    "group_unread",
    "regrouped",
    "unit_rows",
]

Scheme = Literal["uniform", "distance", "inverse"]
FlowWeights = Scheme | Tensor

# Class of a remembered sample that is none; it sorts behind all others.
ABSENT = torch.iinfo(torch.int64).max


@dataclass(frozen=True, eq=False)
class Recalled:
    """Samples of earlier batches, constant, to be grouped behind those of a batch.

    Attributes:
        features: (M, d).
        classes: (M,) their classes after regrouping; those of class `ABSENT` are left out.
        weights: (M,) their masses, used where the batch's are given.
    """

    features: Tensor
    classes: Tensor
    weights: Tensor


def check_batch(
    features: Tensor, labels: Tensor, flow_weights: FlowWeights = "uniform", *, host_labels: bool = False
) -> None:
    """Refuse what is no batch, as far as shapes and types show it; one without samples is none the less.

    Args:
        features: (B, d) floating point.
        labels: (B,) integers.
        flow_weights: The name of a scheme, or (B,).
        host_labels: Whether labels may be on the host while features are elsewhere.

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
        if not isinstance(weights, str) or weights not in get_args(Scheme):
            allowed = ", ".join(get_args(Scheme))
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


def regrouped(labels: Tensor, regroup: Tensor | None, num_classes: int) -> Tensor:
    """Group of every sample; -1 marks a label out of range, so that the one transfer shows it.

    Example:
        >>> regrouped(torch.tensor([2, 0, 3]), torch.tensor([0, 0, 1]), 3)
        tensor([ 1,  0, -1])
    """
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


def _sorted(groups: Tensor) -> tuple[Tensor, Tensor]:
    """Classes (B,) in ascending order, and where each stood; those of one class stay in order."""
    if not is_host(groups):
        return torch.sort(groups, stable=True)
    values = groups.numpy()
    low, high = int(values.min()), int(values.max())
    # NumPy sorts numbers of 16 bits by their digits, several times faster.
    short = high - low < 1 << 15
    order = ((values - low).astype(np.int16) if short else values).argsort(kind="stable")
    return torch.from_numpy(values[order]), torch.from_numpy(order)


def _raise_not_finite(features: Tensor) -> None:
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


def _flow_weights(batch: ClassBatch, scheme: FlowWeights) -> Tensor | None:
    """(B,) flow weights; given ones are in the order of the batch's rows already."""
    if isinstance(scheme, Tensor):
        raw = scheme.double()
        # Scaling by the largest first keeps tiny and huge given weights from under- or overflowing.
        peak = raw.new_zeros(batch.num_classes).scatter_reduce(0, batch.segments, raw, "amax")
        raw = raw / peak[batch.segments]
        return (raw / batch.class_sums(raw)[batch.segments]).to(batch.features.dtype)
    if scheme == "uniform":
        return None
    return _softmax_weights(batch, 1.0 if scheme == "distance" else -1.0)


def _to_host(parts: Sequence[Tensor]) -> list[Tensor]:
    """Copy tensors of 8-byte numbers, then any others, to the host in one transfer."""
    if all(is_host(part) for part in parts):
        return list(parts)
    raw = torch.cat([part.contiguous().view(-1).view(torch.uint8) for part in parts]).cpu()
    pieces = torch.split(raw, [part.numel() * part.element_size() for part in parts])
    return [piece.view(part.dtype).view(part.shape) for piece, part in zip(pieces, parts, strict=True)]


def _check_host(
    host_labels: NDArray[np.int64], flags: Tensor, features: Tensor, labels: Tensor, num_classes: int | None
) -> float:
    """Raise for what only the values could show; the largest absolute value of a feature."""
    low, high, *usable = flags.numpy().tolist()
    if not (math.isfinite(low) and math.isfinite(high)):
        _raise_not_finite(features.detach())
    if not all(usable):
        allowed = "finite, not negative, and positive for a sample of every class"
        raise ValueError(f"flow_weights must be {allowed}")
    if num_classes is not None and not 0 <= host_labels[0] <= host_labels[-1] < num_classes:
        wrong = labels[(labels < 0) | (labels >= num_classes)][0].item()
        raise ValueError(f"labels must lie in 0..{num_classes - 1}, the classes of the tree, got {wrong}")
    return float(max(high, -low))


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
    # By a power of two first, which is exact, so that no square is out of range.
    limit = -math.frexp(torch.finfo(vectors.dtype).tiny)[1] + 1
    exponents = vectors.detach().abs().amax(dim=1, keepdim=True).frexp().exponent.clamp(-limit, limit)
    scaled = vectors * torch.exp2(-exponents.to(vectors.dtype))
    norms: Tensor = torch.linalg.vector_norm(scaled, dim=1, keepdim=True)
    return scaled / norms.masked_fill(norms == 0, 1.0)


def group_by_class(
    features: Tensor,
    labels: Tensor,
    *,
    flow_weights: FlowWeights = "uniform",
    num_classes: int | None = None,
    regroup: Tensor | None = None,
    keep_host: bool = False,
    recalled: Recalled | None = None,
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
        keep_host: Also bring features and weights to the host, in the same transfer.
        recalled: Earlier samples that count as well, behind the batch's; needs `num_classes`.

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
    return group_checked(
        features,
        labels,
        flow_weights=flow_weights,
        num_classes=num_classes,
        regroup=regroup,
        keep_host=keep_host,
        recalled=recalled,
    )


def group_checked(
    features: Tensor,
    labels: Tensor,
    *,
    flow_weights: FlowWeights,
    num_classes: int | None,
    regroup: Tensor | None,
    keep_host: bool,
    recalled: Recalled | None,
) -> ClassBatch:
    """As `group_by_class`, of a batch that passed `check_batch`; what only values show is checked here."""
    if features.numel() == 0:
        raise ValueError(f"features must hold at least one sample, got shape {tuple(features.shape)}")
    groups = labels.long()
    known = num_classes if regroup is None else len(regroup)
    if known is not None and (regroup is not None or recalled is not None):
        groups = regrouped(groups, regroup, known)
    z = features if features.dtype == torch.float64 else features.float()
    given = flow_weights.detach() if isinstance(flow_weights, Tensor) else None
    if recalled is not None:
        groups, z, given = _with_recalled(groups, z, given, recalled)
    ordered_labels, order = _sorted(groups)
    given = None if given is None else given[order]
    # The extremes show whether any feature is not finite, and how large they are.
    flags = torch.stack(z.detach().aminmax()).double()
    if given is not None:
        flags = torch.cat((flags, _weights_usable(given, ordered_labels).double().view(1)))
    sent = [ordered_labels, flags]
    if keep_host and not is_host(z):
        sent += [z.detach().index_select(0, order), *([] if given is None else [given])]
    ordered, flags, *values = _to_host(sent)
    host_labels = ordered.numpy()
    if recalled is not None:
        kept = int(np.searchsorted(host_labels, ABSENT))
        host_labels, order = host_labels[:kept], order[:kept]
        given, values = None if given is None else given[:kept], [value[:kept] for value in values]
    peak = _check_host(host_labels, flags, features, labels, num_classes)
    batch = _sorted_batch(z, order, host_labels, peak)
    if recalled is not None:
        batch = replace(batch, constant=order >= len(features))
    if not values:
        return replace(batch, weights=_flow_weights(batch, flow_weights if given is None else given))
    copy = replace(batch, given=values[0], order=torch.arange(len(order)))
    copy = replace(copy, weights=_flow_weights(copy, values[1] if len(values) > 1 else flow_weights))
    weights = None if copy.weights is None else copy.weights.to(z.device, non_blocking=True)
    return replace(batch, weights=weights, copy=copy)


def _with_recalled(
    groups: Tensor, z: Tensor, given: Tensor | None, recalled: Recalled
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The batch's groups, features and weights with those of earlier samples behind them."""
    if given is not None:
        given = torch.cat((given.double(), recalled.weights))
    return torch.cat((groups, recalled.classes)), torch.cat((z, recalled.features.to(z.dtype))), given


def _sorted_batch(z: Tensor, order: Tensor, host_labels: NDArray[np.int64], peak: float) -> ClassBatch:
    """The batch of samples that stand class by class, without weights."""
    layout = ClassLayout.of_sorted(host_labels)
    return ClassBatch(z, order, layout.classes, layout.counts, None, layout.first, layout.second, peak=peak)


@dataclass(frozen=True, eq=False)
class PreparedLabels:
    """Labels that were looked at on the host, and what was made of them ahead of the features.

    Attributes:
        layout: Their classes.
        ahead: `order`, (B,) position in the batch of every sample, class by class; and what a distance wants.
    """

    layout: ClassLayout
    ahead: HostArrays


def group_unread(
    features: Tensor, prepared: PreparedLabels, flow_weights: FlowWeights, *, in_range: bool = False
) -> tuple[ClassBatch, Tensor]:
    """Group features of an accelerator by labels that are known on the host, reading nothing.

    Args:
        features: (B, d) floating point, which passed `check_batch`.
        prepared: Their labels.
        flow_weights: As for `group_by_class`.
        in_range: Whether features of any size will do.

    Returns:
        The batch, its features divided by a power of two so that the largest is about 1, unless any size will
        do; and on the device the largest absolute feature, and whether flow weights are usable if given.
    """
    z = features if features.dtype == torch.float64 else features.float()
    exponent: int | Tensor = 0
    if in_range:
        with torch.no_grad():
            peak: Tensor = torch.linalg.vector_norm(z, torch.inf)
    else:
        z, exponent, peak = scaled_to_one(z)
    layout, ready = prepared.layout, prepared.ahead.on(z.device)
    order = ready["order"]
    batch = ClassBatch(
        z,
        order,
        layout.classes,
        layout.counts,
        None,
        layout.first,
        layout.second,
        exponent=exponent,
        ahead=prepared.ahead,
    )
    flags = peak
    if isinstance(flow_weights, Tensor):
        flow_weights = flow_weights.detach()[order]
        flags = torch.stack((peak.double(), _weights_usable(flow_weights, batch.segments).double()))
    return replace(batch, weights=_flow_weights(batch, flow_weights)), flags
