"""The training loop: minibatches, a held-out part, early stopping. Nothing global is touched."""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cophenet._common.progress import Progress
from cophenet.estimator.validation import Scale
from cophenet.models.heads import Network
from cophenet.objectives import Objective, StepOutput
from cophenet.tree import Hierarchy

__all__ = ["Settings", "Split", "Trainer", "split_rows"]

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Settings:
    """How to train; the parameters of the estimator of the same names."""

    learning_rate: float
    weight_decay: float
    batch_size: int
    max_iter: int
    n_iter_no_change: int
    verbose: bool


@dataclass(frozen=True)
class Split:
    """Positions of the samples that train, that tell when to stop, and that calibrate decisions."""

    train: Ints
    stop: Ints
    calibrate: Ints


def split_rows(targets: Ints, stop: float, calibrate: float, rng: np.random.Generator) -> Split:
    """Hold out a share of every label as far as it has samples, but never the last one.

    Args:
        targets: (n,) labels as numbers.
        stop: Share that tells when to stop.
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
    kept = np.setdiff1d(np.arange(len(targets)), held)
    return Split(kept, np.sort(held[:first]), np.sort(held[first:]))


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
    """

    network: Network
    objective: Objective
    rows: NDArray[Any]
    targets: Ints
    inner: Ints
    scale: Scale
    device: torch.device
    below: Tensor = field(init=False)

    def __post_init__(self) -> None:
        """Which classes lie below each inner node that is a label."""
        tree: Hierarchy = self.objective.tree
        self.classes = tree.num_classes
        start = self.inner[:, None]
        stop = start + tree.sizes[start]
        self.below = torch.from_numpy((tree.leaves >= start) & (tree.leaves < stop)).to(self.device)

    def loss(self, chosen: Ints, phase: int) -> Tensor:
        """Mean loss of some samples.

        Samples with a class pay the objective. Those known by an inner node pay minus the log of the
        summed probabilities of the classes below it: nothing is asked of the levels they don't know.
        """
        features, logits = self.network(self.scale(self.rows[chosen], torch.float32).to(self.device))
        targets = self.targets[chosen]
        known, partly = np.flatnonzero(targets < self.classes), np.flatnonzero(targets >= self.classes)
        total: Tensor = (features * 0).sum()
        if len(known):
            labels = torch.from_numpy(targets[known]).to(self.device)
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

    def fit(self, split: Split, settings: Settings, rng: np.random.Generator) -> list[dict[str, float]]:
        """Train through all phases of the objective; the best epoch of each phase is kept.

        Returns:
            For every epoch its number, its loss and the held-out loss (NaN if nothing is held out).
        """
        history: list[dict[str, float]] = []
        with torch.enable_grad():
            for number, phase in enumerate(self.objective.phases):
                epochs = min(settings.max_iter, phase.epochs or settings.max_iter)
                self._fit_phase(number, epochs, split, settings, rng, history)
        return history

    def _fit_phase(
        self,
        phase: int,
        epochs: int,
        split: Split,
        settings: Settings,
        rng: np.random.Generator,
        history: list[dict[str, float]],
    ) -> None:
        optimizer = torch.optim.AdamW(
            self.network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
        )
        best, state, since = math.inf, None, 0
        progress = Progress("", epochs, show=settings.verbose, count=lambda *_: "")
        for epoch in range(1, epochs + 1):
            loss = self._epoch(optimizer, rng.permutation(split.train), phase, settings.batch_size)
            held = self.mean_loss(split.stop, phase, settings.batch_size) if len(split.stop) else math.nan
            history.append({"epoch": len(history) + 1, "loss": loss, "held_out": held})
            values = (f"loss {loss:.4f}", f"held-out {held:.4f}")
            progress.update(epoch, *values, label=f"epoch {epoch}/{epochs}")
            since += 1
            if held < best:
                best, state, since = held, deepcopy(self.network.state_dict()), 0
            if since >= settings.n_iter_no_change and len(split.stop):
                break
        progress.close()
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
