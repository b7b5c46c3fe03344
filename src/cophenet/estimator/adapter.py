"""A small network for vectors, a residual adapter and a linear head, and its training with an objective."""

from __future__ import annotations

import math
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import gelu

from cophenet._common.progress import Progress
from cophenet.estimator.labels import classes_below
from cophenet.estimator.samples import TrainingSet, draw_epoch
from cophenet.models.base import Backbone
from cophenet.models.heads import Network, build_heads
from cophenet.objectives import Objective, StepOutput, phase_lengths
from cophenet.transport.grouping import unit_rows

if TYPE_CHECKING:
    from cophenet.estimator.embedder import HierarchicalEmbedder

__all__ = ["Adapter", "AdapterTrainer", "VectorNetwork"]

Ints = NDArray[np.int64]

_LEARNING_RATE, _WEIGHT_DECAY, _EPOCHS = 3e-3, 1.0, 100


class Adapter(Backbone):
    """A residual adapter: vectors plus the output of a two-layer MLP, which training initializes to 0.

    Args:
        inputs: Size of a vector.
        hidden: Size of the hidden layer; 0 for a linear adapter, ``skip`` alone.
        outputs: Size of a reshaped vector. If it differs from `inputs`, or without a hidden layer, ``skip``
            is a learned matrix, else the identity.

    Example:
        >>> Adapter(5, 8, 5)(torch.zeros(3, 5)).shape
        torch.Size([3, 5])
    """

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.num_features = outputs
        straight = inputs == outputs and hidden > 0
        self.skip = nn.Identity() if straight else nn.Linear(inputs, outputs, bias=False)
        self.down = nn.Linear(inputs, hidden) if hidden else None
        self.up = nn.Linear(hidden, outputs) if hidden else None

    def forward_features(self, inputs: Tensor) -> Tensor:
        """(B, inputs) -> (B, outputs)."""
        features: Tensor = self.skip(inputs)
        if self.down is None or self.up is None:
            return features
        added: Tensor = self.up(gelu(self.down(inputs)))
        return features + added


class VectorNetwork(nn.Module):
    """Standardised vectors -> reshaped vectors and the logits of the classes.

    Args:
        adapter: Maps vectors to reshaped vectors.
        head: Maps reshaped vectors to logits.
    """

    def __init__(self, adapter: Adapter, head: nn.Linear) -> None:
        super().__init__()
        self.adapter, self.head, self.num_features = adapter, head, adapter.num_features
        self.eval().requires_grad_(False)

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """(B, inputs) -> (B, outputs), (B, classes)."""
        features = self.adapter(inputs)
        return features, self.head(features)


def _start_network(objective: Objective, inputs: int, hidden: int, outputs: int, seed: int) -> Network:
    """Create an adapter with the heads of an objective; torch's global random state is not changed."""
    if any(head.scale is not None for head in objective.heads):
        raise ValueError(f"objective {objective.name!r} has cosine heads, which objective='auto' trains here")
    with torch.device("meta"):
        adapter = Adapter(inputs, hidden, outputs)
        network = Network(adapter, build_heads(objective.heads, outputs))
    network.to_empty(device="cpu").float()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for layer in network.modules():
            if isinstance(layer, nn.Linear):
                bound = layer.in_features**-0.5
                for parameter in layer.parameters(recurse=False):
                    parameter.uniform_(-bound, bound, generator=generator)
        if adapter.up is not None:
            adapter.up.weight.zero_()
            adapter.up.bias.zero_()
        if isinstance(adapter.skip, nn.Linear):
            adapter.skip.weight.copy_(_start_skip(inputs, outputs, generator))
    return network


def _start_skip(inputs: int, outputs: int, generator: torch.Generator) -> Tensor:
    """The identity, or a random matrix with orthonormal rows or columns if the sizes differ."""
    if inputs == outputs:
        return torch.eye(inputs)
    drawn = np.random.default_rng(int(torch.randint(1 << 31, (), generator=generator)))
    long, short = max(inputs, outputs), min(inputs, outputs)
    basis = torch.from_numpy(np.linalg.qr(drawn.normal(size=(long, short)))[0]).float()
    return basis if outputs > inputs else basis.T


def _final_network(network: Network, finest: str) -> VectorNetwork:
    """The part of a trained network used in prediction: the adapter and the class head as a plain layer."""
    adapter, head = network.backbone, network.heads[finest]
    assert isinstance(adapter, Adapter)
    if head.normalize_rows:
        with torch.no_grad():
            head.weight.copy_(unit_rows(head.weight))
        head.normalize_rows = False
    return VectorNetwork(adapter, head)


