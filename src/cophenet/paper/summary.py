"""Numbers of several runs taken together: over seeds, and over the metrics of a level."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from cophenet.evaluation.results import summary

__all__ = ["Results", "coarse_level", "fine_level", "level_metrics", "mean_metric", "metric_average"]

Results = Mapping[str, Any]


def mean_metric(results: Sequence[Results], key: str) -> dict[str, Any] | None:
    """A metric over runs that differ in their seed.

    Args:
        results: Contents of their `results.json`.
        key: A metric's key.

    Returns:
        "mean", "std" (None for one seed) and "values"; None if no run knows the metric.

    Example:
        >>> runs = [{"metrics": {"source/cpcc/l2": {"values": [v]}}} for v in (0.5, 0.75, 1.0)]
        >>> mean_metric(runs, "source/cpcc/l2")
        {'mean': 0.75, 'std': 0.25, 'values': [0.5, 0.75, 1.0]}
    """
    values = [value for result in results for value in result["metrics"].get(key, {}).get("values", ())]
    return summary(values) if values else None


def fine_level(result: Results) -> str:
    """Name of the level of the classes."""
    return str(result["levels"][-1])


def coarse_level(result: Results) -> str:
    """Name of the level that tables call coarse: the one of that name, else the coarsest.

    Example:
        >>> coarse_level({"levels": ["coarser", "coarse", "fine"]})
        'coarse'
        >>> coarse_level({"levels": ["shape", "digit"]})
        'shape'
    """
    levels = result["levels"]
    return "coarse" if "coarse" in levels else str(levels[0])


def level_metrics(result: Results, level: str) -> tuple[str, ...]:
    """Keys of a level's accuracies and precisions on both sides of the split, which the paper averages.

    Example:
        >>> found = {"source/accuracy/fine": {}, "source/map/fine": {}, "source/cpcc/l2": {}}
        >>> level_metrics({"metrics": found}, "fine")
        ('source/accuracy/fine', 'source/map/fine')
    """
    wanted = [f"{side}/{metric}/{level}" for metric in ("accuracy", "map") for side in ("source", "target")]
    return tuple(key for key in wanted if key in result["metrics"])


def metric_average(results: Sequence[Results], level: str) -> dict[str, Any] | None:
    """The mean of a level's accuracies and precisions, for every seed, then over seeds.

    A seed that lacks one of the numbers has no mean, for it would be of other things.

    Example:
        >>> numbers = {"source/accuracy/fine": {"values": [0.75]}, "source/map/fine": {"values": [0.5]}}
        >>> metric_average([{"metrics": numbers}], "fine")["mean"]
        0.625
    """
    averages = []
    for result in results:
        values = [result["metrics"][key]["values"][0] for key in level_metrics(result, level)]
        whole = bool(values) and None not in values
        averages.append(math.fsum(values) / len(values) if whole else None)
    return summary(averages) if averages else None
