"""The figures of every item, as plain data made from its observations; `charts` draws them."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from cophenet.paper.fits import fit_line
from cophenet.paper.item import Figures, Item, Number
from cophenet.paper.items import find_items
from cophenet.paper.measurements import ORDERS, OUTLIER
from cophenet.paper.mixture_modes import MODES
from cophenet.paper.observations import Condition, Observations
from cophenet.paper.tables import condition_name, curve_points, number_cells, setting_name
from cophenet.paper.timing import VARIANTS
from cophenet.paper.variants import label_of
from cophenet.report import Cell

if TYPE_CHECKING:
    from cophenet.paper.documents import Document

__all__ = ["checksum", "dots_panel", "draw", "item_figures"]

Cells: TypeAlias = Sequence["Cell | None"]
_DPI = 160


def item_figures(document: Document) -> Figures:
    """The figures of an item by name; none if nothing was measured.

    Args:
        document: The item's document.
    """
    (item,) = find_items((document.item,))
    return item.figures(item, document) if item.figures is not None and document.observations.rows else {}


def checksum(figure: Mapping[str, Any]) -> str:
    """Checksum of a figure's data, which is stored in its files to tell whether they are of this data.

    Args:
        figure: As for `draw`; data from Python and from a JSON file has the same checksum.

    Example:
        >>> checksum({"kind": "heat", 1: (2, 3)}) == checksum({"1": [2, 3], "kind": "heat"})
        True
    """
    plain = json.loads(json.dumps(figure))
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def draw(figure: Mapping[str, Any]) -> dict[str, bytes]:
    """Draw a figure; return the content of its files by ending, each with the checksum of the data in it.

    Args:
        figure: "kind" and its data, as accepted by the function "<kind>_figure" of `charts`.
    """
    import matplotlib

    from cophenet.paper import charts

    drawn = getattr(charts, f"{figure['kind']}_figure")(figure)
    # The layout is computed once for both files, because it takes as long as drawing; with a layout engine,
    # each file would be drawn twice.
    drawn.get_layout_engine().execute(drawn)
    with matplotlib.rc_context({"figure.autolayout": False, "figure.constrained_layout.use": False}):
        drawn.set_layout_engine(None)
    files = {}
    with matplotlib.rc_context({"svg.hashsalt": "cophenet", "svg.fonttype": "path"}):
        for ending, metadata in (("svg", {"Date": None}), ("png", {"Software": None})):
            stream = io.BytesIO()
            about = {**metadata, "Description": checksum(figure)}
            drawn.savefig(stream, format=ending, dpi=_DPI, facecolor="white", metadata=about)
            files[ending] = stream.getvalue()
    return files


def dots_panel(title: str, rows: Sequence[str], series: Mapping[str, Cells], **look: Any) -> dict[str, Any]:
    """A panel of numbers by row; published numbers of cells are shown too.

    Args:
        title: Title of the panel.
        rows: Names of the rows.
        series: Name -> a cell for each row.
        **look: "x", "percent", "log", "together".
    """
    drawn: list[dict[str, Any]] = []
    for name, cells in series.items():
        drawn.append(
            {"name": name, "values": [c and c.mean for c in cells], "std": [c and c.std for c in cells]}
        )
    published = {name: [c and c.published for c in cells] for name, cells in series.items()}
    published = {name: papers for name, papers in published.items() if any(papers)}
    for name, papers in published.items():
        of = {"name": "paper" if len(published) == 1 else f"{name}, paper", "of": name, "published": True}
        drawn.append({**of, "values": [p and p.value for p in papers], "std": [p and p.std for p in papers]})
    return {"title": title, "rows": list(rows), "series": drawn, "x": "", "percent": True, **look}


def _figure(kind: str, panels: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {"kind": kind, "panels": list(panels)}


def _panel(
    observations: Observations,
    title: str,
    rows: Sequence[tuple[str, Condition]],
    numbers: Mapping[str, Number],
    **look: Any,
) -> dict[str, Any]:
    """A panel with a row for each named condition, and a series for each number."""
    cells = [number_cells(list(numbers.values()), observations, condition) for _, condition in rows]
    series = {name: [row[place] for row in cells] for place, name in enumerate(numbers)}
    return dots_panel(title, [name for name, _ in rows], series, **look)


def by_number(
    item: Item,
    document: Document,
    title: str = "{}",
    *,
    row: str = "{0.label}",
    series: str = "measured",
    control: str = "",
    **look: Any,
) -> Figures:
    """A panel for each number of an item, with a row for each condition on measured data sets.

    Args:
        item: The item.
        document: Its document.
        title: Title of a panel; "{}" stands for the heading of its number.
        row: Name of a row; "{0}" stands for the condition.
        series: Name of the series of numbers.
        control: Name of the series of controls; "" to leave them out.
        **look: As for `dots_panel`.
    """
    observations = document.observations
    recipes = set(observations.recipes)
    rows = [
        (row.format(c), c)
        for c in observations.conditions
        if not c.control and c.recipe in recipes and any(number_cells(item.numbers, observations, c))
    ]
    panels = []
    for number in (number for number in item.numbers if not number.control):
        both = {series: number, **({control: replace(number, control=True)} if control else {})}
        panels.append(_panel(observations, title.format(number.heading), rows, both, **look))
    return {item.name: _figure("dots", panels)}


def cpcc(item: Item, document: Document, title: str = "") -> Figures:
    """A panel for each data set: TestCPCC with the published numbers, and that of the controls."""
    observations = document.observations
    own, _, shuffled, _ = item.numbers
    shown = [c for c in observations.plain() if any(number_cells(item.numbers, observations, c))]
    numbers = {"measured": own, "shuffled tree": shuffled}
    panels = []
    for recipe in observations.recipes:
        rows = [(c.label, c) for c in shown if c.recipe == recipe]
        panels.append(_panel(observations, title or recipe, rows, numbers, x="TestCPCC"))
    return {item.name: _figure("dots", panels)}


def rank(item: Item, document: Document) -> Figures:
    """One panel with a row for each number and a series for each objective."""
    observations = document.observations
    made = ((c, number_cells(item.numbers, observations, c)) for c in observations.plain())
    series: dict[str, Cells] = {condition_name(c): cells for c, cells in made if any(cells)}
    names = [number.heading for number in item.numbers]
    return {item.name: _figure("dots", [dots_panel("Flat against Rank", names, series)])}


def scatter(item: Item, document: Document) -> Figures:
    """CPCC against mean metrics, with fits that leave out the paper's outlier."""
    observations = document.observations
    axes = {"own distance": "cpcc/own", "by l2": "cpcc/l2"}
    panels = []
    for how, metric in axes.items():
        for level in ("coarse", "fine"):
            points = []
            for c in (c for c in observations.plain(measured=True) if c.objective != OUTLIER):
                x, y = (observations.summary(c, m) for m in (metric, f"mean/{level}"))
                if x and y and x["mean"] is not None and y["mean"] is not None:
                    points.append({"name": c.label, "x": x["mean"], "y": y["mean"]})
            by = "TestCPCC by l2" if metric == "cpcc/l2" else "TestCPCC by the distance trained with"
            named = {"title": f"{level} metrics, {how}", "x": by, "y": f"mean {level} metric"}
            panels.append({**named, "points": points, "fit": _fit(points)})
    return {item.name: _figure("scatter", panels)}


