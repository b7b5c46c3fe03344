"""The tables of every item, from its observations, with the published numbers beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from cophenet.paper.distances import VARIANTS
from cophenet.paper.features import MODES
from cophenet.paper.observations import Condition, Observations, with_breeds
from cophenet.paper.orders import ORDERS
from cophenet.paper.published import beside, cell, printed
from cophenet.paper.variants import BREEDS, label_of
from cophenet.report import Cell, Table
from cophenet.report.published_numbers import Published

if TYPE_CHECKING:
    from cophenet.paper.documents import Document

__all__ = ["ACCURACIES", "item_tables", "published_modes", "setting_name"]

Row: TypeAlias = Sequence[Cell | str | int | None]
Tables: TypeAlias = dict[str, Table]
CONTROL = (
    "Shuffled tree: trained with classes at random places of the same tree, measured with the true tree; "
    "what a CPCC is worth without the knowledge in the tree."
)
# Metrics of the tables of generalisation, by level and heading.
ACCURACIES = {
    "fine": {
        "sAcc": "source/accuracy/fine",
        "tAcc": "target/accuracy/fine",
        "sMAP": "source/map/fine",
    },
    "coarse": {
        "sAcc": "source/accuracy/coarse",
        "tAcc": "target/accuracy/coarse",
        "sMAP": "source/map/coarse",
        "tMAP": "target/map/coarse",
    },
}
_CPCC = ("TestCPCC", "by l2", "shuffled tree", "shuffled, its own tree")


def item_tables(document: Document) -> Tables:
    """The tables of an item by name; those with published numbers say what was trained.

    Args:
        document: The item's document.
    """
    make = _TABLES.get(document.item)
    tables = make(document) if make else {}
    return {
        name: replace(table, notes=(*table.notes, *document.setup)) if table.has_published else table
        for name, table in tables.items()
    }


def setting_name(setting: Mapping[str, Any]) -> str:
    """A setting as tables of one item name it, where the item says what is varied.

    Example:
        >>> setting_name({"batch_size": 64}), setting_name({"lambda": 0.5}), setting_name({"depth": 4})
        ('64', '0.5', 'depth 4')
    """
    shown = {"depth": "depth {}", "weight": "weight {}x"}
    return ", ".join(
        shown.get(k, "{}").format(v if isinstance(v, str) else f"{v:g}") for k, v in setting.items()
    )


def _says_something(observations: Observations, condition: Condition, row: Row) -> bool:
    """Whether a row has anything that was measured or published."""
    cells = (number for number in row if isinstance(number, Cell))
    return observations.measured(condition) or any(number.published for number in cells)


def _cpcc_cells(observations: Observations, condition: Condition) -> list[Cell | None]:
    control = observations.control_of(condition)
    return [
        cell(observations, condition, "cpcc/own", paper=beside(condition, "cpcc/own")),
        cell(observations, condition, "cpcc/l2"),
        cell(observations, control, "cpcc/own"),
        cell(observations, control, "cpcc-trained-tree/own"),
    ]


def _cpcc_rows(observations: Observations) -> list[tuple[Condition, list[Cell | None]]]:
    made = [(c, _cpcc_cells(observations, c)) for c in observations.plain()]
    return [(c, row) for c, row in made if _says_something(observations, c, row)]


def _testcpcc(document: Document) -> Tables:
    found = document.observations
    rows = [[c.data, c.label, len(found.seeds(c)), *row] for c, row in _cpcc_rows(found)]
    columns = ("data", "objective", "seeds", *_CPCC)
    title = "TestCPCC by the distance trained with"
    return {"testcpcc": Table.from_rows(columns, rows, title=title, notes=[CONTROL])}


def _baselines(document: Document) -> Tables:
    found = document.observations
    rows = [[c.label, len(found.seeds(c)), *row] for c, row in _cpcc_rows(found)]
    title = "CPCC of hierarchical objectives"
    return {"baselines": Table.from_rows(("objective", "seeds", *_CPCC), rows, title=title, notes=[CONTROL])}


def _generalisation(document: Document, level: str) -> Tables:
    found = with_breeds(document.observations)
    metrics = ACCURACIES[level]
    rows: dict[str, list[Row]] = {"detail": [], "breeds": []}
    for c in found.plain():
        cells = [cell(found, c, m, paper=beside(c, m)) for m in metrics.values()]
        row = [c.data, c.label, len(found.seeds(c)), *cells]
        # Of the mean of BREEDS nothing is said where none of its settings says anything.
        measured = found.measured(c) or (c.data == "breeds" and _any_breeds(found, c))
        if measured or _says_something(found, c, row):
            rows["breeds" if c.data in BREEDS else "detail"].append(row)
    heading = ("data", "objective", "seeds", *metrics)
    title = f"Generalisation on the {level} level"
    means = [[_without_std(number) for number in row] for row in rows["detail"]]
    return {
        f"{level}-summary": Table.from_rows(heading, means, title=f"{title}, means"),
        f"{level}-detail": Table.from_rows(heading, rows["detail"], title=f"{title}, mean (std over seeds)"),
        f"{level}-breeds": Table.from_rows(heading, rows["breeds"], title=f"{title}, each BREEDS setting"),
    }


def _any_breeds(observations: Observations, pooled: Condition) -> bool:
    members = (c for c in observations.plain(measured=True) if c.data in BREEDS)
    return any(c.objective == pooled.objective for c in members)


def _without_std(number: Cell | str | int | None) -> Cell | str | int | None:
    if not isinstance(number, Cell):
        return number
    paper = number.published and replace(number.published, std=None)
    return replace(number, std=None, published=paper)


def _scatter(document: Document) -> Tables:
    found = document.observations
    rows = [
        [
            c.label,
            cell(found, c, "cpcc/own"),
            cell(found, c, "cpcc/l2"),
            cell(found, found.control_of(c), "cpcc/own"),
            cell(found, c, "mean/coarse"),
            cell(found, c, "mean/fine"),
        ]
        for c in found.plain(measured=True)
    ]
    columns = ("objective", "TestCPCC", "by l2", "shuffled tree", "mean coarse", "mean fine")
    notes = [
        "Means of all accuracies and precisions of a level, source and target. Rank is not in the fits.",
        "By the distance trained with, as in the paper, objectives without one are by l2: those panels have "
        "several distances on one axis. By l2 all are alike.",
        CONTROL,
    ]
    return {"scatter": Table.from_rows(columns, rows, title="CPCC against mean metrics", notes=notes)}


def _rank(document: Document) -> Tables:
    found = document.observations
    names = {f"{level} {name}": m for level, metrics in ACCURACIES.items() for name, m in metrics.items()}
    rows = []
    for c in found.plain():
        row = [c.label, *(cell(found, c, m, paper=beside(c, m)) for m in names.values())]
        if _says_something(found, c, row):
            rows.append(row)
    return {"rank": Table.from_rows(("objective", *names), rows, title="Flat against the rank loss")}


def _shuffled(document: Document) -> Tables:
    found = document.observations
    metrics = {
        "TestCPCC": "cpcc/own",
        "fine sAcc": "source/accuracy/fine",
        "coarse sAcc": "source/accuracy/coarse",
        "coarse sMAP": "source/map/coarse",
    }
    columns = ["objective", *(heading for name in metrics for heading in (name, "shuffled"))]
    rows = [
        [
            c.label,
            *(cell(found, each, m) for m in metrics.values() for each in (c, found.control_of(c))),
        ]
        for c in found.plain(measured=True)
    ]
    title = "With the tree and with a shuffled one"
    return {"shuffled": Table.from_rows(columns, rows, title=title, notes=[CONTROL])}


def _curves(document: Document, label: str) -> Tables:
    found = document.observations
    settings = {setting_name(c.setting): c.setting for c in found.conditions if found.measured(c)}
    ordered = dict.fromkeys(setting_name(c.setting) for c in found.conditions)
    columns = [name for name in ordered if name in settings]
    lines: dict[str, dict[str, Cell | None]] = {}
    for c in found.conditions:
        if found.measured(c):
            name = f"{c.label}, shuffled tree" if c.control else c.label
            lines.setdefault(name, {})[setting_name(c.setting)] = cell(found, c, "cpcc/own")
    rows = [[name, *(values.get(column) for column in columns)] for name, values in lines.items()]
    title = f"TestCPCC, by {label}"
    return {document.item: Table.from_rows(("objective", *columns), rows, title=title, notes=[CONTROL])}


def _memory(document: Document) -> Tables:
    found = document.observations
    rows = [
        [
            c.label,
            str(c.setting["batch_size"]),
            str(c.setting["memory"]),
            cell(found, c, "cpcc/own"),
            cell(found, found.control_of(c), "cpcc/own"),
            cell(found, c, "seconds_per_epoch", "seconds"),
        ]
        for c in found.plain(measured=True)
    ]
    columns = ("objective", "batch size", "memory", "TestCPCC", "shuffled tree", "s per epoch")
    title = "Memory of earlier batches against batch size"
    return {"memory": Table.from_rows(columns, rows, title=title, notes=[CONTROL])}


def _settings(
    document: Document, title: str, first: str, metrics: Mapping[str, str], notes: Sequence[str] = ()
) -> Tables:
    """Rows of objectives and settings beside those of a published table; the first number is a CPCC."""
    found = document.observations
    (cpcc, own), *others = metrics.items()
    rows = []
    for c in found.plain():
        row: list[Any] = [c.label, setting_name(c.setting), cell(found, c, own, paper=beside(c, own))]
        row.append(cell(found, found.control_of(c), own))
        row += [cell(found, c, m, paper=beside(c, m)) for _, m in others]
        if _says_something(found, c, row):
            rows.append(row)
    columns = ("objective", first, cpcc, "shuffled tree", *(name for name, _ in others))
    return {document.item: Table.from_rows(columns, rows, title=title, notes=[CONTROL, *notes])}


def _tree(document: Document, title: str) -> Tables:
    metrics = {"CPCC": "cpcc/own", "FineAcc": "full/accuracy/fine", "CoarseAcc": "full/accuracy/coarse"}
    return _settings(document, title, "setup", metrics, ["Distance matrices are of the first seed."])


def _flow_weights(document: Document) -> Tables:
    fine, coarse = ACCURACIES["fine"], ACCURACIES["coarse"]
    metrics = {"CPCC": "cpcc/own"}
    metrics |= {f"fine {name}": fine[name] for name in ("sAcc", "sMAP", "tAcc")}
    metrics |= {f"coarse {name}": coarse[name] for name in ("sAcc", "sMAP", "tAcc", "tMAP")}
    return _settings(document, "Flow weights", "weights", metrics)


def _modes(document: Document) -> Tables:
    found = document.observations
    rows: list[Row] = []
    for c in found.plain():
        cells = [
            cell(found, c, f"components/{way}", "number", published_modes(c) if way == "diagonal" else None)
            for way in MODES
        ]
        failed = [v for v in found.values(c, "components/unconverged").values() if v is not None]
        row = [c.data, c.label, *cells, int(sum(failed)) if failed else None]
        if _says_something(found, c, row):
            rows.append(row)
    columns = ("data", "objective", *MODES, "fits not converged")
    notes = [
        "Mean over classes of the number of components, 1 to 10, with the lowest AIC, on the test features.",
        "Published for BREEDS: one number for its four settings.",
        "Over epochs: of the first seed.",
    ]
    return {"modes": Table.from_rows(columns, rows, title="Mixture components per class", notes=notes)}


def published_modes(condition: Condition) -> Published | None:
    """The paper's number of modes; it has one for all of BREEDS."""
    if not condition.comparable:
        return None
    data = "breeds" if condition.data in BREEDS else condition.data
    return printed(data, condition.objective, "components")


