"""Documents of ablations: curves of TestCPCC, trees of other depth and weights, flow weights, memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cophenet.paper import mean_metric
from cophenet.paper.document import (
    CONTROL,
    Found,
    cell,
    cpcc_key,
    epoch_seconds,
    finished,
    if_same,
    plain_runs,
    published_at,
    shuffled_cell,
    table,
    told,
)
from cophenet.paper.tables import number_cell
from cophenet.report.matrices import square, tree_order
from cophenet.runs import Run

__all__ = ["backbone", "batch_size", "flow_weights", "memory", "tree_depth", "tree_weights", "weight"]

Parts = dict[str, Any]


def _named(entry: Found) -> str:
    return f"{entry.label}, shuffled tree" if entry.runs.arm.control else entry.label


def _line(
    name: str, points: Mapping[str, Mapping[str, Any] | None], of: str | None = None
) -> list[dict[str, Any]]:
    """A series of a figure, if there is any number: by setting, all of them, for their order in the picture.

    Args:
        name: Of the series.
        points: Setting -> "mean" and "std".
        of: The series that this one is the control of.
    """
    if not any(points.values()):
        return []
    y, std = ([value and value[part] for value in points.values()] for part in ("mean", "std"))
    return [{"name": name, "x": list(points), "y": y, "std": std, **({"of": of} if of else {})}]


def _curves(found: Sequence[Found], name: str, title: str, label: str) -> Parts:
    measured = {entry.setting for entry in finished(found)}
    settings = [setting for setting in dict.fromkeys(entry.setting for entry in found) if setting in measured]
    groups: dict[str, list[Found]] = {}
    for entry in finished(found):
        groups.setdefault(_named(entry), []).append(entry)
    series: list[dict[str, Any]] = []
    rows = []
    for line, entries in groups.items():
        values = {entry.setting: mean_metric(entry.results, cpcc_key(entry)) for entry in entries}
        of = entries[0].label if entries[0].runs.arm.control else None
        series += _line(line, {setting: values.get(setting) for setting in settings}, of)
        rows.append([line, *(number_cell(values.get(setting)) for setting in settings)])
    panel = {"title": title, "x": label, "y": "TestCPCC", "percent": True, "series": series}
    return {
        "tables": [table(name, f"{title}, by {label}", ("objective", *settings), rows, [CONTROL])],
        "figures": {name: {"kind": "lines", "panels": [panel]}},
    }


def batch_size(found: Sequence[Found]) -> Parts:
    """TestCPCC by batch size."""
    return _curves(found, "batch-size", "TestCPCC", "batch size")


def weight(found: Sequence[Found]) -> Parts:
    """TestCPCC by the weight of the regularizer."""
    return _curves(found, "weight", "TestCPCC", "weight lambda")


def backbone(found: Sequence[Found]) -> Parts:
    """TestCPCC by backbone."""
    return _curves(found, "backbone", "TestCPCC", "backbone")


def memory(found: Sequence[Found]) -> Parts:
    """TestCPCC by batch size, with and without a memory of earlier batches."""
    lines: dict[str, dict[str, dict[str, Any] | None]] = {}
    controls: dict[str, dict[str, dict[str, Any] | None]] = {}
    rows = []
    for entry in finished(plain_runs(found)):
        size, _, kept = entry.setting.removeprefix("batch ").partition(", memory ")
        value = cell(entry, cpcc_key(entry))
        control = shuffled_cell(found, entry, cpcc_key(entry))
        name = f"{entry.label}, memory {kept}"
        lines.setdefault(name, {})[size] = value
        controls.setdefault(name, {})[size] = control
        rows.append([entry.label, size, kept, value, control, epoch_seconds(entry)])
    series = [line for name, points in lines.items() for line in _line(name, points)]
    for name, points in controls.items():
        series += _line(f"{name}, shuffled tree", points, name)
    panel = {"title": "TestCPCC", "x": "batch size", "y": "", "percent": True, "series": series}
    columns = ("objective", "batch size", "memory", "TestCPCC", "shuffled tree", "s per epoch")
    return {
        "tables": [table("memory", "Memory of earlier batches against batch size", columns, rows, [CONTROL])],
        "figures": {"memory": {"kind": "lines", "panels": [panel]}},
    }


def _setting_rows(
    found: Sequence[Found], entry: Found, label: str, keys: Sequence[str], setting: Mapping[str, str | int]
) -> list[list[Any]]:
    """The row of an arm beside that of a published table, if it says anything; the first number is a CPCC."""
    papers = [if_same(entry, published_at(label, entry.data, entry.objective, key, setting)) for key in keys]
    cells = [cell(entry, key, paper) for key, paper in zip(keys, papers, strict=True)]
    shuffled = shuffled_cell(found, entry, keys[0])
    return [[entry.label, entry.setting, cells[0], shuffled, *cells[1:]]] if told(entry, cells) else []


def _tree_table(found: Sequence[Found], name: str, label: str, key: str) -> Parts:
    rows: list[list[Any]] = []
    for entry in plain_runs(found):
        setting: dict[str, str | int] = {key: int("".join(c for c in entry.setting if c.isdigit()))}
        keys = (cpcc_key(entry), f"full/accuracy/{entry.fine}", f"full/accuracy/{entry.coarse}")
        rows += _setting_rows(found, entry, label, keys, setting)
    title = {"depth": "Depth of the tree", "weight": "Edge weights below aquatic_mammals"}[key]
    columns = ("objective", "setup", "CPCC", "shuffled tree", "FineAcc", "CoarseAcc")
    return {
        "tables": [table(name, title, columns, rows, [CONTROL, "Distance matrices are of the first seed."])],
        "figures": {f"{name}-matrices": {"kind": "matrices", "rows": _matrices(finished(plain_runs(found)))}},
    }


def _matrices(found: Sequence[Found]) -> list[dict[str, Any]]:
    """Class distances of the first seed of every arm, in the order of its tree.

    Where groups end is told of every level but the classes, the coarsest first; the coarsest is drawn.
    """
    rows: dict[str, dict[str, Any]] = {}
    for entry in found:
        run = Run.open(entry.path())
        details = run.details
        if details is None or entry.objective not in details["class_distances"]:
            continue
        order = tree_order(run.tree)
        condensed = [np.nan if v is None else v for v in details["class_distances"][entry.objective]]
        matrix = square(np.array(condensed), len(order))[np.ix_(order, order)]
        levels = [_cuts(run.tree.ancestors(depth)[order]) for depth in range(1, len(run.tree.level_names))]
        panel = {
            "title": entry.setting,
            "matrix": [[None if np.isnan(v) else round(v, 4) for v in row] for row in matrix.tolist()],
            "cuts": levels[0] if levels else [],
            "levels": levels,
        }
        rows.setdefault(entry.label, {"name": entry.label, "panels": []})["panels"].append(panel)
    return list(rows.values())


def _cuts(groups: np.ndarray[Any, Any]) -> list[int]:
    """Where the next group begins."""
    return [int(place) + 1 for place in np.flatnonzero(groups[1:] != groups[:-1])]


def tree_depth(found: Sequence[Found]) -> Parts:
    """Trees of depth 3, 4 and 5."""
    return _tree_table(found, "tree-depth", "tab:tree-depth-tab", "depth")


def tree_weights(found: Sequence[Found]) -> Parts:
    """A subtree with edges of weight 1, 2 and 4."""
    return _tree_table(found, "tree-weights", "tab:tree-weight-tab", "weight")


def flow_weights(found: Sequence[Found]) -> Parts:
    """Masses of samples: uniform, by distance from the class mean, and by its inverse."""
    rows: list[list[Any]] = []
    for entry in plain_runs(found):
        low, high = entry.fine, entry.coarse
        keys = [
            cpcc_key(entry),
            *(f"{m}/{low}" for m in ("source/accuracy", "source/map", "target/accuracy")),
            *(f"{m}/{high}" for m in ("source/accuracy", "source/map", "target/accuracy", "target/map")),
        ]
        label = "tab:comparison_colored_normalized"
        rows += _setting_rows(found, entry, label, keys, {"flow_weights": entry.setting})
    names = ["CPCC", "shuffled tree", *(f"fine {m}" for m in ("sAcc", "sMAP", "tAcc"))]
    names += [f"coarse {m}" for m in ("sAcc", "sMAP", "tAcc", "tMAP")]
    done = {(entry.label, entry.setting) for entry in finished(plain_runs(found))}
    drawn = [row for row in rows if (row[0], row[1]) in done]
    heat = {
        "kind": "heat",
        "columns": names,
        "rows": [f"{row[0]} {row[1]}" for row in drawn],
        "values": [[None if c is None else c["mean"] for c in row[2:]] for row in drawn],
    }
    return {
        "tables": [table("flow-weights", "Flow weights", ("objective", "weights", *names), rows, [CONTROL])],
        "figures": {"flow-weights": heat},
    }
