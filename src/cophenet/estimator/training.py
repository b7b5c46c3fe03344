"""What `fit` does: encode labels, hold samples out, scale, infer a tree, train. Nothing global is changed."""

from __future__ import annotations

import math
import warnings
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from torch import Tensor, nn

from cophenet._common.progress import Progress
from cophenet.estimator.ensemble_training import EnsembleTrainer
from cophenet.estimator.familiarity import Familiarity, fit_familiarity
from cophenet.estimator.labels import classes_below, encode, label_text
from cophenet.estimator.neighbors import Neighbors
from cophenet.estimator.network import final_network, start_network
from cophenet.estimator.scaling import Scale, blocks, fit_scale
from cophenet.estimator.tree_strength import tree_weights
from cophenet.estimator.weights import draw_epoch
from cophenet.models.heads import Network
from cophenet.objectives import Objective, StepOutput, create, phase_lengths
from cophenet.tree import Hierarchy

if TYPE_CHECKING:
    from cophenet.data.augmentation import CentreCrop
    from cophenet.estimator.embedder import HierarchicalEmbedder

__all__ = ["Fitted", "HeldOut", "Split", "Trainer", "split_rows", "train_embedder"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_LEARNING_RATE, _WEIGHT_DECAY, _EPOCHS = 3e-3, 1.0, 100


@dataclass(frozen=True)
class Fitted:
    """What an estimator has learned, from vectors or in a run.

    Attributes:
        classes: (C,) the classes as the user writes them, ascending.
        tree: Their tree.
        given_tree: The whole tree that was given; None if the tree was inferred.
        scale: Standardises rows.
        network: Standardised rows to features and logits.
        num_features: Size of a reshaped vector.
        history: Epoch, loss and held-out loss of every epoch.
        input_shape: Shape of one input, where these are not rows.
        is_bytes: Whether inputs are images of bytes.
        image_view: What is seen of an image file to be such an input; None if inputs are no colour images.
        uncalibrated: Share of samples that are the only one of their class: these train, and so cannot
            calibrate.
        familiarity: Tells vectors that are unlike the training data; None if that is not known.
        neighbors: Training samples that have a say in answers; None if the network alone answers.
    """

    classes: NDArray[Any]
    tree: Hierarchy
    given_tree: Hierarchy | None
    scale: Scale
    network: nn.Module
    num_features: int
    history: list[dict[str, float]] = field(default_factory=list)
    input_shape: tuple[int, ...] | None = None
    is_bytes: bool = False
    image_view: CentreCrop | None = None
    uncalibrated: float = 0.0
    familiarity: Familiarity | None = None
    neighbors: Neighbors | None = None


class HeldOut(NamedTuple):
    """Samples that calibrate decisions.

    Attributes:
        samples: (m,) their positions.
        classes: (m,) their classes.
        answers: (m, C) probabilities by the members that have not seen them; None if no network has.
    """

    samples: Ints
    classes: Ints
    answers: Tensor | None


def train_embedder(
    estimator: HierarchicalEmbedder,
    rows: NDArray[Any],
    labels: NDArray[Any],
    given: Hierarchy | None,
    weights: Floats | None,
) -> tuple[Fitted, HeldOut]:
    """Train a network.

    Args:
        estimator: For its parameters, which are checked.
        rows: (n, d) checked numbers.
        labels: (n,) as the user writes them.
        given: The tree; None to infer one.
        weights: (n,) what each sample counts; None for equally much.

    Returns:
        What it has learned, and the samples that calibrate.
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
    samples = _Samples(rows, encoded.targets, encoded.inner, tree, scale, split, weights)
    if default:
        trained = _train_ensemble(estimator, samples, seed)
    else:
        trained = _train_adapter(estimator, samples, seed, rng)
    has_class = encoded.targets < len(encoded.classes)
    held, own = (part[has_class[part]] for part in (split.calibrate, split.train))
    known = encoded.targets[has_class]
    fitted = Fitted(
        encoded.classes,
        tree,
        given,
        scale,
        trained.network,
        trained.num_features,
        trained.history,
        uncalibrated=float((np.bincount(known) == 1).sum() / max(1, len(known))),
        familiarity=fit_familiarity(rows, encoded.targets, own, scale) if len(held) else None,
        neighbors=trained.neighbors,
    )
    return fitted, HeldOut(held, encoded.targets[held], trained.answers)


class _Samples(NamedTuple):
    """What is trained on: rows and labels as `Trainer` takes them, their tree, and which of them train."""

    rows: NDArray[Any]
    targets: Ints
    inner: Ints
    tree: Hierarchy
    scale: Scale
    split: Split
    weights: Floats | None


class _Trained(NamedTuple):
    """What a training gives; see `Fitted` and `HeldOut`."""

    network: nn.Module
    num_features: int
    history: list[dict[str, float]]
    neighbors: Neighbors | None = None
    answers: Tensor | None = None


def _train_ensemble(estimator: HierarchicalEmbedder, samples: _Samples, seed: int) -> _Trained:
    """The default: several networks, all samples, and training samples as neighbors."""
    terms = tree_weights(estimator.tree_strength)
    device, held_out = torch.device(estimator.device), samples.split.calibrate
    trainer = EnsembleTrainer(*samples[:5], terms, held_out, seed, device, samples.weights)
    _warn_of_equal_distances(samples.tree, bool(terms.cpcc))
    network, history = trainer.fit(estimator)
    neighbors, answers = trainer.held_out_answers(network)
    return _Trained(network, network.projection.out_features, history, neighbors, answers)


def _train_adapter(
    estimator: HierarchicalEmbedder, samples: _Samples, seed: int, rng: np.random.Generator
) -> _Trained:
    """One network, by an objective."""
    rows, targets, inner, tree, scale, split, weights = samples
    device = torch.device(estimator.device)
    # A fit is one process's own affair, also where others run beside it.
    options = {"gather": "none", **(estimator.objective_options or {})}
    objective = create(estimator.objective, tree, **options).to(device)
    _warn_of_equal_distances(tree, objective.cpcc is not None)
    outputs = estimator.n_components or rows.shape[1]
    start = start_network(objective, rows.shape[1], estimator.hidden_size, outputs, seed).to(device)
    trainer = Trainer(start, objective, rows, targets, inner, scale, device, weights)
    history = trainer.fit(split, estimator, rng)
    return _Trained(final_network(start, objective.finest), outputs, history)


def _warn_of_equal_distances(tree: Hierarchy, has_cpcc: bool) -> None:
    if has_cpcc and tree.is_equidistant:
        warnings.warn(
            "all pairs of classes are equally far apart in the tree, so CPCC is undefined and its term of "
            "the loss inactive; the other terms are trained",
            UserWarning,
            stacklevel=5,
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


@dataclass(frozen=True)
class Split:
    """Positions of the samples that train, that decide when to stop, and that calibrate decisions."""

    train: Ints
    stop: Ints
    calibrate: Ints


def split_rows(targets: Ints, stop: float, calibrate: float, rng: np.random.Generator) -> Split:
    """Hold out a share of every label as far as it has samples, but never the last one.

    Args:
        targets: (n,) labels as numbers.
        stop: Share that decides when to stop.
        calibrate: Share that calibrates decisions.
        rng: Decides which.

    Example:
        >>> parts = split_rows(np.arange(40) % 2, 0.1, 0.2, np.random.default_rng(0))
        >>> len(parts.train), len(parts.stop), len(parts.calibrate)
        (28, 4, 8)
    """
    _, labels, counts = np.unique(targets, return_inverse=True, return_counts=True)
    order = np.lexsort((rng.random(len(targets)), labels))
    rank = np.arange(len(targets)) - (np.cumsum(counts) - counts)[labels[order]]
    # Evenly from every label: the share of its samples that come before, with a start of its own.
    place = (rank + rng.random(len(counts))[labels[order]]) / counts[labels[order]]
    place[rank == 0] = -1.0
    sizes = [round(len(targets) * share) for share in (stop, calibrate)]
    most = len(targets) - len(counts)
    held = order[np.argsort(-place, kind="stable")[: min(sum(sizes), most)]]
    held = rng.permutation(held)
    first = min(sizes[0], len(held))
    train = np.setdiff1d(np.arange(len(targets)), held)
    return Split(train, np.sort(held[:first]), np.sort(held[first:]))


@dataclass
class Trainer:
    """Trains a network on rows by an objective.

    Attributes:
        network: Adapter and heads; trained in place.
        objective: Terms of the loss.
        rows: (n, d) as given, also a memory map: only batches of it are read.
        targets: (n,) classes, or C + position in `inner`.
        inner: Inner nodes of the tree that are labels.
        scale: Standardises rows.
        device: Where to train.
        weights: (n,) what each sample counts; None for equally much.
    """

    network: Network
    objective: Objective
    rows: NDArray[Any]
    targets: Ints
    inner: Ints
    scale: Scale
    device: torch.device
    weights: Floats | None = None
    below: Tensor = field(init=False)

    def __post_init__(self) -> None:
        """Which classes lie below each inner node that is a label."""
        tree: Hierarchy = self.objective.tree
        self.classes = tree.num_classes
        self.below = torch.from_numpy(classes_below(tree, self.inner)).to(self.device)

    def loss(self, chosen: Ints, phase: int) -> Tensor:
        """Mean loss of some samples.

        Samples with a class pay the objective. Those known by an inner node v pay -log(sum of p(c) over the
        classes c below v): nothing is asked of the levels they don't know.
        """
        features, logits = self.network(self.scale(self.rows[chosen], torch.float32).to(self.device))
        targets = self.targets[chosen]
        known, partly = np.flatnonzero(targets < self.classes), np.flatnonzero(targets >= self.classes)
        total: Tensor = (features * 0).sum()
        if len(known):
            labels = torch.from_numpy(targets[known])  # on the host, where batches are planned
            at: Any = slice(None) if not len(partly) else torch.from_numpy(known).to(self.device)
            own = {name: values[at] for name, values in logits.items()}
            step = StepOutput(features[at], own, labels, self.network.heads, phase)
            total = total + sum(self.objective(step).values()) * (len(known) / len(chosen))
        if len(partly) and self.objective.finest in self.objective.phases[phase].heads:
            masks = self.below[torch.from_numpy(targets[partly] - self.classes).to(self.device)]
            scores = logits[self.objective.finest][torch.from_numpy(partly).to(self.device)]
            inside = scores.masked_fill(~masks, -torch.inf).logsumexp(1)
            total = total + (scores.logsumexp(1) - inside).sum() / len(chosen)
        return total

    def mean_loss(self, chosen: Ints, phase: int, batch_size: int) -> float:
        """Mean loss of held-out samples, in batches of the size of training."""
        with torch.no_grad():
            losses = [self.loss(part, phase) * len(part) for part in _batches(chosen, batch_size)]
            return float(torch.stack(losses).sum()) / len(chosen)

    def fit(
        self, split: Split, settings: HierarchicalEmbedder, rng: np.random.Generator
    ) -> list[dict[str, float]]:
        """Train through all phases of the objective; each ends with the weights of its best epoch.

        Args:
            split: Which samples train, and which decide when to stop.
            settings: The estimator, for its parameters.
            rng: Decides the order of the samples.

        Returns:
            For every epoch its number, its loss and the held-out loss (NaN if nothing is held out).
        """
        history: list[dict[str, float]] = []
        with torch.enable_grad():
            most = _EPOCHS if settings.max_iter == "auto" else int(settings.max_iter)
            for number, epochs in enumerate(phase_lengths(self.objective.phases, most)):
                self._fit_phase(number, epochs, split, settings, rng, history)
        return history

    def _fit_phase(
        self,
        phase: int,
        epochs: int,
        split: Split,
        settings: HierarchicalEmbedder,
        rng: np.random.Generator,
        history: list[dict[str, float]],
    ) -> None:
        rate, decay = settings.learning_rate, settings.weight_decay
        optimizer = torch.optim.AdamW(
            self.network.parameters(),
            lr=_LEARNING_RATE if rate == "auto" else float(rate),
            weight_decay=_WEIGHT_DECAY if decay == "auto" else float(decay),
        )
        size = settings.batch_size
        size = min(256, max(32, len(split.train) // 8)) if size == "auto" else int(size)
        best, state, since = math.inf, None, 0
        stop = split.stop if self.weights is None else draw_epoch(split.stop, self.weights, rng)
        with Progress("", epochs, show=bool(settings.verbose), count=lambda *_: "") as progress:
            for epoch in range(1, epochs + 1):
                loss = self._epoch(optimizer, draw_epoch(split.train, self.weights, rng), phase, size)
                held = self.mean_loss(stop, phase, size) if len(stop) else math.nan
                history.append({"epoch": len(history) + 1, "loss": loss, "held_out": held})
                values = (f"loss {loss:.4f}", f"held-out {held:.4f}")
                progress.update(epoch, *values, label=f"epoch {epoch}/{epochs}")
                since += 1
                if held < best:
                    best, state, since = held, deepcopy(self.network.state_dict()), 0
                if since >= settings.n_iter_no_change and len(split.stop):
                    break
        if state is not None:
            self.network.load_state_dict(state)

    def _epoch(self, optimizer: torch.optim.Optimizer, order: Ints, phase: int, batch_size: int) -> float:
        total = torch.zeros((), device=self.device)
        for part in _batches(order, batch_size):
            optimizer.zero_grad(set_to_none=True)
            loss = self.loss(part, phase)
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(self.network.parameters(), 10.0)
            optimizer.step()
            total += loss.detach() * len(part)
        mean = float(total) / len(order)
        if not math.isfinite(mean):
            raise ValueError(f"training diverged: the loss is {mean}; learning_rate must be lower")
        return mean


def _batches(order: Ints, batch_size: int) -> list[Ints]:
    """Parts of about equal size, so that no last batch is left with a few samples."""
    return np.array_split(order, math.ceil(len(order) / batch_size))
