"""What `fit` does, step by step: check, find labels, hold out, scale, infer a tree, train."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from cophenet._common.checks import check_choice, check_number, check_whole
from cophenet.estimator.decisions import check_target
from cophenet.estimator.labels import encode, label_text, to_tree
from cophenet.estimator.network import final_network, start_network
from cophenet.estimator.training import Settings, Trainer, split_rows
from cophenet.estimator.validation import Scale, blocks, fit_scale
from cophenet.objectives import Objective, WithCPCC, create, objective_names
from cophenet.tree import Hierarchy

if TYPE_CHECKING:
    from cophenet.estimator.embedder import HierarchicalEmbedder

__all__ = ["check_device", "check_parameters", "fit_embedder"]

Ints = NDArray[np.int64]


def check_parameters(estimator: HierarchicalEmbedder) -> None:
    """Refuse a parameter that is wrong by itself."""
    check_choice("objective", estimator.objective, objective_names())
    if not isinstance(estimator.objective_options, Mapping | None):
        raise ValueError(f"objective_options must be a mapping or None, got {estimator.objective_options!r}")
    check_choice("labels", estimator.labels, ("names", "positions"))
    if estimator.n_components is not None:
        check_whole("n_components", estimator.n_components, 1)
    check_whole("hidden_size", estimator.hidden_size, 0)
    check_number("learning_rate", estimator.learning_rate, least=False)
    check_number("weight_decay", estimator.weight_decay)
    if estimator.batch_size != "auto":
        check_whole("batch_size", estimator.batch_size, 1)
    for name in ("max_iter", "n_iter_no_change"):
        check_whole(name, getattr(estimator, name), 1)
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
    """Refuse what is not a device of this computer.

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


def fit_embedder(estimator: HierarchicalEmbedder, rows: NDArray[Any], labels: NDArray[Any]) -> None:
    """Train, and set what the estimator has learned.

    Args:
        estimator: Its parameters are checked.
        rows: (n, d) checked numbers.
        labels: (n,) as the user writes them.
    """
    given = None if estimator.tree is None else to_tree(estimator.tree)
    found = encode(labels, given, estimator.labels)
    seed = check_random_state(estimator.random_state).randint(np.iinfo(np.int32).max)
    rng = np.random.default_rng(seed)
    split = split_rows(found.targets, estimator.validation_fraction, estimator.calibration_fraction, rng)
    scale = fit_scale(rows, split.train)
    tree = found.tree or _inferred(rows, found.targets, found.classes, split.train, scale)
    device = torch.device(estimator.device)
    # A fit is one process's own affair, also where others run beside it.
    options = {"gather": "none", **(estimator.objective_options or {})}
    objective = create(estimator.objective, tree, **options).to(device)
    _tell_if_inactive(objective)
    outputs = estimator.n_components or rows.shape[1]
    network = start_network(objective, rows.shape[1], estimator.hidden_size, outputs, seed).to(device)
    trainer = Trainer(network, objective, rows, found.targets, found.inner, scale, device)
    history = trainer.fit(split, _settings(estimator, len(split.train)), rng)
    for old in ("index_", "input_shape_"):  # those of another network
        estimator.__dict__.pop(old, None)
    estimator.classes_, estimator.tree_, estimator.input_scale_ = found.classes, tree, scale
    estimator.given_tree_ = given
    estimator.network_ = final_network(network, objective.finest)
    estimator.history_, estimator.n_iter_ = history, len(history)
    estimator._n_features_out = outputs
    held = split.calibrate[found.targets[split.calibrate] < len(found.classes)]
    estimator.uncalibrated_ = _lonely(found.targets[found.targets < len(found.classes)])
    estimator._calibrate(rows, held, found.targets[held])


def _lonely(targets: Ints) -> float:
    """Share of samples that are the only one of their class: these train, and so cannot calibrate."""
    return float((np.bincount(targets) == 1).sum() / max(1, len(targets)))


def _settings(estimator: HierarchicalEmbedder, samples: int) -> Settings:
    size = min(256, max(32, samples // 8)) if estimator.batch_size == "auto" else int(estimator.batch_size)
    return Settings(
        learning_rate=estimator.learning_rate,
        weight_decay=estimator.weight_decay,
        batch_size=size,
        max_iter=estimator.max_iter,
        n_iter_no_change=estimator.n_iter_no_change,
        verbose=bool(estimator.verbose),
    )


def _inferred(
    rows: NDArray[Any], targets: Ints, classes: NDArray[Any], chosen: Ints, scale: Scale
) -> Hierarchy:
    """The tree of the class means of the standardised training rows, summed block by block."""
    sums = torch.zeros(len(classes), rows.shape[1], dtype=torch.float64)
    for part in blocks(len(chosen), rows.shape[1]):
        at = chosen[part]
        sums.index_add_(0, torch.from_numpy(targets[at]), scale(rows[at], torch.float64))
    means = sums.numpy() / np.bincount(targets[chosen])[:, None]
    return Hierarchy.infer(
        means, np.arange(len(classes)), names=[label_text(name) for name in classes.tolist()]
    )


def _tell_if_inactive(objective: Objective) -> None:
    tree = objective.tree
    star = tree.height == 1 and len(set(tree.edge_weights[tree.leaves].tolist())) == 1
    if isinstance(objective, WithCPCC) and (star or tree.num_classes == 2):
        warnings.warn(
            "all pairs of classes are equally far apart in the tree, so CPCC is undefined and its term of "
            "the loss inactive; the other terms are trained",
            UserWarning,
            stacklevel=4,
        )
