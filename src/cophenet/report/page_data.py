"""Data of the charts of a report: one document for all runs on the same data and tree."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cophenet.evaluation.keys import key_order, metric_info, metric_of, split_key
from cophenet.metrics.cards import metric_cards
from cophenet.report.comparison import reference
from cophenet.report.embedding import embed
from cophenet.report.names import short_names
from cophenet.report.noise import Measured, difference
from cophenet.runs.json_files import details_tree

if TYPE_CHECKING:
    from cophenet.runs.run import Run
    from cophenet.tree import Hierarchy

__all__ = ["Entry", "chart_data", "level_chances", "metric_infos", "training_curves"]

# Length of names in characters: beside a chart, and on a node or an axis.
_RUN, _NODE = 36, 22
# Limits for charts that are slow or large: runs with a map of features, and bytes of distances.
_MOST_MAPS = 6
_MOST_DISTANCES = 8_000_000
_NONE = 65535
# Far above any loss; charts of larger numbers fail.
_LARGEST = 1e100
# Titles of charts of curves, and whether values are shown as percent; any other quantity is a loss.
_QUANTITIES = {
    "accuracy": ("Accuracy on samples that are not trained on", True),
    "cpcc": ("CPCC of training batches", True),
}
Tell = Callable[[str], None]


@dataclass
class Entry:
    """A run on the page.

    Attributes:
        run: The run.
        name: Name of the run.
        color: Index of its colour and line style, the same in every chart.
        measured: Its metrics; None before it is evaluated.
        details: Content of `details.json` of its first seed; None before it is evaluated.
        notes: What could not be drawn, and why.
    """

    run: Run
    name: str
    color: int
    measured: Measured | None
    details: Mapping[str, Any] | None
    notes: list[str] = field(default_factory=list)


def chart_data(entries: Sequence[Entry], tell: Tell) -> dict[str, Any]:
    """Make the data of all charts for runs on the same data and tree, in the given order.

    Args:
        entries: The runs.
        tell: Called with a description before each slow step.
    """
    shorts = short_names([entry.name for entry in entries], _RUN)
    data: dict[str, Any] = {
        "runs": [
            {"name": entry.name, "short": short, "color": entry.color, "seeds": len(entry.run.parts)}
            for entry, short in zip(entries, shorts, strict=True)
        ],
        "curves": _curves(entries),
    }
    evaluated = [place for place, entry in enumerate(entries) if entry.details is not None]
    if not evaluated:
        return data
    details = entries[evaluated[0]].details
    assert details is not None
    tree = details_tree(details)
    data |= _numbers(entries)
    data["levels"] = level_chances(tree, details)
    data["tree"] = _tree(tree)
    data["nodes"] = {place: _node_accuracies(entries[place]) for place in evaluated}
    data["matrices"] = _matrices(entries, evaluated, tree)
    data["maps"] = _maps(entries, evaluated, tree, tell)
    return data


def metric_infos(measured: Sequence[Measured]) -> dict[str, dict[str, Any]]:
    """Metadata of all metrics that any of the runs has, by key."""
    keys = dict.fromkeys(key for one in measured for key in one.results["metrics"])
    infos = {}
    for key in sorted(keys, key=key_order):
        info, card, (domain, _, detail) = metric_info(key), metric_cards()[metric_of(key)], split_key(key)
        by_level = card.by == "level"
        infos[key] = {
            "title": info.title,
            "short": info.short,
            "higher": info.higher_is_better,
            "percent": info.percent,
            "level": detail if by_level else "",
            "family": info.family if by_level else "",
            "guesses": () if domain == "target" else card.guesses,  # levels are those of the trained classes
        }
    return infos


def level_chances(tree: Hierarchy, details: Mapping[str, Any]) -> list[dict[str, Any]]:
    """For each level the number of groups and the accuracy of guessing: a random group, or the largest one.

    Args:
        tree: The tree.
        details: Content of `details.json`, with the number of test samples of each class.
    """
    counts = np.array([details["node_accuracy"][str(node)]["samples"] for node in tree.leaves.tolist()])
    levels = []
    for name in tree.level_names:
        _, groups = np.unique(tree.ancestors(name), return_inverse=True)
        sizes = np.bincount(groups, weights=counts)
        largest = float(sizes.max() / max(sizes.sum(), 1))
        levels.append(
            {"name": name, "groups": len(sizes), "chance": 1 / len(sizes), "majority": round(largest, 4)}
        )
    return levels


def _numbers(entries: Sequence[Entry]) -> dict[str, Any]:
    """Values with their intervals, and differences to the run without a tree."""
    measured = {place: entry.measured for place, entry in enumerate(entries) if entry.measured is not None}
    places = list(measured)
    first = reference([one.results for one in measured.values()])
    flat = None if first is None else places[first]
    infos = metric_infos(list(measured.values()))
    values: dict[int, dict[str, Any]] = {}
    against: dict[int, dict[str, Any]] = {}
    for place, own in measured.items():
        values[place], against[place] = {}, {}
        for key in infos:
            mean = own.results["metrics"].get(key, {}).get("mean")
            if mean is None:
                continue
            ends = own.interval(key)
            values[place][key] = _rounded((mean, *(ends[1:] if ends else (None, None))))
            gap = None if flat is None or flat == place else difference(own, measured[flat], key)
            if gap is not None:
                against[place][key] = _rounded(gap)
    return {"metrics": infos, "values": values, "against": against, "reference": flat}


def _rounded(numbers: Sequence[float | None]) -> list[float | None]:
    return [None if number is None else round(number, 5) for number in numbers]


def _tree(tree: Hierarchy) -> dict[str, Any]:
    classes = np.zeros(tree.num_nodes, dtype=np.int64)
    for node in range(tree.num_nodes - 1, -1, -1):
        classes[node] += tree.heights[node] == 0
        if node:
            classes[int(tree.parents[node])] += classes[node]
    groups = {level: tree.ancestors(level).tolist() for level in tree.level_names}
    return {
        "names": list(tree.names),
        "shorts": short_names(tree.names, _NODE),
        "parents": tree.parents.tolist(),
        "counts": classes.tolist(),
        "leaves": tree.leaves.tolist(),
        "classes": list(tree.classes),
        "groups": groups,
        "order": tree.class_order.tolist(),
    }


def _node_accuracies(entry: Entry) -> list[float | None]:
    """Accuracy of every node: the mean over seeds, None if a seed has none."""
    assert entry.details is not None
    parts = [entry.details]
    for part in entry.run.parts[1:]:
        other = part.details
        if other is not None and other["tree"] == entry.details["tree"]:
            parts.append(other)
    if any("node_prediction" not in part for part in parts):
        entry.notes.append(
            "Accuracies of its groups in the tree are by the predicted class, as an older version measured "
            "them; everywhere else they are by summed probabilities. Evaluate it again."
        )
    rates = [part["node_accuracy"] for part in parts]
    nodes = range(len(entry.details["tree"]["parents"]))
    known = [[rate[str(node)]["accuracy"] for rate in rates] for node in nodes]
    return [None if None in one else round(float(np.mean(one)), 4) for one in known]


def _packed(values: npt.NDArray[np.float64]) -> dict[str, Any]:
    """Quantize numbers to 16 bits between the smallest and the largest, in base64; NaN becomes 65535."""
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
    step = (high - low) / (_NONE - 1) or 1.0
    codes = np.where(np.isfinite(values), np.round((np.nan_to_num(values, nan=low) - low) / step), _NONE)
    return {"low": low, "step": step, "data": base64.b64encode(codes.astype("<u2").tobytes()).decode()}


def _matrices(entries: Sequence[Entry], evaluated: Sequence[int], tree: Hierarchy) -> list[dict[str, Any]]:
    matrices = [{"run": None, "name": "the tree's own", **_packed(tree.condensed())}]
    room = _MOST_DISTANCES
    for place in evaluated:
        entry = entries[place]
        assert entry.details is not None
        # The distance used in training comes first.
        named = sorted(entry.details["class_distances"].items(), key=lambda item: item[0] == "l2")
        if tuple(entry.details["classes"]) != tree.classes or not named:
            entry.notes.append("There are no distances between the classes of this tree in details.json.")
            continue
        for name, condensed in named:
            room -= 3 * len(condensed)
            if room < 0:
                entry.notes.append(
                    f"Distances by {name} are left out, as the page is large: make one about fewer runs."
                )
                continue
            matrices.append({"run": place, "name": name, **_packed(np.array(condensed, dtype=np.float64))})
    return matrices


def _maps(
    entries: Sequence[Entry], evaluated: Sequence[int], tree: Hierarchy, tell: Tell
) -> list[dict[str, Any]]:
    maps: list[dict[str, Any]] = []
    for place in evaluated:
        entry = entries[place]
        path = entry.run.parts[0].features_path(f"{entry.run.recipe.data.domain}-test")
        if not path.is_file():
            entry.notes.append(f"There are no features of the test samples: {path} is not there.")
            continue
        if len(maps) == _MOST_MAPS:
            entry.notes.append(
                f"Its features are not drawn, but those of {_MOST_MAPS} others: make a page about fewer runs."
            )
            continue
        tell(f"map of the features of {entry.name}")
        try:
            drawn = embed(path, tree.num_classes, "t-SNE")
        except ValueError as error:
            entry.notes.append(f"The features cannot be drawn: {error}.")
            continue
        if drawn.note:
            entry.notes.append(f"Features drawn by PCA instead of t-SNE: {drawn.note}.")
        labels = base64.b64encode(drawn.labels.astype("<u4").tobytes()).decode()
        # The axes are quantized separately, because the projection has no scale.
        sides = [_packed(side.astype(np.float64)) for side in drawn.points.T]
        maps.append(
            {
                "run": place,
                "method": drawn.method,
                "samples": drawn.samples,
                "shown": len(drawn.points),
                "x": sides[0],
                "y": sides[1],
                "labels": labels,
            }
        )
    return maps


def _curves(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Training curves: for each run and column of `metrics.csv` the mean over seeds."""
    curves: list[dict[str, Any]] = []
    for place, entry in enumerate(entries):
        own = training_curves(entry.run)
        if not own:
            entry.notes.append("There is no metrics.csv with finished epochs in this run.")
        phases = pairwise(row.get("phase") for row in entry.run.parts[0].metrics)
        # First epochs of new phases, counted from 1.
        starts = [epoch for epoch, (before, now) in enumerate(phases, start=2) if now != before]
        for column, means in own.items():
            name = column.partition("/")[2]
            title, percent = _QUANTITIES.get(name.partition("/")[0], ("Training loss", False))
            curves.append(
                {
                    "run": place,
                    "quantity": title,
                    "percent": percent,
                    "name": name,
                    "values": [
                        None if np.isnan(value) else float(f"{value:.5g}") for value in means.tolist()
                    ],
                    "phases": starts,
                }
            )
    return curves


def training_curves(run: Run) -> dict[str, npt.NDArray[np.float64]]:
    """Columns of `metrics.csv` over the epochs; those without numbers are left out.

    Returns:
        Column -> (epochs,) mean over the seeds that have a value; NaN where none has.

    Raises:
        ValueError: If a number is too large to be drawn.
    """
    tables = [part.metrics for part in run.parts]
    columns = dict.fromkeys(key for table in tables for row in table for key in row if "/" in key)
    curves = {}
    for column in columns:
        rows = [[_number(row.get(column)) for row in table] for table in tables]
        values = np.array(list(zip_longest(*rows, fillvalue=np.nan)), dtype=np.float64).T
        known = np.isfinite(values)
        large = np.argwhere(known & (np.abs(values) > _LARGEST))
        if len(large):
            part, row = large[0].tolist()
            number = f"{column} is {values[part, row]:g} in epoch {row + 1}"
            raise ValueError(f"{run.parts[part].path / 'metrics.csv'}: {number}, too large to be drawn")
        if known.any():
            count, total = known.sum(axis=0), np.where(known, values, 0.0).sum(axis=0)
            curves[column] = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return curves


def _number(value: float | str | None) -> float:
    return value if isinstance(value, float) else np.nan