def _orders(document: Document) -> Tables:
    found = document.observations
    trained, measured = [], []
    for c in found.plain(measured=True):
        name = ", ".join([c.label, *map(str, c.setting.values())])
        own = [cell(found, each, "cpcc/own") for each in (c, found.control_of(c))]
        spread = cell(found, c, "cpcc-orders/own")
        trained.append([name, len(found.seeds(c)), *own, spread, cell(found, c, "cpcc/l2")])
        for order in ORDERS:
            numbers = [
                cell(found, c, f"order-{m}/{order}") for m in ("error", "spread", "cpcc", "cpcc_spread")
            ]
            if any(numbers):
                measured.append([name, order, *numbers])
    columns = ("trained with", "seeds", "TestCPCC", "shuffled tree", "its spread over orders", "by l2")
    on_features = ("features of", "order", "error against EMD", "spread over orders", "CPCC", "its spread")
    title = "Trained with Fast FlowTree in several orders, and with EMD"
    return {
        "orders": Table.from_rows(columns, trained, title=title, notes=[CONTROL]),
        "orders-features": Table.from_rows(on_features, measured, title="Fast FlowTree on test features"),
    }


def _data(document: Document) -> Tables:
    found = document.observations
    rows: list[Row] = []
    for c in found.conditions:
        parts = ((part, f"samples/{part}") for part in ("train", "test"))
        sizes = [cell(found, c, m, "count", printed(c.data, None, m)) for _, m in parts]
        classes = [found.summary(c, f"classes/{domain}") for domain in ("source", "target")]
        rows.append([c.data, *sizes, *("-" if one is None else int(one["mean"]) for one in classes)])
    columns = ("data", "train", "test", "source classes", "target classes")
    notes = ["Published sizes are rounded."]
    return {"data": Table.from_rows(columns, rows, title="Sizes of the data sets", notes=notes)}


