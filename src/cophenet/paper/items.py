"""The items of the paper, and some beyond it, as data: what each trains, measures and shows.

To add an item, add an entry to `ITEMS`. The list is loaded wherever items are looked up by name, so it
imports nothing heavy: functions of other modules are given by name and imported when they are called.
"""

from __future__ import annotations

from dataclasses import replace

from cophenet._common.checks import check_choice
from cophenet.paper import variants
from cophenet.paper.beyond_items import BEYOND_ITEMS
from cophenet.paper.item import Item, Number, TimingStudy, figure_of, later, measured_by, table_of
from cophenet.paper.mixture_modes import MODES
from cophenet.paper.variants import BASELINES, CORE, DISTANCES, PAPER_DATA, SUBTREE, Variants, always, plain

__all__ = ["ITEMS", "find_items", "item_names"]

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
_ON_DATA = "{0.data} {0.label}"
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
        tables=table_of("generalisation"),
        figures=figure_of("by_number", title=f"{name} {{}}", row=_ON_DATA),
    )


def _curves(name: str, title: str, label: str, trained: Variants) -> Item:
    return Item(
        name,
        title,
        ("fig:cpcc_ablation",),
        _CIFAR100,
        trained,
        tables=table_of("curves", label=label, notes=(_CONTROL,)),
        figures=figure_of("curves", label=label),
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
        heading=heading,
        leading=("objective", "setup"),
        notes=(_CONTROL, "Distance matrices are of the first seed."),
        figures=figure_of("matrices"),
        measure=measured_by("matrices"),
    )


