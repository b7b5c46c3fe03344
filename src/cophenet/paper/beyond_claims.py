"""Claims that the paper does not make: controls, the recommended objective, CPCC by other distances."""

from __future__ import annotations

from itertools import permutations

from cophenet.paper.expressions import AllOf, Claim, each_above, value
from cophenet.paper.variants import DISTANCES, MEMORY_BATCH_SIZES, ORDER_VARIANTS

__all__ = ["BEYOND_CLAIMS"]

_POINT = 0.01
# Metrics on the trained classes, source or full: those that the tree must not lower, and those it must raise.
_UNHURT = [
    f"{domain}/{name}"
    for domain in ("source", "full")
    for name in ("accuracy/fine", "accuracy/coarse", "map/fine")
]
_GAINED = ["source/map/coarse", "full/map/coarse", "cpcc/fastft-unit"]
_MODES = {"classes": "coarse"}

BEYOND_CLAIMS: tuple[Claim, ...] = (
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
        "(Beyond the paper) A shuffled tree is learned less well than the true one.",
        "-",
        "shuffled",
        AllOf(
            value(name, "cpcc/own") > value(name, "cpcc-trained-tree/own", control=True) for name in DISTANCES
        ),
    ),
    Claim(
        "(Beyond the paper) Cosine costs nothing against Flat: at most a point of accuracies and fine MAP.",
        "-",
        "objectives",
        AllOf(value("cosine", metric) > value("flat", metric) - _POINT for metric in _UNHURT),
        also_shown={"above": each_above(["cosine"], "flat", _UNHURT)},
    ),
    Claim(
        "(Beyond the paper) Cosine follows the tree: coarse MAP and CPCC of unit vectors above Flat's.",
        "-",
        "objectives",
        each_above(["cosine"], "flat", _GAINED),
    ),
    Claim(
        "(Beyond the paper) The knowledge in the tree helps Cosine: it is above its control in both.",
        "-",
        "objectives",
        AllOf(value("cosine", metric) > value("cosine", metric, control=True) for metric in _GAINED),
    ),
    Claim(
        "(Beyond the paper) Each of l2, EMD and FastFT has the best CPCC by its own distance.",
        "-",
        "yardsticks",
        AllOf(
            value(own, f"cpcc/{own}") > value(other, f"cpcc/{own}")
            for own, other in permutations(("l2", "emd", "fastft"), 2)
        ),
    ),
    Claim(
        "(Beyond the paper) OT retrieves classes of several modes better than l2, at both levels.",
        "-",
        "several-modes",
        AllOf(
            value(name, metric, _MODES) > value("l2", metric, _MODES)
            for name in ("fastft", "emd")
            for metric in ("full/map/fine", "full/map/coarse")
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
            value(name, "cpcc/own", {"batch_size": size, "memory": 4096})
            > value(name, "cpcc/own", {"batch_size": size, "memory": 0})
            for name in ("fastft", "emd")
            for size in MEMORY_BATCH_SIZES
        ),
    ),
)
