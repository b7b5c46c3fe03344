"""Runs side by side: their numbers, the best of them, and what the paper printed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cophenet._common.checks import check_choice, escaped
from cophenet._common.limits import reading
from cophenet._common.shell import command
from cophenet.evaluation.keys import describe, key_order
from cophenet.metrics.cards import metric_cards
from cophenet.report.published_numbers import published
from cophenet.report.setups import Setup, compare_setup, data_identity, data_labels
from cophenet.report.table import Cell, Column, Row, Table, Unit, number

if TYPE_CHECKING:
    from cophenet.runs.run import Run

__all__ = ["compare", "distinct_names", "make_table", "open_runs", "results_of"]

# What is shown of any run, beside its numbers.
_SHOWN = ("data", "objective", "scale", "seeds", "epochs", "seconds_per_epoch", "samples")


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
    opened = open_runs(runs)
    results = []
    for run in opened:
        own = results_of(run)
        if own is None:
            missing = f"`{command('evaluate', run.path)}`"
            raise ValueError(f"run {run.path} was not evaluated: first run {missing}")
        results.append({**own, **data_identity(run)})
    return make_table(distinct_names(opened), results, metrics)


def results_of(run: Run) -> dict[str, Any] | None:
    """The results of a run; None before it is evaluated.

    Raises:
        ValueError: If they are damaged, or of a metric that is not known; names the file.
    """
    results = run.results
    if results is not None:
        for name in (*_SHOWN, "metrics", "missing"):
            _ = results[name]  # an error that names the file if it is not there
        with reading(run.path / "results.json"):
            for key in (*results["metrics"], *results["missing"]):
                key_order(key)
    return results


def open_runs(runs: Sequence[Run | str | Path]) -> list[Run]:
    """Runs as they are or from their folders, at least one."""
    from cophenet.runs.run import Run

    opened = [run if isinstance(run, Run) else Run.open(run) for run in runs]
    if not opened:
        raise ValueError("runs must be one or more run folders, got none")
    return opened


def distinct_names(runs: Sequence[Run]) -> list[str]:
    """Names of runs; their paths where names are the same."""
    names = [run.name for run in runs]
    return [escaped(str(run.path)) if names.count(run.name) > 1 else run.name for run in runs]


def make_table(
    names: Sequence[str], results: Sequence[Mapping[str, Any]], metrics: Iterable[str] | None = None
) -> Table:
    """The table of runs, from the content of their `results.json`.

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
        rows.append(Row(cells, name, label, result["objective"], result["scale"], tuple(result["seeds"])))
    notes = (*_data_notes(rows, results), *_notes(columns, rows, results), *_setup_notes(rows, setups))
    return Table(columns, tuple(rows), notes, layout="comparison", units=_units(columns))


def _columns(results: Sequence[Mapping[str, Any]], metrics: Iterable[str] | None) -> tuple[Column, ...]:
    measured = dict.fromkeys(key for result in results for key in (*result["metrics"], *result["missing"]))
    keys = sorted(measured, key=key_order) if metrics is None else list(dict.fromkeys(metrics))
    for key in keys:
        check_choice("metric", key, list(measured))
    infos = {key: describe(key) for key in keys}
    return tuple(Column(info.short, key, info.title, info.higher_is_better) for key, info in infos.items())


def _unit(key: str) -> Unit:
    return "percent" if describe(key).percent else "level"


def _units(columns: Sequence[Column]) -> str:
    """Sentence of the legend about units."""
    units = {_unit(column.key) for column in columns}
    if "percent" not in units:
        return ""
    *most, last = [card.short for card in metric_cards().values() if not card.percent]
    return f"all but {', '.join(most)} and {last} in percent" if len(units) > 1 else "in percent"


def _numbers(result: Mapping[str, Any], key: str) -> tuple[float | None, float | None]:
    metric = result["metrics"].get(key)
    return (None, None) if metric is None else (metric["mean"], metric["std"])


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
    pick = max if column.higher_is_better else min
    unit = _unit(column.key)
    return {data: number(pick(means), unit) for data, means in by_data.items() if len(means) > 1}


def _cell(column: Column, result: Mapping[str, Any], best: str | None, setup: Setup) -> Cell:
    mean, std = _numbers(result, column.key)
    unit = _unit(column.key)
    printed = None if setup.other else published(result["data"], result["objective"], column.key)
    return Cell(mean, std, unit, printed, best=mean is not None and best == number(mean, unit))


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
                noted[f"{row.name}, {column.name}: {reason}"] = None
            if cell.published and cell.published.note:
                noted[f"{cell.published.source}, {row.objective}: {cell.published.note}"] = None
    return noted
