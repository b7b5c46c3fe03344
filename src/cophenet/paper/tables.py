"""The tables of every item, from its observations, with the published numbers beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from cophenet.paper.item import Item, Number
from cophenet.paper.items import find_items
from cophenet.paper.measurements import ORDERS
from cophenet.paper.observations import Condition, Observations, with_breeds
from cophenet.paper.plan import recipe_label
from cophenet.paper.published import cell, published_notes
from cophenet.paper.timing import VARIANTS
from cophenet.paper.variants import BREEDS
from cophenet.report import Cell, Table

if TYPE_CHECKING:
    from cophenet.paper.documents import Document

__all__ = ["condition_name", "curve_points", "item_tables", "number_cells", "setting_name"]

Entry: TypeAlias = "Cell | str | int | None"
Tables: TypeAlias = dict[str, Table]


def item_tables(document: Document) -> Tables:
    """The tables of an item by name.

    Args:
        document: The item's document.
    """
    (item,) = find_items((document.item,))
    tables = {item.name: _by_condition(item, document)} if item.heading else {}
    return tables | (item.tables(item, document) if item.tables is not None else {})


def setting_name(setting: Mapping[str, Any]) -> str:
    """A short name of a setting for the tables of one item, where it is known which setting is varied.

    Example:
        >>> setting_name({"batch_size": 64}), setting_name({"lambda": 0.5}), setting_name({"depth": 4})
        ('64', '0.5', 'depth 4')
    """
    shown = {"depth": "depth {}", "weight": "weight {}x"}
    values = {name: v if isinstance(v, str) else f"{v:g}" for name, v in setting.items()}
    return ", ".join(shown.get(name, "{}").format(value) for name, value in values.items())


def condition_name(condition: Condition) -> str:
    """Objective and setting as one name."""
    return ", ".join(filter(None, (condition.label, setting_name(condition.setting))))


def number_cells(
    numbers: Sequence[Number], observations: Observations, condition: Condition
) -> list[Cell | None]:
    """The numbers of an item under a condition."""
    control = observations.control_of(condition)
    return [cell(observations, control if n.control else condition, n.metric, paper=n.paper) for n in numbers]


def _threads(observations: Observations, condition: Condition) -> str | None:
    counts = {int(v) for v in observations.values(condition, "threads").values() if v is not None}
    return ", ".join(map(str, sorted(counts))) or None


_LEADING: Mapping[str, Callable[[Observations, Condition], str | int | None]] = {
    "data": lambda _, c: c.data,
    "objective": lambda _, c: c.label,
    "seeds": lambda observations, c: len(observations.seeds(c)),
    "setup": lambda _, c: setting_name(c.setting),
    "weights": lambda _, c: setting_name(c.setting),
    "trained with": lambda _, c: condition_name(c),
    "batch size": lambda _, c: str(c.setting["batch_size"]) if c.setting else c.batch_size,
    "memory": lambda _, c: str(c.setting["memory"]),
    "threads": _threads,
}


def _condition_table(
    document: Document,
    title: str,
    leading: Sequence[str],
    conditions: Sequence[Condition],
    observations: Observations,
    notes: Sequence[str] = (),
) -> Table:
    """A table with a row for each condition with measured or published numbers.

    Notes say what was trained, and why published numbers are missing, for the data in this table only.
    """
    (item,) = find_items((document.item,))
    rows, shown = [], []
    for condition in conditions:
        cells = number_cells(item.numbers, observations, condition)
        if observations.measured(condition) or any(one and one.published for one in cells):
            rows.append([*(_LEADING[name](observations, condition) for name in leading), *cells])
            shown.append(condition)
    columns = [*leading, *(number.heading for number in item.numbers)]
    table = Table.from_rows(columns, rows, title=title)
    labels = {recipe_label(c.recipe) for c in shown}
    labels |= set(BREEDS) if "breeds" in labels else set()
    setup = [text for label, text in document.setup.items() if table.has_published and label in labels]
    about = published_notes(shown, item.numbers, observations)
    drawn = [] if any(number.paper for number in item.numbers) else _drawn_only(item)
    return replace(table, notes=(*notes, *setup, *drawn, *about))


def _drawn_only(item: Item) -> list[str]:
    """A note that the paper shows an item only as a picture, without numbers; none beyond the paper."""
    return [f"The paper shows this as a picture, without numbers ({', '.join(item.labels)})."] * bool(
        item.labels
    )


def _by_condition(item: Item, document: Document) -> Table:
    """The table with a row for each condition; the number of threads is a note if all runs had the same."""
    observations = document.observations
    leading, notes = list(item.leading), list(item.notes)
    if "threads" in leading:
        used = {_threads(observations, c) for c in observations.plain(measured=True)} - {None}
        if len(used) < 2:
            leading.remove("threads")
            notes += [f"Threads of the CPU for each run: {threads}." for threads in used]
    return _condition_table(document, item.heading, leading, observations.plain(), observations, notes)


def generalisation(item: Item, document: Document) -> Tables:
    """Numbers of a level: means, means with the spread over seeds, and those of each BREEDS setting."""
    observations = with_breeds(document.observations)
    title, leading = f"Generalisation on the {item.name} level", ("data", "objective", "seeds")
    settings = [c for c in observations.plain() if c.data in BREEDS]
    others = [c for c in observations.plain() if c.data not in BREEDS]
    detail = _condition_table(document, f"{title}, mean (std over seeds)", leading, others, observations)
    breeds = _condition_table(document, f"{title}, each BREEDS setting", leading, settings, observations)
    rows = tuple(replace(row, cells=tuple(map(_without_std, row.cells))) for row in detail.rows)
    summary = replace(detail, title=f"{title}, means", rows=rows)
    tables = {"summary": summary, "detail": detail, "breeds": breeds}
    return {f"{item.name}-{name}": table for name, table in tables.items()}


def _without_std(cell: Cell) -> Cell:
    return replace(cell, std=None, published=cell.published and replace(cell.published, std=None))


def curve_points(observations: Observations) -> dict[tuple[str, bool], dict[str, Cell | None]]:
    """TestCPCC by the varied setting (the first of several), for every objective and its control.

    Returns:
        Label with the other settings, and whether it is the control -> a cell for each measured value of the
        setting.
    """
    lines: dict[tuple[str, bool], dict[str, Cell | None]] = {}
    measured = [c for c in observations.conditions if observations.measured(c)]
    known = {_varied(c) for c in measured}
    values = [value for c in observations.conditions if (value := _varied(c)) in known]
    for c in measured:
        others = (f"{name} {value}" for name, value in list(c.setting.items())[1:])
        points = lines.setdefault((", ".join((c.label, *others)), c.control), dict.fromkeys(values))
        points[_varied(c)] = cell(observations, c, "cpcc/own")
    return lines


def _varied(condition: Condition) -> str:
    """The value of the first setting."""
    return setting_name(dict(list(condition.setting.items())[:1]))


def curves(item: Item, document: Document, label: str, notes: Sequence[str]) -> Tables:
    """TestCPCC with a column for each value of the varied setting."""
    lines = curve_points(document.observations)
    settings = next(iter(lines.values()), {})
    rows = [
        [f"{name}, shuffled tree" if control else name, *points.values()]
        for (name, control), points in lines.items()
    ]
    title, notes = f"TestCPCC, by {label}", (*notes, *_drawn_only(item))
    return {item.name: Table.from_rows(("objective", *settings), rows, title=title, notes=notes)}


def orders(_item: Item, document: Document) -> Tables:
    """Fast FlowTree on test features, by the order of samples."""
    observations = document.observations
    numbers = ("error", "spread", "cpcc", "cpcc_spread")
    rows = [
        [condition_name(c), order, *cells]
        for c in observations.plain(measured=True)
        for order in ORDERS
        if any(cells := [cell(observations, c, f"order-{number}/{order}") for number in numbers])
    ]
    columns = ("features of", "order", "error against EMD", "spread over orders", "CPCC", "its spread")
    return {"orders-features": Table.from_rows(columns, rows, title="Fast FlowTree on test features")}


def data(item: Item, document: Document) -> Tables:
    """Sizes of the data sets."""
    observations = document.observations
    rows: list[list[Entry]] = []
    there = [c for c in observations.conditions if observations.measured(c)]
    for c in there:
        classes = [observations.summary(c, f"classes/{domain}") for domain in ("source", "target")]
        sizes = number_cells(item.numbers, observations, c)
        rows.append([c.data, *sizes, *("-" if one is None else int(one["mean"]) for one in classes)])
    columns = ("data", "train", "test", "source classes", "target classes")
    missing = [c.data for c in observations.conditions if c not in there]
    notes = ["Published sizes are rounded.", *([f"Not here: {', '.join(missing)}."] if missing else [])]
    return {"data": Table.from_rows(columns, rows, title="Sizes of the data sets", notes=notes)}


def synthetic(_item: Item, document: Document) -> Tables:
    """Growth of time, and errors against EMD."""
    observations = document.observations
    variants = {variant.name: variant for variant in VARIANTS}
    assert document.study is not None
    growth: list[list[Entry]] = []
    for c in observations.conditions:
        seconds = observations.series(c, "seconds")
        if seconds:
            variant, largest = variants[c.objective], max(seconds)
            powers = [cell(observations, c, name) for name in ("best-power", "power-d", "power-k")]
            slowest = Cell(seconds[largest]["mean"], None, "seconds")
            growth.append([variant.label, variant.complexity or "-", *powers, slowest, str(largest)])
    errors = [
        [kind, variants[c.objective].label, *(Cell(one["mean"], one["std"], "percent") for one in by_size)]
        for kind in document.study["errors"]
        for c in observations.conditions
        if (by_size := observations.series(c, f"error/{kind}").values())
    ]
    trees = (observations.summary(c, "build-share") for c in observations.conditions)
    build = [share for share in trees if share]
    notes = [
        "Power of n: slope of log time by log n over the four largest sizes, one thread, best of repeats; "
        "of the dimension d and the number of classes k the same, mean (std) over the repeats.",
        "The C library keeps freed memory, which glibc does not by default: fresh pages for every call would "
        "add steps to the times of the fastest distances, and make their powers larger.",
        "I iterations, p projections, Phi the largest distance; k = 2 classes where n or d grow.",
        *(
            f"FlowTree spends {100 * share['mean']:.0f} % of its time on building its tree."
            for share in build
        ),
    ]
    measured = ("measured: n to the power", "d to the power", "k to the power")
    columns = ("distance", "paper: O(...)", *measured, "s at the largest n", "largest n")
    sizes = [f"n = {n}" for n in document.study["settings"]["error_sizes"]]
    return {
        "complexity": Table.from_rows(columns, growth, title="Growth of time", notes=notes),
        "errors": Table.from_rows(("clouds", "distance", *sizes), errors, title="value / EMD - 1"),
    }


def batch_time(item: Item, document: Document) -> Tables:
    """Seconds of a training step."""
    observations = document.observations
    assert document.study is not None
    given = document.study["settings"]
    rows = [[c.label, *number_cells(item.numbers, observations, c)] for c in observations.conditions]
    notes = [
        f"Loss and gradient on random features, B = {given['batch_size']}, d = {given['width']}, labels of "
        f"{given['classes']} classes, one thread, without the network.",
        "The published times are of whole updates on a GPU.",
        f"Bures, dense: timed on {given['dense_pairs']} pairs of classes, times the number of pairs.",
    ]
    columns = ("distance", "s per batch")
    return {"batch-time": Table.from_rows(columns, rows, title="Seconds per batch", notes=notes)}
