"""Input checks of all metrics, and the warning for undefined results."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING

from cophenet._common.checks import UndefinedWarning
from cophenet._common.lazy import torch
from cophenet.tree import Hierarchy

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "check_features",
    "check_finite",
    "check_indices",
    "check_k",
    "check_probabilities",
    "check_scores",
    "check_tree",
    "ratio",
    "undefined",
]


def undefined(name: str, reason: str) -> float:
    """Return NaN and issue a warning, so that an undefined result is never silent."""
    warnings.warn(UndefinedWarning(name, reason), stacklevel=2)
    return float("nan")


def ratio(total: Tensor, samples: int | Tensor, name: str, reason: str = "there are no samples") -> Tensor:
    """Mean per sample in float64; NaN with a warning without samples."""
    if int(samples) == 0:
        return torch.full_like(total, undefined(name, reason), dtype=torch.float64)
    return total.double() / samples


def check_tree(tree: Hierarchy) -> None:
    """Raise unless `tree` is a `Hierarchy`."""
    if not isinstance(tree, Hierarchy):
        raise ValueError(f"tree must be a cophenet.Hierarchy, got {type(tree).__name__}")


def check_k(name: str, value: int | None, highest: int, lowest: int = 1) -> None:
    """Raise unless `value` is an integer in `lowest..highest`."""
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
        raise ValueError(f"{name} must be an integer in {lowest}..{highest}, got {value!r}")


def check_indices(name: str, indices: Tensor, length: int, bound: int | None) -> Tensor:
    """Return the indices as int64; raise unless they are (length,) integers, below `bound` if given."""
    if not isinstance(indices, torch.Tensor):
        raise ValueError(f"{name} must be a torch tensor, got {type(indices).__name__}")
    if indices.shape != (length,):
        raise ValueError(f"{name} must have shape ({length},), got {tuple(indices.shape)}")
    if indices.is_floating_point() or indices.is_complex() or indices.dtype == torch.bool:
        raise ValueError(f"{name} must be integers, got {indices.dtype}")
    indices = indices.long()
    if bound is not None and length:
        low, high = (int(end) for end in indices.aminmax())
        if low < 0 or high >= bound:
            raise ValueError(f"{name} must lie in 0..{bound - 1}, got {low if low < 0 else high}")
    return indices


def _check_matrix(name: str, values: Tensor, width: int | None) -> None:
    if not isinstance(values, torch.Tensor):
        raise ValueError(f"{name} must be a torch tensor, got {type(values).__name__}")
    expected = "(N, d)" if width is None else f"(N, {width})"
    if values.ndim != 2 or not values.is_floating_point() or values.shape[1] != (width or values.shape[1]):
        given = f"{tuple(values.shape)} {values.dtype}"
        raise ValueError(f"{name} must be a floating-point tensor of shape {expected}, got {given}")


def _check_device(name: str, values: Tensor, labels_name: str, labels: Tensor) -> None:
    if values.device != labels.device:
        raise ValueError(
            f"{labels_name} are on {labels.device}, {name} on {values.device}; put both on one device"
        )


def check_scores(scores: Tensor, labels: Tensor, tree: Hierarchy) -> Tensor:
    """Return the labels as int64; raise unless scores are (N, C) without NaN and labels in 0..C-1."""
    check_tree(tree)
    _check_matrix("scores", scores, tree.num_classes)
    classes = check_indices("labels", labels, len(scores), tree.num_classes)
    _check_device("scores", scores, "labels", labels)
    # The minimum is NaN if any value is; infinite scores are allowed, they mask classes out.
    if scores.numel() and torch.isnan(scores.detach().amin()):
        raise ValueError("scores must not be NaN")
    return classes


def check_probabilities(probabilities: Tensor, tree: Hierarchy) -> None:
    """Raise unless each row is a probability distribution over the C classes of the tree."""
    check_tree(tree)
    _check_matrix("probabilities", probabilities, tree.num_classes)
    if not probabilities.numel():
        return
    values = probabilities.detach()
    low = float(values.amin())
    if math.isnan(low):
        raise ValueError("probabilities must not be NaN")
    off = float((values.sum(1, dtype=torch.float32) - 1).abs().amax())
    # Wide enough for a softmax in bfloat16, far too narrow for logits.
    if not (low >= 0 and off <= 1e-2):
        raise ValueError(
            "probabilities must be at least 0 and sum to 1 in each row, such as logits.softmax(1); got the "
            f"smallest {low:.4g} and a row that is {off:.4g} off"
        )


def check_features(
    features: Tensor,
    labels: Tensor,
    num_classes: int | None = None,
    names: tuple[str, str] = ("features", "labels"),
) -> Tensor:
    """Return the labels as int64; raise unless features are (N, d) and finite, and labels (N,) integers.

    Args:
        features: (N, d).
        labels: (N,).
        num_classes: Labels must be smaller than this; None for no upper bound.
        names: Names of the two arguments in error messages.
    """
    _check_matrix(names[0], features, None)
    classes = check_indices(names[1], labels, len(features), num_classes)
    _check_device(names[0], features, names[1], labels)
    check_finite(names[0], features.detach())
    return classes


def check_finite(name: str, values: Tensor) -> None:
    """Raise unless all values are finite."""
    # The sum is fast and almost always finite; only if it is not, every value is checked.
    if not torch.isfinite(values.sum()) and not torch.isfinite(values).all():
        raise ValueError(f"{name} must be finite, got NaN or inf")
