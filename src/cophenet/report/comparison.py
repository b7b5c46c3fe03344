"""Runs side by side: what a comparison holds, whatever it is written as."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cophenet._common.checks import check_choice
from cophenet.evaluation.keys import MetricInfo, describe, key_order
from cophenet.report import formats
from cophenet.report.published_numbers import Published, published
from cophenet.report.setups import Setup, compare_setup, data_labels, describe_data

if TYPE_CHECKING:
    from cophenet.runs.run import Run

__all__ = ["Cell", "Column", "Row", "Table", "compare", "make_table"]


@dataclass(frozen=True)
class Column:
    """A metric.

    Attributes:
        key: Its key in `results.json`.
        info: What it is called, and which way is better.
    """

    key: str
    info: MetricInfo


@dataclass(frozen=True)
class Cell:
    """A number of a run.

    Attributes:
        mean: Mean over seeds; None where it is undefined or was not measured.
        std: Standard deviation over seeds, None for a single one.
        text: Mean and deviation as they are shown.
        best: Whether no other run on the same data shows a better one.
        published: The paper's number, for runs in its setup.
    """

    mean: float | None
    std: float | None
    text: str
    best: bool
    published: Published | None


@dataclass(frozen=True)
class Row:
    """A run.

    Attributes:
        name: What it is called.
        data: Name of its data set, with the folder where others have the same name.
        objective: Name of its objective.
        scale: Whether it has the paper's size or one for a laptop.
        seeds: Its seeds.
        cells: One for each column.
    """

    name: str
    data: str
    objective: str
    scale: str
    seeds: tuple[int, ...]
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """Runs by rows, metrics by columns.

    Attributes:
        columns: The metrics.
        rows: The runs.
        notes: Why cells are empty, and what is known of the paper's numbers.
    """

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]

    @property
    def has_published(self) -> bool:
        """Whether the paper has any of these numbers."""
        return any(cell.published for row in self.rows for cell in row.cells)

    def to_terminal(self, width: int | None = None) -> str:
        """As text, in blocks of columns that fit a width; None for a single block."""
        return formats.terminal(self, width)

    def to_markdown(self) -> str:
        """As a Markdown table, best values bold."""
        return formats.markdown(self)

    def to_csv(self) -> str:
        """As CSV, in full precision, with a column each for mean and standard deviation."""
        return formats.comma_separated(self)

    def to_latex(self) -> str:
        """As a LaTeX tabular that needs the package booktabs, best values bold."""
        return formats.latex(self)


def compare(runs: Sequence[Run | str | Path], metrics: Iterable[str] | None = None) -> Table:
    """Put evaluated runs side by side.

    Args:
        runs: Runs or their folders, of one seed or several.
        metrics: Keys of `results.json` for the columns; None for all that any run has.

    Raises:
        ValueError: If a folder is no run, a run was not evaluated, or no run has a metric.

    Example:
        >>> compare([])
        Traceback (most recent call last):
        ValueError: runs must be one or more run folders, got none
    """
    from cophenet.runs.run import Run

    opened = [run if isinstance(run, Run) else Run.open(run) for run in runs]
    if not opened:
        raise ValueError("runs must be one or more run folders, got none")
    results = []
    for run in opened:
        if run.results is None:
            raise ValueError(f"run {run.path} was not evaluated: first run `cophenet evaluate {run.path}`")
        results.append({**run.results, **describe_data(run)})
    return make_table(distinct_names(opened), results, metrics)


def distinct_names(runs: Sequence[Run]) -> list[str]:
    """Names of runs; their paths where names are the same."""
    names = [run.name for run in runs]
    return [str(run.path) if names.count(run.name) > 1 else run.name for run in runs]


def make_table(
    names: Sequence[str], results: Sequence[Mapping[str, Any]], metrics: Iterable[str] | None = None
) -> Table:
    """The table of runs, from what stands in their `results.json`.

    Example:
        >>> digits = {"data": "digits", "objective": "l2", "scale": "laptop", "seeds": [0], "missing": {}}
        >>> digits["metrics"] = {"source/severity": {"mean": 1.5, "std": None, "values": [1.5]}}
        >>> print(make_table(["mine"], [digits]).to_markdown())
        | run | sSev ↓ |
        |:--|--:|
        | mine | 1.500 |
        <BLANKLINE>
        ↑ higher is better, ↓ lower is better
    """
    columns = _columns(results, metrics)
    labels = data_labels(results)
    best = [_best_texts(column, results, labels) for column in columns]
    setups = [_setup(columns, result) for result in results]
    rows = []
    for name, result, label, setup in zip(names, results, labels, setups, strict=True):
        cells = tuple(
            _cell(column, result, texts.get(label), setup)
            for column, texts in zip(columns, best, strict=True)
        )
        rows.append(Row(name, label, result["objective"], result["scale"], tuple(result["seeds"]), cells))
    notes = (*_data_notes(rows, results), *_notes(columns, rows, results), *_setup_notes(rows, setups))
    return Table(columns, tuple(rows), notes)


def _columns(results: Sequence[Mapping[str, Any]], metrics: Iterable[str] | None) -> tuple[Column, ...]:
    found = list(dict.fromkeys(key for result in results for key in (*result["metrics"], *result["missing"])))
    if metrics is not None:
        chosen = list(dict.fromkeys(metrics))
        for key in chosen:
            check_choice("metric", key, found)
        return tuple(Column(key, describe(key)) for key in chosen)
    return tuple(Column(key, describe(key)) for key in sorted(found, key=key_order))


def _numbers(result: Mapping[str, Any], key: str) -> tuple[float | None, float | None]:
    found = result["metrics"].get(key)
    return (None, None) if found is None else (found["mean"], found["std"])


def _setup(columns: Sequence[Column], result: Mapping[str, Any]) -> Setup:
    """How a run differs from the paper's setup, where the paper has numbers for it."""
    known = any(published(result["data"], result["objective"], column.key) for column in columns)
    return compare_setup(result) if known else Setup()


