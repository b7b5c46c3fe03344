"""What the paper printed, by the names that observations have, and cells with both numbers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from cophenet.data.source import create_source, source_names
from cophenet.paper.observations import Condition, Observations, coarse_level
from cophenet.paper.variants import BREEDS
from cophenet.report import Cell
from cophenet.report.published_numbers import Published, published_tables
from cophenet.report.table import Unit
from cophenet.transport import distance_names

__all__ = ["beside", "cell", "printed"]


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


def beside(condition: Condition, metric: str) -> Published | None:
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
    observations: Observations,
    condition: Condition | None,
    metric: str,
    unit: Unit = "percent",
    *,
    paper: bool = False,
) -> Cell | None:
    """A number over seeds, beside what was published if that is wanted; None if there is neither."""
    measured = observations.summary(condition, metric)
    published = beside(condition, metric) if paper and condition else None
    if measured is None and published is None:
        return None
    known = measured or {"mean": None, "std": None}
    return Cell(known["mean"], known["std"], unit, published)


@cache
def _cells() -> Mapping[tuple[str, str | None, str], list[tuple[Mapping[str, str | int], Published]]]:
    cells: dict[tuple[str, str | None, str], list[tuple[Mapping[str, str | int], Published]]] = {}
    for table in published_tables().values():
        for row in table.rows:
            for key, cell in row.values.items():
                for metric in _names(row.data, row.objective, key):
                    cells.setdefault((row.data, row.objective, metric), []).append((row.setting, cell))
    return cells


def _names(data: str, objective: str | None, key: str) -> list[str]:
    """What observations call a key of the paper's tables."""
    domain, metric, detail = (*key.split("/"), "", "")[:3]
    if metric == "cpcc":
        own = objective if objective in distance_names() else "l2"
        return [f"{metric}/{detail}", *([f"{metric}/own"] if detail == own else [])]
    levels = create_source(data).level_names if data in source_names() else ()
    if detail not in levels:
        return [key]
    roles = {coarse_level({"levels": levels}): "coarse", levels[-1]: "fine"}
    return [f"{domain}/{metric}/{roles.get(detail, detail)}"]
