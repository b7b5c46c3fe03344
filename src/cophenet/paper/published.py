"""Numbers of the paper by metric names of observations, and cells with measured and published numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from cophenet.data.registry import create_source, source_names
from cophenet.paper.observations import Condition, Observations, observed_unit
from cophenet.paper.plan import recipe_label
from cophenet.paper.run_observations import observed_names
from cophenet.paper.variants import BREEDS
from cophenet.report import Cell
from cophenet.report.published_numbers import Published, published_tables

if TYPE_CHECKING:
    from cophenet.paper.item import Number

__all__ = ["TRANSFER", "cell", "is_transfer", "printed", "published_notes"]

# Note on numbers of target classes with a pretrained backbone.
TRANSFER = (
    "The backbone was trained on ImageNet, whose labelled classes include near relatives of the target's."
)


def printed(
    data: str, objective: str | None, metric: str, setting: Mapping[str, Any] | None = None
) -> Published | None:
    """Find a number of the paper.

    Args:
        data: Name of a data set, or "breeds" for the mean of its settings.
        objective: Name of an objective; None for numbers about the data alone.
        metric: Its key, as in `Observation`.
        setting: The changed settings; None for the main setup.

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
        # Tables of other settings also give the batch size, which is that of the recipe.
        if all(key.get(name) == value for name, value in wanted.items()) and (
            set(key) - set(wanted) <= {"batch_size"}
        ):
            return cell
    return None


def _printed_under(condition: Condition, metric: str) -> Published | None:
    """The published number that is comparable to a metric under a condition; None if there is none."""
    if not condition.comparable or condition.control:
        return None
    data, objective, setting = condition.data, condition.objective or None, condition.setting
    if metric == "components/diagonal":
        # One number for all of BREEDS.
        return printed("breeds" if data in BREEDS else data, objective, "components", setting)
    if metric == "seconds_per_epoch":
        setting = {**setting, "batch_size": condition.batch_size}
    if metric == "seconds_per_batch" and objective and objective.startswith("bures"):
        # The paper timed the dense form.
        objective = "bures" if objective == "bures-dense" else ""
    return printed(data, objective, metric, setting)


def cell(
    observations: Observations, condition: Condition | None, metric: str, *, paper: bool = False
) -> Cell | None:
    """A number over seeds, with the published one if `paper` is set; None if there is neither."""
    measured = observations.summary(condition, metric)
    published = _printed_under(condition, metric) if paper and condition else None
    if measured is None and published is None:
        return None
    known = measured or {"mean": None, "std": None}
    return Cell(known["mean"], known["std"], observed_unit(metric), published)


def published_notes(
    conditions: Sequence[Condition], numbers: Sequence[Number], observations: Observations
) -> list[str]:
    """Notes on why published numbers are missing beside measured ones, and on what numbers are about.

    Args:
        conditions: The conditions in a table.
        numbers: Its columns.
        observations: The observations.
    """
    measured = [c for c in conditions if observations.measured(c)]
    wanted = [n for n in numbers if n.paper and not n.control]
    reasons: dict[str, dict[str, None]] = {}
    for c in measured if wanted else ():
        absent = [n.heading for n in wanted if _printed_under(c, n.metric) is None]
        if c.differs and absent:
            reasons.setdefault(c.differs, {})[recipe_label(c.recipe)] = None
        elif absent:
            part = "" if len(absent) == len(wanted) else f" ({', '.join(absent)})"
            reasons.setdefault("the paper prints none", {})[f"{c.data} {c.name}{part}"] = None
    notes = [f"No published number: {', '.join(names)}: {reason}." for reason, names in reasons.items()]
    if any(n.metric == "components/diagonal" for n in numbers) and any(c.data in BREEDS for c in conditions):
        notes.append("Published for BREEDS: one number for its four settings.")
    transfers = any(is_transfer(number.metric) for number in numbers)
    return [*notes, *([TRANSFER] if transfers and any(c.pretrained for c in measured) else [])]


def is_transfer(metric: str) -> bool:
    """Whether a metric includes classes that were not trained on."""
    return metric.startswith(("target/", "mean/")) and metric != "mean/source"


@cache
def _cells() -> Mapping[tuple[str, str | None, str], list[tuple[Mapping[str, str | int], Published]]]:
    cells: dict[tuple[str, str | None, str], list[tuple[Mapping[str, str | int], Published]]] = {}
    rows = [row for table in published_tables().values() for row in table.rows]
    known = {row.data for row in rows} & set(source_names())
    levels = {data: create_source(data).level_names for data in known}
    for row in rows:
        for key, cell in row.values.items():
            for metric in observed_names(key, row.objective, levels.get(row.data, ())):
                cells.setdefault((row.data, row.objective, metric), []).append((row.setting, cell))
    return cells
