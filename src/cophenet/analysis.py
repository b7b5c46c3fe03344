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
    "mean_metric",
    "metric_average",
    "order_study",
    "run_isolated",
    "synthetic_study",
    "time_steps",
)

__getattr__ = moved_names(__name__, {"cophenet.paper": _STUDIES})
