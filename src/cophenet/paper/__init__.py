"""Reproduction of the paper: its numbers and claims, the runs they need, documents, and verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cophenet._common.lazy import lazy_names, moved_names

if TYPE_CHECKING:
    from cophenet.paper.fits import LineFit, fit_line, growth_exponent
    from cophenet.paper.isolated import run_isolated
    from cophenet.paper.item import Item
    from cophenet.paper.items import ITEMS, find_items, item_names
    from cophenet.paper.measurements import order_study
    from cophenet.paper.mixture_modes import ModeCounts, best_components, count_modes
    from cophenet.paper.pipeline import Outcome, reproduce
    from cophenet.paper.run_observations import mean_of_level_metrics, mean_over_seeds
    from cophenet.paper.synthetic import CLOUDS, StudySettings, draw_clouds, synthetic_study
    from cophenet.paper.timing import time_steps

__all__ = [
    "CLOUDS",
    "ITEMS",
    "Item",
    "LineFit",
    "ModeCounts",
    "Outcome",
    "StudySettings",
    "best_components",
    "count_modes",
    "draw_clouds",
    "find_items",
    "fit_line",
    "growth_exponent",
    "item_names",
    "mean_of_level_metrics",
    "mean_over_seeds",
    "order_study",
    "reproduce",
    "run_isolated",
    "synthetic_study",
    "time_steps",
]

_load, __dir__ = lazy_names(
    __name__,
    {
        "fits": ["LineFit", "fit_line", "growth_exponent"],
        "item": ["Item"],
        "items": ["ITEMS", "find_items", "item_names"],
        "pipeline": ["Outcome", "reproduce"],
        "mixture_modes": ["ModeCounts", "best_components", "count_modes"],
        "measurements": ["order_study"],
        "isolated": ["run_isolated"],
        "timing": ["time_steps"],
        "run_observations": ["mean_of_level_metrics", "mean_over_seeds"],
        "synthetic": ["CLOUDS", "StudySettings", "draw_clouds", "synthetic_study"],
    },
)
_RENAMED = {"mean_metric": "mean_over_seeds", "metric_average": "mean_of_level_metrics"}
__getattr__ = moved_names(__name__, {__name__: _RENAMED}, _load)
