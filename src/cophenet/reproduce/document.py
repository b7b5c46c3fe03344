"""Parts that documents of items are made of: numbers of runs with the published ones, and figures of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cophenet.analysis import mean_metric
from cophenet.evaluation.results import summary
from cophenet.report.paper import Published, published, published_tables
from cophenet.report.paper_tables import number_cell
from cophenet.reproduce.arms import label_of
from cophenet.reproduce.runs import ArmRuns
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
    "plain_runs",
    "published_at",
    "read_runs",
    "shuffled_cell",
    "table",
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
        results: Contents of the `results.json` of its finished runs; at least one.
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

    def path(self, position: int = 0) -> Path:
        """Folder of a finished run."""
        return self.runs.path(self.folder, self.results[position]["seeds"][0])


def read_runs(arms: Sequence[ArmRuns], folder: Path) -> list[Found]:
    """The arms that have finished runs."""
    found = [Found(arm, folder, tuple(arm.results(folder))) for arm in arms]
    return [entry for entry in found if entry.results]


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
    return cell(found, key, published(found.data, found.objective, key))


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
    """A panel of numbers by row; where cells of the first series have a published number, that is shown too.

    Args:
        title: Of the panel.
        rows: Names of the rows.
        series: Name -> a cell for each row.
        **look: "x", "percent", "log".
    """
    drawn = [
        {
            "name": name,
            "values": [None if c is None else c["mean"] for c in cells],
            "std": [None if c is None else c["std"] for c in cells],
        }
        for name, cells in series.items()
    ]
    printed = [c["paper"] if c else None for c in next(iter(series.values()), ())]
    if any(printed):
        drawn.append(
            {
                "name": "paper",
                "values": [None if p is None else p["value"] for p in printed],
                "std": [None if p is None else p["std"] for p in printed],
            }
        )
    return {"title": title, "rows": list(rows), "series": drawn, "x": "", "percent": True, **look}
