"""Tables that compare runs: their metrics, the best values, and the numbers of the paper."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cophenet._common.checks import check_choice, escaped
from cophenet._common.limits import reading
from cophenet._common.shell import command
from cophenet.evaluation.keys import key_order, metric_info, metric_of, split_key
from cophenet.metrics.cards import metric_cards
from cophenet.report.comparability import Setup, compare_setup, data_identity, data_labels
from cophenet.report.noise import Measured, difference, level_identities, measured_tree
from cophenet.report.published_numbers import published
from cophenet.report.table import Cell, Column, Row, Table, unit_of

if TYPE_CHECKING:
    from cophenet.runs.run import Run

__all__ = [
    "compare",
    "distinct_names",
    "make_table",
    "measure_run",
    "open_runs",
    "reference",
    "results_of",
]

# Entries of results.json, besides metrics, that are shown for every run.
_SHOWN = ("data", "objective", "scale", "seeds", "epochs", "seconds_per_epoch", "samples")


def compare(runs: Sequence[Run | str | Path], metrics: Iterable[str] | None = None) -> Table:
    """Compare evaluated runs in a table.

    Args:
        runs: Runs or their folders, of one seed or several.
        metrics: Keys of `results.json` for the columns; None for every metric that any run has.

    Raises:
        ValueError: If a folder is not a run, a run was not evaluated, or a metric is in no run.

    Example:
        >>> compare([])
        Traceback (most recent call last):
        ValueError: runs must be one or more run folders, got none
    """
    opened = open_runs(runs)
    measured = []
    for run in opened:
        own = measure_run(run)
        if own is None:
            missing = f"`{command('evaluate', run.path)}`"
            raise ValueError(f"run {run.path} was not evaluated: first run {missing}")
        measured.append(own)
    return make_table(distinct_names(opened), measured, metrics)


def measure_run(run: Run) -> Measured | None:
    """The metrics of a run, with ids of its data and of its tree levels; None before it is evaluated."""
    results = results_of(run)
    if results is None:
        return None
    tree = measured_tree(run)
    return Measured({**data_identity(run), **results, "level_ids": level_identities(tree)}, run, tree)


def results_of(run: Run) -> dict[str, Any] | None:
    """The results of a run; None before it is evaluated.

    Raises:
        ValueError: If the file is damaged or has an unknown metric; the message names the file.
    """
    results = run.results
    if results is not None:
        for name in (*_SHOWN, "metrics", "missing"):
            _ = results[name]  # raises an error that names the file if the entry is missing
        with reading(run.path / "results.json"):
            for key in (*results["metrics"], *results["missing"]):
                key_order(key)
    return results


def open_runs(runs: Sequence[Run | str | Path]) -> list[Run]:
    """Open the runs that are given as folders; there must be at least one."""
    from cophenet.runs.run import Run

    opened = [run if isinstance(run, Run) else Run.open(run) for run in runs]
    if not opened:
        raise ValueError("runs must be one or more run folders, got none")
    return opened


def distinct_names(runs: Sequence[Run]) -> list[str]:
    """Names of runs, or their paths where several have the same name."""
    names = [run.name for run in runs]
    return [escaped(str(run.path)) if names.count(run.name) > 1 else run.name for run in runs]


def make_table(
    names: Sequence[str], runs: Sequence[Measured | Mapping[str, Any]], metrics: Iterable[str] | None = None
) -> Table:
    """Make a table of runs from the content of their `results.json`.

    A value is marked as the best of its data set if it is better than every other one by more than noise.
    Levels of different trees have separate columns.

    Args:
        names: Names of the runs.
        runs: Runs with their metrics, or just the content of `results.json`.
        metrics: As for `compare`.

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
    measured = [run if isinstance(run, Measured) else Measured(run) for run in runs]
    results = [run.results for run in measured]
    labels = data_labels(results)
    trees = _tree_labels(results, labels)
    columns = _columns(results, trees, metrics)
    references = _references(results, labels)
    setups = [_setup(columns, result) for result in results]
    best = [_best(column, measured, labels, trees) for column in columns]
    rows = []
    for place, (name, result, label, setup) in enumerate(zip(names, results, labels, setups, strict=True)):
        flat = references.get(label)
        cells = tuple(
            _cell(column, measured[place], None if flat is None else measured[flat], setup, place in winners)
            if not column.tree or column.tree == trees[place]
            else Cell(unit=unit_of(column.key))
            for column, winners in zip(columns, best, strict=True)
        )
        rows.append(Row(cells, name, label, result["objective"], result["scale"], tuple(result["seeds"])))
    notes = tuple(dict.fromkeys(_notes(columns, rows, results, trees, setups)))
    return Table(columns, tuple(rows), notes, layout="comparison", units=_units(columns))


def reference(results: Sequence[Mapping[str, Any]]) -> int | None:
    """Index of the run that others are compared with: the first with objective flat; None without one."""
    return next((place for place, one in enumerate(results) if one["objective"] == "flat"), None)


