"""Claims about settings: batch size, weight, backbone, tree, flow weights, orders, memory, and the control.

To add one, add an entry here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise, permutations
from typing import Any

from cophenet.paper.expressions import AllOf, AnyOf, Claim, Expression, chain, value
from cophenet.paper.variants import (
    BACKBONES,
    BATCH_SIZES,
    CPCC_WEIGHTS,
    DEPTHS,
    DISTANCES,
    MEMORY_BATCH_SIZES,
    ORDER_VARIANTS,
    SUBTREE_WEIGHTS,
)

__all__ = ["SETTING_CLAIMS"]

OWN = "cpcc/own"
FULL_FINE, FULL_COARSE = "full/accuracy/fine", "full/accuracy/coarse"
# The objectives of the studies of trees, flow weights and memory.
STUDIED = ("fastft", "emd")
# Two points of a metric count as comparable, ten as far. A block shows if distances inside are 0.8 of others.
COMPARABLE, FAR, BLOCK = 0.02, 0.1, 0.8


def _ordered(name: str, values: Iterable[Any]) -> AllOf:
    """FastFT > EMD > l2, each by its own distance, at every value of a setting."""
    return AllOf(chain(("fastft", "emd", "l2"), OWN, {name: each}) for each in values)


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


def _blocks() -> AllOf:
    """Distances inside the groups of every level clearly below those outside, whatever the depth."""
    return AllOf(
        value(name, f"blocks/{level}", {"depth": depth}) < BLOCK
        for name in STUDIED
        for depth in DEPTHS
        for level in range(1, depth - 1)
    )


SETTING_CLAIMS: tuple[Claim, ...] = (
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
        AllOf(value(name, OWN) > value(name, "cpcc-trained-tree/own", control=True) for name in DISTANCES),
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
