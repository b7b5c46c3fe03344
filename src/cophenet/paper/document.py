"""Parts that documents of items are made of: numbers of runs with the published ones, and figures of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from cophenet.evaluation.results import summary
from cophenet.paper import mean_metric
from cophenet.paper.plan import ArmRuns
from cophenet.paper.summary import coarse_level, fine_level
from cophenet.paper.tables import number_cell
from cophenet.paper.variants import label_of
from cophenet.recipes import load_recipe
from cophenet.report.published_numbers import Published, published, published_tables
from cophenet.report.setups import compare_setup
from cophenet.transport import distance_names

__all__ = [
    "CONTROL",
    "Found",
    "beside",
    "cell",
    "control_of",
    "cpcc_key",
    "dots_panel",
    "epoch_seconds",
    "finished",
    "if_same",
    "plain_runs",
    "published_at",
    "read_runs",
    "shuffled_cell",
    "table",
    "told",
]

CONTROL = (
    "Shuffled tree: trained with classes at random places of the same tree, measured with the true tree; "
    "what a CPCC is worth without the knowledge in the tree."
)


@dataclass(frozen=True, eq=False)
class Found:
    """An arm with what was measured of it.

    Attributes:
        runs: The arm and its runs.
        folder: Where runs are stored.
        results: Contents of the `results.json` of its finished runs.
    """

    runs: ArmRuns
    folder: Path
    results: tuple[dict[str, Any], ...]

    @property
    def objective(self) -> str:
        """Name of the objective."""
        return self.runs.arm.objective

    @property
    def label(self) -> str:
        """The paper's name of the objective."""
        return label_of(self.objective)

    @property
    def setting(self) -> str:
        """What is changed, in a word or two."""
        return self.runs.arm.setting

    @property
    def data(self) -> str:
        """Name of the data set."""
        return self.runs.recipe.data.name

    @property
    def fine(self) -> str:
        """Name of the level of the classes; "" if it is not known."""
        return fine_level({"levels": self._levels or ("",)})

    @property
    def coarse(self) -> str:
        """Name of the level that tables call coarse; "" if it is not known."""
        return coarse_level({"levels": self._levels or ("",)})

    @property
    def _levels(self) -> Sequence[str]:
        """Of what was measured, else of the data, as far as they are known without its files."""
        if self.results:
            levels: Sequence[str] = self.results[0]["levels"]
            return levels
        return self.runs.recipe.data.create_source().level_names

    @cached_property
    def comparable(self) -> bool:
        """Whether a number of the paper means the same.

        Data, tree and objective must be those of the library's recipe; what the arm itself changes is
        what the paper has in that row.
        """
        arm, recipe = self.runs.arm, self.runs.recipe
        about = {"data": self.data, "objective": self.objective, "scale": recipe.scale}
        own = load_recipe(self.data, recipe.scale, (f"objective.name={self.objective}", *arm.overrides))
        here, there = (
            compare_setup({**about, "recipe": settings.model_dump(mode="json")}).other
            for settings in (recipe, own)
        )
        return here == there

    def path(self, position: int = 0) -> Path:
        """Folder of a finished run."""
        return self.runs.path(self.folder, self.results[position]["seeds"][0])


def read_runs(arms: Sequence[ArmRuns], folder: Path) -> list[Found]:
    """Arms with what was measured of them, which may be nothing."""
    return [Found(arm, folder, tuple(arm.results(folder))) for arm in arms]


def finished(found: Sequence[Found]) -> list[Found]:
    """Those with finished runs."""
    return [entry for entry in found if entry.results]


def told(entry: Found, cells: Sequence[Mapping[str, Any] | None]) -> bool:
    """Whether a row says anything: something was measured for it, or published."""
    return bool(entry.results) or any(number and number["paper"] for number in cells)


def plain_runs(found: Sequence[Found]) -> list[Found]:
    """Those with the true tree."""
    return [entry for entry in found if not entry.runs.arm.control]


