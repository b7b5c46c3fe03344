"""Studies on features, distances and finished runs: they compute and return plain numbers, and draw nothing.

What may be put here: a question about features or distances whose answer is a few numbers (how many modes
has a class, how does time grow with the size, how far is a plan from the best one). Pictures and tables of
the answers are in `report`.
"""

from cophenet.analysis.clouds import CLOUDS, draw_clouds
from cophenet.analysis.fits import LineFit, fit_line, growth_exponent
from cophenet.analysis.isolated import run_isolated
from cophenet.analysis.modes import ModeCounts, best_components, count_modes
from cophenet.analysis.orders import order_study
from cophenet.analysis.steps import time_steps
from cophenet.analysis.summary import mean_metric, metric_average
from cophenet.analysis.synthetic import StudySettings, synthetic_study

__all__ = [
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
]
