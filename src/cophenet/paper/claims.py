"""Claims of the paper that are measured, and three beyond it, as data: to add one, add an entry here.

A claim asks for expressions over the observations of an item (`expressions`), which the judge decides on
every data set (`judge`). Thresholds are ours, as the paper has none. Claims that are proved are in `proofs`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, permutations
from typing import Any

from cophenet.paper.expressions import (
    AllOf,
    AnyOf,
    Comparison,
    Criterion,
    Expression,
    average_of,
    best_of,
    value,
)
from cophenet.paper.modes import MODES
from cophenet.paper.variants import (
    BACKBONES,
    BASELINES,
    BATCH_SIZES,
    BREEDS,
    CPCC_WEIGHTS,
    DEPTHS,
    DISTANCES,
    MEMORY_BATCH_SIZES,
    MODE_BY_MODE,
    ORDER_VARIANTS,
    PAPER_DATA,
    SUBTREE_WEIGHTS,
)

__all__ = ["CLAIMS", "Claim"]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper.

    Attributes:
        text: What is claimed, in our words.
        where: Its place in the paper; "-" for what is beyond it.
        item: Name of the item whose observations decide.
        requires: What must hold on every data set of the item.
        data: The data sets that it is about, if about several.
        most: Whether most of the data sets are enough.
        across: Whether it compares data sets with each other, and so is judged once.
        untrained: Whether it can be told by networks that have hardly learned, as times can.
        gpu: What of it a laptop cannot measure, if anything; "all" for the whole.
        also_shown: What is shown too and decides nothing, by what it is.
    """

    text: str
    where: str
    item: str
    requires: Criterion
    data: tuple[str, ...] = ()
    most: bool = False
    across: bool = False
    untrained: bool = False
    gpu: str = ""
    also_shown: Mapping[str, Criterion] = field(default_factory=dict)


OT = tuple(name for name in DISTANCES if name != "l2")
OWN, BY_L2 = "cpcc/own", "cpcc/l2"
FINE = ("source/accuracy/fine", "target/accuracy/fine", "source/map/fine")
COARSE = ("source/accuracy/coarse", "target/accuracy/coarse", "source/map/coarse", "target/map/coarse")
FULL_FINE, FULL_COARSE = "full/accuracy/fine", "full/accuracy/coarse"
DIAGONAL, FULL = (f"components/{way}" for way in MODES)
NULL_DIAGONAL, NULL_FULL = (f"components-null/{way}" for way in MODES)
# The tables of generalisation have the four BREEDS settings as one.
TABLES = ("cifar10", "cifar100", "inat21-mini", "breeds")
TIMED = ("cifar10", "inat21-mini")
# The objectives of the studies of trees, flow weights and memory.
STUDIED = ("fastft", "emd")

# Two points of a metric, or two percent of a size, count as comparable; ten points as far.
COMPARABLE, FAR = 0.02, 0.1
# Powers of n in the paper's table of complexities, logarithms left out, and how much more is allowed. That
# 0.75 to 1.25 counts as linear was settled after first pilots of the time study were seen.
BOUNDS = {"l2": 1, "fastft": 1, "swd": 1, "ft": 1, "twd": 2, "sinkhorn": 2, "emd": 3}
SLACK = 0.25
# Powers of n that differ by less may be the same, and so may correlations over 14 objectives with zero.
SAME_POWER, WEAK_CORRELATION = 0.1, 2 / 14**0.5
CLOSE, PROHIBITIVE, BLOCK, LITTLE_SLOWER = 0.1, 100, 0.8, 1.1
APPROXIMATIONS = ("swd", "ft", "twd", "sinkhorn", "emd")
SORTED = f"abs-error/{MODE_BY_MODE}"
NOT_SWD = ("emd", "fastft", "fastft-principal", "ft", "twd", "sinkhorn", "bures")


def _each_above(names: Iterable[str], other: str, metrics: Iterable[str], margin: float = 0.0) -> AllOf:
    """Each objective above another one by a margin, in every metric."""
    chosen = tuple(metrics)
    return AllOf(value(name, m) > value(other, m) + margin for name in names for m in chosen)


