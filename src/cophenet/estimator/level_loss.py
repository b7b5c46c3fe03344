"""Targets for the levels of a tree, their joint cross entropy, and loss weights for `tree_strength`."""

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

# The value of tree_strength for "auto"; at 0 the tree has no influence, at 1 as much as possible.
AUTO = 0.3


class Levels(NamedTuple):
    """Levels of a tree, except those with no more groups than the level above; the classes are the last.

    Attributes:
        targets: (levels, C + m) the node of each label at each level, -1 where a label that is an inner node
            does not determine it. Nodes are numbered: first the classes, then the others in the order of
            levels.
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
    # Levels are nested: nodes with the same first class and the same number of classes are the same.
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
    """Sum over samples and levels of a log(sum of exp(s_v), nodes v of a level), minus the sum of b s_y.

    With a = b = 1 and true nodes y this is the cross entropy of logits s = <z, w>. The gradient is computed
    in closed form: few passes over memory, all of them sequential.
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
        """The loss, summed over members; logits must be at most about 80, so that exp does not overflow.

        Args:
            ctx: Context of autograd.
            vectors: (members, B, size), z.
            rows: (members, nodes, size), w.
            nodes: (levels, nodes) 1 for the nodes of each level.
            weights: (members, B, levels), a.
            targets: (members, B, k) true nodes, y.
            shares: (members, B, k), b.
        """
        logits = torch.bmm(vectors, rows.transpose(1, 2))
        own = (shares * logits.gather(2, targets)).sum()
        # The logits are small enough to sum their exponentials directly.
        exponentials = logits.exp_()
        sums = exponentials @ nodes.T
        gradient = ((weights / sums) @ nodes).mul_(exponentials).scatter_add_(2, targets, -shares)
        ctx.save_for_backward(vectors, rows, gradient)
        return (weights * sums.log()).sum() - own

    @staticmethod
    def backward(ctx: Any, given: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of vectors and rows."""
        vectors, rows, gradient = ctx.saved_tensors
        gradient = gradient * given
        own = torch.bmm(gradient, rows), torch.bmm(gradient.transpose(1, 2), vectors)
        return *own, None, None, None, None


class TreeWeights(NamedTuple):
    """Weights of the loss terms that use the tree.

    Attributes:
        levels: Weight of the cross entropies of L levels above the classes, each divided by the root of L.
        cpcc: Weight of 1 - CPCC of the class means.
    """

    levels: float
    cpcc: float


def tree_weights(strength: object) -> TreeWeights:
    """The loss weights for a value of `tree_strength`.

    Args:
        strength: From 0 to 1; "auto" is 0.3.

    Raises:
        ValueError: If it is anything else.

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
