"""Transfer to new classes: a new linear head on the frozen encoder, from a few examples of each class."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from cophenet.data import ArrayInputs, Samples, k_shot
from cophenet.runs.optimizers import create_optimizer, learning_rate, set_learning_rate

if TYPE_CHECKING:
    from cophenet.metrics.cards import FeatureSet
    from cophenet.recipes.settings import OneShotSettings

__all__ = ["one_shot_scores"]


def one_shot_scores(train: FeatureSet, test: FeatureSet, settings: OneShotSettings, seed: int) -> Tensor:
    """Scores (N, classes) of the target classes, by a head that saw a few samples of each.

    Args:
        train: Target samples to draw the examples from.
        test: Target samples to predict.
        settings: How many examples, and how the head is trained.
        seed: Decides the examples and the head's first weights.

    Raises:
        ValueError: If a class has too few samples.
    """
    rows = np.arange(len(train))
    samples = Samples(ArrayInputs(train.features), rows, train.labels.numpy(), train.tree)
    drawn = k_shot(samples, settings.shots, seed)
    head = _train_head(*drawn.take(np.arange(len(drawn))), train.tree.num_classes, settings, seed)
    with torch.no_grad():
        scores: Tensor = head(test.features)
    return scores


def _train_head(
    features: Tensor, labels: Tensor, classes: int, settings: OneShotSettings, seed: int
) -> nn.Linear:
    """A linear classifier of features; all of them are one batch, so an epoch is one step.

    Args:
        features: (n, d) of the frozen encoder.
        labels: (n,) from 0.
        classes: How many there are.
        settings: How it is trained.
        seed: Decides its first weights.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        head = nn.Linear(features.shape[1], classes)
    optimizer = create_optimizer(head.parameters(), settings.optimizer)
    for epoch in range(settings.epochs):
        rate = learning_rate(settings.optimizer, settings.schedule, epoch, settings.epochs)
        set_learning_rate(optimizer, rate)
        optimizer.zero_grad()
        cross_entropy(head(features), labels).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return head
