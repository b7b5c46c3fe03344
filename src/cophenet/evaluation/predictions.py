"""Numbers of predicted classes: accuracy, mistakes and calibration, from features with their logits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from cophenet.evaluation.keys import metric_key
from cophenet.metrics import hierarchical_distance, level_accuracy, level_calibration_error, mistake_severity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cophenet.evaluation.features import FeatureSet
    from cophenet.evaluation.numbers import Numbers
    from cophenet.recipes.settings import EvaluationSettings
    from cophenet.tree import Hierarchy

__all__ = ["add_predictions", "add_transferred_accuracy", "not_shared", "stand_ins"]


def add_predictions(numbers: Numbers, test: FeatureSet, domain: str, settings: EvaluationSettings) -> None:
    """Accuracy and calibration at every level, mistake severity and hierarchical distance@k.

    Args:
        numbers: Where they are added.
        test: The samples to predict, in the classes that the head knows.
        domain: For the keys.
        settings: The k of distance@k, and the bins of the calibration error.
    """
    tree, labels = test.tree, test.labels
    # In double precision, so that probabilities next to 1 are not all the same.
    probabilities = test.logits.double().softmax(1)
    with numbers.found() as found:
        for level, rate in level_accuracy(probabilities, labels, tree).items():
            found[metric_key(domain, "accuracy", level)] = rate
        found[metric_key(domain, "severity")] = mistake_severity(test.logits, labels, tree)
        for k in (k for k in settings.neighbours if k <= tree.num_classes):
            key = metric_key(domain, f"hierarchical-distance@{k}")
            found[key] = hierarchical_distance(test.logits, labels, tree, k)
        errors = level_calibration_error(probabilities, labels, tree, settings.calibration_bins)
        for level, error in errors.items():
            found[metric_key(domain, "calibration", level)] = error
    too_many = (k for k in settings.neighbours if k > tree.num_classes)
    lacking = [metric_key(domain, f"hierarchical-distance@{k}") for k in too_many]
    numbers.lack(lacking, f"there are only {tree.num_classes} classes")


def stand_ins(source: Hierarchy, target: Hierarchy, level: str) -> NDArray[np.int64] | None:
    """For each target class a source class with the same ancestor at a level.

    What is asked at that level only, such as accuracy there, then needs the source tree alone.

    Returns:
        (target classes,) labels in the source tree; None if a target class has no such class.

    Example:
        >>> from cophenet.tree import Hierarchy
        >>> source = Hierarchy.from_paths(["pet/cat", "car/bus"], sep="/", level_names=["coarse", "fine"])
        >>> target = Hierarchy.from_paths(["car/van", "pet/dog"], sep="/", level_names=["coarse", "fine"])
        >>> stand_ins(source, target, "coarse"), stand_ins(source, target, "fine")
        (array([1, 0]), None)
    """
    if level not in target.level_names:
        return None
    known: dict[tuple[str, ...], int] = {}
    for label, node in enumerate(source.ancestors(level).tolist()):
        known.setdefault(source.path(node), label)
    found = [known.get(target.path(node), -1) for node in target.ancestors(level).tolist()]
    return None if -1 in found else np.array(found, dtype=np.int64)


def not_shared(level: str) -> str:
    """Why there is no number of the target at a level."""
    return f"not all groups of level {level!r} in the target are in the source"


def add_transferred_accuracy(
    numbers: Numbers, test: FeatureSet, source: Hierarchy, levels: Iterable[str]
) -> None:
    """Accuracy of the source head on the target, at levels whose groups both have.

    Args:
        numbers: Where it is added.
        test: The target samples, in their own classes, with the logits of the source classes.
        source: The tree of the source classes.
        levels: Levels by name.
    """
    probabilities = test.logits.double().softmax(1)
    for level in levels:
        key = metric_key("target", "accuracy", level)
        same = stand_ins(source, test.tree, level)
        if same is None:
            numbers.lack([key], not_shared(level))
            continue
        with numbers.found() as found:
            labels = torch.from_numpy(same)[test.labels]
            found[key] = level_accuracy(probabilities, labels, source)[level]
