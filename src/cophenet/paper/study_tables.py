"""Tables and figures of the studies beyond the paper, one for each data set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from cophenet.paper.item import Figures, Item
from cophenet.paper.observations import Condition, Observations
from cophenet.paper.plan import recipe_label
from cophenet.paper.published import TRANSFER, cell, is_transfer
from cophenet.paper.tables import condition_name
from cophenet.report import Cell, Table

if TYPE_CHECKING:
    from cophenet.paper.documents import Document

__all__ = ["pareto_figure", "purposes", "tuning", "tuning_figure", "yardsticks", "yardsticks_figure"]

# What an objective may be wanted for: heading, metric on the classes that were trained, and of the control.
_PURPOSES = (
    ("fine accuracy", "{}/accuracy/fine", False),
    ("coarse accuracy", "{}/accuracy/coarse", False),
    ("fine MAP", "{}/map/fine", False),
    ("coarse MAP", "{}/map/coarse", False),
    ("target coarse MAP", "target/map/coarse", False),
    ("CPCC by l2", "cpcc/l2", False),
    ("CPCC by FastFT", "cpcc/fastft", False),
    ("CPCC of unit vectors", "cpcc/fastft-unit", False),
    ("shuffled: coarse MAP", "{}/map/coarse", True),
    ("shuffled: CPCC by FastFT", "cpcc/fastft", True),
    ("shuffled: CPCC of unit vectors", "cpcc/fastft-unit", True),
)
_YARDSTICKS = ("l2", "emd", "fastft", "l2-unit", "emd-unit", "fastft-unit")
_TRIED = ("fine accuracy", "coarse accuracy", "fine MAP", "coarse MAP")
_CONTROL = "Shuffled: trained with classes at random places of the tree, measured with the true one."


def _by_recipe(observations: Observations) -> Iterator[tuple[str, list[Condition]]]:
    """What was measured on each recipe, with the true tree."""
    for recipe in observations.recipes:
        measured = [c for c in observations.plain(measured=True) if c.recipe == recipe]
        if measured:
            yield recipe, measured


def _purpose_cell(
    observations: Observations, condition: Condition, metric: str, control: bool
) -> Cell | None:
    """A number on the classes that were trained, which are those of the source or all."""
    of = observations.control_of(condition) if control else condition
    names = (metric.format(domain) for domain in ("source", "full"))
    return next((one for name in names if (one := cell(observations, of, name)) is not None), None)


def _table(
    title: str,
    observations: Observations,
    conditions: Sequence[Condition],
    columns: Sequence[tuple[str, str, bool]],
) -> Table:
    """A row for each condition; columns of which nothing is known are left out."""
    cells = [
        [_purpose_cell(observations, c, metric, control) for _, metric, control in columns]
        for c in conditions
    ]
    kept = [place for place in range(len(columns)) if any(row[place] is not None for row in cells)]
    rows = [
        [condition_name(c), len(observations.seeds(c)), *(row[place] for place in kept)]
        for c, row in zip(conditions, cells, strict=True)
    ]
    headings = ("trained with", "seeds", *(columns[place][0] for place in kept))
    notes = [_CONTROL] if any(columns[place][2] for place in kept) else []
    if any(c.pretrained for c in conditions) and any(is_transfer(columns[place][1]) for place in kept):
        notes.append(TRANSFER)
    return Table.from_rows(headings, rows, title=title, notes=notes)


def purposes(item: Item, document: Document) -> dict[str, Table]:
    """What every objective gives for every purpose."""
    observations = document.observations
    return {
        f"{item.name}-{recipe_label(recipe)}": _table(
            f"{recipe_label(recipe)}: {item.title}", observations, conditions, _PURPOSES
        )
        for recipe, conditions in _by_recipe(observations)
    }


def yardsticks(item: Item, document: Document) -> dict[str, Table]:
    """TestCPCC of features trained with one distance, by others."""
    observations = document.observations
    columns = [(f"by {name}", f"cpcc/{name}", False) for name in _YARDSTICKS]
    return {
        f"{item.name}-{recipe_label(recipe)}": _table(
            f"TestCPCC on {recipe_label(recipe)}, by the distance it is measured with",
            observations,
            conditions,
            columns,
        )
        for recipe, conditions in _by_recipe(observations)
    }


def tuning(item: Item, document: Document) -> dict[str, Table]:
    """All trials of every objective, and the one with the best mean."""
    observations, tables = document.observations, {}
    columns = [purpose for purpose in _PURPOSES if purpose[0] in _TRIED]
    for recipe, conditions in _by_recipe(observations):
        rows = []
        best: dict[str, tuple[float, int]] = {}
        for place, c in enumerate(conditions):
            cells = [_purpose_cell(observations, c, metric, False) for _, metric, _ in columns]
            known = [one.mean for one in cells if one is not None and one.mean is not None]
            mean = sum(known) / len(known) if len(known) == len(columns) else 0.0
            best[c.label] = max(best.get(c.label, (0.0, -1)), (mean, place))
            rows.append([c.label, _words(c), *cells, Cell(mean, None, "percent"), ""])
        for _, place in best.values():
            rows[place][-1] = "best"
        tables[f"{item.name}-{recipe_label(recipe)}"] = Table.from_rows(
            ("objective", "trial", *_TRIED, "mean", ""),
            rows,
            title=f"Trials on a validation part of {recipe_label(recipe)}",
            notes=["A fifth of the training part is set aside; the test part is not looked at. One seed."],
        )
    return tables


def _words(condition: Condition) -> str:
    return ", ".join(f"{name} {value}" for name, value in condition.setting.items())


def pareto_figure(item: Item, document: Document) -> Figures:
    """Coarse MAP against what it may cost, with the deviation over seeds."""
    observations = document.observations
    metrics = {heading: metric for heading, metric, control in _PURPOSES if not control}
    varied = any(c.setting for c in observations.conditions)
    panels = []
    for recipe, conditions in _by_recipe(observations):
        for x in ("fine MAP", "fine accuracy"):
            points = []
            for c in conditions:
                across, up = (
                    _purpose_cell(observations, c, metrics[name], False) for name in (x, "coarse MAP")
                )
                if across is not None and up is not None and None not in (across.mean, up.mean):
                    spread = {"x_std": across.std, "y_std": up.std}
                    of = {"group": c.label} if varied else {}
                    points.append({"name": condition_name(c), "x": across.mean, "y": up.mean, **spread, **of})
            title = f"{recipe_label(recipe)}: coarse MAP and {x}"
            panels.append({"title": title, "x": x, "y": "coarse MAP", "points": points, "fit": None})
    return {item.name: {"kind": "scatter", "panels": panels}}


def yardsticks_figure(item: Item, document: Document) -> Figures:
    """The matrix as a line for each distance that was trained with."""
    from cophenet.paper.figures import dots_panel

    observations = document.observations
    panels: list[dict[str, Any]] = []
    for recipe, conditions in _by_recipe(observations):
        series = {
            f"by {name}": [cell(observations, c, f"cpcc/{name}") for c in conditions] for name in _YARDSTICKS
        }
        names = [condition_name(c) for c in conditions]
        panels.append(dots_panel(f"{recipe_label(recipe)}: TestCPCC", names, series))
    return {item.name: {"kind": "dots", "panels": panels}}


def tuning_figure(item: Item, document: Document) -> Figures:
    """The mean of every trial."""
    from cophenet.paper.figures import dots_panel

    observations = document.observations
    metrics = {heading: metric for heading, metric, _ in _PURPOSES}
    panels: list[dict[str, Any]] = []
    for recipe, conditions in _by_recipe(observations):
        names = [f"{c.label}, {_words(c)}" for c in conditions]
        series = {
            name: [_purpose_cell(observations, c, metrics[name], False) for c in conditions]
            for name in _TRIED
        }
        panels.append(dots_panel(f"{recipe_label(recipe)}, validation", names, series))
    return {item.name: {"kind": "dots", "panels": panels}}
