"""Checks of the estimator's inputs: parameters; rows (numpy, torch, pandas, polars, memory maps); weights.

Weights are frequencies: how often each sample is seen in an epoch. An objective may compare whole classes or
groups of samples, so that its loss is not a sum over samples that could be weighted; but a sample that is
seen twice counts twice in every objective, and in the mean and variance of a batch.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from cophenet._common.arrays import release_pages
from cophenet._common.checks import check_choice, check_number, check_share, check_whole, wrong_argument
from cophenet.estimator.ensemble import MEMBERS
from cophenet.estimator.labels import find_nodes, label_text
from cophenet.estimator.level_loss import tree_weights
from cophenet.estimator.samples import blocks, to_host
from cophenet.objectives import objective_names
from cophenet.tree import Hierarchy

if TYPE_CHECKING:
    from cophenet.estimator.embedder import HierarchicalEmbedder

__all__ = ["check_device", "check_parameters", "check_rows", "check_weights", "fit_weights"]

Floats = NDArray[np.float64]


def check_parameters(estimator: HierarchicalEmbedder) -> None:
    """Raise if a parameter is invalid, independently of the data."""
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
    check_share("error_target", estimator.error_target)
    check_device(estimator.device)


def check_device(device: object) -> None:
    """Raise if torch cannot use a device on this computer.

    Example:
        >>> check_device("gpu")
        Traceback (most recent call last):
        ValueError: device must be one that torch can use here, such as 'cpu', got 'gpu'
    """
    try:
        usable = isinstance(device, str | torch.device) and torch.device(device).type != "meta"
        if usable:
            torch.empty(0, device=device)  # type: ignore[call-overload]
    except (RuntimeError, AssertionError, NotImplementedError):  # torch raises different errors
        usable = False
    if not usable:
        given = str(device) if isinstance(device, torch.device) else device
        raise ValueError(f"device must be one that torch can use here, such as 'cpu', got {given!r}")


def check_rows(estimator: Any, rows: Any, labels: Any = "no_validation", *, reset: bool = False) -> Any:
    """Check rows, and labels if given, like scikit-learn; a memory map is not copied.

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


def check_weights(weights: Any, count: int) -> Floats:
    """Check sample weights and convert them to float64, (count,).

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


def fit_weights(
    labels: NDArray[Any], sample_weight: Any, class_weight: Any, tree: Hierarchy | None = None
) -> Floats | None:
    """The product of sample and class weights, (n,); None if neither is given.

    Args:
        labels: (n,) as given by the user: classes or inner nodes.
        sample_weight: (n,) or None.
        class_weight: A mapping of labels to weights, 1 for labels that are missing; "balanced", so that all
            labels that occur have the same total weight; or None.
        tree: The tree, whose nodes may have weights even if they do not occur as labels.

    Raises:
        ValueError: If a weight is negative or not finite, all are 0, the number of weights differs from that
            of labels, or `class_weight` has a label that neither the labels nor the tree have.

    Example:
        >>> fit_weights(np.array(["cat", "dog", "dog"]), [1, 1, 0.5], {"cat": 3})
        array([3. , 1. , 0.5])
        >>> fit_weights(np.array([7, 8, 8, 8]), None, "balanced").round(3)
        array([2.   , 0.667, 0.667, 0.667])
    """
    if sample_weight is None and class_weight is None:
        return None
    weights = np.ones(len(labels)) if sample_weight is None else check_weights(sample_weight, len(labels))
    if class_weight is None:
        return weights
    present, place, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if isinstance(class_weight, str) and class_weight == "balanced":
        each: Floats = len(labels) / (len(present) * counts)
        return weights * each[place]
    if not isinstance(class_weight, Mapping):
        raise ValueError(f"class_weight must be a mapping, 'balanced' or None, got {class_weight!r}")
    texts = [label_text(label) for label in present.tolist()]
    given = {label_text(label): weight for label, weight in class_weight.items()}
    unknown = sorted(given.keys() - set(texts))
    if unknown and tree is not None:
        # Positions are compared as text too, and a subset of the samples may lack some classes.
        counted = {str(position) for position in range(tree.num_classes)}
        unknown = [text for text in find_nodes(np.array(unknown), tree, "names")[1] if text not in counted]
    if unknown:
        raise ValueError(f"class_weight has labels that neither y nor the tree has: {unknown[:5]}")
    for text, weight in given.items():
        check_number(f"class_weight of {text!r}", weight)
    each = np.array([float(given.get(text, 1.0)) for text in texts])
    weights = weights * each[place]
    if not weights.any():
        raise ValueError("class_weight and sample_weight leave no sample with a weight above 0")
    return weights
