"""Levels of a tree as targets, cross entropy of all of them at once, and how much the tree decides."""

from __future__ import annotations

import numbers
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cophenet._common.checks import wrong_argument
from cophenet.estimator.labels import classes_below
from cophenet.tree import Hierarchy

__all__ = ["AUTO", "LevelLoss", "Levels", "TreeWeights", "find_levels", "tree_weights"]

Ints = NDArray[np.int64]

# What "auto" is of the dial from 0, where the tree decides nothing, to 1, where it does as far as possible.
AUTO = 0.3


class Levels(NamedTuple):
    """Levels of a tree, those left out that tell no more apart than the one above; the classes are the last.

    Attributes:
        targets: (levels, C + m) the node that a sample of each label is at each level, -1 where an inner node
            that is a label says nothing. Nodes are the classes, and then the others in the order of levels.
        members: (levels, nodes) 1 for the nodes of each level.
    """

    targets: Tensor
    members: Tensor


def find_levels(tree: Hierarchy, inner: Ints) -> Levels:
    """The levels of a tree with C classes.

    Args:
        tree: The tree.
        inner: (m,) inner nodes that are labels.

    Example:
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "bus"], sep="/")
        >>> find_levels(tree, np.array([tree.node("pet")]))
        Levels(targets=tensor([[ 3,  3,  2,  3],
                [ 0,  1,  2, -1]]), members=tensor([[0., 0., 1., 1.],
                [1., 1., 1., 0.]]))
    """
    below, classes = classes_below(tree, inner), np.arange(tree.num_classes)
    # Levels are parts of one another: nodes with the same first class and as many classes are the same.
    nodes = {(c, 1): c for c in classes.tolist()}
    targets, own, before = [], [], 1
    for depth in range(1, tree.height + 1):
        place = tree.cut(depth)[1]
        count = int(place.max()) + 1
        if count == before:
            continue
        first = np.full(count, tree.num_classes)
        np.minimum.at(first, place, classes)
        keys = zip(first.tolist(), np.bincount(place).tolist(), strict=True)
        node = np.array([nodes.setdefault(key, len(nodes)) for key in keys])
        low = np.where(below, place, count).min(1, initial=count)
        high = np.where(below, place, -1).max(1, initial=-1)
        targets.append(np.concatenate((node[place], np.where(low == high, node[low % count], -1))))
        own.append(node)
        before = count
    members = torch.zeros(len(own), len(nodes))
    for level, node in enumerate(own):
        members[level, node] = 1
    return Levels(torch.from_numpy(np.stack(targets).astype(np.int64)), members)


class LevelLoss(torch.autograd.Function):
    """The sum of a log(sum of exp(s_v), nodes v of a level) over samples and levels, less the sum of b s_y.

    With a = b = 1 and the true nodes y that is cross entropy of logits s = <z, w>. The gradient is known in
    closed form: few passes over the memory, and all of them along it.
    """

    @staticmethod
    def forward(
        ctx: Any,
        vectors: Tensor,
        rows: Tensor,
        nodes: Tensor,
        weights: Tensor,
        targets: Tensor,
        shares: Tensor,
    ) -> Tensor:
        """Of all members; logits may be some 80 at most.

        Args:
            ctx: Of autograd.
            vectors: (members, B, size), z.
            rows: (members, nodes, size), w.
            nodes: (levels, nodes) 1 for the nodes of each level.
            weights: (members, B, levels), a.
            targets: (members, B, k) true nodes, y.
            shares: (members, B, k), b.
        """
        logits = torch.bmm(vectors, rows.transpose(1, 2))
        own = (shares * logits.gather(2, targets)).sum()
        # Small as they are, their exponentials can be added.
        exponentials = logits.exp_()
        sums = exponentials @ nodes.T
        gradient = ((weights / sums) @ nodes).mul_(exponentials).scatter_add_(2, targets, -shares)
        ctx.save_for_backward(vectors, rows, gradient)
        return (weights * sums.log()).sum() - own

    @staticmethod
    def backward(ctx: Any, given: Tensor) -> tuple[Tensor | None, ...]:
        """Of vectors and rows."""
        vectors, rows, gradient = ctx.saved_tensors
        gradient = gradient * given
        own = torch.bmm(gradient, rows), torch.bmm(gradient.transpose(1, 2), vectors)
        return *own, None, None, None, None


class TreeWeights(NamedTuple):
    """Weights of the terms of the loss that know the tree.

    Attributes:
        levels: Of the cross entropies of L levels above the classes, each divided by the root of L.
        cpcc: Of 1 - CPCC of the class means.
    """

    levels: float
    cpcc: float


def tree_weights(strength: object) -> TreeWeights:
    """The weights that a setting of the dial stands for.

    Args:
        strength: From 0 to 1; "auto" is 0.3.

    Raises:
        ValueError: If it is something else.

    Example:
        >>> tree_weights(0), tree_weights("auto")
        (TreeWeights(levels=0.0, cpcc=0.0), TreeWeights(levels=0.5, cpcc=0.1))
        >>> tree_weights(2)
        Traceback (most recent call last):
        ValueError: tree_strength must be a number from 0 to 1 or 'auto', got 2
    """
    value = AUTO if isinstance(strength, str) and strength == "auto" else strength
    if not isinstance(value, numbers.Real) or isinstance(value, bool) or not 0 <= float(value) <= 1:
        raise wrong_argument("tree_strength", f"must be a number from 0 to 1 or 'auto', got {strength!r}")
    share = float(value) / AUTO
    return TreeWeights(min(1.0, 0.5 * share), 0.1 * share**3)
