"""Metrics of classification, retrieval and geometry on a label tree.

A metric is a plain function on tensors (`level_accuracy`) and a torchmetrics class of the same meaning
(`LevelAccuracy`) that only keeps its sums or samples between batches and processes. The functions need torch
alone; the classes, in `modules`, are loaded on first use and need `pip install cophenet[metrics]`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cophenet.metrics.accuracy import full_path_accuracy, level_accuracy
    from cophenet.metrics.calibration import level_calibration_error
    from cophenet.metrics.decisions import decision_cost, expected_cost
    from cophenet.metrics.geometry import delta_hyperbolicity, tree_distortion
    from cophenet.metrics.hierarchical_precision import (
        average_hierarchical_precision,
        hierarchical_precision_at_k,
    )
    from cophenet.metrics.mean_average_precision import class_prototypes, level_labels, prototype_map
    from cophenet.metrics.mistakes import (
        hierarchical_distance,
        hierarchical_precision_recall,
        mistake_severity,
    )
    from cophenet.metrics.modules.classification import (
        DecisionCost,
        FullPathAccuracy,
        HierarchicalDistance,
        HierarchicalPrecisionRecall,
        LevelAccuracy,
        LevelCalibrationError,
        MistakeSeverity,
    )
    from cophenet.metrics.modules.geometry import CPCC, DeltaHyperbolicity, TreeDistortion
    from cophenet.metrics.modules.retrieval import (
        AverageHierarchicalPrecision,
        HierarchicalPrecisionAtK,
        MAPAtR,
        PrototypeMAP,
    )
    from cophenet.metrics.retrieval import map_at_r

__all__ = [
    "CPCC",
    "AverageHierarchicalPrecision",
    "DecisionCost",
    "DeltaHyperbolicity",
    "FullPathAccuracy",
    "HierarchicalDistance",
    "HierarchicalPrecisionAtK",
    "HierarchicalPrecisionRecall",
    "LevelAccuracy",
    "LevelCalibrationError",
    "MAPAtR",
    "MistakeSeverity",
    "PrototypeMAP",
    "TreeDistortion",
    "average_hierarchical_precision",
    "class_prototypes",
    "decision_cost",
    "delta_hyperbolicity",
    "expected_cost",
    "full_path_accuracy",
    "hierarchical_distance",
    "hierarchical_precision_at_k",
    "hierarchical_precision_recall",
    "level_accuracy",
    "level_calibration_error",
    "level_labels",
    "map_at_r",
    "metric_names",
    "mistake_severity",
    "prototype_map",
    "tree_distortion",
]

_FUNCTIONS = {
    "average_hierarchical_precision": "hierarchical_precision",
    "class_prototypes": "mean_average_precision",
    "decision_cost": "decisions",
    "delta_hyperbolicity": "geometry",
    "expected_cost": "decisions",
    "full_path_accuracy": "accuracy",
    "hierarchical_distance": "mistakes",
    "hierarchical_precision_at_k": "hierarchical_precision",
    "hierarchical_precision_recall": "mistakes",
    "level_accuracy": "accuracy",
    "level_calibration_error": "calibration",
    "level_labels": "mean_average_precision",
    "map_at_r": "retrieval",
    "mistake_severity": "mistakes",
    "prototype_map": "mean_average_precision",
    "tree_distortion": "geometry",
}

_CLASSES = {
    "AverageHierarchicalPrecision": "modules.retrieval",
    "CPCC": "modules.geometry",
    "DecisionCost": "modules.classification",
    "DeltaHyperbolicity": "modules.geometry",
    "FullPathAccuracy": "modules.classification",
    "HierarchicalDistance": "modules.classification",
    "HierarchicalPrecisionAtK": "modules.retrieval",
    "HierarchicalPrecisionRecall": "modules.classification",
    "LevelAccuracy": "modules.classification",
    "LevelCalibrationError": "modules.classification",
    "MAPAtR": "modules.retrieval",
    "MistakeSeverity": "modules.classification",
    "PrototypeMAP": "modules.retrieval",
    "TreeDistortion": "modules.geometry",
}


def metric_names() -> tuple[str, ...]:
    """Names of all metric classes."""
    return tuple(_CLASSES)


def __getattr__(name: str) -> object:
    if name in _FUNCTIONS:
        return getattr(import_module(f"cophenet.metrics.{_FUNCTIONS[name]}"), name)
    if name not in _CLASSES:
        raise AttributeError(f"module 'cophenet.metrics' has no attribute {name!r}")
    try:
        import torchmetrics  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"cophenet.metrics.{name} needs torchmetrics: pip install cophenet[metrics]"
        ) from error
    return getattr(import_module(f"cophenet.metrics.{_CLASSES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
