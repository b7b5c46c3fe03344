"""Every metric class with inputs it can be fed, and the function it must agree with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cophenet import Hierarchy, class_distances, cpcc, metrics

PATHS = [
    ("animal", "cat"),
    ("animal", "dog", "poodle"),
    ("animal", "dog", "husky"),
    ("vehicle", "car"),
    ("animal", "fish"),
    ("vehicle", "van"),
    ("stone",),
    ("vehicle", "bike", "tandem"),
    ("vehicle", "bike", "racer"),
]
TREE = Hierarchy.from_paths(PATHS)
SAMPLES, WIDTH = 45, 6


def samples(kind: str, classes: int = len(PATHS)) -> tuple[Tensor, Tensor]:
    """First argument of `update` of one kind, and labels below `classes`, every one present."""
    generator = torch.Generator().manual_seed(5)
    labels = torch.randperm(SAMPLES, generator=generator) % classes
    centres = torch.randn(len(PATHS), WIDTH, generator=generator, dtype=torch.float64)
    features = centres[labels] + torch.randn(SAMPLES, WIDTH, generator=generator, dtype=torch.float64)
    scores = features @ centres.T
    if kind == "features":
        return features, labels
    return (scores.argmax(1) if kind == "classes" else scores.softmax(1)), labels


@dataclass(frozen=True)
class Case:
    """How to make a metric on a tree, what to feed it, and what it must give for a whole set.

    `renamed[c]` is the old number of class c, for trees whose classes are numbered otherwise.
    """

    make: Callable[[Hierarchy, Tensor], Any]
    function: Callable[[Tensor, Tensor], Any]
    kind: str


def prototypes_for(renamed: Tensor) -> tuple[Tensor, Tensor]:
    """A prototype for every class but old class 3, in the new numbers."""
    rows = torch.randn(len(PATHS), WIDTH, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    classes = (renamed != 3).nonzero().flatten()
    return rows[renamed[classes]], classes


def _distances(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    classes, rho = class_distances(x, y, "l2")
    return rho, torch.from_numpy(TREE.condensed(classes.cpu().numpy())).to(rho.device)


def _prototype_map(x: Tensor, y: Tensor) -> Tensor:
    rows, classes = prototypes_for(torch.arange(len(PATHS)))
    return metrics.prototype_map(x, y, rows.to(x), classes.to(y.device))


CASES = {
    "LevelAccuracy": Case(
        lambda tree, _: metrics.LevelAccuracy(tree, top_k=2),
        lambda x, y: metrics.level_accuracy(x, y, TREE, top_k=2),
        "probabilities",
    ),
    "FullPathAccuracy": Case(
        lambda tree, _: metrics.FullPathAccuracy(tree),
        lambda x, y: metrics.full_path_accuracy(x, y, TREE),
        "probabilities",
    ),
    "HierarchicalDistance": Case(
        lambda tree, _: metrics.HierarchicalDistance(tree, k=3),
        lambda x, y: metrics.hierarchical_distance(x, y, TREE, k=3),
        "probabilities",
    ),
    "MistakeSeverity": Case(
        lambda tree, _: metrics.MistakeSeverity(tree),
        lambda x, y: metrics.mistake_severity(x, y, TREE),
        "probabilities",
    ),
    "HierarchicalPrecisionRecall": Case(
        lambda tree, _: metrics.HierarchicalPrecisionRecall(tree, average="macro"),
        lambda x, y: metrics.hierarchical_precision_recall(x, y, TREE, average="macro"),
        "classes",
    ),
    "LevelCalibrationError": Case(
        lambda tree, _: metrics.LevelCalibrationError(tree, bins=4),
        lambda x, y: metrics.level_calibration_error(x, y, TREE, bins=4),
        "probabilities",
    ),
    "DecisionCost": Case(
        lambda tree, _: metrics.DecisionCost(tree, kind="path"),
        lambda x, y: metrics.decision_cost(x, y, TREE, kind="path"),
        "probabilities",
    ),
    "PrototypeMAP": Case(
        lambda _, renamed: metrics.PrototypeMAP(*prototypes_for(renamed)), _prototype_map, "features"
    ),
    "MAPAtR": Case(lambda _, __: metrics.MAPAtR(), metrics.map_at_r, "features"),
    "HierarchicalPrecisionAtK": Case(
        lambda tree, _: metrics.HierarchicalPrecisionAtK(tree, k=7),
        lambda x, y: metrics.hierarchical_precision_at_k(x, y, TREE, k=7),
        "features",
    ),
    "AverageHierarchicalPrecision": Case(
        lambda tree, _: metrics.AverageHierarchicalPrecision(tree, similarity="wu-palmer"),
        lambda x, y: metrics.average_hierarchical_precision(x, y, TREE, similarity="wu-palmer"),
        "features",
    ),
    "CPCC": Case(lambda tree, _: metrics.CPCC(tree), lambda x, y: cpcc(*_distances(x, y)), "features"),
    "TreeDistortion": Case(
        lambda tree, _: metrics.TreeDistortion(tree),
        lambda x, y: metrics.tree_distortion(*_distances(x, y)),
        "features",
    ),
    "DeltaHyperbolicity": Case(
        lambda tree, _: metrics.DeltaHyperbolicity(tree),
        lambda x, y: metrics.delta_hyperbolicity(_distances(x, y)[0]),
        "features",
    ),
}


def make(name: str) -> Any:
    """The metric on the usual tree."""
    return CASES[name].make(TREE, torch.arange(len(PATHS)))


def run_rank(rank: int) -> dict[str, Any]:
    """One of two processes: its half of the samples in two batches, an empty one first on rank 1."""
    results = {}
    for name, case in CASES.items():
        metric = make(name)
        x, y = samples(case.kind)
        if rank:
            metric.update(x[:0], y[:0])
        for part in (slice(rank, 20, 2), slice(20 + rank, None, 2)):
            metric.update(x[part], y[part])
        results[name] = metric.compute()
        lonely = make(name)
        # All samples on rank 0, an empty batch on rank 1.
        lonely.update(*((x[:0], y[:0]) if rank else (x, y)))
        results[f"{name}, one rank empty"] = lonely.compute()
    return results
