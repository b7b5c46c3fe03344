"""Checks of the estimator's inputs: parameters; rows (numpy, torch, pandas, polars, memory maps); weights."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data
from torch import Tensor

from cophenet._common.arrays import release_pages
from cophenet._common.checks import check_choice, check_number, check_whole, wrong_argument
from cophenet.estimator.decisions import check_target
from cophenet.estimator.ensemble import MEMBERS
from cophenet.estimator.scaling import blocks
from cophenet.estimator.tree_strength import tree_weights
from cophenet.objectives import objective_names

if TYPE_CHECKING:
    from cophenet.estimator.embedder import HierarchicalEmbedder

__all__ = ["check_device", "check_parameters", "check_rows", "check_weights", "to_host"]


def check_parameters(estimator: HierarchicalEmbedder) -> None:
    """Refuse a parameter that is wrong by itself."""
    check_choice("objective", estimator.objective, ("auto", *objective_names()))
    tree_weights(estimator.tree_strength)
    if not isinstance(estimator.objective_options, Mapping | None):
        raise ValueError(f"objective_options must be a mapping or None, got {estimator.objective_options!r}")
    if estimator.objective == "auto" and estimator.objective_options:
        raise ValueError(
            f"objective_options are for a named objective, got {estimator.objective_options!r} with 'auto'"
        )
    if estimator.objective != "auto" and estimator.tree_strength != "auto":
        raise wrong_argument(
            "tree_strength",
            f"is for objective 'auto', got {estimator.tree_strength!r} with objective "
            f"{estimator.objective!r}",
        )
    check_choice("labels", estimator.labels, ("names", "positions"))
    if estimator.n_components is not None:
        check_whole("n_components", estimator.n_components, 1)
    check_whole("hidden_size", estimator.hidden_size, 0)
    most = MEMBERS * estimator.hidden_size
    if estimator.objective == "auto" and 0 < most < (estimator.n_components or 0):
        raise ValueError(
            f"n_components must be at most {MEMBERS} * hidden_size = {most}, got {estimator.n_components}"
        )
    if estimator.learning_rate != "auto":
        check_number("learning_rate", estimator.learning_rate, least=False)  # type: ignore[arg-type]
    if estimator.weight_decay != "auto":
        check_number("weight_decay", estimator.weight_decay)  # type: ignore[arg-type]
    for name in ("batch_size", "max_iter"):
        if getattr(estimator, name) != "auto":
            check_whole(name, getattr(estimator, name), 1)
    check_whole("n_iter_no_change", estimator.n_iter_no_change, 1)
    shares = [estimator.validation_fraction, estimator.calibration_fraction]
    for name, share in zip(("validation_fraction", "calibration_fraction"), shares, strict=True):
        if not isinstance(share, numbers.Real) or not 0 <= float(share) < 1:
            raise ValueError(f"{name} must be at least 0 and below 1, got {share!r}")
    if sum(shares) >= 1:
        raise ValueError(
            f"validation_fraction and calibration_fraction must leave samples to train on, got {shares}"
        )
    check_target(estimator.error_target)
    check_device(estimator.device)


def check_device(device: object) -> None:
    """Refuse a device that torch cannot use on this computer.

    Example:
        >>> check_device("gpu")
        Traceback (most recent call last):
        ValueError: device must be one that torch can use here, such as 'cpu', got 'gpu'
    """
    try:
        usable = isinstance(device, str | torch.device) and torch.device(device).type != "meta"
        if usable:
            torch.empty(0, device=device)  # type: ignore[call-overload]
    except (RuntimeError, AssertionError, NotImplementedError):  # torch has no common error for it
        usable = False
    if not usable:
        given = str(device) if isinstance(device, torch.device) else device
        raise ValueError(f"device must be one that torch can use here, such as 'cpu', got {given!r}")


def to_host(values: Any) -> Any:
    """A torch tensor as a numpy array; anything else is returned unchanged.

    Example:
        >>> to_host(torch.tensor([1.5, 2.0], dtype=torch.bfloat16))
        array([1.5, 2. ], dtype=float32)
    """
    if not isinstance(values, Tensor):
        return values
    values = values.detach().cpu()
    # numpy has no bfloat16.
    return (values.float() if values.dtype == torch.bfloat16 else values).numpy()


def check_rows(estimator: Any, rows: Any, labels: Any = "no_validation", *, reset: bool = False) -> Any:
    """Check rows, and labels if given, in scikit-learn's way; a memory map is not copied.

    Returns:
        (n, d) numbers of any type, or these and (n,) labels.
    """
    values = to_host(rows)
    if isinstance(values, np.memmap) and values.ndim == 2 and len(values) and not reset:
        for part in blocks(*values.shape):
            validate_data(estimator, values[part], reset=False, dtype="numeric")
            release_pages(values)
        return values
    return validate_data(estimator, values, to_host(labels), reset=reset, dtype="numeric")


def check_weights(weights: Any, count: int) -> NDArray[np.float64]:
    """Weights of samples, (count,).

    Example:
        >>> check_weights([1, 0.5], 2)
        array([1. , 0.5])
    """
    values = np.asarray(to_host(weights), dtype=np.float64)
    if values.shape != (count,):
        raise ValueError(f"sample_weight must have shape ({count},), got {values.shape}")
    if not (np.isfinite(values) & (values >= 0)).all() or values.sum() == 0:
        raise ValueError("sample_weight must be finite, not negative, and not all zero")
    return values