def _references(results: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> dict[str, int]:
    """Index of the run without a tree, by data set; data sets without such a run are left out."""
    found = {}
    for label in dict.fromkeys(labels):
        places = [place for place, own in enumerate(labels) if own == label]
        first = reference([results[place] for place in places])
        if first is not None:
            found[label] = places[first]
    return found


def _tree_labels(results: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> list[str]:
    """A label for the tree of each run: the name of its data if that is unambiguous, else a number."""
    trees = [tuple(result.get("level_ids", {}).items()) for result in results]
    distinct = list(dict.fromkeys(trees))
    data = [
        list(dict.fromkeys(own for tree, own in zip(trees, labels, strict=True) if tree == one))
        for one in distinct
    ]
    by_data = all(len(names) == 1 for names in data) and len({names[0] for names in data}) == len(distinct)
    return [
        data[distinct.index(tree)][0] if by_data else f"tree {distinct.index(tree) + 1}" for tree in trees
    ]


def _columns(
    results: Sequence[Mapping[str, Any]], trees: Sequence[str], metrics: Iterable[str] | None
) -> tuple[Column, ...]:
    measured = dict.fromkeys(key for result in results for key in (*result["metrics"], *result["missing"]))
    keys = sorted(measured, key=key_order) if metrics is None else list(dict.fromkeys(metrics))
    for key in keys:
        check_choice("metric", key, list(measured))
    infos = {key: metric_info(key) for key in keys}
    return tuple(
        Column(info.short, key, info.title, info.higher_is_better, tree)
        for key, info in infos.items()
        for tree in _trees_of(key, results, trees)
    )


def _trees_of(key: str, results: Sequence[Mapping[str, Any]], trees: Sequence[str]) -> list[str]:
    """Labels of trees with separate columns, because the metric's level differs between them; else [""]."""
    if metric_cards()[metric_of(key)].by != "level":
        return [""]
    level = split_key(key)[2]
    owners: dict[str, str] = {}
    for result, tree in zip(results, trees, strict=True):
        if key in result["metrics"] or key in result["missing"]:
            owners.setdefault(tree, result.get("level_ids", {}).get(level, ""))
    return list(owners) if len(set(owners.values())) > 1 else [""]


def _units(columns: Sequence[Column]) -> str:
    """The part of the legend about units."""
    units = {unit_of(column.key) for column in columns}
    if "percent" not in units:
        return ""
    *most, last = [card.short for card in metric_cards().values() if not card.percent]
    return f"all but {', '.join(most)} and {last} in percent" if len(units) > 1 else "in percent"


def _numbers(result: Mapping[str, Any], key: str) -> tuple[float | None, float | None]:
    metric = result["metrics"].get(key)
    return (None, None) if metric is None else (metric["mean"], metric["std"])


def _setup(columns: Sequence[Column], result: Mapping[str, Any]) -> Setup:
    """How a run differs from the paper's setup; empty if the paper has no numbers for it."""
    known = any(published(result["data"], result["objective"], column.key) for column in columns)
    return compare_setup(result) if known else Setup()


def _best(
    column: Column, runs: Sequence[Measured], labels: Sequence[str], trees: Sequence[str]
) -> frozenset[int]:
    """Indices of runs, at most one per data set, that are better than all others by more than noise."""
    sign = 1 if column.higher_is_better else -1
    by_data: dict[str, list[int]] = {}
    for place, (run, label) in enumerate(zip(runs, labels, strict=True)):
        own_tree = not column.tree or column.tree == trees[place]
        if own_tree and _numbers(run.results, column.key)[0] is not None:
            by_data.setdefault(label, []).append(place)
    winners = set()
    for places in by_data.values():
        first, *others = sorted(
            places, key=lambda place: -sign * runs[place].results["metrics"][column.key]["mean"]
        )
        gaps = [difference(runs[first], runs[other], column.key) for other in others]
        if gaps and all(gap is not None and gap.sign == sign for gap in gaps):
            winners.add(first)
    return frozenset(winners)


def _cell(column: Column, run: Measured, flat: Measured | None, setup: Setup, best: bool) -> Cell:
    result = run.results
    mean, std = _numbers(result, column.key)
    printed = None if setup.other else published(result["data"], result["objective"], column.key)
    against = None if flat is None or flat is run else difference(run, flat, column.key)
    return Cell(mean, std, unit_of(column.key), printed, best=best, against=against)


def _notes(
    columns: Sequence[Column],
    rows: Sequence[Row],
    results: Sequence[Mapping[str, Any]],
    trees: Sequence[str],
    setups: Sequence[Setup],
) -> Iterator[str]:
    """Notes on data sets and trees of runs, missing metrics, errors in the paper and changed settings."""
    by_data: dict[str, list[str]] = {}
    for row, result in zip(rows, results, strict=True):
        if row.data != result["data"]:
            by_data.setdefault(row.data, []).append(row.name)
    for data, names in by_data.items():
        yield f"{', '.join(names)}: data {data}"
    for tree in dict.fromkeys(trees) if any(column.tree for column in columns) else ():
        runs = ", ".join(row.name for row, own in zip(rows, trees, strict=True) if own == tree)
        yield f"({tree}): levels of the tree of {runs}"
    for row, result in zip(rows, results, strict=True):
        for column, cell in zip(columns, row.cells, strict=True):
            reason = result["missing"].get(column.key)
            if reason is not None:
                yield f"{row.name}, {column.name}: {reason}"
            if cell.published and cell.published.note:
                yield f"{cell.published.source}, {row.objective}: {cell.published.note}"
    for row, setup in zip(rows, setups, strict=True):
        if setup.other:
            yield f"{row.name}: the paper has no such numbers, {'; '.join(setup.other)}"
        elif setup.changed:
            yield f"{row.name}: not as in the recipe of its scale, {'; '.join(setup.changed)}"
