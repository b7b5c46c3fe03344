"""Cards: what the rest of the package must know of a metric, and what an evaluation gives it to measure.

A metric that belongs in `results.json` registers a card in its own file, or in another package under the
group of entry points `cophenet.metrics`. Nothing else lists it: evaluation, compare and report ask the cards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, Protocol, Union

from cophenet._common.lazy import torch
from cophenet._common.registry import Registry

if TYPE_CHECKING:
    from torch import Tensor

    from cophenet.metrics.cophenetic_correlation import ClassGeometry
    from cophenet.tree import Hierarchy

__all__ = [
    "Card",
    "EvaluationData",
    "FeatureSet",
    "Group",
    "Missing",
    "metric_cards",
    "register_metric",
]


@dataclass(frozen=True)
class Group:
    """Metrics that share a table in a report.

    Attributes:
        title: Its heading.
        about: What they measure, in a sentence.
    """

    title: str
    about: str


@dataclass(frozen=True)
class Missing:
    """In place of a number that cannot be computed.

    Attributes:
        reason: Why.
    """

    reason: str


MeasuredNumbers = Mapping[str, Union["Tensor", float, Missing]]


@dataclass(frozen=True)
class Card:
    """What the rest of the package must know of a metric.

    Attributes:
        key: What its numbers are called in `results.json`, after the domain: "accuracy".
        title: A description, for a heading.
        short: An abbreviation, for a column.
        higher_is_better: Which way is better.
        percent: Whether it is a fraction, shown as percent.
        group: The metrics it shares a table with.
        measure: Computes its numbers. Their names are the key, as it is or followed by "@" and a number, and
            perhaps by "/" and a detail.
        order: Its place in tables, among all metrics; by the key where equal.
        by: What the detail of its names is: a level of the tree, a class distance, or None if there is none.
        target: Whether it is measured on the target classes too.

    Example:
        >>> group = Group("Size", "How long feature vectors are.")
        >>> def measure(data):
        ...     return {"norm": data.test.features.norm(dim=1).mean()}
        >>> Card("norm", "mean norm", "Norm", False, False, group, measure).order
        1000
    """

    key: str
    title: str
    short: str
    higher_is_better: bool
    percent: bool
    group: Group
    measure: Callable[[EvaluationData], MeasuredNumbers]
    order: int = 1000
    by: Literal["level", "distance"] | None = None
    target: bool = False


def _check(name: str, card: object) -> None:
    if not isinstance(card, Card) or card.key != name:
        given = f"a card of {card.key!r}" if isinstance(card, Card) else type(card).__name__
        raise ValueError(f"metric {name!r} must be a Card with that key, got {given}")
    if not name or set("/@") & set(name):
        raise ValueError(f"key must be a name without '/' and '@', got {name!r}")


METRICS: Registry[Card] = Registry("metric", "cophenet.metrics", "cophenet.metrics", _check)


def register_metric(card: Card) -> Card:
    """Make a metric part of every evaluation from now on.

    Raises:
        ValueError: If there is a metric with that key, or it is no name.
    """
    return METRICS.register(card.key)(card)


def metric_cards() -> dict[str, Card]:
    """All cards by key, in the order of tables; those of broken packages are left out, with a warning each.

    Example:
        >>> list(metric_cards())[:3]
        ['accuracy', 'map', 'cpcc']
    """
    return {card.key: card for card in sorted(METRICS.members().values(), key=lambda c: (c.order, c.key))}


@dataclass(frozen=True, eq=False)
class FeatureSet:
    """Features of some samples, in the order of the data set, on the CPU.

    Attributes:
        features: (N, d) float32.
        labels: (N,) int64, positions in the classes of the tree.
        logits: (N, k) float32 of the head that tells the trained classes apart.
        tree: The tree of the samples' own classes, with all levels of the data.
    """

    features: Tensor
    labels: Tensor
    logits: Tensor
    tree: Hierarchy

    def __len__(self) -> int:
        """How many samples there are."""
        return len(self.labels)


class EvaluationOptions(Protocol):
    """What a recipe says under `evaluation`."""

    @property
    def neighbours(self) -> Sequence[int]:
        """The k of hierarchical distance@k."""

    @property
    def calibration_bins(self) -> int:
        """Bins of the calibration error."""

    @property
    def orders(self) -> int:
        """Random orders of the samples, for distances that depend on it."""


@dataclass(frozen=True, eq=False)
class EvaluationData:
    """What is known of a run's test samples in one domain.

    Attributes:
        domain: "source", "target" or "full".
        test: The test samples.
        trained_tree: The tree of the classes that the network was trained on, which the logits are for.
        load_training: The samples it was trained on, without augmentation; or why they are missing.
        few_shot_scores: (N, classes) scores of a new head for the classes of the test samples, trained on a
            few samples of each; or why there are none.
        geometry: Ways to compare classes with the true tree, the distance trained with first.
        shuffled_geometry: The same with the tree trained on, where that was a shuffled one.
        settings: What the recipe says under `evaluation`.
    """

    domain: str
    test: FeatureSet
    trained_tree: Hierarchy
    load_training: Callable[[], FeatureSet | Missing]
    few_shot_scores: Callable[[], Tensor | Missing]
    geometry: Sequence[ClassGeometry]
    shuffled_geometry: Sequence[ClassGeometry]
    settings: EvaluationOptions

    @property
    def levels(self) -> tuple[str, ...]:
        """Names of the levels that are measured, from the root down."""
        return self.trained_tree.level_names

    @property
    def new_classes(self) -> bool:
        """Whether the test samples are of other classes than those trained on."""
        return self.test.tree.classes != self.trained_tree.classes

    @cached_property
    def training(self) -> FeatureSet | Missing:
        """The samples trained on; or why they are missing."""
        return self.load_training()

    @cached_property
    def probabilities(self) -> Tensor:
        """(N, k) of the classes trained on, in double precision: near 1 single ones would be equal."""
        return self.test.logits.double().softmax(1)

    def labels_as_trained(self, level: str) -> Tensor | Missing:
        """For each test sample a class that was trained on, in the sample's own group at a level.

        What is asked at that level only, as accuracy there, then needs the trained tree alone. Shape (N,).
        """
        if self.test.tree is self.trained_tree:
            return self.test.labels
        matches = _match_classes(self.trained_tree, self.test.tree, level)
        if matches is None:
            return Missing(f"not all groups of level {level!r} in the target are in the source")
        return torch.tensor(matches)[self.test.labels]


def _match_classes(trained: Hierarchy, tested: Hierarchy, level: str) -> list[int] | None:
    """For each class of one tree, a class of another with the same ancestor at a level.

    Returns:
        Labels in the trained tree, one for each class of the tested one; None if a class has none.

    Example:
        >>> from cophenet.tree import Hierarchy
        >>> trained = Hierarchy.from_paths(["pet/cat", "car/bus"], sep="/", level_names=["coarse", "fine"])
        >>> tested = Hierarchy.from_paths(["car/van", "pet/dog"], sep="/", level_names=["coarse", "fine"])
        >>> _match_classes(trained, tested, "coarse"), _match_classes(trained, tested, "fine")
        ([1, 0], None)
    """
    if level not in tested.level_names:
        return None
    first: dict[tuple[str, ...], int] = {}
    for label, node in enumerate(trained.ancestors(level).tolist()):
        first.setdefault(trained.path(node), label)
    matches = [first.get(tested.path(node), -1) for node in tested.ancestors(level).tolist()]
    return None if -1 in matches else matches