def _best_texts(
    column: Column, results: Sequence[Mapping[str, Any]], labels: Sequence[str]
) -> dict[str, str]:
    """The best mean as it is shown, for each data set that has two or more to choose from."""
    by_data: dict[str, list[float]] = {}
    for result, label in zip(results, labels, strict=True):
        mean, _ = _numbers(result, column.key)
        if mean is not None:
            by_data.setdefault(label, []).append(mean)
    pick = max if column.info.higher_is_better else min
    return {
        data: formats.number(pick(means), column.info) for data, means in by_data.items() if len(means) > 1
    }


def _cell(column: Column, result: Mapping[str, Any], best: str | None, setup: Setup) -> Cell:
    mean, std = _numbers(result, column.key)
    printed = None if setup.other else published(result["data"], result["objective"], column.key)
    if mean is None:
        return Cell(None, None, "-", False, printed)
    text = formats.with_spread(mean, std, column.info)
    return Cell(mean, std, text, best == formats.number(mean, column.info), printed)


def _data_notes(rows: Sequence[Row], results: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    """Which runs are on which of the data sets that have the same name."""
    by_data: dict[str, list[str]] = {}
    for row, result in zip(rows, results, strict=True):
        if row.data != result["data"]:
            by_data.setdefault(row.data, []).append(row.name)
    return [f"{', '.join(names)}: data {data}" for data, names in by_data.items()]


def _setup_notes(rows: Sequence[Row], setups: Sequence[Setup]) -> Iterable[str]:
    for row, setup in zip(rows, setups, strict=True):
        if setup.other:
            yield f"{row.name}: the paper has no such numbers, {'; '.join(setup.other)}"
        elif setup.changed:
            yield f"{row.name}: not as in the recipe of its scale, {'; '.join(setup.changed)}"


def _notes(
    columns: Sequence[Column], rows: Sequence[Row], results: Sequence[Mapping[str, Any]]
) -> Iterable[str]:
    noted: dict[str, None] = {}
    for row, result in zip(rows, results, strict=True):
        for column, cell in zip(columns, row.cells, strict=True):
            reason = result["missing"].get(column.key)
            if reason is not None:
                noted[f"{row.name}, {column.info.short}: {reason}"] = None
            if cell.published and cell.published.note:
                noted[f"{cell.published.source}, {row.objective}: {cell.published.note}"] = None
    return noted
