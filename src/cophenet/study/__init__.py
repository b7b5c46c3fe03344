"""Studies: does a tree help on the user's own data, and which objective should be used?

`plan` defines what is trained, `pipeline` the order of the work; runs, the queue, the estimator, intervals
and the page come from other packages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cophenet._common.lazy import lazy_names

if TYPE_CHECKING:
    from cophenet.study.pipeline import StudyResult, run_study
    from cophenet.study.plan import StudyData, find_data

__all__ = ["StudyData", "StudyResult", "find_data", "run_study"]

__getattr__, __dir__ = lazy_names(
    __name__, {"pipeline": ["StudyResult", "run_study"], "plan": ["StudyData", "find_data"]}
)
