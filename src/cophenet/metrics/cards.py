"""Cards: metadata of metrics for evaluation and reports, and the data that metrics are computed from.

A metric that belongs in `results.json` registers a card in its own module, or in another package with an
entry point of the group `cophenet.metrics`. There is no other list of metrics: evaluation, compare and report
use the registered cards.
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
        title: Heading of the table.
        about: What the metrics measure, in one sentence.
    """

    title: str
    about: str


@dataclass(frozen=True)
class Missing:
    """Placeholder for a number that cannot be computed.

    Attributes:
        reason: Why it cannot be computed.
    """

    reason: str


MeasuredNumbers = Mapping[str, Union["Tensor", float, Missing]]


@dataclass(frozen=True)
class Card:
    """Metadata of a metric for evaluation and reports.

    Attributes:
        key: Name of its numbers in `results.json`, after the domain: "accuracy".
        title: A description, for a heading.
        short: An abbreviation, for a column.
        higher_is_better: Whether higher values are better.
        percent: Whether it is a fraction, shown as percent.
        group: The metrics it shares a table with.
        measure: Computes its numbers by name. A name is the key, optionally followed by "@" and a number, and
            optionally by "/" and a detail.
        order: Sort key of the metric in tables; ties are sorted by `key`.
        by: Kind of the detail in its names: a level of the tree, a class distance, or None for no detail.
        target: Whether it is also measured on the target classes.
        headline: What it is called among the metrics that decide whether a tree helps, which begin a report;
            with "{}" for the level if it is by level. Differences in it are stated in points if it is
            percent, in levels of the tree if it is `in_levels`, else without a unit. Empty for other metrics,
            and those by class distance.
        headline_levels: At how many headline levels of the tree it is one of these, the coarsest first.
        guesses: Kinds of guessing at a level whose accuracy is shown with it as what guessing gives: a random
            group ("chance"), or always the largest ("majority"). Only for a metric by level.
        in_levels: Whether it counts levels of the tree, as a height or a distance in it. A study compares
            such metrics and those in percent when it chooses an objective; others have no known scale.

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
    headline: str = ""
    headline_levels: int = 2
    guesses: tuple[Literal["chance", "majority"], ...] = ()
    in_levels: bool = False


def _check(name: str, card: object) -> None:
    if not isinstance(card, Card) or card.key != name:
        given = f"a card of {card.key!r}" if isinstance(card, Card) else type(card).__name__
        raise ValueError(f"metric {name!r} must be a Card with that key, got {given}")
    if not name or set("/@") & set(name):
        raise ValueError(f"key must be a name without '/' and '@', got {name!r}")
    if card.guesses and card.by != "level":
        raise ValueError(f"guesses of {name!r}, which is not by level, must be empty, got {card.guesses}")
    if card.percent and card.in_levels:
        raise ValueError(f"in_levels of {name!r}, which is in percent, must be False, got True")
    if card.headline:
        _check_headline(card)


def _check_headline(card: Card) -> None:
    if card.by == "distance":
        demand = ", which is by class distance, must be empty"
    elif card.by is None:
        demand = ", which is not by level, must have no '{}'" if "{}" in card.headline else ""
    else:
        demand = "" if _names_level(card.headline) else " must have '{}' for the level and no other braces"
    if demand:
        raise ValueError(f"headline of {card.key!r}{demand}, got {card.headline!r}")


def _names_level(headline: str) -> bool:
    """Whether a headline has one place for the level, and can be completed with it."""
    try:
        return "{}" in headline and headline.format("x") != headline.format("y")
    except (LookupError, ValueError, AttributeError):
        return False


METRICS: Registry[Card] = Registry("metric", "cophenet.metrics", "cophenet.metrics", _check)


def register_metric(card: Card) -> Card:
    """Add a metric to all following evaluations.

    Raises:
        ValueError: If a metric with that key exists, the key is not a valid name, or `headline`,
            `guesses` or `in_levels` does not fit the other attributes.
    """
    return METRICS.register(card.key)(card)


def metric_cards() -> dict[str, Card]:
    """All cards by key, in table order; cards of packages that fail to load are skipped with a warning each.

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
        labels: (N,) int64, class indices in the tree.
        logits: (N, k) float32 of the head for the trained classes.
        tree: The tree of the samples' own classes, with all levels of the data.
    """

    features: Tensor
    labels: Tensor
    logits: Tensor
    tree: Hierarchy

    def __len__(self) -> int:
        """Number of samples."""
        return len(self.labels)


class EvaluationOptions(Protocol):
    """The `evaluation` section of a recipe."""

    @property
    def neighbours(self) -> Sequence[int]:
        """Values of k for hierarchical distance@k."""

    @property
    def calibration_bins(self) -> int:
        """Number of bins of the calibration error."""

    @property
    def orders(self) -> int:
        """Number of random sample orders, for distances that depend on the order."""


@dataclass(frozen=True, eq=False)
class EvaluationData:
    """Test data and outputs of a run in one domain, from which metrics are computed.

    Attributes:
        domain: "source", "target" or "full".
        test: The test samples.
        trained_tree: The tree of the classes that the network was trained on, to which the logits refer.
        load_training: Loads the training samples without augmentation, or returns why they are missing.
        few_shot_scores: Computes (N, classes) scores of a new head for the classes of the test samples,
            trained on a few samples of each, or returns why there are none.
        geometry: Class distances to compare with the true tree; the distance used in training comes first.
        shuffled_geometry: The same with the shuffled tree used in training; empty if it was not shuffled.
        settings: The `evaluation` section of the recipe.
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
        """Whether the classes of the test samples differ from the trained classes."""
        return self.test.tree.classes != self.trained_tree.classes

    @cached_property
    def training(self) -> FeatureSet | Missing:
        """The training samples, or why they are missing."""
        return self.load_training()

    @cached_property
    def probabilities(self) -> Tensor:
        """(N, k) probabilities of the trained classes, in float64: near 1, float32 values would be equal."""
        return self.test.logits.double().softmax(1)

    def labels_as_trained(self, level: str) -> Tensor | Missing:
        """For each test sample a trained class that has the same ancestor at a level. Shape (N,).

        With these labels, metrics of that level alone, such as its accuracy, can use the trained tree.
        """
        if self.test.tree is self.trained_tree:
            return self.test.labels
        matches = _match_classes(self.trained_tree, self.test.tree, level)
        if matches is None:
            return Missing(f"not all groups of level {level!r} in the target are in the source")
        return torch.tensor(matches)[self.test.labels]


def _match_classes(trained: Hierarchy, tested: Hierarchy, level: str) -> list[int] | None:
    """For each class of the tested tree, a class of the trained tree with the same ancestor at a level.

    Returns:
        Labels in the trained tree, one for each class of the tested tree; None if a class has no match.

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
