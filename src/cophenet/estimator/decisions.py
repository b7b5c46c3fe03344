"""Which node to answer: the likeliest class, the cheapest one, or the deepest node that is sure enough.

The last walks down from the root to the likeliest child each time, and stops where the next node's summed
probability is below a threshold. A higher threshold stops no later, and a node is right whenever one below
it is, so that the error falls with the threshold, and conformal risk control (Angelopoulos et al., ICLR
2024, arXiv:2208.02814, Theorem 1) finds the threshold that keeps a promise: with n held-out samples, the
lowest one with (errors + 1) / (n + 1) at most the target. The expected error on new samples of the same kind
is then at most the target, if the network that answers is the one that scored the held-out samples. Those of
the default are each scored by one of four networks, which answer together: there it is an estimate.
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
from cophenet.tree.tables import tree_tables

__all__ = ["DECISIONS", "Walk", "decide", "first_wrong", "report", "threshold", "walk_down"]

DECISIONS = ("argmax", "expected-cost", "specific-if-confident")


class Walk(NamedTuple):
    """The way of n samples down a tree.

    Attributes:
        nodes: (n, height); a class is repeated below itself.
        masses: (n, height) their summed probabilities, falling.
    """

    nodes: Tensor
    masses: Tensor

    def stop(self, limit: float) -> Tensor:
        """The deepest nodes that are sure enough, (n,); the root where none is."""
        depth = (self.masses >= limit).sum(1, keepdim=True)
        return torch.cat((torch.zeros_like(depth), self.nodes), 1).gather(1, depth).squeeze(1)


def walk_down(probabilities: Tensor, tree: Hierarchy) -> Walk:
    """The likeliest child of the likeliest child, and so on.

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
    """The node that answers each sample.

    Args:
        probabilities: (n, C) of the classes.
        tree: The tree of the classes.
        decision: "argmax", "expected-cost" (least expected height of the lowest common ancestor) or
            "specific-if-confident".
        limit: What a node needs to be sure enough for the last one.

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
    """How sure the first wrong node on the way down is, 0 where there is none: (n,) float64.

    A threshold at most this high makes the sample an error. Labels are (n,) classes.

    Example:
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/")
        >>> same = torch.tensor([[0.5, 0.25, 0.25]]).expand(3, 3)
        >>> first_wrong(walk_down(same, tree), torch.arange(3), tree)
        tensor([0.0000, 0.5000, 0.7500], dtype=torch.float64)
    """
    truth = torch.from_numpy(TreePaths(tree).nodes[:, 1:]).to(walk.nodes.device)[labels]
    return torch.where(walk.nodes == truth, 0.0, walk.masses.double()).amax(1)


def threshold(wrong: NDArray[np.float64], target: float, rare: float = 0.0) -> float | None:
    """The lowest threshold that promises the target; None if there are too few samples to promise it.

    Args:
        wrong: (n,) of `first_wrong` on samples that training has not seen.
        target: Largest expected share of errors.
        rare: Share of new samples that are like none of these; all count as errors.

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
    """What answers are worth: how often they are right, and how much they say.

    Args:
        nodes: (n,) answers.
        labels: (n,) classes.
        tree: The tree of the classes.

    Returns:
        "samples"; "error", the share of answers that the class does not lie below; "coverage", the share that
        are classes; "root", the share that are the root and so say nothing; "depth", the mean depth of the
        answers; "depths", the share of answers by depth.

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
