"""The items of the paper, and some beyond it, as data: what each trains, measures and shows.

To add an item, add an entry to `ITEMS`. The list is read wherever an item is named, so nothing heavy is
imported with it: functions of other files are named here and imported when they are called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

from cophenet._common.checks import check_choice
from cophenet.paper import variants
from cophenet.paper.modes import MODES
from cophenet.paper.variants import (
    BASELINES,
    CORE,
    DISTANCES,
    PAPER_DATA,
    SUBTREE,
    Variants,
    always,
    plain,
)

if TYPE_CHECKING:
    from cophenet.paper.documents import Document
    from cophenet.paper.observations import Observations
    from cophenet.report import Table

__all__ = ["ITEMS", "Item", "Layout", "Number", "Study", "find_items", "item_names"]

Figures: TypeAlias = dict[str, dict[str, Any]]


def _later(module: str, name: str, **options: Any) -> Callable[..., Any]:
    """A function of this room, imported when it is called."""

    def call(*arguments: Any) -> Any:
        return getattr(import_module(f"cophenet.paper.{module}"), name)(*arguments, **options)

    return call


_table, _figure, _measurement = (partial(_later, name) for name in ("tables", "figures", "measurements"))


@dataclass(frozen=True)
class Number:
    """A metric as tables and figures show it.

    Attributes:
        heading: Its name there.
        metric: As in `Observation`.
        paper: Whether the published number stands beside it.
        control: Whether it is that of the shuffled tree.
    """

    heading: str
    metric: str
    paper: bool = True
    control: bool = False


@dataclass(frozen=True)
class Layout:
    """A table with a row for each condition.

    Attributes:
        title: Of the table.
        leading: Columns before the numbers.
        notes: Remarks below it.
    """

    title: str
    leading: tuple[str, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Study:
    """A study of time, which needs no runs.

    Attributes:
        name: As `run_isolated` has it.
        observations: What was measured, from what the study returned.
    """

    name: str
    observations: Callable[[Mapping[str, Any]], Observations]


@dataclass(frozen=True)
class Item:
    """Something to reproduce.

    Attributes:
        name: What it is called on the command line.
        title: What it shows.
        labels: Labels in the paper; none for what is beyond it.
        recipes: The data sets, by their recipes.
        variants: What is trained, by recipe and scale.
        minutes: What it computes beside the runs takes on a laptop.
        fixed: Whether it makes sense on its own recipes only.
        numbers: What its tables and figures show of every condition.
        layout: Its table, if that has a row for each condition.
        tables: Its other tables by name.
        figures: Its figures by name, as data.
        measure: What is measured on the runs beside their results: from the observations, the planned runs
            and their folder, the observations with more rows, and arrays for figures.
        study: The study of time behind it, if it needs no runs.
        count: What is counted of data sets, without runs: from recipes, scale, data folder and a function
            that gets messages.
    """

    name: str
    title: str
    labels: tuple[str, ...]
    recipes: tuple[str, ...] = ()
    variants: Variants = lambda _recipe, _scale: ()
    minutes: float = 0.0
    fixed: bool = False
    numbers: tuple[Number, ...] = ()
    layout: Layout | None = None
    tables: Callable[[Item, Document], dict[str, Table]] | None = None
    figures: Callable[[Item, Document], Figures] | None = None
    measure: Callable[..., tuple[Observations, Sequence[Mapping[str, Any]]]] | None = None
    study: Study | None = None
    count: Callable[..., Observations] | None = None


_CIFAR100 = ("cifar100",)
_THREE = ("l2", "emd", "fastft")
_ALL = always(variants.with_controls(plain((*DISTANCES, "flat", *BASELINES))))

_FINE = (
    Number("sAcc", "source/accuracy/fine"),
    Number("tAcc", "target/accuracy/fine"),
    Number("sMAP", "source/map/fine"),
)
_COARSE = (
    Number("sAcc", "source/accuracy/coarse"),
    Number("tAcc", "target/accuracy/coarse"),
    Number("sMAP", "source/map/coarse"),
    Number("tMAP", "target/map/coarse"),
)
_LEVELS = (
    *(replace(number, heading=f"fine {number.heading}") for number in _FINE),
    *(replace(number, heading=f"coarse {number.heading}") for number in _COARSE),
)
# The flow-weight table of the paper has the metrics of a level in another order.
_FLOW = tuple(_LEVELS[place] for place in (0, 2, 1, 3, 5, 4, 6))
_OWN = Number("CPCC", "cpcc/own")
_TEST = Number("TestCPCC", "cpcc/own", paper=False)
_BY_L2 = Number("by l2", "cpcc/l2", paper=False)
_SHUFFLED = Number("shuffled tree", "cpcc/own", paper=False, control=True)
_CPCC = (
    replace(_TEST, paper=True),
    _BY_L2,
    _SHUFFLED,
    Number("shuffled, its own tree", "cpcc-trained-tree/own", paper=False, control=True),
)
_TREE = (
    _OWN,
    _SHUFFLED,
    Number("FineAcc", "full/accuracy/fine"),
    Number("CoarseAcc", "full/accuracy/coarse"),
)
_WITH_CONTROLS = tuple(
    each
    for number in (
        _TEST,
        Number("fine sAcc", "source/accuracy/fine", paper=False),
        Number("coarse sAcc", "source/accuracy/coarse", paper=False),
        Number("coarse sMAP", "source/map/coarse", paper=False),
    )
    for each in (number, replace(number, heading="shuffled", control=True))
)
_CONTROL = (
    "Shuffled tree: trained with classes at random places of the same tree, measured with the true tree; "
    "what a CPCC is worth without the knowledge in the tree."
)


def _level(name: str, numbers: tuple[Number, ...]) -> Item:
    return Item(
        name,
        f"{name} accuracy and retrieval",
        (f"tab:{name}", f"tab:{name}-detail", f"tab:breeds-{name}"),
        PAPER_DATA,
        variants.core,
        numbers=numbers,
        tables=_table("generalisation"),
        figures=_figure("by_data"),
    )


def _curves(name: str, title: str, label: str, trained: Variants) -> Item:
    return Item(
        name,
        title,
        ("fig:cpcc_ablation",),
        _CIFAR100,
        trained,
        tables=_table("curves", label=label, notes=(_CONTROL,)),
        figures=_figure("curves", label=label),
    )


def _trees(
    name: str, title: str, labels: tuple[str, ...], trained: tuple[variants.Variant, ...], heading: str
) -> Item:
    return Item(
        name,
        title,
        labels,
        _CIFAR100,
        always(trained),
        fixed=True,
        numbers=_TREE,
        layout=Layout(
            heading, ("objective", "setup"), (_CONTROL, "Distance matrices are of the first seed.")
        ),
        figures=_figure("matrices"),
        measure=_measurement("matrices"),
    )


ITEMS: tuple[Item, ...] = (
    Item(
        "data",
        "sizes of the data sets",
        ("tab:data-stats",),
        PAPER_DATA,
        minutes=1,
        numbers=(Number("train", "samples/train"), Number("test", "samples/test")),
        tables=_table("data"),
        figures=_figure("data"),
        count=_measurement("data_sizes"),
    ),
    Item(
        "testcpcc",
        "TestCPCC of all objectives, with control",
        ("tab:testcpcc",),
        PAPER_DATA,
        variants.core_with_controls,
        numbers=_CPCC,
        layout=Layout("TestCPCC by the distance trained with", ("data", "objective", "seeds"), (_CONTROL,)),
        figures=_figure("cpcc"),
    ),
    _level("coarse", _COARSE),
    _level("fine", _FINE),
    Item(
        "modes",
        "mixture components per class",
        ("fig:CIFAR100-gmm_comparison",),
        PAPER_DATA,
        variants.l2_or_core,
        minutes=15,
        numbers=(
            *(Number(way, f"components/{way}") for way in MODES),
            *(Number(f"{way}, one Gaussian", f"components-null/{way}", paper=False) for way in MODES),
            Number("fits not converged", "components/unconverged", paper=False),
        ),
        layout=Layout(
            "Mixture components per class",
            ("data", "objective"),
            (
                "Mean over classes of the number of components, 1 to 10, with the lowest AIC, on the test "
                "features.",
                "One Gaussian: the same count on samples of one with the mean and covariance of each class.",
                "Over epochs: of the first seed.",
            ),
        ),
        figures=_figure("modes"),
        measure=_measurement("modes"),
    ),
    Item(
        "umap",
        "UMAP of l2 and EMD features",
        ("fig:umap",),
        _CIFAR100,
        always(plain(["l2", "emd"])),
        minutes=1,
        figures=_figure("umap"),
        measure=_measurement("umap"),
    ),
    Item(
        "baselines",
        "CPCC of fifteen objectives",
        ("fig:hierarchical-baselines",),
        _CIFAR100,
        _ALL,
        numbers=_CPCC,
        layout=Layout("CPCC of hierarchical objectives", ("objective", "seeds"), (_CONTROL,)),
        figures=_figure("cpcc", title="CPCC of hierarchical objectives"),
    ),
    Item(
        "scatter",
        "CPCC against mean fine and coarse metrics",
        ("fig:hierarchical-baselines",),
        _CIFAR100,
        _ALL,
        numbers=(
            _TEST,
            _BY_L2,
            _SHUFFLED,
            Number("mean coarse", "mean/coarse", paper=False),
            Number("mean fine", "mean/fine", paper=False),
        ),
        layout=Layout(
            "CPCC against mean metrics",
            ("objective",),
            (
                "Means of all accuracies and precisions of a level, source and target. "
                "Rank is not in the fits.",
                "By the distance trained with, as in the paper, objectives without one are by l2: those "
                "panels have several distances on one axis. By l2 all are alike.",
                _CONTROL,
            ),
        ),
        figures=_figure("scatter"),
        measure=_measurement("correlations"),
    ),
    Item(
        "rank",
        "Flat against the rank loss",
        ("tab:rank",),
        _CIFAR100,
        always(variants.RANK_VARIANTS),
        numbers=_LEVELS,
        layout=Layout(
            "Flat against the rank loss",
            ("trained with",),
            ("Rank: with the target of the authors' code; mean: with the library's, see `rank_loss`.",),
        ),
        figures=_figure("rank"),
    ),
    _curves(
        "batch-size",
        "TestCPCC by batch size",
        "batch size",
        always(variants.sweep(_THREE, "batch_size", variants.BATCH_SIZES, "batch_size={}")),
    ),
    _curves(
        "weight",
        "TestCPCC by the weight lambda",
        "weight lambda",
        always(variants.sweep(_THREE, "lambda", variants.CPCC_WEIGHTS, "objective.cpcc.weight={}")),
    ),
    _curves("backbone", "TestCPCC by backbone", "backbone", variants.backbones),
    _trees(
        "tree-depth",
        "trees of depth 3, 4 and 5",
        ("tab:tree-depth-tab", "fig:tree-depth-distM"),
        variants.tree_depths(),
        "Depth of the tree",
    ),
    _trees(
        "tree-weights",
        "a subtree of weight 1, 2 and 4",
        ("tab:tree-weight-tab", "fig:tree-weight-distM"),
        variants.subtree_weights(),
        f"Distances inside {SUBTREE}, times the weight",
    ),
    Item(
        "flow-weights",
        "uniform, distance and inverse flow weights",
        ("tab:comparison_colored_normalized",),
        _CIFAR100,
        always(
            variants.sweep(
                ["fastft", "emd"], "flow_weights", variants.FLOW_WEIGHTS, "objective.cpcc.flow_weights={}"
            )
        ),
        numbers=(_OWN, _SHUFFLED, *_FLOW),
        layout=Layout("Flow weights", ("objective", "weights"), (_CONTROL,)),
        figures=_figure("heat"),
    ),
    Item(
        "synthetic",
        "time and error of distances",
        ("fig:synthetic", "tab:ot_comparison"),
        minutes=8,
        tables=_table("synthetic"),
        figures=_figure("synthetic"),
        study=Study("synthetic", _later("synthetic", "synthetic_observations")),
    ),
    Item(
        "epoch-time",
        "seconds per epoch",
        ("tab:ot-wallclock",),
        ("cifar10", "inat21-mini"),
        variants.three_epochs,
        numbers=(Number("s per epoch", "seconds_per_epoch"),),
        layout=Layout(
            "Seconds per epoch",
            ("data", "batch size", "objective", "seeds", "threads"),
            (
                "Published on an NVIDIA RTX A6000; only ratios can be compared.",
                "Times want a quiet machine: whatever else it did is in them.",
            ),
        ),
        figures=_figure("by_data", title="Seconds per epoch", percent=False, x="seconds"),
    ),
    Item(
        "batch-time",
        "seconds per batch, Bures too",
        ("tab:bures-others",),
        minutes=1,
        numbers=(Number("s per batch", "seconds_per_batch"),),
        tables=_table("batch_time"),
        figures=_figure("batch_time"),
        study=Study("steps", _later("timing", "step_observations")),
    ),
    Item(
        "shuffled",
        "does the tree help? shuffled-tree control",
        (),
        _CIFAR100,
        always(variants.with_controls(plain(CORE))),
        numbers=_WITH_CONTROLS,
        layout=Layout("With the tree and with a shuffled one", ("objective",), (_CONTROL,)),
        figures=_figure("shuffled"),
    ),
    Item(
        "orders",
        "FastFT in batch and principal order",
        (),
        _CIFAR100,
        always(variants.with_controls(variants.ORDER_VARIANTS)),
        minutes=2,
        numbers=(
            _TEST,
            _SHUFFLED,
            Number("its spread over orders", "cpcc-orders/own", paper=False),
            _BY_L2,
        ),
        layout=Layout(
            "Trained with Fast FlowTree in several orders, and with EMD",
            ("trained with", "seeds"),
            (_CONTROL,),
        ),
        tables=_table("orders"),
        figures=_figure("orders"),
        measure=_measurement("orders"),
    ),
    Item(
        "memory",
        "cross-batch memory against batch size",
        (),
        _CIFAR100,
        always(variants.memory_sizes()),
        numbers=(_TEST, _SHUFFLED, Number("s per epoch", "seconds_per_epoch", paper=False)),
        layout=Layout(
            "Memory of earlier batches against batch size",
            ("objective", "batch size", "memory"),
            (_CONTROL,),
        ),
        figures=_figure("memory"),
    ),
)


def item_names() -> tuple[str, ...]:
    """Names of all items.

    Example:
        >>> item_names()[:3]
        ('data', 'testcpcc', 'coarse')
    """
    return tuple(item.name for item in ITEMS)


def find_items(names: tuple[str, ...]) -> tuple[Item, ...]:
    """Items by name, in the order of the list; "all" stands for every one.

    Raises:
        ValueError: If there is no such item.

    Example:
        >>> [item.name for item in find_items(("fine", "data"))]
        ['data', 'fine']
    """
    for name in names:
        check_choice("item", name, ("all", *item_names()))
    return tuple(item for item in ITEMS if "all" in names or item.name in names)
