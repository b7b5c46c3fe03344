"""Deprecated: the studies are in `cophenet.paper`."""

from __future__ import annotations

from cophenet._common.lazy import moved_names

_STUDIES = (
    "CLOUDS",
    "LineFit",
    "ModeCounts",
    "StudySettings",
    "best_components",
    "count_modes",
    "draw_clouds",
    "fit_line",
    "growth_exponent",
    "order_study",
    "run_isolated",
    "synthetic_study",
    "time_steps",
)

_RENAMED = {"mean_metric": "mean_over_seeds", "metric_average": "mean_of_level_metrics"}

__getattr__ = moved_names(__name__, {"cophenet.paper": {name: name for name in _STUDIES} | _RENAMED})
