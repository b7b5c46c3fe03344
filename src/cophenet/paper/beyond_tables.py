"""Tables and figures of the items beyond the paper, one for each data set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from cophenet.paper.figures import dots_panel
from cophenet.paper.item import Figures, Item
from cophenet.paper.observations import Condition, Observations
from cophenet.paper.plan import recipe_label
from cophenet.paper.published import TRANSFER, cell, is_transfer
from cophenet.paper.tables import condition_name
from cophenet.report import Cell, Table

if TYPE_CHECKING:
    from cophenet.paper.documents import Document

__all__ = ["pareto_figure", "purposes", "tuning", "tuning_figure", "yardsticks", "yardsticks_figure"]

# Heading, metric on the trained classes, and whether it is that of the control.
Purpose: TypeAlias = tuple[str, str, bool]
# The purposes that an objective may have.
_PURPOSES: tuple[Purpose, ...] = (
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
_YARDSTICKS = tuple(
    (f"by {name}", f"cpcc/{name}", False)
    for name in ("l2", "emd", "fastft", "l2-unit", "emd-unit", "fastft-unit")
)
_TRIED = _PURPOSES[:4]
_CONTROL = "Shuffled: trained with classes at random places of the tree, measured with the true one."


def _by_recipe(observations: Observations) -> Iterator[tuple[str, list[Condition]]]:
    """Yield the label of each recipe with its measured conditions on the true tree."""
    for recipe in observations.recipes:
        measured = [c for c in observations.plain(measured=True) if c.recipe == recipe]
        if measured:
            yield recipe_label(recipe), measured


def _cells(
    observations: Observations, condition: Condition, purposes: Sequence[Purpose]
) -> list[Cell | None]:
    """Numbers on the trained classes, which are the source classes or all."""
    cells = []
    for _, metric, control in purposes:
        of = observations.control_of(condition) if control else condition
        both = (cell(observations, of, metric.format(domain)) for domain in ("source", "full"))
        cells.append(next((one for one in both if one is not None), None))
    return cells


def _tables(item: Item, document: Document, title: str, purposes: Sequence[Purpose]) -> dict[str, Table]:
    """For each recipe a table with a row for each condition, without empty columns."""
    observations, tables = document.observations, {}
    for label, conditions in _by_recipe(observations):
        cells = [_cells(observations, c, purposes) for c in conditions]
        kept = [place for place in range(len(purposes)) if any(row[place] is not None for row in cells)]
        rows = [
            [condition_name(c), len(observations.seeds(c)), *(row[place] for place in kept)]
            for c, row in zip(conditions, cells, strict=True)
        ]
        headings = ("trained with", "seeds", *(purposes[place][0] for place in kept))
        notes = [_CONTROL] if any(purposes[place][2] for place in kept) else []
        if any(c.pretrained for c in conditions) and any(is_transfer(purposes[place][1]) for place in kept):
            notes.append(TRANSFER)
        name = f"{item.name}-{label}"
        tables[name] = Table.from_rows(headings, rows, title=title.format(label), notes=notes)
    return tables


def purposes(item: Item, document: Document) -> dict[str, Table]:
    """Metrics of every objective for every purpose."""
    return _tables(item, document, f"{{}}: {item.title}", _PURPOSES)


def yardsticks(item: Item, document: Document) -> dict[str, Table]:
    """TestCPCC of features trained with one distance, measured by others."""
    return _tables(item, document, "TestCPCC on {}, by the distance it is measured with", _YARDSTICKS)


def tuning(item: Item, document: Document) -> dict[str, Table]:
    """All trials of every objective; the best mean among those with all numbers is marked."""
    observations, tables = document.observations, {}
    for label, conditions in _by_recipe(observations):
        rows = []
        best: dict[str, tuple[float, int]] = {}
        for place, c in enumerate(conditions):
            cells = _cells(observations, c, _TRIED)
            known = [one.mean for one in cells if one is not None and one.mean is not None]
            mean = sum(known) / len(known) if len(known) == len(cells) else None
            if mean is not None:
                best[c.label] = max(best.get(c.label, (mean, place)), (mean, place))
            rows.append([c.label, _words(c), *cells, Cell(mean, None, "percent"), ""])
        for _, place in best.values():
            rows[place][-1] = "best"
        tables[f"{item.name}-{label}"] = Table.from_rows(
            ("objective", "trial", *(heading for heading, _, _ in _TRIED), "mean", ""),
            rows,
            title=f"Trials on a validation part of {label}",
            notes=["A fifth of the training part is set aside; the test part is not looked at. One seed."],
        )
    return tables


def _words(condition: Condition) -> str:
    return ", ".join(f"{name} {value}" for name, value in condition.setting.items())


def pareto_figure(item: Item, document: Document) -> Figures:
    """Coarse MAP against fine metrics that it may lower, with standard deviations over seeds."""
    observations = document.observations
    varied = any(c.setting for c in observations.conditions)
    fine_accuracy, _, fine_map, coarse_map = _TRIED
    panels = []
    for label, conditions in _by_recipe(observations):
        for cost in (fine_map, fine_accuracy):
            points = []
            for c in conditions:
                x, y = _cells(observations, c, (cost, coarse_map))
                if x is not None and y is not None and None not in (x.mean, y.mean):
                    spread = {"x_std": x.std, "y_std": y.std}
                    of = {"group": c.label} if varied else {}
                    points.append({"name": condition_name(c), "x": x.mean, "y": y.mean, **spread, **of})
            title = f"{label}: coarse MAP and {cost[0]}"
            panels.append({"title": title, "x": cost[0], "y": "coarse MAP", "points": points, "fit": None})
    return {item.name: {"kind": "scatter", "panels": panels}}


def _dots(
    item: Item,
    document: Document,
    title: str,
    purposes: Sequence[Purpose],
    name: Callable[[Condition], str] = condition_name,
) -> Figures:
    """A panel for each recipe, with a row for each condition."""
    panels = []
    for label, conditions in _by_recipe(document.observations):
        columns = zip(*(_cells(document.observations, c, purposes) for c in conditions), strict=True)
        series = {heading: column for (heading, _, _), column in zip(purposes, columns, strict=True)}
        panels.append(dots_panel(title.format(label), [name(c) for c in conditions], series))
    return {item.name: {"kind": "dots", "panels": panels}}


def yardsticks_figure(item: Item, document: Document) -> Figures:
    """TestCPCC by every distance, with a row for each training distance."""
    return _dots(item, document, "{}: TestCPCC", _YARDSTICKS)


def tuning_figure(item: Item, document: Document) -> Figures:
    """All numbers of every trial."""
    return _dots(item, document, "{}, validation", _TRIED, lambda c: f"{c.label}, {_words(c)}")
