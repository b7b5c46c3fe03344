"""What an item of the paper room is: what it trains, measures and shows, as data."""

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
    """A function of this room, imported when it is called."""

    def call(*arguments: Any) -> Any:
        return getattr(import_module(f"cophenet.paper.{module}"), name)(*arguments, **options)

    return call


table_of, figure_of, measured_by = (partial(later, name) for name in ("tables", "figures", "measurements"))


@dataclass(frozen=True)
class Number:
    """A metric as tables and figures show it.

    Attributes:
        heading: Its name there.
        metric: As in `Observation`.
        paper: Whether the published number stands beside it.
        control: Whether it is that of the shuffled tree.
    """

    heading: str
    metric: str
    paper: bool = True
    control: bool = False


@dataclass(frozen=True)
class TimingStudy:
    """A study of time, which needs no runs.

    Attributes:
        name: As `run_isolated` has it.
        observations: What was measured, from what the study returned.
    """

    name: str
    observations: Callable[[Mapping[str, Any]], Observations]


@dataclass(frozen=True)
class Item:
    """Something to reproduce.

    Attributes:
        name: What it is called on the command line.
        title: What it shows.
        labels: Labels in the paper; none for what is beyond it.
        recipes: The data sets, by their recipes.
        variants: What is trained, by recipe and scale.
        minutes: What it computes beside the runs takes on a laptop.
        fixed: Whether it makes sense on its own recipes only.
        numbers: What its tables and figures show of every condition.
        heading: Title of its table with a row for each condition; "" if it has none.
        leading: Columns of that table before the numbers.
        notes: Remarks below it.
        tables: Its other tables by name.
        figures: Its figures by name, as data.
        measure: What is measured on the runs beside their results: from the observations, the planned runs
            and their folder, the observations with more rows, and arrays for figures.
        study: The study of time behind it, if it needs no runs.
        count: What is counted of data sets, without runs: from recipes, scale, data folder and a function
            that gets messages.
        alone: Whether it is made only by its own name, and not with "all".
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