def _bounds(bound: str, others: Iterable[str], metrics: Iterable[str]) -> AllOf:
    """An objective above each of others, in every metric."""
    chosen = tuple(metrics)
    return AllOf(value(bound, m) > value(other, m) for other in others for m in chosen)


def _average_above(other: str, metrics: Iterable[str]) -> AllOf:
    """The mean of the OT objectives, as the best of them would be above by chance alone."""
    return AllOf(average_of(OT, m) > value(other, m) for m in metrics)


def _chain(names: Sequence[str], metric: str, setting: dict[str, Any] | None = None) -> AllOf:
    """Each objective above the next one."""
    return AllOf(value(a, metric, setting) > value(b, metric, setting) for a, b in pairwise(names))


def _ordered(name: str, values: Iterable[Any]) -> AllOf:
    """FastFT > EMD > l2, each by its own distance, at every value of a setting."""
    return AllOf(_chain(("fastft", "emd", "l2"), OWN, {name: each}) for each in values)


def _steady(metric: str, name: str, values: Sequence[Any], limit: float) -> AllOf:
    """A metric that differs by less than a limit between any two values of a setting."""
    return AllOf(
        value(objective, metric, {name: a}) > value(objective, metric, {name: b}) - limit
        for objective in STUDIED
        for a, b in permutations(values, 2)
    )


def _trade(objective: str, scheme: str) -> AllOf:
    """A scheme of flow weights above uniform in the mean target metric, below it in the source one."""
    changed, uniform = ({"flow_weights": name} for name in (scheme, "uniform"))
    target, source = "mean/target", "mean/source"
    return AllOf(
        [
            value(objective, target, changed) > value(objective, target, uniform),
            value(objective, source, changed) < value(objective, source, uniform),
        ]
    )


def _advantage(objective: str, size: int) -> Expression:
    """What an objective has above l2 at a batch size."""
    return value(objective, OWN, {"batch_size": size}) - value("l2", OWN, {"batch_size": size})


def _with_floor(comparison: Comparison, floor: float) -> Comparison:
    return replace(comparison, floor=floor)


def _trends(cpcc: str) -> AllOf:
    coarse, fine = (value("", f"correlation/{cpcc}/{level}") for level in ("coarse", "fine"))
    return AllOf([_with_floor(coarse > 0.0, WEAK_CORRELATION), _with_floor(fine < 0.0, WEAK_CORRELATION)])