def _fit(points: Sequence[Mapping[str, Any]]) -> dict[str, float] | None:
    x, y = [p["x"] for p in points], [p["y"] for p in points]
    if len(set(x)) < 2 or len(set(y)) < 2:
        return None
    return {**asdict(fit_line(x, y)), "points": len(points)}


def _line(name: str, points: Mapping[str, Cell | None], *, control: bool = False) -> list[dict[str, Any]]:
    """A list with a series by setting, empty if it has no number; all settings are in it, for their order.

    Args:
        name: Name of the series, or of the series that it is the control of.
        points: Setting -> mean and standard deviation.
        control: Whether it is a control.
    """
    if not any(points.values()):
        return []
    y, std = ([c and getattr(c, part) for c in points.values()] for part in ("mean", "std"))
    named = {"name": f"{name}, shuffled tree", "of": name} if control else {"name": name}
    return [{**named, "x": list(points), "y": y, "std": std}]


def curves(item: Item, document: Document, label: str, y: str = "TestCPCC") -> Figures:
    """TestCPCC by the varied setting; `y` is the label of the y axis."""
    lines = curve_points(document.observations).items()
    series = [line for (name, control), points in lines for line in _line(name, points, control=control)]
    panel = {"title": "TestCPCC", "x": label, "y": y, "percent": True, "series": series}
    return {item.name: _figure("lines", [panel])}


