"""What the paper printed, by the names that observations have, and cells with both numbers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from cophenet.data.source import create_source, source_names
from cophenet.paper.observations import Condition, Observations, observed_names, unit_of
from cophenet.paper.variants import BREEDS
from cophenet.report import Cell
from cophenet.report.published_numbers import Published, published_tables

__all__ = ["cell", "printed", "printed_under"]


def printed(
    data: str, objective: str | None, metric: str, setting: Mapping[str, Any] | None = None
) -> Published | None:
    """A number of the paper.

    Args:
        data: Name of a data set, or "breeds" for the mean of its settings.
        objective: Name of an objective; None for what is about the data alone.
        metric: As in `Observation`.
        setting: What is changed; None for the main setup.

    Returns:
        The cell of the most detailed table; None if the paper has none.

    Example:
        >>> printed("cifar100", "emd", "cpcc/own", {"depth": 4}).value
        0.8509
        >>> printed("inat21-mini", "flat", "source/accuracy/coarse").source
        'tab:coarse-detail'
    """
    wanted = dict(setting or {})
    for key, cell in _cells().get((data, objective, metric), ()):
        # Tables of other settings name the batch size too, which is as in the recipe.
        if all(key.get(name) == value for name, value in wanted.items()) and (
            set(key) - set(wanted) <= {"batch_size"}
        ):
            return cell
    return None


def printed_under(condition: Condition, metric: str) -> Published | None:
    """What the paper printed, if it means the same as a number under a condition."""
    if not condition.comparable or condition.control:
        return None
    data, objective, setting = condition.data, condition.objective or None, condition.setting
    if metric == "components/diagonal":
        # One number for all of BREEDS.
        return printed("breeds" if data in BREEDS else data, objective, "components", setting)
    if metric == "seconds_per_epoch":
        setting = {**setting, "batch_size": condition.batch_size}
    if metric == "seconds_per_batch" and objective and objective.startswith("bures"):
        # What the paper timed is the dense form.
        objective = "bures" if objective == "bures-dense" else ""
    return printed(data, objective, metric, setting)


def cell(
    observations: Observations, condition: Condition | None, metric: str, *, paper: bool = False
) -> Cell | None:
    """A number over seeds, beside what was published if that is wanted; None if there is neither."""
    measured = observations.summary(condition, metric)
    published = printed_under(condition, metric) if paper and condition else None
    if measured is None and published is None:
        return None
    known = measured or {"mean": None, "std": None}
    return Cell(known["mean"], known["std"], unit_of(metric), published)


@cache
def _cells() -> Mapping[tuple[str, str | None, str], list[tuple[Mapping[str, str | int], Published]]]:
    cells: dict[tuple[str, str | None, str], list[tuple[Mapping[str, str | int], Published]]] = {}
    for table in published_tables().values():
        for row in table.rows:
            for key, cell in row.values.items():
                levels = create_source(row.data).level_names if row.data in source_names() else ()
                for metric in observed_names(key, row.objective, levels):
                    cells.setdefault((row.data, row.objective, metric), []).append((row.setting, cell))
    return cells
