"""Claims of the paper, as data.

A measured claim has a criterion over the observations of an item (`expressions`), which is judged on every
data set and at every scale (`verdicts`). Thresholds are ours, as the paper has none. Claims about times and
errors of distances are in `cost_claims`, claims beyond the paper in `beyond_claims`, and claims that need no
measurement in `proofs`. To add a claim, add an entry. The page of claims begins with `claims.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

from cophenet.paper.beyond_claims import BEYOND_CLAIMS
from cophenet.paper.cost_claims import COST_CLAIMS
from cophenet.paper.expressions import (
    AllOf,
    AnyOf,
    Claim,
    Expression,
    average_of,
    best_of,
    chain,
    each_above,
    near,
    value,
)
from cophenet.paper.mixture_modes import MODES
from cophenet.paper.variants import (
    BACKBONES,
    BASELINES,
    BATCH_SIZES,
    BREEDS,
    CPCC_WEIGHTS,
    DEPTHS,
    DISTANCES,
    PAPER_DATA,
    SUBTREE_WEIGHTS,
)

__all__ = ["CLAIMS", "HEAD", "Claim"]

OT = tuple(name for name in DISTANCES if name != "l2")
# The objectives of the studies of trees, flow weights and memory.
STUDIED = ("fastft", "emd")
OWN, BY_L2 = "cpcc/own", "cpcc/l2"
FINE = ("source/accuracy/fine", "target/accuracy/fine", "source/map/fine")
COARSE = ("source/accuracy/coarse", "target/accuracy/coarse", "source/map/coarse", "target/map/coarse")
FULL_FINE, FULL_COARSE = "full/accuracy/fine", "full/accuracy/coarse"
DIAGONAL, FULL = (f"components/{way}" for way in MODES)
NULL_DIAGONAL, NULL_FULL = (f"components-null/{way}" for way in MODES)
# The generalisation tables have the four BREEDS settings as one data set.
TABLES = ("cifar10", "cifar100", "inat21-mini", "breeds")
# Differences of two points of a metric, or two percent of a size, count as comparable; ten points count as
# far. A block is visible if the mean distance inside is below 0.8 of that outside.
COMPARABLE, FAR, BLOCK = 0.02, 0.1, 0.8
# Correlations over 14 objectives that are smaller than this may be zero.
WEAK_CORRELATION = 2 / 14**0.5


def _bounds(bound: str, others: Sequence[str], metrics: Sequence[str]) -> AllOf:
    """The criterion that an objective is above each of others, in every metric."""
    return AllOf(value(bound, m) > value(other, m) for other in others for m in metrics)


def _average_above(other: str, metrics: Sequence[str]) -> AllOf:
    """The criterion that the mean of the OT objectives is above; the best would be above by chance alone."""
    return AllOf(average_of(OT, m) > value(other, m) for m in metrics)


def _trends(cpcc: str) -> AllOf:
    """The criterion that coarse metrics grow with CPCC over objectives, and fine ones fall."""
    coarse, fine = (value("", f"correlation/{cpcc}/{level}") for level in ("coarse", "fine"))
    return AllOf([(coarse > 0.0).with_floor(WEAK_CORRELATION), (fine < 0.0).with_floor(WEAK_CORRELATION)])


_OBJECTIVES: tuple[Claim, ...] = (
    Claim(
        "The data sets have the sizes of the table.",
        "tab:data-stats",
        "data",
        AllOf(near(value("", f"samples/{part}/of-printed"), 1.0, COMPARABLE) for part in ("train", "test")),
        PAPER_DATA,
    ),
    Claim(
        "CPCC training embeds the tree: TestCPCC far above Flat's.",
        "tab:testcpcc",
        "testcpcc",
        each_above(DISTANCES, "flat", [BY_L2], FAR),
        PAPER_DATA,
        also_shown={"each by its own distance": each_above(DISTANCES, "flat", [OWN], FAR)},
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
        also_shown={"each OT objective alone": each_above(OT, "l2", FINE)},
    ),
    Claim(
        "OT-CPCC is better than Flat on coarse tasks.",
        "tab:coarse",
        "coarse",
        _average_above("flat", COARSE),
        TABLES,
        also_shown={"each OT objective alone": each_above(OT, "flat", COARSE)},
    ),
    Claim(
        "FastFT is competitive on fine tasks, in every metric.",
        "abstract",
        "fine",
        each_above(["fastft"], "emd", FINE, -COMPARABLE),
        TABLES,
    ),
    Claim(
        "FastFT is competitive on coarse tasks, in every metric.",
        "abstract",
        "coarse",
        each_above(["fastft"], "emd", COARSE, -COMPARABLE),
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
        each_above(["emd"], "l2", FINE),
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
        AllOf(each_above(DISTANCES, other, [BY_L2]) for other in ("flat", *BASELINES)),
        also_shown={
            "each by its own distance": AllOf(
                each_above(DISTANCES, other, [OWN]) for other in ("flat", *BASELINES)
            )
        },
    ),
    Claim(
        "Soft labels embed the tree far better than Flat, though less than CPCC.",
        "fig:hierarchical-baselines",
        "baselines",
        AllOf([each_above(["soft"], "flat", [BY_L2], FAR), each_above(["l2"], "soft", [BY_L2])]),
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
        each_above(["flat"], "rank", (*FINE, *COARSE)),
        also_shown={
            "with the target of the library": AllOf(
                value("flat", m) > value("rank", m, {"target": "mean"}) for m in (*FINE, *COARSE)
            )
        },
    ),
)


def _ordered(name: str, values: Iterable[Any]) -> AllOf:
    """The criterion that FastFT > EMD > l2, each by its own distance, at every value of a setting."""
    return AllOf(chain(("fastft", "emd", "l2"), OWN, {name: each}) for each in values)


def _steady(metric: str, name: str, values: Sequence[Any], limit: float) -> AllOf:
    """The criterion that a metric differs by less than a limit between any two values of a setting."""
    return AllOf(
        value(objective, metric, {name: a}) > value(objective, metric, {name: b}) - limit
        for objective in STUDIED
        for a, b in permutations(values, 2)
    )


def _trade(objective: str, scheme: str) -> AllOf:
    """The criterion that flow weights by a scheme raise mean target metrics and lower mean source metrics."""
    changed, uniform = ({"flow_weights": name} for name in (scheme, "uniform"))
    target, source = "mean/target", "mean/source"
    return AllOf(
        [
            value(objective, target, changed) > value(objective, target, uniform),
            value(objective, source, changed) < value(objective, source, uniform),
        ]
    )


def _advantage(objective: str, size: int) -> Expression:
    """The expression of the advantage of an objective over l2 at a batch size."""
    return value(objective, OWN, {"batch_size": size}) - value("l2", OWN, {"batch_size": size})


def _blocks() -> AllOf:
    """The criterion that distances inside groups of every level are below those outside, at any depth."""
    return AllOf(
        value(name, f"blocks/{level}", {"depth": depth}) < BLOCK
        for name in STUDIED
        for depth in DEPTHS
        for level in range(1, depth - 1)
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
        "Deeper trees are learned as well, at equal accuracy: CPCC is as high, and every level shows.",
        "tab:tree-depth-tab",
        "tree-depth",
        AllOf(
            [_steady(OWN, "depth", DEPTHS, FAR), _steady(FULL_FINE, "depth", DEPTHS, COMPARABLE), _blocks()]
        ),
    ),
    Claim(
        "Distance matrices show the blocks of the tree at every depth.",
        "fig:tree-depth-distM",
        "tree-depth",
        _blocks(),
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
)


# The beginning of the page: how claims are judged.
HEAD = Path(__file__).with_suffix(".md").read_text(encoding="utf-8")

CLAIMS: tuple[Claim, ...] = (*COST_CLAIMS, *_OBJECTIVES, *_SETTINGS, *BEYOND_CLAIMS)