_SYNTHETIC: tuple[Claim, ...] = (
    Claim(
        "FastFT takes time linear in n.",
        "prop:fft_alg",
        "synthetic",
        AllOf([value("fastft", "power") > 1 - SLACK, value("fastft", "power") < 1 + SLACK]),
    ),
    Claim(
        "EMD takes more than quadratic time in n (the paper: cubic).",
        "introduction, tab:ot_comparison",
        "synthetic",
        value("emd", "power") > 2.0,
    ),
    Claim(
        "No distance grows faster with n than the table of complexities says.",
        "tab:ot_comparison",
        "synthetic",
        AllOf(value(name, "power") < bound + SLACK for name, bound in BOUNDS.items()),
    ),
    Claim(
        "FastFT is faster than Sinkhorn.",
        "fig:synthetic",
        "synthetic",
        value("sinkhorn", "times-fastft") > 1.0,
    ),
    Claim(
        "FastFT is the fastest OT distance.",
        "abstract, sec:fft",
        "synthetic",
        AllOf(value(name, "times-fastft") > 1.0 for name in APPROXIMATIONS),
    ),
    Claim(
        "In practice time grows with a lower power of n for l2 than for FastFT, though both are linear.",
        "app:time-complexity",
        "synthetic",
        _with_floor(value("fastft", "power") > value("l2", "power"), SAME_POWER),
        also_shown={"time of l2 over that of FastFT below one": value("l2", "times-fastft") < 1.0},
    ),
    Claim(
        "FastFT approximates EMD better than Sinkhorn on mixtures.",
        "fig:synthetic",
        "synthetic",
        value("fastft", "abs-error/mixture") < value("sinkhorn", "abs-error/mixture"),
        also_shown={"samples mode by mode": value("fastft", SORTED) < value("sinkhorn", SORTED)},
    ),
    Claim(
        "On Gaussians all distances but SWD are close to l2.",
        "fig:synthetic",
        "synthetic",
        AllOf(
            [
                *(value(name, "from-l2/gaussian") < CLOSE for name in NOT_SWD),
                value("swd", "from-l2/gaussian") > CLOSE,
            ]
        ),
        also_shown={
            "close to EMD": AllOf(value(name, "abs-error/gaussian") < CLOSE for name in ("l2", *NOT_SWD))
        },
    ),
    Claim(
        "On mixtures the OT distances differ notably from l2.",
        "fig:synthetic",
        "synthetic",
        AllOf(value(name, "over-l2/mixture") > 2.0 for name in NOT_SWD),
    ),
    Claim(
        "On mixtures SWD is close to l2, not to EMD.",
        "fig:synthetic",
        "synthetic",
        value("swd", "abs-error/mixture") > value("swd", "gap-l2/mixture"),
    ),
    Claim(
        "Bures is prohibitively expensive.",
        "tab:bures-others",
        "batch-time",
        value("bures", "times-l2") > PROHIBITIVE,
        also_shown={"by square roots of matrices": value("bures-dense", "times-l2") > PROHIBITIVE},
    ),
    Claim(
        "A batch takes longer with Bures than with EMD, and with EMD than with l2.",
        "tab:bures-others",
        "batch-time",
        _chain(("bures-dense", "emd", "l2"), "seconds_per_batch"),
    ),
    Claim(
        "An epoch with FastFT is faster than with EMD.",
        "tab:ot-wallclock",
        "epoch-time",
        value("fastft", "seconds_per_epoch") < value("emd", "seconds_per_epoch"),
        TIMED,
        untrained=True,
    ),
    Claim(
        "An epoch with FastFT is faster than with Sinkhorn and SWD.",
        "tab:ot-wallclock",
        "epoch-time",
        _each_above(("sinkhorn", "swd"), "fastft", ["seconds_per_epoch"]),
        TIMED,
        untrained=True,
    ),
    Claim(
        "An epoch with FastFT is not much slower than with l2.",
        "tab:ot-wallclock",
        "epoch-time",
        value("fastft", "seconds_per_epoch") < LITTLE_SLOWER * value("l2", "seconds_per_epoch"),
        TIMED,
        untrained=True,
    ),
)

