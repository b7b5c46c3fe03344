"""Run folders: create, train, checkpoint and resume. Modules that need torch are loaded on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cophenet._common.lazy import lazy_names

if TYPE_CHECKING:
    from cophenet.runs.experiment import Experiment, load_experiment, load_network
    from cophenet.runs.run import Run
    from cophenet.runs.training import resume, train

__all__ = ["Experiment", "Run", "load_experiment", "load_network", "resume", "train"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "experiment": ["Experiment", "load_experiment", "load_network"],
        "run": ["Run"],
        "training": ["resume", "train"],
    },
)
