"""Claims about trained networks, by the main tables of the paper; to add one, add an entry here."""

from __future__ import annotations

from collections.abc import Sequence

from cophenet.paper.expressions import AllOf, Claim, average_of, best_of, each_above, near, value
from cophenet.paper.modes import MODES
from cophenet.paper.variants import BASELINES, BREEDS, DISTANCES, PAPER_DATA

__all__ = ["TRAINING_CLAIMS"]

OT = tuple(name for name in DISTANCES if name != "l2")
OWN, BY_L2 = "cpcc/own", "cpcc/l2"
FINE = ("source/accuracy/fine", "target/accuracy/fine", "source/map/fine")
COARSE = ("source/accuracy/coarse", "target/accuracy/coarse", "source/map/coarse", "target/map/coarse")
DIAGONAL, FULL = (f"components/{way}" for way in MODES)
NULL_DIAGONAL, NULL_FULL = (f"components-null/{way}" for way in MODES)
# The tables of generalisation have the four BREEDS settings as one.
TABLES = ("cifar10", "cifar100", "inat21-mini", "breeds")
# Two points of a metric, or two percent of a size, count as comparable; ten points as far.
COMPARABLE, FAR = 0.02, 0.1
# Correlations over 14 objectives that are less may be zero.
WEAK_CORRELATION = 2 / 14**0.5


def _bounds(bound: str, others: Sequence[str], metrics: Sequence[str]) -> AllOf:
    """An objective above each of others, in every metric."""
    return AllOf(value(bound, m) > value(other, m) for other in others for m in metrics)


def _average_above(other: str, metrics: Sequence[str]) -> AllOf:
    """The mean of the OT objectives, as the best of them would be above by chance alone."""
    return AllOf(average_of(OT, m) > value(other, m) for m in metrics)


def _trends(cpcc: str) -> AllOf:
    """Coarse metrics that grow with CPCC over objectives, and fine ones that fall."""
    coarse, fine = (value("", f"correlation/{cpcc}/{level}") for level in ("coarse", "fine"))
    return AllOf([(coarse > 0.0).with_floor(WEAK_CORRELATION), (fine < 0.0).with_floor(WEAK_CORRELATION)])


TRAINING_CLAIMS: tuple[Claim, ...] = (
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