ITEMS: tuple[Item, ...] = (
    Item(
        "data",
        "sizes of the data sets",
        ("tab:data-stats",),
        PAPER_DATA,
        minutes=1,
        numbers=(Number("train", "samples/train"), Number("test", "samples/test")),
        tables=table_of("data"),
        figures=figure_of(
            "by_number",
            title="{} samples",
            row="{0.data}",
            series="counted",
            percent=False,
            log=True,
            together=True,
        ),
        count=measured_by("data_sizes"),
    ),
    Item(
        "testcpcc",
        "TestCPCC of all objectives, with control",
        ("tab:testcpcc",),
        PAPER_DATA,
        variants.core_with_controls,
        numbers=_CPCC,
        heading="TestCPCC by the distance trained with",
        leading=("data", "objective", "seeds"),
        notes=(_CONTROL,),
        figures=figure_of("cpcc"),
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
        heading="Mixture components per class",
        leading=("data", "objective"),
        notes=(
            "Mean over classes of the number of components, 1 to 10, with the lowest AIC, on the test "
            "features.",
            "One Gaussian: the same count on samples of one with the mean and covariance of each class.",
            "Over epochs: of the first seed.",
        ),
        figures=figure_of("modes"),
        measure=measured_by("modes"),
    ),
    Item(
        "umap",
        "UMAP of l2 and EMD features",
        ("fig:umap",),
        _CIFAR100,
        always(plain(["l2", "emd"])),
        minutes=1,
        figures=figure_of("umap"),
        measure=measured_by("umap"),
    ),
    Item(
        "baselines",
        "CPCC of fifteen objectives",
        ("fig:hierarchical-baselines",),
        _CIFAR100,
        _ALL,
        numbers=_CPCC,
        heading="CPCC of hierarchical objectives",
        leading=("objective", "seeds"),
        notes=(_CONTROL,),
        figures=figure_of("cpcc", title="CPCC of hierarchical objectives"),
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
        heading="CPCC against mean metrics",
        leading=("objective",),
        notes=(
            "Means of all accuracies and precisions of a level, source and target. Rank is not in the fits.",
            "By the distance trained with, as in the paper, objectives without one are by l2: those "
            "panels have several distances on one axis. By l2 all are alike.",
            _CONTROL,
        ),
        figures=figure_of("scatter"),
        measure=measured_by("correlations"),
    ),
    Item(
        "rank",
        "Flat against the rank loss",
        ("tab:rank",),
        _CIFAR100,
        always(variants.RANK_VARIANTS),
        numbers=_LEVELS,
        heading="Flat against the rank loss",
        leading=("trained with",),
        notes=("Rank: with the target of the authors' code; mean: with the library's, see `rank_loss`.",),
        figures=figure_of("rank"),
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
        heading="Flow weights",
        leading=("objective", "weights"),
        notes=(_CONTROL,),
        figures=figure_of("heat"),
    ),
    Item(
        "synthetic",
        "time and error of distances",
        ("fig:synthetic", "tab:ot_comparison"),
        minutes=8,
        tables=table_of("synthetic"),
        figures=figure_of("synthetic"),
        study=TimingStudy("synthetic", later("synthetic", "synthetic_observations")),
    ),
    Item(
        "epoch-time",
        "seconds per epoch",
        ("tab:ot-wallclock",),
        ("cifar10", "inat21-mini"),
        variants.three_epochs,
        numbers=(Number("s per epoch", "seconds_per_epoch"),),
        heading="Seconds per epoch",
        leading=("data", "batch size", "objective", "seeds", "threads"),
        notes=(
            "Published on an NVIDIA RTX A6000; only ratios can be compared.",
            "Times want a quiet machine: whatever else it did is in them.",
        ),
        figures=figure_of("by_number", title="Seconds per epoch", row=_ON_DATA, percent=False, x="seconds"),
    ),
    Item(
        "batch-time",
        "seconds per batch, Bures too",
        ("tab:bures-others",),
        minutes=1,
        numbers=(Number("s per batch", "seconds_per_batch"),),
        tables=table_of("batch_time"),
        figures=figure_of("by_number", title="Seconds per batch", percent=False, log=True, x="seconds"),
        study=TimingStudy("steps", later("timing", "step_observations")),
    ),
    Item(
        "shuffled",
        "does the tree help? shuffled-tree control",
        (),
        _CIFAR100,
        always(variants.with_controls(plain(CORE))),
        numbers=_WITH_CONTROLS,
        heading="With the tree and with a shuffled one",
        leading=("objective",),
        notes=(_CONTROL,),
        figures=figure_of("by_number", series="tree", control="shuffled tree"),
    ),
    Item(
        "orders",
        "FastFT in batch and principal order",
        (),
        _CIFAR100,
        always(variants.with_controls(variants.ORDER_VARIANTS)),
        minutes=2,
        numbers=(_TEST, _SHUFFLED, Number("its spread over orders", "cpcc-orders/own", paper=False), _BY_L2),
        heading="Trained with Fast FlowTree in several orders, and with EMD",
        leading=("trained with", "seeds"),
        notes=(_CONTROL,),
        tables=table_of("orders"),
        figures=figure_of("orders"),
        measure=measured_by("orders"),
    ),
    Item(
        "memory",
        "cross-batch memory against batch size",
        (),
        _CIFAR100,
        always(variants.memory_sizes()),
        numbers=(_TEST, _SHUFFLED, Number("s per epoch", "seconds_per_epoch", paper=False)),
        heading="Memory of earlier batches against batch size",
        leading=("objective", "batch size", "memory"),
        notes=(_CONTROL,),
        figures=figure_of("curves", label="batch size", y=""),
    ),
    *BEYOND_ITEMS,
)


def item_names() -> tuple[str, ...]:
    """Names of all items.

    Example:
        >>> item_names()[:3]
        ('data', 'testcpcc', 'coarse')
    """
    return tuple(item.name for item in ITEMS)


def find_items(names: tuple[str, ...]) -> tuple[Item, ...]:
    """Items by name, in the order of the list; "all" means all except those with `alone` set.

    Raises:
        ValueError: If there is no such item.

    Example:
        >>> [item.name for item in find_items(("fine", "data"))]
        ['data', 'fine']
    """
    for name in names:
        check_choice("item", name, ("all", *item_names()))
    return tuple(item for item in ITEMS if item.name in names or ("all" in names and not item.alone))