def matrices(item: Item, document: Document) -> Figures:
    """Class distances in the order of the tree."""
    rows: dict[str, dict[str, Any]] = {}
    for one in document.arrays:
        label, levels = label_of(one["objective"]), one["levels"]
        shown = {"matrix": one["matrix"], "cuts": levels[0] if levels else []}
        panel = {"title": setting_name(one["setting"]), **shown}
        rows.setdefault(label, {"name": label, "panels": []})["panels"].append(panel)
    return {f"{item.name}-matrices": {"kind": "matrices", "rows": list(rows.values())}}


def heat(item: Item, document: Document) -> Figures:
    """A coloured table of all numbers."""
    observations = document.observations
    conditions = observations.plain(measured=True)
    cells = [number_cells(item.numbers, observations, c) for c in conditions]
    drawn = {
        "kind": "heat",
        "columns": [number.heading for number in item.numbers],
        "rows": [f"{c.label} {setting_name(c.setting)}" for c in conditions],
        "values": [[one and one.mean for one in row] for row in cells],
    }
    return {item.name: drawn}


def modes(item: Item, document: Document) -> Figures:
    """Mixture components over epochs, a panel for each way of counting."""
    observations = document.observations
    measured = observations.plain(measured=True)
    # Over epochs for one data set only: if possible, one with other objectives than l2.
    chosen = {c.recipe for c in sorted(measured, key=lambda c: c.objective == "l2")[:1]}
    panels = []
    for way in MODES:
        series = []
        for c in (c for c in measured if c.recipe in chosen):
            points = observations.series(c, f"components/{way}")
            if points:
                epochs = sorted(points)
                y = [points[epoch]["mean"] for epoch in epochs]
                series.append({"name": c.label, "x": epochs, "y": y})
        panels.append({"title": way, "x": "epoch", "y": "components", "series": series})
    return {item.name: _figure("lines", panels)}


def umap(item: Item, document: Document) -> Figures:
    """Two-dimensional projections of test features, coloured by group."""
    panels = [
        {
            "title": f"{label_of(one['objective'])}-CPCC, {one['method']}, seed {one['seed']}",
            "points": one["points"],
            "group": one["group"],
        }
        for one in document.arrays
    ]
    groups = document.arrays[-1]["groups"] if document.arrays else []
    return {item.name: {"kind": "clouds", "groups": groups, "panels": panels}}


def orders(item: Item, document: Document) -> Figures:
    """Error against EMD by the order of samples."""
    observations = document.observations
    first = f"order-error/{next(iter(ORDERS))}"
    conditions = [c for c in observations.plain(measured=True) if observations.summary(c, first)]
    names = [condition_name(c) for c in conditions]
    series = []
    for order in ORDERS:
        errors = [observations.summary(c, f"order-error/{order}") for c in conditions]
        series.append({"name": order, "x": names, "y": [error and error["mean"] for error in errors]})
    panel = {"title": "Error against EMD", "x": "", "y": "", "percent": True, "series": series}
    return {item.name: _figure("lines", [panel])}


def synthetic(_item: Item, document: Document) -> Figures:
    """Time by the number of samples, and error against EMD."""
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
            by_size = observations.series(c, f"error/{kind}")
            points = {str(n): Cell(one["mean"], one["std"]) for n, one in by_size.items()}
            series += _line(labels[c.objective], points)
        named = {"title": f"error against EMD, {kind}", "x": "n", "y": "", "percent": True}
        errors.append({**named, "series": series})
    return {"synthetic-time": _figure("lines", [time]), "synthetic-error": _figure("lines", errors)}
