"""Items to reproduce, as data: what each of them trains, measures and shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

from cophenet.paper.variants import Variants

if TYPE_CHECKING:
    from cophenet.paper.documents import Document
    from cophenet.paper.observations import Observations
    from cophenet.report import Table

__all__ = ["Figures", "Item", "Number", "TimingStudy", "figure_of", "later", "measured_by", "table_of"]

Figures: TypeAlias = dict[str, dict[str, Any]]


def later(module: str, name: str, **options: Any) -> Callable[..., Any]:
    """A function of this package, imported when it is called."""

    def call(*arguments: Any) -> Any:
        return getattr(import_module(f"cophenet.paper.{module}"), name)(*arguments, **options)

    return call


table_of, figure_of, measured_by = (partial(later, name) for name in ("tables", "figures", "measurements"))


@dataclass(frozen=True)
class Number:
    """A metric as tables and figures show it.

    Attributes:
        heading: Its name in tables and figures.
        metric: Its key, as in `Observation`.
        paper: Whether the published number is shown beside it.
        control: Whether it is that of the control with a shuffled tree.
    """

    heading: str
    metric: str
    paper: bool = True
    control: bool = False


@dataclass(frozen=True)
class TimingStudy:
    """A timing study, which needs no runs.

    Attributes:
        name: Its name in `run_isolated`.
        observations: Converts the result of the study to observations.
    """

    name: str
    observations: Callable[[Mapping[str, Any]], Observations]


@dataclass(frozen=True)
class Item:
    """A part of the paper to reproduce, or a study beyond it.

    Attributes:
        name: Its name on the command line.
        title: What it shows.
        labels: Labels in the paper; empty for items beyond it.
        recipes: The recipes of its data sets.
        variants: Returns the variants to train, from recipe and scale.
        minutes: Minutes on a laptop of what it computes besides the runs.
        fixed: Whether it is only meaningful on its own recipes.
        numbers: Metrics that its tables and figures show for every condition.
        heading: Title of its table with a row for each condition; "" if it has none.
        leading: Columns of that table before the numbers.
        notes: Notes below that table.
        tables: Returns its other tables by name.
        figures: Returns its figures by name, as data.
        measure: Measures more on the runs: takes the observations, the planned runs and their folder, and
            returns the observations with more rows, and arrays for figures.
        study: Its timing study, if it needs no runs.
        count: Counts properties of data sets, without runs: takes recipes, scale, data folder and a function
            for messages.
        alone: Whether it is made only if it is named, and not with "all".
    """

    name: str
    title: str
    labels: tuple[str, ...]
    recipes: tuple[str, ...] = ()
    variants: Variants = lambda _recipe, _scale: ()
    minutes: float = 0.0
    fixed: bool = False
    numbers: tuple[Number, ...] = ()
    heading: str = ""
    leading: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    tables: Callable[[Item, Document], dict[str, Table]] | None = None
    figures: Callable[[Item, Document], Figures] | None = None
    measure: Callable[..., tuple[Observations, Sequence[Mapping[str, Any]]]] | None = None
    study: TimingStudy | None = None
    count: Callable[..., Observations] | None = None
    alone: bool = False
