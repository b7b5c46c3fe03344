"""Documents of the paper's main tables: TestCPCC, fine and coarse metrics, baselines, the control."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Any

from cophenet.evaluation.results import summary
from cophenet.paper import fit_line, mean_metric, metric_average
from cophenet.paper.document import (
    CONTROL,
    Found,
    beside,
    cell,
    cpcc_key,
    dots_panel,
    finished,
    if_same,
    plain_runs,
    shuffled_cell,
    table,
    told,
)
from cophenet.paper.tables import number_cell
from cophenet.paper.variants import BREEDS
from cophenet.report.published_numbers import published

__all__ = ["baselines", "coarse", "fine", "rank", "scatter", "shuffled", "testcpcc"]

Parts = dict[str, Any]
_LEVELS = ("coarse", "fine")
_HOW = ("own distance", "by l2")


def _recipes(found: Iterable[Found]) -> list[str]:
    return list(dict.fromkeys(entry.runs.recipe_name for entry in found))


def _cpcc_row(found: Sequence[Found], entry: Found) -> list[Any]:
    domain = entry.runs.recipe.data.domain
    return [
        beside(entry, cpcc_key(entry)),
        cell(entry, f"{domain}/cpcc/l2"),
        shuffled_cell(found, entry, cpcc_key(entry)),
        shuffled_cell(found, entry, cpcc_key(entry, "cpcc-trained-tree")),
    ]


_CPCC_COLUMNS = ("TestCPCC", "by l2", "shuffled tree", "shuffled, its own tree")


def _cpcc_rows(found: Sequence[Found]) -> list[tuple[Found, list[Any]]]:
    made = [(entry, _cpcc_row(found, entry)) for entry in plain_runs(found)]
    return [(entry, row) for entry, row in made if told(entry, row)]


def _cpcc_panel(title: str, rows: Sequence[tuple[Found, list[Any]]]) -> dict[str, Any]:
    series = {"measured": [row[0] for _, row in rows], "shuffled tree": [row[2] for _, row in rows]}
    return dots_panel(title, [entry.label for entry, _ in rows], series, x="TestCPCC")


def testcpcc(found: Sequence[Found]) -> Parts:
    """TestCPCC of every objective on every data set."""
    made = _cpcc_rows(found)
    panels = [
        _cpcc_panel(recipe, [(entry, row) for entry, row in made if entry.runs.recipe_name == recipe])
        for recipe in _recipes(finished(found))
    ]
    rows = [[entry.data, entry.label, len(entry.results), *row] for entry, row in made]
    columns = ("data", "objective", "seeds", *_CPCC_COLUMNS)
    return {
        "tables": [table("testcpcc", "TestCPCC by the distance trained with", columns, rows, [CONTROL])],
        "figures": {"testcpcc": {"kind": "dots", "panels": panels or [dots_panel("TestCPCC", [], {})]}},
    }


def _generalisation(
    found: Sequence[Found], name: str, level: Callable[[Found], str], metrics: Sequence[str]
) -> Parts:
    columns = [{"accuracy": "Acc", "map": "MAP"}[metric.partition("/")[2]] for metric in metrics]
    columns = [metric[0] + column for metric, column in zip(metrics, columns, strict=True)]

    def keys(entry: Found) -> list[str]:
        return [f"{metric}/{level(entry)}" for metric in metrics]

    made = [(entry, [beside(entry, key) for key in keys(entry)]) for entry in found]
    rows: list[list[Any]] = [
        [entry.data, entry.label, len(entry.results), *cells] for entry, cells in made if told(entry, cells)
    ]
    detail = [row for row in rows if row[0] not in BREEDS]
    detail += _breeds_means(found, keys)
    per_setting = [row for row in rows if row[0] in BREEDS]
    heading = ("data", "objective", "seeds", *columns)
    summary_rows = [[*row[:3], *(_without_std(c) for c in row[3:])] for row in detail]
    title = f"Generalisation on the {name} level"
    tables = [
        table(f"{name}-summary", f"{title}, means", heading, summary_rows),
        table(f"{name}-detail", f"{title}, mean (std over seeds)", heading, detail),
        table(f"{name}-breeds", f"{title}, each BREEDS setting", heading, per_setting),
    ]
    measured = {entry.data for entry in finished(found)}
    return {"tables": tables, "figures": {name: _by_row(name, columns, rows, measured)}}


def _by_row(name: str, columns: Sequence[str], rows: Sequence[list[Any]], data: set[str]) -> dict[str, Any]:
    """A panel for each metric, of the rows on some data."""
    drawn = [row for row in rows if row[0] in data]
    names = [f"{row[0]} {row[1]}" for row in drawn]
    panels = [
        dots_panel(f"{name} {column}", names, {"measured": [row[3 + place] for row in drawn]})
        for place, column in enumerate(columns)
    ]
    return {"kind": "dots", "panels": panels}


def _without_std(number: dict[str, Any] | None) -> dict[str, Any] | None:
    if number is None:
        return None
    paper = number["paper"] and {**number["paper"], "std": None}
    return {**number, "std": None, "paper": paper}


def _breeds_means(found: Sequence[Found], keys: Callable[[Found], list[str]]) -> list[list[Any]]:
    """Rows of the mean over the four BREEDS settings, for objectives that all four have.

    The mean is taken for every seed, so that the spread is that over seeds, as in the other rows.
    """
    rows = []
    for objective in dict.fromkeys(entry.objective for entry in found):
        entries = [e for e in found if e.objective == objective and e.data in BREEDS]
        if {e.data for e in entries} != set(BREEDS):
            continue
        cells = []
        for key in keys(entries[0]):
            means = _seed_means(entries, key)
            paper = published("breeds", objective, key)
            same = all(if_same(entry, paper) for entry in entries)
            cells.append(number_cell(summary(means) if means else None, "percent", paper if same else None))
        if any(told(entry, cells) for entry in entries):
            rows.append(["breeds", entries[0].label, len(_common_seeds(entries)), *cells])
    return rows


def _common_seeds(entries: Sequence[Found]) -> list[int]:
    """Seeds that all entries have."""
    seeds = [{result["seeds"][0] for result in entry.results} for entry in entries]
    return sorted(set.intersection(*seeds))


def _seed_means(entries: Sequence[Found], key: str) -> list[float | None]:
    """The mean of a metric over data sets, for every seed that all have."""
    means: list[float | None] = []
    for seed in _common_seeds(entries):
        same = [[r for r in entry.results if r["seeds"][0] == seed] for entry in entries]
        found = [mean_metric(results, key) for results in same]
        means.append(summary([None if one is None else one["mean"] for one in found])["mean"])
    return means


def fine(found: Sequence[Found]) -> Parts:
    """Accuracy and retrieval on the level of the classes."""
    return _generalisation(
        found, "fine", lambda entry: entry.fine, ("source/accuracy", "target/accuracy", "source/map")
    )


def coarse(found: Sequence[Found]) -> Parts:
    """Accuracy and retrieval on the coarse level."""
    metrics = ("source/accuracy", "target/accuracy", "source/map", "target/map")
    return _generalisation(found, "coarse", lambda entry: entry.coarse, metrics)


def baselines(found: Sequence[Found]) -> Parts:
    """CPCC of all objectives."""
    made = _cpcc_rows(found)
    rows = [[entry.label, len(entry.results), *row] for entry, row in made]
    panel = _cpcc_panel("CPCC of hierarchical objectives", made if finished(found) else [])
    columns = ("objective", "seeds", *_CPCC_COLUMNS)
    return {
        "tables": [table("baselines", "CPCC of hierarchical objectives", columns, rows, [CONTROL])],
        "figures": {"baselines": {"kind": "dots", "panels": [panel]}},
    }


def scatter(found: Sequence[Found]) -> Parts:
    """CPCC against the means of fine and of coarse metrics, by the distance trained with and by l2."""
    rows: list[list[Any]] = []
    points: dict[tuple[str, str], list[dict[str, Any]]] = {
        (level, how): [] for how in _HOW for level in _LEVELS
    }
    for entry in finished(plain_runs(found)):
        own = cpcc_key(entry)
        l2 = f"{entry.runs.recipe.data.domain}/cpcc/l2"
        cpcc = {how: cell(entry, key) for how, key in zip(_HOW, (own, l2), strict=True)}
        level_of = {"coarse": entry.coarse, "fine": entry.fine}
        means = {name: number_cell(metric_average(entry.results, level_of[name])) for name in _LEVELS}
        rows.append([entry.label, *cpcc.values(), shuffled_cell(found, entry, own), *means.values()])
        for (level, how), drawn in points.items():
            # As in the paper: an outlier, which would decide the fit alone.
            if entry.objective != "rank":
                drawn += _point(entry.label, cpcc[how], means[level])
    panels = [
        {
            "title": f"{level} metrics, {how}",
            "x": "TestCPCC by l2" if how == "by l2" else "TestCPCC by the distance trained with",
            "y": f"mean {level} metric",
            "points": drawn,
            "fit": _fit(drawn),
        }
        for (level, how), drawn in points.items()
    ]
    columns = ("objective", "TestCPCC", "by l2", "shuffled tree", "mean coarse", "mean fine")
    notes = [
        "Means of all accuracies and precisions of a level, source and target. Rank is not in the fits.",
        "By the distance trained with, as in the paper, objectives without one are by l2: those panels have "
        "several distances on one axis. By l2 all are alike.",
        CONTROL,
    ]
    return {
        "tables": [table("scatter", "CPCC against mean metrics", columns, rows, notes)],
        "figures": {"scatter": {"kind": "scatter", "panels": panels}},
        "fits": {panel["title"]: panel["fit"] for panel in panels},
    }


def _point(label: str, x: dict[str, Any] | None, y: dict[str, Any] | None) -> list[dict[str, Any]]:
    """A point, if both numbers are known."""
    known = x and y and x["mean"] is not None and y["mean"] is not None
    return [{"name": label, "x": x["mean"], "y": y["mean"]}] if known and x and y else []


def _fit(points: Sequence[dict[str, Any]]) -> dict[str, float] | None:
    x, y = [p["x"] for p in points], [p["y"] for p in points]
    if len(set(x)) < 2 or len(set(y)) < 2:
        return None
    return {**asdict(fit_line(x, y)), "points": len(points)}


def rank(found: Sequence[Found]) -> Parts:
    """Flat against the rank loss in all metrics."""
    rows: list[list[Any]] = []
    for entry in found:
        low, high = entry.fine, entry.coarse
        keys = [f"{m}/{low}" for m in ("source/accuracy", "target/accuracy", "source/map")]
        keys += [f"{m}/{high}" for m in ("source/accuracy", "target/accuracy", "source/map", "target/map")]
        cells = [beside(entry, key) for key in keys]
        if told(entry, cells):
            rows.append([entry.label, *cells])
    names = [
        "fine sAcc",
        "fine tAcc",
        "fine sMAP",
        "coarse sAcc",
        "coarse tAcc",
        "coarse sMAP",
        "coarse tMAP",
    ]
    series = {row[0]: row[1:] for row in rows} if finished(found) else {}
    panel = dots_panel("Flat against Rank", names if series else [], series)
    return {
        "tables": [table("rank", "Flat against the rank loss", ("objective", *names), rows)],
        "figures": {"rank": {"kind": "dots", "panels": [panel]}},
    }


def shuffled(found: Sequence[Found]) -> Parts:
    """Whether the knowledge in the tree helps: every objective with the tree and with a shuffled one."""
    rows = []
    for entry in finished(plain_runs(found)):
        high, low = entry.coarse, entry.fine
        keys = (cpcc_key(entry), f"source/accuracy/{low}", f"source/accuracy/{high}", f"source/map/{high}")
        row: list[Any] = [entry.label]
        for key in keys:
            row += [cell(entry, key), shuffled_cell(found, entry, key)]
        rows.append(row)
    names = ("TestCPCC", "fine sAcc", "coarse sAcc", "coarse sMAP")
    columns = ["objective"]
    for name in names:
        columns += [name, "shuffled"]
    labels = [row[0] for row in rows]
    panels = [
        dots_panel(
            name,
            labels,
            {"tree": [row[1 + 2 * i] for row in rows], "shuffled tree": [row[2 + 2 * i] for row in rows]},
        )
        for i, name in enumerate(names)
    ]
    return {
        "tables": [table("shuffled", "With the tree and with a shuffled one", columns, rows, [CONTROL])],
        "figures": {"shuffled": {"kind": "dots", "panels": panels}},
    }
