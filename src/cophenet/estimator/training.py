"""The steps of `fit`: encode labels, hold out samples, scale, infer a tree, train."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from torch import Tensor, nn

from cophenet.estimator.adapter import AdapterTrainer
from cophenet.estimator.ensemble_training import EnsembleTrainer
from cophenet.estimator.familiarity import Familiarity, fit_familiarity
from cophenet.estimator.labels import encode, label_text
from cophenet.estimator.neighbors import Neighbors
from cophenet.estimator.samples import Scale, TrainingSet, blocks, fit_scale, split_rows
from cophenet.objectives import create_objective
from cophenet.tree import Hierarchy

if TYPE_CHECKING:
    from cophenet.estimator.embedder import HierarchicalEmbedder

__all__ = ["Fitted", "train_embedder"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Fitted:
    """The fitted state of an estimator, from training on vectors or from a run.

    Attributes:
        classes: (C,) the classes as given by the user, ascending.
        tree: The tree of the classes.
        given_tree: The whole tree that was given; None if the tree was inferred.
        scale: Standardises rows.
        network: Maps standardised rows to features, `num_features` of them, and logits.
        history: Epoch, loss and held-out loss of every epoch.
        uncalibrated: Share of samples that are the only one of their class: they are used in training, and so
            cannot calibrate.
        familiarity: Detects vectors that are unlike the training data; None if that is not possible.
        neighbors: Training samples that vote in predictions; None if the network alone predicts.
    """

    classes: NDArray[Any]
    tree: Hierarchy
    given_tree: Hierarchy | None
    scale: Scale
    network: nn.Module
    history: list[dict[str, float]] = field(default_factory=list)
    uncalibrated: float = 0.0
    familiarity: Familiarity | None = None
    neighbors: Neighbors | None = None


def train_embedder(
    estimator: HierarchicalEmbedder,
    rows: NDArray[Any],
    labels: NDArray[Any],
    given: Hierarchy | None,
    weights: Floats | None,
) -> tuple[Fitted, tuple[Ints, Ints, Tensor | None]]:
    """Train a network.

    Args:
        estimator: The estimator, for its parameters, which are checked already.
        rows: (n, d) checked numbers.
        labels: (n,) as given by the user.
        given: The tree; None to infer one.
        weights: (n,) sample weights; None for equal weights.

    Returns:
        The fitted state; and for the samples that calibrate decisions their positions (m,), their classes
        (m,), and their probabilities (m, C) by the members that have not seen them, or None with a named
        objective.
    """
    encoded = encode(labels, given, estimator.labels)
    seed = check_random_state(estimator.random_state).randint(np.iinfo(np.int32).max)
    rng = np.random.default_rng(seed)
    default = estimator.objective == "auto"
    stop = 0.0 if default else estimator.validation_fraction
    split = split_rows(encoded.targets, stop, estimator.calibration_fraction, rng)
    seen = np.arange(len(rows)) if default else split.train
    scale = fit_scale(rows, seen, shrink=default)
    tree = encoded.tree or _infer_tree(rows, encoded.targets, encoded.classes, seen, scale)
    samples = TrainingSet(rows, encoded.targets, encoded.inner, tree, scale, split, weights)
    network: nn.Module
    neighbors = answers = None
    if default:
        ensemble = EnsembleTrainer(samples, estimator, seed)
        _warn_of_equal_distances(tree, bool(ensemble.terms.cpcc))
        network, history = ensemble.fit()
        neighbors, answers = ensemble.held_out_answers(network)
    else:
        # A fit runs in one process only, even if there are others.
        options = {"gather": "none", **(estimator.objective_options or {})}
        adapter = AdapterTrainer(
            samples, estimator, create_objective(estimator.objective, tree, **options), seed
        )
        _warn_of_equal_distances(tree, adapter.objective.cpcc is not None)
        network, history = adapter.fit(rng)
    has_class = encoded.targets < len(encoded.classes)
    held, own = (part[has_class[part]] for part in (split.calibrate, split.train))
    known = encoded.targets[has_class]
    single = float((np.bincount(known) == 1).sum() / max(1, len(known)))
    familiarity = fit_familiarity(rows, encoded.targets, own, scale) if len(held) else None
    fitted = Fitted(encoded.classes, tree, given, scale, network, history, single, familiarity, neighbors)
    return fitted, (held, encoded.targets[held], answers)


def _warn_of_equal_distances(tree: Hierarchy, has_cpcc: bool) -> None:
    if has_cpcc and tree.is_equidistant:
        warnings.warn(
            "all pairs of classes are equally far apart in the tree, so CPCC is undefined and its term of "
            "the loss inactive; the other terms are trained",
            UserWarning,
            stacklevel=4,
        )


def _infer_tree(
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
