"""Numbers of several runs taken together: over seeds, and over the metrics of a level."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = [
    "Results",
    "Summary",
    "coarse_level",
    "fine_level",
    "level_metrics",
    "mean_metric",
    "metric_average",
    "summarize",
]

Results = Mapping[str, Any]


@dataclass(frozen=True)
class Summary:
    """A number over seeds.

    Attributes:
        mean: Over the seeds that have it.
        std: Standard deviation with n - 1 in the denominator; None for one seed.
        values: One for each of those seeds.
    """

    mean: float
    std: float | None
    values: tuple[float, ...]


def mean_metric(results: Sequence[Results], key: str) -> Summary | None:
    """A metric over runs that differ in their seed.

    Args:
        results: Contents of their `results.json`.
        key: A metric's key.

    Returns:
        None if no run has it.

    Example:
        >>> runs = [{"metrics": {"source/cpcc/l2": {"values": [v]}}} for v in (0.5, 0.7)]
        >>> mean_metric(runs, "source/cpcc/l2")
        Summary(mean=0.6, std=0.141..., values=(0.5, 0.7))
    """
    found = (value for result in results for value in result["metrics"].get(key, {}).get("values", ()))
    return summarize([value for value in found if value is not None])


def summarize(values: Sequence[float]) -> Summary | None:
    """Mean and standard deviation of some numbers; None of none.

    Example:
        >>> summarize([2.0])
        Summary(mean=2.0, std=None, values=(2.0,))
    """
    if not values:
        return None
    mean = math.fsum(values) / len(values)
    squares = math.fsum((value - mean) ** 2 for value in values)
    std = math.sqrt(squares / (len(values) - 1)) if len(values) > 1 else None
    return Summary(mean, std, tuple(values))


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


def metric_average(results: Sequence[Results], level: str) -> Summary | None:
    """The mean of a level's accuracies and precisions, for every seed, then over seeds.

    Seeds without one of the numbers are left out, for their mean would be of other things.

    Example:
        >>> numbers = {"source/accuracy/fine": {"values": [0.8]}, "source/map/fine": {"values": [0.6]}}
        >>> round(metric_average([{"metrics": numbers}], "fine").mean, 3)
        0.7
    """
    averages = []
    for result in results:
        values = [result["metrics"][key]["values"][0] for key in level_metrics(result, level)]
        if values and None not in values:
            averages.append(math.fsum(values) / len(values))
    return summarize(averages)