_MAIN: tuple[Claim, ...] = (
    Claim(
        "The data sets have the sizes of the table.",
        "tab:data-stats",
        "data",
        AllOf(
            comparison
            for part in ("train", "test")
            for share in (value("", f"samples/{part}/of-printed"),)
            for comparison in (share > 1 - COMPARABLE, share < 1 + COMPARABLE)
        ),
        PAPER_DATA,
    ),
    Claim(
        "CPCC training embeds the tree: TestCPCC far above Flat's.",
        "tab:testcpcc",
        "testcpcc",
        _each_above(DISTANCES, "flat", [BY_L2], FAR),
        PAPER_DATA,
        also_shown={"each by its own distance": _each_above(DISTANCES, "flat", [OWN], FAR)},
    ),
    Claim(
        "On most data sets (5 of 7) an OT distance has the best TestCPCC.",
        "tab:testcpcc",
        "testcpcc",
        best_of(OT, OWN) > value("l2", OWN),
        PAPER_DATA,
        most=True,
        also_shown={"all by l2": best_of(OT, BY_L2) > value("l2", BY_L2)},
    ),
    Claim(
        "OT-CPCC is better than l2-CPCC on fine tasks.",
        "tab:fine",
        "fine",
        _average_above("l2", FINE),
        TABLES,
        also_shown={"each OT objective alone": _each_above(OT, "l2", FINE)},
    ),
    Claim(
        "OT-CPCC is better than Flat on coarse tasks.",
        "tab:coarse",
        "coarse",
        _average_above("flat", COARSE),
        TABLES,
        also_shown={"each OT objective alone": _each_above(OT, "flat", COARSE)},
    ),
    Claim(
        "FastFT is competitive on fine tasks, in every metric.",
        "abstract",
        "fine",
        _each_above(["fastft"], "emd", FINE, -COMPARABLE),
        TABLES,
    ),
    Claim(
        "FastFT is competitive on coarse tasks, in every metric.",
        "abstract",
        "coarse",
        _each_above(["fastft"], "emd", COARSE, -COMPARABLE),
        TABLES,
    ),
    Claim(
        "Flat is the upper bound of fine metrics.",
        "tab:fine-detail",
        "fine",
        _bounds("flat", DISTANCES, FINE),
        TABLES,
    ),
    Claim(
        "l2 is the upper bound of coarse metrics.",
        "tab:coarse-detail",
        "coarse",
        _bounds("l2", OT, COARSE),
        TABLES,
    ),
    Claim(
        "EMD separates fine classes better than l2.",
        "fig:umap",
        "fine",
        _each_above(["emd"], "l2", FINE),
        TABLES,
    ),
    Claim(
        "l2 groups coarse classes more clearly than EMD.",
        "fig:umap",
        "umap",
        value("l2", "map/between-groups") > value("emd", "map/between-groups"),
    ),
    Claim(
        "Classes have several modes on most data sets.",
        "fig:CIFAR100-gmm_comparison",
        "modes",
        value("l2", DIAGONAL) > value("l2", NULL_DIAGONAL),
        PAPER_DATA,
        most=True,
        also_shown={"full covariance": value("l2", FULL) > value("l2", NULL_FULL)},
    ),
    Claim(
        "Classes have several modes with every OT objective too.",
        "fig:CIFAR100-gmm_comparison",
        "modes",
        AllOf(value(name, DIAGONAL) > value(name, NULL_DIAGONAL) for name in OT),
    ),
    Claim(
        "Classes of BREEDS have the fewest modes, which is why OT gains less there.",
        "sec:interpretability",
        "modes",
        AllOf(
            value("l2", DIAGONAL, recipe=other) > value("l2", DIAGONAL, recipe=breeds)
            for other in PAPER_DATA
            if other not in BREEDS
            for breeds in BREEDS
        ),
        across=True,
        gpu="all",
    ),
    Claim(
        "CPCC objectives have a higher CPCC than all other hierarchical objectives.",
        "fig:hierarchical-baselines",
        "baselines",
        AllOf(_each_above(DISTANCES, other, [BY_L2]) for other in ("flat", *BASELINES)),
        also_shown={
            "each by its own distance": AllOf(
                _each_above(DISTANCES, other, [OWN]) for other in ("flat", *BASELINES)
            )
        },
    ),
    Claim(
        "Higher CPCC goes with better coarse and worse fine metrics.",
        "fig:hierarchical-baselines",
        "scatter",
        _trends(BY_L2),
        also_shown={"each by its own distance": _trends(OWN)},
    ),
    Claim(
        "All other hierarchical objectives are like Flat: lower coarse and higher fine metrics.",
        "fig:hierarchical-baselines",
        "scatter",
        AllOf(
            comparison
            for name in BASELINES
            if name != "rank"
            for comparison in (
                average_of(DISTANCES, "mean/coarse") > value(name, "mean/coarse"),
                value(name, "mean/fine") > average_of(DISTANCES, "mean/fine"),
            )
        ),
    ),
    Claim(
        "Rank is worse than Flat in every metric.",
        "tab:rank",
        "rank",
        _each_above(["flat"], "rank", (*FINE, *COARSE)),
        also_shown={
            "with the target of the library": AllOf(
                value("flat", m) > value("rank", m, {"target": "mean"}) for m in (*FINE, *COARSE)
            )
        },
    ),
)

