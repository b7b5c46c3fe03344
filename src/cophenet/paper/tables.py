"""The tables of every item, from its observations, with the published numbers beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from cophenet.paper.distances import VARIANTS
from cophenet.paper.features import MODES
from cophenet.paper.observations import Condition, Observations, with_breeds
from cophenet.paper.orders import ORDERS
from cophenet.paper.published import cell
from cophenet.paper.variants import BREEDS
from cophenet.report import Cell, Table
from cophenet.report.table import Unit

if TYPE_CHECKING:
    from cophenet.paper.documents import Document

__all__ = ["NUMBERS", "Number", "condition_name", "item_tables", "setting_name"]

Entry: TypeAlias = "Cell | str | int | None"
Tables: TypeAlias = dict[str, Table]


@dataclass(frozen=True)
class Number:
    """A metric as tables and figures show it.

    Attributes:
        heading: Its name there.
        metric: As in `Observation`.
        paper: Whether the published number stands beside it.
        control: Whether it is that of the shuffled tree.
        unit: What it counts.
    """

    heading: str
    metric: str
    paper: bool = True
    control: bool = False
    unit: Unit = "percent"

    def cell(self, observations: Observations, condition: Condition) -> Cell | None:
        """The number under a condition."""
        chosen = observations.control_of(condition) if self.control else condition
        return cell(observations, chosen, self.metric, self.unit, paper=self.paper)


def _plain(*numbers: tuple[str, str]) -> tuple[Number, ...]:
    return tuple(Number(heading, metric, paper=False) for heading, metric in numbers)


_FINE = tuple(
    Number(*pair)
    for pair in (
        ("sAcc", "source/accuracy/fine"),
        ("tAcc", "target/accuracy/fine"),
        ("sMAP", "source/map/fine"),
    )
)
_COARSE = tuple(
    Number(*pair)
    for pair in (
        ("sAcc", "source/accuracy/coarse"),
        ("tAcc", "target/accuracy/coarse"),
        ("sMAP", "source/map/coarse"),
        ("tMAP", "target/map/coarse"),
    )
)
_LEVELS = (
    *(replace(number, heading=f"fine {number.heading}") for number in _FINE),
    *(replace(number, heading=f"coarse {number.heading}") for number in _COARSE),
)
_OWN = Number("CPCC", "cpcc/own")
_SHUFFLED = Number("shuffled tree", "cpcc/own", paper=False, control=True)
_CPCC = (
    Number("TestCPCC", "cpcc/own"),
    Number("by l2", "cpcc/l2", paper=False),
    _SHUFFLED,
    Number("shuffled, its own tree", "cpcc-trained-tree/own", paper=False, control=True),
)
_TREE = (
    _OWN,
    _SHUFFLED,
    Number("FineAcc", "full/accuracy/fine"),
    Number("CoarseAcc", "full/accuracy/coarse"),
)
# The flow-weight table of the paper has the metrics of a level in another order.
_FLOW = tuple(_LEVELS[place] for place in (0, 2, 1, 3, 5, 4, 6))
_COMPARED = _plain(
    ("TestCPCC", "cpcc/own"),
    ("fine sAcc", "source/accuracy/fine"),
    ("coarse sAcc", "source/accuracy/coarse"),
    ("coarse sMAP", "source/map/coarse"),
)
_WITH_CONTROLS = tuple(
    each for number in _COMPARED for each in (number, replace(number, heading="shuffled", control=True))
)
# The numbers of every item whose rows are its conditions.
NUMBERS: Mapping[str, tuple[Number, ...]] = {
    "testcpcc": _CPCC,
    "baselines": _CPCC,
    "fine": _FINE,
    "coarse": _COARSE,
    "rank": _LEVELS,
    "scatter": (
        *_plain(("TestCPCC", "cpcc/own"), ("by l2", "cpcc/l2")),
        _SHUFFLED,
        *_plain(("mean coarse", "mean/coarse"), ("mean fine", "mean/fine")),
    ),
    "shuffled": _WITH_CONTROLS,
    "memory": (
        *_plain(("TestCPCC", "cpcc/own")),
        _SHUFFLED,
        Number("s per epoch", "seconds_per_epoch", paper=False, unit="seconds"),
    ),
    "tree-depth": _TREE,
    "tree-weights": _TREE,
    "flow-weights": (_OWN, _SHUFFLED, *_FLOW),
    "modes": (
        *(Number(way, f"components/{way}", unit="number") for way in MODES),
        Number("fits not converged", "components/unconverged", paper=False, unit="count"),
    ),
    "orders": (
        *_plain(("TestCPCC", "cpcc/own")),
        _SHUFFLED,
        *_plain(("its spread over orders", "cpcc-orders/own"), ("by l2", "cpcc/l2")),
    ),
    "epoch-time": (Number("s per epoch", "seconds_per_epoch", unit="seconds"),),
    "batch-time": (Number("s per batch", "seconds_per_batch", unit="seconds"),),
    "data": (Number("train", "samples/train", unit="count"), Number("test", "samples/test", unit="count")),
}

_CONTROL = (
    "Shuffled tree: trained with classes at random places of the same tree, measured with the true tree; "
    "what a CPCC is worth without the knowledge in the tree."
)
# Title, columns before the numbers, and remarks.
_LAYOUTS: Mapping[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "testcpcc": ("TestCPCC by the distance trained with", ("data", "objective", "seeds"), (_CONTROL,)),
    "baselines": ("CPCC of hierarchical objectives", ("objective", "seeds"), (_CONTROL,)),
    "rank": ("Flat against the rank loss", ("objective",), ()),
    "scatter": (
        "CPCC against mean metrics",
        ("objective",),
        (
            "Means of all accuracies and precisions of a level, source and target. Rank is not in the fits.",
            "By the distance trained with, as in the paper, objectives without one are by l2: those panels "
            "have several distances on one axis. By l2 all are alike.",
            _CONTROL,
        ),
    ),
    "shuffled": ("With the tree and with a shuffled one", ("objective",), (_CONTROL,)),
    "memory": (
        "Memory of earlier batches against batch size",
        ("objective", "batch size", "memory"),
        (_CONTROL,),
    ),
    "tree-depth": (
        "Depth of the tree",
        ("objective", "setup"),
        (_CONTROL, "Distance matrices are of the first seed."),
    ),
    "tree-weights": (
        "Edge weights below aquatic_mammals",
        ("objective", "setup"),
        (_CONTROL, "Distance matrices are of the first seed."),
    ),
    "flow-weights": ("Flow weights", ("objective", "weights"), (_CONTROL,)),
    "orders": (
        "Trained with Fast FlowTree in several orders, and with EMD",
        ("trained with", "seeds"),
        (_CONTROL,),
    ),
    "modes": (
        "Mixture components per class",
        ("data", "objective"),
        (
            "Mean over classes of the number of components, 1 to 10, with the lowest AIC, on the test "
            "features.",
            "Published for BREEDS: one number for its four settings.",
            "Over epochs: of the first seed.",
        ),
    ),
    "epoch-time": (
        "Seconds per epoch",
        ("data", "batch size", "objective", "seeds", "threads"),
        (
            "Published on an NVIDIA RTX A6000; only ratios can be compared.",
            "Times want a quiet machine: whatever else it did is in them.",
        ),
    ),
}


def item_tables(document: Document) -> Tables:
    """The tables of an item by name; those with published numbers say what was trained.

    Args:
        document: The item's document.
    """
    item = document.item
    tables = {item: _by_condition(document)} if item in _LAYOUTS else {}
    if item in _MORE:
        tables |= _MORE[item](document)
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
    values = {name: v if isinstance(v, str) else f"{v:g}" for name, v in setting.items()}
    return ", ".join(shown.get(name, "{}").format(value) for name, value in values.items())


def condition_name(condition: Condition) -> str:
    """Objective and setting in one."""
    return ", ".join(filter(None, (condition.label, setting_name(condition.setting))))


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


def _rows(
    observations: Observations,
    conditions: Sequence[Condition],
    leading: Sequence[str],
    numbers: Sequence[Number],
) -> list[list[Entry]]:
    """Rows of those conditions of which anything was measured or published."""
    rows = []
    for condition in conditions:
        cells = [number.cell(observations, condition) for number in numbers]
        if observations.measured(condition) or any(one and one.published for one in cells):
            rows.append([*(_LEADING[name](observations, condition) for name in leading), *cells])
    return rows


def _by_condition(document: Document, without: str = "") -> Table:
    title, columns_before, notes = _LAYOUTS[document.item]
    observations, numbers = document.observations, NUMBERS[document.item]
    leading = [name for name in columns_before if name != without]
    rows = _rows(observations, observations.plain(), leading, numbers)
    columns = [*leading, *(number.heading for number in numbers)]
    return Table.from_rows(columns, rows, title=title, notes=notes)


def _generalisation(document: Document) -> Tables:
    level, numbers = document.item, NUMBERS[document.item]
    leading = ("data", "objective", "seeds")
    observations = with_breeds(document.observations)
    detail, each = (
        _rows(
            observations, [c for c in observations.plain() if (c.data in BREEDS) == breeds], leading, numbers
        )
        for breeds in (False, True)
    )
    columns = [*leading, *(number.heading for number in numbers)]
    title = f"Generalisation on the {level} level"
    means = [[_without_std(entry) for entry in row] for row in detail]
    return {
        f"{level}-summary": Table.from_rows(columns, means, title=f"{title}, means"),
        f"{level}-detail": Table.from_rows(columns, detail, title=f"{title}, mean (std over seeds)"),
        f"{level}-breeds": Table.from_rows(columns, each, title=f"{title}, each BREEDS setting"),
    }


def _without_std(entry: Entry) -> Entry:
    if not isinstance(entry, Cell):
        return entry
    return replace(entry, std=None, published=entry.published and replace(entry.published, std=None))


def _curves(document: Document, label: str) -> Tables:
    observations = document.observations
    measured = [c for c in observations.conditions if observations.measured(c)]
    known = {setting_name(c.setting) for c in measured}
    settings = [
        name
        for name in dict.fromkeys(setting_name(c.setting) for c in observations.conditions)
        if name in known
    ]
    lines: dict[str, dict[str, Cell | None]] = {}
    for c in measured:
        name = f"{c.label}, shuffled tree" if c.control else c.label
        lines.setdefault(name, {})[setting_name(c.setting)] = cell(observations, c, "cpcc/own")
    rows = [[name, *(values.get(setting) for setting in settings)] for name, values in lines.items()]
    title = f"TestCPCC, by {label}"
    return {document.item: Table.from_rows(("objective", *settings), rows, title=title, notes=[_CONTROL])}


def _epoch_time(document: Document) -> Tables:
    """The table; where all runs had as many threads, with a remark in place of a column."""
    observations = document.observations
    used = {_threads(observations, c) for c in observations.plain(measured=True)} - {None}
    table = _by_condition(document, without="" if len(used) > 1 else "threads")
    if len(used) < 2:
        more = tuple(f"Threads of the CPU for each run: {threads}." for threads in used)
        table = replace(table, notes=(*table.notes, *more))
    return {"epoch-time": table}


def _orders(document: Document) -> Tables:
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


def _data(document: Document) -> Tables:
    observations = document.observations
    rows: list[list[Entry]] = []
    for c in observations.conditions:
        classes = [observations.summary(c, f"classes/{domain}") for domain in ("source", "target")]
        sizes = [number.cell(observations, c) for number in NUMBERS["data"]]
        rows.append([c.data, *sizes, *("-" if one is None else int(one["mean"]) for one in classes)])
    columns = ("data", "train", "test", "source classes", "target classes")
    notes = ["Published sizes are rounded."]
    return {"data": Table.from_rows(columns, rows, title="Sizes of the data sets", notes=notes)}


def _synthetic(document: Document) -> Tables:
    observations = document.observations
    variants = {variant.name: variant for variant in VARIANTS}
    assert document.study is not None
    growth: list[list[Entry]] = []
    for c in observations.conditions:
        seconds = observations.series(c, "seconds")
        if seconds:
            variant, largest = variants[c.objective], max(seconds)
            power = cell(observations, c, "best-power", "number")
            slowest = Cell(seconds[largest]["mean"], None, "seconds")
            growth.append([variant.label, variant.complexity or "-", power, slowest, str(largest)])
    errors = [
        [kind, variants[c.objective].label, *(Cell(one["mean"], one["std"], "percent") for one in by_size)]
        for kind in document.study["errors"]
        for c in observations.conditions
        if (by_size := observations.series(c, f"error/{kind}").values())
    ]
    notes = [
        "Power: slope of log time by log n over the four largest sizes, one thread, best of the repeats.",
        "The C library keeps freed memory, which glibc does not by default: fresh pages for every call would "
        "add steps to the times of the fastest distances, and make their powers larger.",
        "I iterations, p projections, Phi the largest distance; k = 2 classes here.",
    ]
    columns = ("distance", "paper: O(...)", "measured: n to the power", "s at the largest n", "largest n")
    sizes = [f"n = {n}" for n in document.study["settings"]["error_sizes"]]
    return {
        "complexity": Table.from_rows(columns, growth, title="Growth of time with n", notes=notes),
        "errors": Table.from_rows(("clouds", "distance", *sizes), errors, title="value / EMD - 1"),
    }


def _batch_time(document: Document) -> Tables:
    observations = document.observations
    assert document.study is not None
    given = document.study["settings"]
    rows = [
        [c.label, *(number.cell(observations, c) for number in NUMBERS["batch-time"])]
        for c in observations.conditions
    ]
    notes = [
        f"Loss and gradient on random features, B = {given['batch_size']}, d = {given['width']}, labels of "
        f"{given['classes']} classes, one thread, without the network.",
        "The published times are of whole updates on a GPU.",
        f"Bures, dense: timed on {given['dense_pairs']} pairs of classes, times the number of pairs.",
    ]
    columns = ("distance", "s per batch")
    return {"batch-time": Table.from_rows(columns, rows, title="Seconds per batch", notes=notes)}


# Tables that are more than rows of conditions, or have something more.
_MORE: Mapping[str, Callable[[Document], Tables]] = {
    "data": _data,
    "fine": _generalisation,
    "coarse": _generalisation,
    "batch-size": lambda document: _curves(document, "batch size"),
    "weight": lambda document: _curves(document, "weight lambda"),
    "backbone": lambda document: _curves(document, "backbone"),
    "synthetic": _synthetic,
    "epoch-time": _epoch_time,
    "batch-time": _batch_time,
    "orders": _orders,
}