class AdapterTrainer:
    """Trains an adapter with an objective.

    Args:
        samples: The training samples.
        settings: The estimator, for its parameters.
        objective: The training objective.
        seed: Seed of the initial weights.
    """

    def __init__(
        self, samples: TrainingSet, settings: HierarchicalEmbedder, objective: Objective, seed: int
    ) -> None:
        self.samples, self.settings, self.device = samples, settings, torch.device(settings.device)
        self.objective, width = objective.to(self.device), samples.rows.shape[1]
        outputs = settings.n_components or width
        network = _start_network(objective, width, settings.hidden_size, outputs, seed)
        self.network = network.to(self.device)
        self.below = torch.from_numpy(classes_below(samples.tree, samples.inner)).to(self.device)

    def loss(self, chosen: Ints, phase: int) -> Tensor:
        """Mean loss of some samples.

        Samples labelled with a class contribute the objective. Samples labelled with an inner node v
        contribute -log(sum of p(c) over the classes c below v), which does not constrain the levels below v.
        """
        features, logits = self.network(self.samples.inputs(chosen, self.device))
        targets, classes = self.samples.targets[chosen], self.samples.tree.num_classes
        known, partly = np.flatnonzero(targets < classes), np.flatnonzero(targets >= classes)
        total: Tensor = (features * 0).sum()
        if len(known):
            labels = torch.from_numpy(targets[known])  # on the host, where batches are planned
            at: Any = slice(None) if not len(partly) else torch.from_numpy(known).to(self.device)
            own = {name: values[at] for name, values in logits.items()}
            step = StepOutput(features[at], own, labels, self.network.heads, phase)
            total = total + sum(self.objective(step).values()) * (len(known) / len(chosen))
        if len(partly) and self.objective.finest in self.objective.phases[phase].heads:
            masks = self.below[torch.from_numpy(targets[partly] - classes).to(self.device)]
            scores = logits[self.objective.finest][torch.from_numpy(partly).to(self.device)]
            inside = scores.masked_fill(~masks, -torch.inf).logsumexp(1)
            total = total + (scores.logsumexp(1) - inside).sum() / len(chosen)
        return total

    def _mean_loss(self, chosen: Ints, phase: int, batch_size: int) -> float:
        """Mean loss of held-out samples, in batches of the training batch size."""
        with torch.no_grad():
            losses = [self.loss(part, phase) * len(part) for part in _batches(chosen, batch_size)]
            return float(torch.stack(losses).sum()) / len(chosen)

    def fit(self, rng: np.random.Generator) -> tuple[VectorNetwork, list[dict[str, float]]]:
        """Train all phases of the objective; each ends with the weights of the lowest held-out loss, if any.

        Args:
            rng: Random generator for the order of the samples.

        Returns:
            The network, and for every epoch its number, loss and held-out loss (NaN if nothing is held out).
        """
        history: list[dict[str, float]] = []
        most = _EPOCHS if self.settings.max_iter == "auto" else int(self.settings.max_iter)
        with torch.enable_grad():
            for phase, epochs in enumerate(phase_lengths(self.objective.phases, most)):
                self._fit_phase(phase, epochs, rng, history)
        return _final_network(self.network, self.objective.finest), history

    def _fit_phase(
        self, phase: int, epochs: int, rng: np.random.Generator, history: list[dict[str, float]]
    ) -> None:
        settings, split, weights = self.settings, self.samples.split, self.samples.weights
        rate, decay, size = settings.learning_rate, settings.weight_decay, settings.batch_size
        optimizer = torch.optim.AdamW(
            self.network.parameters(),
            lr=_LEARNING_RATE if rate == "auto" else float(rate),
            weight_decay=_WEIGHT_DECAY if decay == "auto" else float(decay),
        )
        size = min(256, max(32, len(split.train) // 8)) if size == "auto" else int(size)
        best, state, since = math.inf, None, 0
        stop = split.stop if weights is None else draw_epoch(split.stop, weights, rng)
        with Progress("", epochs, show=bool(settings.verbose), count=lambda *_: "") as progress:
            for epoch in range(1, epochs + 1):
                loss = self._epoch(optimizer, draw_epoch(split.train, weights, rng), phase, size)
                held = self._mean_loss(stop, phase, size) if len(stop) else math.nan
                history.append({"epoch": len(history) + 1, "loss": loss, "held_out": held})
                values = (f"loss {loss:.4f}", f"held-out {held:.4f}")
                progress.update(epoch, *values, label=f"epoch {epoch}/{epochs}")
                since += 1
                if held < best:
                    best, state, since = held, deepcopy(self.network.state_dict()), 0
                if since >= settings.n_iter_no_change and len(stop):
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
    """Split into batches of about equal size, so that the last one is not much smaller than the others."""
    return np.array_split(order, math.ceil(len(order) / batch_size))