_SETTINGS: tuple[Claim, ...] = (
    Claim(
        "FastFT > EMD > l2 at every batch size.",
        "fig:cpcc_ablation",
        "batch-size",
        _ordered("batch_size", BATCH_SIZES),
    ),
    Claim(
        "Larger batches give OT-CPCC a larger advantage over l2.",
        "sec:interpretability",
        "batch-size",
        AllOf(_advantage(name, BATCH_SIZES[-1]) > _advantage(name, BATCH_SIZES[0]) for name in STUDIED),
    ),
    Claim(
        "FastFT > EMD > l2 at every weight.",
        "fig:cpcc_ablation",
        "weight",
        _ordered("lambda", CPCC_WEIGHTS),
    ),
    Claim(
        "FastFT > EMD > l2 with every backbone.",
        "fig:cpcc_ablation",
        "backbone",
        _ordered("backbone", dict.fromkeys(name for names in BACKBONES.values() for name in names)),
        gpu="ResNet18 to 50 and the vision transformers",
    ),
    Claim(
        "Deeper trees are learned as well, at equal accuracy.",
        "tab:tree-depth-tab",
        "tree-depth",
        AllOf([_steady(OWN, "depth", DEPTHS, FAR), _steady(FULL_FINE, "depth", DEPTHS, COMPARABLE)]),
    ),
    Claim(
        "Distance matrices show the blocks of the tree at every depth.",
        "fig:tree-depth-distM",
        "tree-depth",
        AllOf(
            value(name, f"blocks/{level}", {"depth": depth}) < BLOCK
            for name in STUDIED
            for depth in DEPTHS
            for level in range(1, depth - 1)
        ),
    ),
    Claim(
        "A subtree of weight 4 lowers CPCC.",
        "tab:tree-weight-tab",
        "tree-weights",
        AllOf(value(name, OWN, {"weight": 1}) > value(name, OWN, {"weight": 4}) for name in STUDIED),
    ),
    Claim(
        "Weights of a subtree leave accuracies comparable.",
        "tab:tree-weight-tab",
        "tree-weights",
        AllOf(_steady(metric, "weight", SUBTREE_WEIGHTS, COMPARABLE) for metric in (FULL_FINE, FULL_COARSE)),
    ),
    Claim(
        "The block of the subtree darkens as its weight grows.",
        "fig:tree-weight-distM",
        "tree-weights",
        AllOf(
            value(name, "block-share", {"weight": more}) > value(name, "block-share", {"weight": less})
            for name in STUDIED
            for less, more in pairwise(SUBTREE_WEIGHTS)
        ),
    ),
    Claim(
        "With distance flow weights the tree is hardly recovered.",
        "tab:comparison_colored_normalized",
        "flow-weights",
        AllOf(
            value(name, OWN, {"flow_weights": "distance"})
            < 0.5 * value(name, OWN, {"flow_weights": "uniform"})
            for name in STUDIED
        ),
    ),
    Claim(
        "Flow weights can improve target metrics at the expense of source metrics, with every objective.",
        "tab:comparison_colored_normalized",
        "flow-weights",
        AllOf(AnyOf(_trade(name, scheme) for scheme in ("distance", "inverse")) for name in STUDIED),
    ),
    Claim(
        "(Beyond the paper) The knowledge in the tree helps, not the regularizer alone.",
        "-",
        "shuffled",
        AllOf(
            value(name, "source/map/coarse") > value(name, "source/map/coarse", control=True)
            for name in DISTANCES
        ),
    ),
    Claim(
        "(Beyond the paper) Principal order brings FastFT closer to EMD.",
        "-",
        "orders",
        AllOf(
            value(variant.objective, "order-error/principal order", variant.setting)
            < value(variant.objective, "order-error/batch order", variant.setting)
            for variant in ORDER_VARIANTS
        ),
    ),
    Claim(
        "(Beyond the paper) A memory of earlier batches raises TestCPCC at every batch size.",
        "-",
        "memory",
        AllOf(
            value(name, OWN, {"batch_size": size, "memory": 4096})
            > value(name, OWN, {"batch_size": size, "memory": 0})
            for name in STUDIED
            for size in MEMORY_BATCH_SIZES
        ),
    ),
)

CLAIMS: tuple[Claim, ...] = (*_SYNTHETIC, *_MAIN, *_SETTINGS)