def _synthetic(document: Document) -> Tables:
    found = document.observations
    variants = {variant.name: variant for variant in VARIANTS}
    growth: list[Row] = []
    errors: list[Row] = []
    for c in found.conditions:
        seconds = found.series(c, "seconds")
        label = variants[c.objective].label
        if seconds:
            slowest = Cell(seconds[max(seconds)]["mean"], None, "seconds")
            power = cell(found, c, "best-power", "number")
            complexity = variants[c.objective].complexity or "-"
            growth.append([label, complexity, power, slowest, str(max(seconds))])
    kinds = dict.fromkeys(kind for kind in _kinds(document))
    sizes = [f"n = {n}" for n in _settings_of(document)["error_sizes"]]
    for kind in kinds:
        for c in found.conditions:
            series = found.series(c, f"error/{kind}")
            cells = [Cell(one["mean"], one["std"], "percent") for one in series.values()]
            if cells:
                errors.append([kind, variants[c.objective].label, *cells])
    notes = [
        "Power: slope of log time by log n over the four largest sizes, one thread, best of the repeats.",
        "The C library keeps freed memory, which glibc does not by default: fresh pages for every call would "
        "add steps to the times of the fastest distances, and make their powers larger.",
        "I iterations, p projections, Phi the largest distance; k = 2 classes here.",
    ]
    columns = ("distance", "paper: O(...)", "measured: n to the power", "s at the largest n", "largest n")
    return {
        "complexity": Table.from_rows(columns, growth, title="Growth of time with n", notes=notes),
        "errors": Table.from_rows(("clouds", "distance", *sizes), errors, title="value / EMD - 1"),
    }


