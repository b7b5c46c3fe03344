"""Decisions: predict the likeliest class, the class of least cost, or the deepest node above a threshold.

The last one follows the likeliest child from the root down, and stops where the summed probability of the
next node is below a threshold. With a higher threshold it stops at the same node or above, and a node is
right whenever a node below it is. The error therefore falls with the threshold, and conformal risk control
(Angelopoulos et al., ICLR 2024, arXiv:2208.02814, Theorem 1) finds a threshold with a guarantee: with n
held-out samples, the lowest one with (errors + 1) / (n + 1) at most the target. The expected error on new
samples of the same distribution is then at most the target, if the network that predicts is the one that
scored the held-out samples. With the default training each held-out sample is scored by one of four networks,
which predict together: there the guarantee is an estimate.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cophenet.metrics.decisions import expected_cost
from cophenet.objectives import TreePaths
from cophenet.tree import Hierarchy
from cophenet.tree.lookup_tables import tree_tables

__all__ = ["DECISIONS", "Walk", "decide", "first_wrong", "report", "threshold", "walk_down"]

DECISIONS = ("argmax", "expected-cost", "specific-if-confident")


class Walk(NamedTuple):
    """Paths of n samples down a tree.

    Attributes:
        nodes: (n, height) nodes by depth; a class is repeated at all depths below it.
        masses: (n, height) their summed probabilities, not increasing with depth.
    """

    nodes: Tensor
    masses: Tensor

    def stop(self, limit: float) -> Tensor:
        """The deepest nodes with a probability of at least `limit`, (n,); the root if there is none."""
        depth = (self.masses >= limit).sum(1, keepdim=True)
        return torch.cat((torch.zeros_like(depth), self.nodes), 1).gather(1, depth).squeeze(1)


def walk_down(probabilities: Tensor, tree: Hierarchy) -> Walk:
    """Follow the likeliest child from the root down.

    Args:
        probabilities: (n, C) of the classes.
        tree: The tree of the classes.

    Example:
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/")
        >>> nodes, sure = walk_down(torch.tensor([[0.25, 0.35, 0.4]]), tree)
        >>> [tree.names[node] for node in nodes[0]], sure
        (['pet', 'dog'], tensor([[0.6000, 0.3500]]))
    """
    tables = tree_tables(tree, probabilities.device)
    way = list(tables.lifts())
    levels = [
        sums for sums, _ in tables.level_sums(probabilities, torch.zeros_like(probabilities[:, 0]).long())
    ]
    at = torch.zeros(len(probabilities), dtype=torch.int64, device=probabilities.device)
    nodes, masses = [], []
    for (level, place), sums in zip(reversed(way), reversed(levels), strict=True):
        best = sums.masked_fill(place != at[:, None], -1.0).max(1)
        at = best.indices
        nodes.append(level[at])
        masses.append(best.values)
    # Sums may exceed their parent's by rounding.
    return Walk(torch.stack(nodes, 1), torch.stack(masses, 1).cummin(1).values)


def decide(probabilities: Tensor, tree: Hierarchy, decision: str, limit: float = 0.0) -> Tensor:
    """The predicted node of each sample.

    Args:
        probabilities: (n, C) of the classes.
        tree: The tree of the classes.
        decision: "argmax", "expected-cost" (least expected height of the lowest common ancestor) or
            "specific-if-confident".
        limit: Lowest probability of a predicted node, for "specific-if-confident".

    Returns:
        (n,) nodes.

    Example:
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/")
        >>> sure = torch.tensor([[0.25, 0.35, 0.4]])
        >>> [tree.names[decide(sure, tree, way, 0.5)] for way in DECISIONS]
        ['bus', 'dog', 'pet']
    """
    leaves = torch.from_numpy(tree.leaves.copy()).to(probabilities.device)
    if decision == "argmax":
        return leaves[probabilities.argmax(1)]
    if decision == "expected-cost":
        return leaves[expected_cost(probabilities, tree).argmin(1)]
    return walk_down(probabilities, tree).stop(limit)


def first_wrong(walk: Walk, labels: Tensor, tree: Hierarchy) -> Tensor:
    """Probability of the first wrong node on each path, 0 if there is none: (n,) float64.

    The prediction is wrong for thresholds up to this value, if it is above 0. Labels are (n,) classes.

    Example:
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/")
        >>> same = torch.tensor([[0.5, 0.25, 0.25]]).expand(3, 3)
        >>> first_wrong(walk_down(same, tree), torch.arange(3), tree)
        tensor([0.0000, 0.5000, 0.7500], dtype=torch.float64)
    """
    truth = torch.from_numpy(TreePaths(tree).nodes[:, 1:]).to(walk.nodes.device)[labels]
    return torch.where(walk.nodes == truth, 0.0, walk.masses.double()).amax(1)


def threshold(wrong: NDArray[np.float64], target: float, rare: float = 0.0) -> float | None:
    """The lowest threshold that guarantees the target; None if there are too few samples for a guarantee.

    Args:
        wrong: (n,) from `first_wrong`, on samples that were not used in training.
        target: Largest expected share of errors.
        rare: Share of new samples of kinds that are missing in these; all of them count as errors.

    Example:
        >>> round(threshold(np.linspace(0, 0.9, 10), 0.3), 3), threshold(np.zeros(10), 0.05)
        (0.7, None)
    """
    if rare >= target:
        return None
    allowed = math.floor((target - rare) / (1 - rare) * (len(wrong) + 1) + 1e-9) - 1
    if allowed < 0:
        return None
    if allowed >= len(wrong):
        return 0.0
    highest = np.sort(wrong)[::-1][allowed]
    return float(np.nextafter(highest, np.inf)) if highest > 0 else 0.0


def report(nodes: Tensor, labels: Tensor, tree: Hierarchy) -> dict[str, Any]:
    """Error rate and specificity of predictions.

    Args:
        nodes: (n,) predicted nodes.
        labels: (n,) true classes.
        tree: The tree of the classes.

    Returns:
        "samples"; "error", the share of predictions that are neither the class nor a node above it;
        "coverage", the share that are classes; "root", the share that are the root, which carries no
        information; "depth", the mean depth of the predictions; "depths", the share of predictions by depth.

    Example:
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/")
        >>> result = report(torch.tensor([1, 2]), torch.tensor([1, 1]), tree)
        >>> result["error"], result["coverage"], result["depth"], result["depths"]
        (0.5, 0.5, 1.5, [0.0, 0.5, 0.5])
    """
    answers, leaves = nodes.cpu().numpy(), tree.leaves[labels.cpu().numpy()]
    right = (answers <= leaves) & (leaves < answers + tree.sizes[answers])
    depths = tree.depths[answers]
    shares = np.bincount(depths, minlength=tree.height + 1) / len(answers)
    return {
        "samples": len(answers),
        "error": float(1 - right.mean()),
        "coverage": float((tree.heights[answers] == 0).mean()),
        "root": float(shares[0]),
        "depth": float(depths.mean()),
        "depths": shares.tolist(),
    }
