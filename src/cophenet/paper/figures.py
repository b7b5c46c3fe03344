"""The figures of every item, as plain data made from its observations; `charts` draws them."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from cophenet.paper.distances import VARIANTS
from cophenet.paper.features import MODES
from cophenet.paper.fits import fit_line
from cophenet.paper.observations import Condition, Observations
from cophenet.paper.orders import ORDERS
from cophenet.paper.tables import NUMBERS, Number, condition_name, setting_name
from cophenet.paper.variants import label_of
from cophenet.report import Cell

if TYPE_CHECKING:
    from cophenet.paper.documents import Document

__all__ = ["checksum", "dots_panel", "draw", "item_figures"]

Figures: TypeAlias = dict[str, dict[str, Any]]
Cells: TypeAlias = Sequence["Cell | None"]
_DPI = 160


def item_figures(document: Document) -> Figures:
    """The figures of an item by name.

    Args:
        document: The item's document.
    """
    return _FIGURES[document.item](document)


def checksum(figure: Mapping[str, Any]) -> str:
    """What stands in the files of a figure, so that it can be seen whether they are of its data.

    Args:
        figure: As for `draw`; the same from Python and from a JSON file.

    Example:
        >>> checksum({"kind": "heat", 1: (2, 3)}) == checksum({"1": [2, 3], "kind": "heat"})
        True
    """
    plain = json.loads(json.dumps(figure))
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def draw(figure: Mapping[str, Any]) -> dict[str, bytes]:
    """A figure as files, by their ending; each says in its description of which data it is.

    Args:
        figure: "kind" and the data of that kind, as the functions of `charts` take it.
    """
    import matplotlib

    from cophenet.paper import charts

    kinds = {
        "lines": charts.lines_figure,
        "dots": charts.dots_figure,
        "scatter": charts.scatter_figure,
        "matrices": charts.matrices_figure,
        "clouds": charts.clouds_figure,
        "heat": charts.heat_figure,
    }
    drawn = kinds[figure["kind"]](figure)
    files = {}
    with matplotlib.rc_context({"svg.hashsalt": "cophenet", "svg.fonttype": "path"}):
        for ending, metadata in (("svg", {"Date": None}), ("png", {"Software": None})):
            stream = io.BytesIO()
            about = {**metadata, "Description": checksum(figure)}
            drawn.savefig(stream, format=ending, dpi=_DPI, facecolor="white", metadata=about)
            files[ending] = stream.getvalue()
    return files


def dots_panel(title: str, rows: Sequence[str], series: Mapping[str, Cells], **look: Any) -> dict[str, Any]:
    """A panel of numbers by row; where cells have a published number, that is shown too.

    Args:
        title: Of the panel.
        rows: Names of the rows.
        series: Name -> a cell for each row.
        **look: "x", "percent", "log", "together".
    """
    drawn: list[dict[str, Any]] = [
        {
            "name": name,
            "values": [None if c is None else c.mean for c in cells],
            "std": [None if c is None else c.std for c in cells],
        }
        for name, cells in series.items()
    ]
    published = {name: [c.published if c else None for c in cells] for name, cells in series.items()}
    published = {name: papers for name, papers in published.items() if any(papers)}
    for name, papers in published.items():
        drawn.append(
            {
                "name": "paper" if len(published) == 1 else f"{name}, paper",
                "of": name,
                "published": True,
                "values": [None if p is None else p.value for p in papers],
                "std": [None if p is None else p.std for p in papers],
            }
        )
    return {"title": title, "rows": list(rows), "series": drawn, "x": "", "percent": True, **look}


def _dots(panels: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {"kind": "dots", "panels": list(panels)}


def _lines(panels: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {"kind": "lines", "panels": list(panels)}


def _panel(
    observations: Observations,
    title: str,
    conditions: Sequence[Condition],
    numbers: Mapping[str, Number],
    **look: Any,
) -> dict[str, Any]:
    """A panel with a row for each objective and a series for each number."""
    series = {name: [number.cell(observations, c) for c in conditions] for name, number in numbers.items()}
    return dots_panel(title, [c.label for c in conditions], series, **look)


def _cpcc(document: Document) -> list[dict[str, Any]]:
    """A panel for each data set: TestCPCC, beside the published one, and that of the control."""
    observations = document.observations
    own, _, shuffled, _ = NUMBERS[document.item]
    shown = [c for c in observations.plain() if observations.measured(c) or own.cell(observations, c)]
    return [
        _panel(
            observations,
            recipe,
            [c for c in shown if c.recipe == recipe],
            {"measured": own, "shuffled tree": shuffled},
            x="TestCPCC",
        )
        for recipe in observations.recipes
    ]


def _testcpcc(document: Document) -> Figures:
    return {"testcpcc": _dots(_cpcc(document) or [dots_panel("TestCPCC", [], {})])}


def _baselines(document: Document) -> Figures:
    title = "CPCC of hierarchical objectives"
    panels = [{**panel, "title": title} for panel in _cpcc(document)]
    return {"baselines": _dots(panels or [dots_panel(title, [], {}, x="TestCPCC")])}


def _by_data(document: Document, *, title: str = "", **look: Any) -> Figures:
    """A panel for each number, with a row for each objective on each data set that was measured."""
    observations = document.observations
    data = {c.data for c in observations.plain(measured=True)}
    numbers = NUMBERS[document.item]
    made = [
        (c, [number.cell(observations, c) for number in numbers])
        for c in observations.plain()
        if c.data in data
    ]
    rows = [(f"{c.data} {c.label}", cells) for c, cells in made if any(cells)]
    names = [name for name, _ in rows]
    panels = [
        dots_panel(
            title or f"{document.item} {number.heading}",
            names,
            {"measured": [cells[place] for _, cells in rows]},
            **look,
        )
        for place, number in enumerate(numbers)
    ]
    return {document.item: _dots(panels)}


def _rank(document: Document) -> Figures:
    observations = document.observations
    numbers = NUMBERS["rank"]
    series: dict[str, Cells] = {}
    if observations.recipes:
        made = ((c.label, [number.cell(observations, c) for number in numbers]) for c in observations.plain())
        series = {label: cells for label, cells in made if any(cells)}
    names = [number.heading for number in numbers] if series else []
    return {"rank": _dots([dots_panel("Flat against Rank", names, series)])}


def _shuffled(document: Document) -> Figures:
    observations = document.observations
    numbers = [number for number in NUMBERS["shuffled"] if not number.control]
    panels = [
        _panel(
            observations,
            number.heading,
            observations.plain(measured=True),
            {"tree": number, "shuffled tree": replace(number, control=True)},
        )
        for number in numbers
    ]
    return {"shuffled": _dots(panels)}


def _scatter(document: Document) -> Figures:
    observations = document.observations
    axes = {"own distance": "cpcc/own", "by l2": "cpcc/l2"}
    panels = []
    for how, cpcc in axes.items():
        for level in ("coarse", "fine"):
            points = []
            # As in the paper: Rank is an outlier, which would decide the fit alone.
            for c in (c for c in observations.plain(measured=True) if c.objective != "rank"):
                x, y = (observations.summary(c, metric) for metric in (cpcc, f"mean/{level}"))
                if x and y and x["mean"] is not None and y["mean"] is not None:
                    points.append({"name": c.label, "x": x["mean"], "y": y["mean"]})
            by = "TestCPCC by l2" if cpcc == "cpcc/l2" else "TestCPCC by the distance trained with"
            named = {"title": f"{level} metrics, {how}", "x": by, "y": f"mean {level} metric"}
            panels.append({**named, "points": points, "fit": _fit(points)})
    return {"scatter": {"kind": "scatter", "panels": panels}}


def _fit(points: Sequence[Mapping[str, Any]]) -> dict[str, float] | None:
    x, y = [p["x"] for p in points], [p["y"] for p in points]
    if len(set(x)) < 2 or len(set(y)) < 2:
        return None
    return {**asdict(fit_line(x, y)), "points": len(points)}


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


def _curves(document: Document, label: str) -> Figures:
    observations = document.observations
    measured = {setting_name(c.setting) for c in observations.conditions if observations.measured(c)}
    settings = dict.fromkeys(n for c in observations.conditions if (n := setting_name(c.setting)) in measured)
    lines: dict[tuple[str, bool], dict[str, Any]] = {}
    for c in (c for c in observations.conditions if observations.measured(c)):
        points = lines.setdefault((c.label, c.control), dict.fromkeys(settings))
        points[setting_name(c.setting)] = observations.summary(c, "cpcc/own")
    series = [
        line
        for (name, control), points in lines.items()
        for line in _line(f"{name}, shuffled tree" if control else name, points, name if control else None)
    ]
    panel = {"title": "TestCPCC", "x": label, "y": "TestCPCC", "percent": True, "series": series}
    return {document.item: _lines([panel])}


def _memory(document: Document) -> Figures:
    observations = document.observations
    lines: dict[tuple[str, bool], dict[str, Any]] = {}
    for c in observations.plain(measured=True):
        name, size = f"{c.label}, memory {c.setting['memory']}", str(c.setting["batch_size"])
        for control, each in ((False, c), (True, observations.control_of(c))):
            lines.setdefault((name, control), {})[size] = observations.summary(each, "cpcc/own")
    series = []
    for control in (False, True):
        for (name, of), points in lines.items():
            if of == control:
                series += _line(f"{name}, shuffled tree", points, name) if control else _line(name, points)
    panel = {"title": "TestCPCC", "x": "batch size", "y": "", "percent": True, "series": series}
    return {"memory": _lines([panel])}


def _matrices(document: Document) -> Figures:
    rows: dict[str, dict[str, Any]] = {}
    for one in document.arrays:
        label = label_of(one["objective"])
        levels = one["levels"]
        panel = {
            "title": setting_name(one["setting"]),
            "matrix": one["matrix"],
            "cuts": levels[0] if levels else [],
        }
        rows.setdefault(label, {"name": label, "panels": []})["panels"].append(panel)
    return {f"{document.item}-matrices": {"kind": "matrices", "rows": list(rows.values())}}


def _flow_weights(document: Document) -> Figures:
    observations = document.observations
    numbers = NUMBERS["flow-weights"]
    conditions = observations.plain(measured=True)
    cells = [[number.cell(observations, c) for number in numbers] for c in conditions]
    heat = {
        "kind": "heat",
        "columns": [number.heading for number in numbers],
        "rows": [f"{c.label} {setting_name(c.setting)}" for c in conditions],
        "values": [[one and one.mean for one in row] for row in cells],
    }
    return {"flow-weights": heat}


def _modes(document: Document) -> Figures:
    observations = document.observations
    # Over epochs for one data set: where there are several objectives, if anywhere.
    chosen = [c.recipe for c in sorted(observations.plain(measured=True), key=lambda c: c.objective == "l2")][
        :1
    ]
    panels = []
    for way in MODES:
        series = []
        for c in (c for c in observations.plain(measured=True) if c.recipe in chosen):
            points = observations.series(c, f"components/{way}")
            if points:
                epochs = sorted(points)
                y = [points[epoch]["mean"] for epoch in epochs]
                series.append({"name": c.label, "x": epochs, "y": y})
        panels.append({"title": way, "x": "epoch", "y": "components", "series": series})
    return {"modes": _lines(panels)}


def _umap(document: Document) -> Figures:
    panels = [
        {
            "title": f"{label_of(one['objective'])}-CPCC, {one['method']}, seed {one['seed']}",
            "points": one["points"],
            "group": one["group"],
        }
        for one in document.arrays
    ]
    groups = document.arrays[-1]["groups"] if document.arrays else []
    return {"umap": {"kind": "clouds", "groups": groups, "panels": panels}}


def _orders(document: Document) -> Figures:
    observations = document.observations
    conditions = [
        c
        for c in observations.plain(measured=True)
        if observations.summary(c, f"order-error/{next(iter(ORDERS))}")
    ]
    names = [condition_name(c) for c in conditions]
    series = []
    for order in ORDERS:
        errors = [observations.summary(c, f"order-error/{order}") for c in conditions]
        series.append({"name": order, "x": names, "y": [error and error["mean"] for error in errors]})
    panel = {"title": "Error against EMD", "x": "", "y": "", "percent": True, "series": series}
    return {"orders": _lines([panel])}


def _data(document: Document) -> Figures:
    observations = document.observations
    names = [c.data for c in observations.conditions]
    look = {"percent": False, "log": True, "together": True}
    panels = [
        dots_panel(
            f"{number.heading} samples",
            names,
            {"counted": [number.cell(observations, c) for c in observations.conditions]},
            **look,
        )
        for number in NUMBERS["data"]
    ]
    return {"data": _dots(panels)}


def _synthetic(document: Document) -> Figures:
    observations = document.observations
    assert document.study is not None
    labels = {variant.name: variant.label for variant in VARIANTS}
    times, errors = [], []
    for c in observations.conditions:
        seconds = observations.series(c, "seconds")
        if seconds:
            y = [one["mean"] for one in seconds.values()]
            times.append({"name": labels[c.objective], "x": list(seconds), "y": y})
    title = f"time, d = {document.study['settings']['width']}"
    time = {"title": title, "x": "samples per class n", "y": "seconds", "log": True, "series": times}
    for kind in document.study["errors"]:
        series = []
        for c in observations.conditions:
            points = {str(n): one for n, one in observations.series(c, f"error/{kind}").items()}
            series += _line(labels[c.objective], points)
        named = {"title": f"error against EMD, {kind}", "x": "n", "y": "", "percent": True}
        errors.append({**named, "series": series})
    return {"synthetic-time": _lines([time]), "synthetic-error": _lines(errors)}


def _batch_time(document: Document) -> Figures:
    observations = document.observations
    (number,) = NUMBERS["batch-time"]
    look = {"percent": False, "log": True, "x": "seconds"}
    panel = _panel(observations, "Seconds per batch", observations.conditions, {"measured": number}, **look)
    return {"batch-time": _dots([panel])}


_FIGURES: dict[str, Callable[[Document], Figures]] = {
    "data": _data,
    "testcpcc": _testcpcc,
    "coarse": _by_data,
    "fine": _by_data,
    "modes": _modes,
    "umap": _umap,
    "baselines": _baselines,
    "scatter": _scatter,
    "rank": _rank,
    "batch-size": lambda document: _curves(document, "batch size"),
    "weight": lambda document: _curves(document, "weight lambda"),
    "backbone": lambda document: _curves(document, "backbone"),
    "tree-depth": _matrices,
    "tree-weights": _matrices,
    "flow-weights": _flow_weights,
    "synthetic": _synthetic,
    "epoch-time": lambda document: _by_data(document, title="Seconds per epoch", percent=False, x="seconds"),
    "batch-time": _batch_time,
    "shuffled": _shuffled,
    "orders": _orders,
    "memory": _memory,
}