def _kinds(document: Document) -> list[str]:
    from cophenet.paper.synthetic import CLOUDS

    assert document.study is not None
    return [kind for kind in CLOUDS if kind in document.study["errors"]]


def _settings_of(document: Document) -> Mapping[str, Any]:
    assert document.study is not None
    settings: Mapping[str, Any] = document.study["settings"]
    return settings


def _epoch_time(document: Document) -> Tables:
    found = document.observations
    rows: list[Row] = []
    used: set[str] = set()
    for c in found.plain():
        paper = printed(c.data, c.objective, "seconds_per_epoch", {"batch_size": c.batch_size})
        seconds = cell(found, c, "seconds_per_epoch", "seconds", paper if c.comparable else None)
        counts = sorted({int(v) for v in found.values(c, "threads").values() if v is not None})
        threads = ", ".join(map(str, counts)) or None
        row: Row = [c.data, c.batch_size, c.label, len(found.seeds(c)), threads, seconds]
        if _says_something(found, c, row):
            rows.append(row)
            used |= {threads} if threads else set()
    columns = ["data", "batch size", "objective", "seeds", "threads", "s per epoch"]
    notes = [
        "Published on an NVIDIA RTX A6000; only ratios can be compared.",
        "Times want a quiet machine: whatever else it did is in them.",
    ]
    table = Table.from_rows(columns, rows, title="Seconds per epoch", notes=notes)
    if len(used) < 2:
        shown = [place for place, name in enumerate(columns) if name != "threads"]
        more = tuple(f"Threads of the CPU for each run: {threads}." for threads in used)
        table = replace(table.select(shown), notes=(*notes, *more))
    return {"epoch-time": table}


def _batch_time(document: Document) -> Tables:
    found, given = document.observations, _settings_of(document)
    rows = []
    for c in found.conditions:
        # What the paper timed is the dense form.
        objective = {"bures-dense": "bures", "bures": ""}.get(c.objective, c.objective)
        paper = printed("cifar100", objective, "seconds_per_batch")
        rows.append([label_of(c.objective), cell(found, c, "seconds_per_batch", "seconds", paper)])
    notes = [
        f"Loss and gradient on random features, B = {given['batch_size']}, d = {given['width']}, labels of "
        f"{given['classes']} classes, one thread, without the network.",
        "The published times are of whole updates on a GPU.",
        f"Bures, dense: timed on {given['dense_pairs']} pairs of classes, times the number of pairs.",
    ]
    columns = ("distance", "s per batch")
    return {"batch-time": Table.from_rows(columns, rows, title="Seconds per batch", notes=notes)}


_TABLES: dict[str, Callable[[Document], Tables]] = {
    "data": _data,
    "testcpcc": _testcpcc,
    "coarse": lambda document: _generalisation(document, "coarse"),
    "fine": lambda document: _generalisation(document, "fine"),
    "modes": _modes,
    "baselines": _baselines,
    "scatter": _scatter,
    "rank": _rank,
    "batch-size": lambda document: _curves(document, "batch size"),
    "weight": lambda document: _curves(document, "weight lambda"),
    "backbone": lambda document: _curves(document, "backbone"),
    "tree-depth": lambda document: _tree(document, "Depth of the tree"),
    "tree-weights": lambda document: _tree(document, "Edge weights below aquatic_mammals"),
    "flow-weights": _flow_weights,
    "synthetic": _synthetic,
    "epoch-time": _epoch_time,
    "batch-time": _batch_time,
    "shuffled": _shuffled,
    "orders": _orders,
    "memory": _memory,
}