def control_of(found: Sequence[Found], entry: Found) -> Found | None:
    """What differs from an arm in the shuffled tree alone."""

    def same(other: Found) -> bool:
        of = (other.runs.recipe_name, other.objective, other.setting)
        return other.runs.arm.control and of == (entry.runs.recipe_name, entry.objective, entry.setting)

    return next((other for other in found if same(other)), None)


def cpcc_key(found: Found, metric: str = "cpcc") -> str:
    """Key of the CPCC by the distance that was trained with, l2 for objectives without one."""
    distance = found.objective if found.objective in distance_names() else "l2"
    return f"{found.runs.recipe.data.domain}/{metric}/{distance}"


def cell(found: Found | None, key: str, paper: Published | None = None) -> dict[str, Any] | None:
    """A metric over the seeds of an arm, as a cell of a table, in percent."""
    return number_cell(None if found is None else mean_metric(found.results, key), "percent", paper)


def epoch_seconds(found: Found, paper: Published | None = None) -> dict[str, Any] | None:
    """Seconds per epoch over the seeds of an arm, as a cell of a table."""
    seconds = [r["seconds_per_epoch"] for r in found.results if r["seconds_per_epoch"] is not None]
    return number_cell(summary(seconds) if seconds else None, "seconds", paper)


def shuffled_cell(found: Sequence[Found], entry: Found, key: str) -> dict[str, Any] | None:
    """A metric of the control of an arm."""
    return cell(control_of(found, entry), key)


def beside(found: Found, key: str) -> dict[str, Any] | None:
    """A metric of an arm in the main setup, beside what was published."""
    return cell(found, key, if_same(found, published(found.data, found.objective, key)))


def if_same(found: Found, paper: Published | None) -> Published | None:
    """What was published, if it means the same as a number of an arm."""
    return paper if paper is not None and found.comparable else None


def published_at(
    label: str, data: str, objective: str | None, key: str, setting: Mapping[str, str | int]
) -> Published | None:
    """A published cell of a table whose rows differ in a setting.

    Example:
        >>> published_at("tab:tree-depth-tab", "cifar100", "emd", "full/cpcc/emd", {"depth": 4}).value
        0.8509
    """
    for row in published_tables()[label].rows:
        fits = all(row.setting.get(name) == value for name, value in setting.items())
        if (row.data, row.objective) == (data, objective) and fits:
            return row.values.get(key)
    return None


def table(
    name: str, title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], notes: Sequence[str] = ()
) -> dict[str, Any]:
    """A table as documents hold it."""
    return {
        "name": name,
        "title": title,
        "columns": list(columns),
        "rows": [list(row) for row in rows],
        "notes": list(notes),
    }


def dots_panel(
    title: str, rows: Sequence[str], series: Mapping[str, Sequence[Mapping[str, Any] | None]], **look: Any
) -> dict[str, Any]:
    """A panel of numbers by row; where cells have a published number, that is shown too.

    Args:
        title: Of the panel.
        rows: Names of the rows.
        series: Name -> a cell for each row.
        **look: "x", "percent", "log", "together".
    """
    drawn = [
        {
            "name": name,
            "values": [None if c is None else c["mean"] for c in cells],
            "std": [None if c is None else c["std"] for c in cells],
        }
        for name, cells in series.items()
    ]
    printed = {name: [c["paper"] if c else None for c in cells] for name, cells in series.items()}
    printed = {name: papers for name, papers in printed.items() if any(papers)}
    for name, papers in printed.items():
        drawn.append(
            {
                "name": "paper" if len(printed) == 1 else f"{name}, paper",
                "values": [None if p is None else p["value"] for p in papers],
                "std": [None if p is None else p["std"] for p in papers],
            }
        )
    return {"title": title, "rows": list(rows), "series": drawn, "x": "", "percent": True, **look}
