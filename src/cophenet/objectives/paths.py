"""The ancestors of each class on the device, and sums of probabilities along its path and by level.

In tree order the classes below a node are contiguous. A table over (labels, classes) of values that depend
only on the lowest common ancestor is therefore a cumulative sum: along the classes, each ancestor of the
label adds its step where its classes start and subtracts it where they end. Memory is that of the table,
whatever the depth of the tree.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from cophenet.tree import Hierarchy

__all__ = ["LevelMaps", "TreePaths", "group_logsumexp"]


class TreePaths(nn.Module):
    """The ancestors of each class from the root (depth 0) down; a shallow class is repeated below itself.

    Args:
        tree: The label tree, of height D with C classes.
    """

    position: Tensor
    start: Tensor
    stop: Tensor

    def __init__(self, tree: Hierarchy) -> None:
        super().__init__()
        ancestors = [tree.ancestors(depth) for depth in range(1, tree.height + 1)]
        self.nodes = np.stack([np.zeros_like(tree.leaves), *ancestors], axis=1)
        in_order = np.sort(tree.leaves)
        position = np.searchsorted(in_order, tree.leaves)
        start = np.searchsorted(in_order, self.nodes)
        stop = np.searchsorted(in_order, self.nodes + tree.sizes[self.nodes])
        for name, array in (("position", position), ("start", start), ("stop", stop)):
            self.register_buffer(name, torch.from_numpy(array), persistent=False)

    def along(self, node_values: NDArray[Any]) -> Tensor:
        """Values of the nodes on each class's path: (num_nodes,) -> (C, D + 1)."""
        return torch.from_numpy(node_values[self.nodes])

    def shared(self, values: Tensor, rows: Tensor, columns: Tensor | None = None) -> Tensor:
        """Value of the lowest common ancestor of every row label and every column label.

        Args:
            values: (C, D + 1) values of each class's ancestors, as from `along`.
            rows: (R,) labels.
            columns: (K,) labels; None for all classes in label order.

        Returns:
            (R, K) in the dtype of `values`.

        Example:
            >>> tree = Hierarchy.from_paths([("pet", "cat"), ("pet", "dog"), ("car", "bus")])
            >>> paths = TreePaths(tree)
            >>> paths.shared(paths.along(tree.heights), torch.tensor([0, 2]))
            tensor([[0, 1, 2],
                    [2, 2, 0]])
        """
        start, stop, place = self.start[rows], self.stop[rows], self.position
        if columns is not None:
            in_order, order = self.position[columns].sort()
            start, stop = torch.searchsorted(in_order, start), torch.searchsorted(in_order, stop)
            place = order.argsort()
        steps = values[rows]
        steps = torch.cat((steps[:, :1], steps.diff(dim=1)), dim=1)
        table = steps.new_zeros(len(rows), len(place) + 1)
        table.scatter_add_(1, start, steps).scatter_add_(1, stop, -steps)
        return table.cumsum_(1)[:, place]

    def logsumexp(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Log-sum-exp of the logits below each ancestor of the true class, the root first.

        Args:
            logits: (B, C).
            labels: (B,).

        Returns:
            (B, D + 1), decreasing from left to right; the last column is the true class's own logit.

        Example:
            >>> tree = Hierarchy.from_paths([("pet", "cat"), ("pet", "dog"), ("car", "bus")])
            >>> TreePaths(tree).logsumexp(torch.zeros(1, 3), torch.tensor([1])).exp()
            tensor([[3., 2., 1.]])
        """
        depths = torch.arange(self.start.shape[1], device=labels.device).expand_as(self.start)
        rings = self.shared(depths, labels)
        result: Tensor = _PathLogSumExp.apply(logits, rings, self.start.shape[1])  # type: ignore[no-untyped-call]
        return result


class _PathLogSumExp(torch.autograd.Function):
    """Nested log-sum-exps, from those of rings: the classes that leave the true path at the same depth."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, rings: Tensor, size: int) -> Tensor:
        peak = logits.new_full((len(logits), size), -torch.inf).scatter_reduce_(1, rings, logits, "amax")
        # A ring without classes has no peak; its sum is zero whatever is subtracted.
        peak.masked_fill_(peak == -torch.inf, 0.0)
        powers = (logits - peak.gather(1, rings)).exp_()
        sums = torch.zeros_like(peak).scatter_add_(1, rings, powers).log_().add_(peak)
        below = sums.flip(1).logcumsumexp(1).flip(1)
        ctx.save_for_backward(logits, rings, below)
        return below

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        logits, rings, below = ctx.saved_tensors
        # A class of ring r is part of the sums of depths 0..r; they are rescaled to that of depth r, the
        # smallest, so that no exponential overflows.
        shrink = below.diff(dim=1).exp()
        pulled = [grad[:, 0]]
        for depth in range(1, grad.shape[1]):
            pulled.append(pulled[-1] * shrink[:, depth - 1] + grad[:, depth])
        pull = torch.stack(pulled, dim=1)
        share = (logits - below.gather(1, rings)).exp_()
        return share.mul_(pull.gather(1, rings)), None, None


class LevelMaps(nn.Module):
    """The node of each class at each level, in the order of `tree.cut(level)`.

    Args:
        tree: The label tree, of height D with C classes; a class above a level is its own node there.

    Attributes:
        labels: (D, C) label of each class at each level, the coarsest first.

    Example:
        >>> tree = Hierarchy.from_paths([("pet", "cat"), ("car", "bus"), ("pet", "dog")])
        >>> maps = LevelMaps(tree)
        >>> maps.labels.tolist(), maps.parents(0).tolist()
        ([[0, 1, 0], [0, 1, 2]], [0, 1, 0])
    """

    labels: Tensor

    def __init__(self, tree: Hierarchy) -> None:
        super().__init__()
        maps = np.stack([tree.cut(depth)[1] for depth in range(1, tree.height + 1)])
        self.register_buffer("labels", torch.from_numpy(maps), persistent=False)
        for level in range(tree.height - 1):
            parents = np.zeros(maps[level + 1].max() + 1, dtype=np.int64)
            parents[maps[level + 1]] = maps[level]
            self.register_buffer(f"parents{level}", torch.from_numpy(parents), persistent=False)

    def parents(self, level: int) -> Tensor:
        """Label in row `level` of `labels` of each label in the next finer row."""
        return self.get_buffer(f"parents{level}")


def group_logsumexp(values: Tensor, groups: Tensor, num_groups: int) -> Tensor:
    """Log-sum-exp of columns by group; groups must not be empty.

    Args:
        values: (B, n), finite.
        groups: (n,) group of each column.
        num_groups: Number of groups.

    Returns:
        (B, num_groups), differentiable, and finite even if a group's sum would underflow.

    Example:
        >>> group_logsumexp(torch.zeros(1, 3), torch.tensor([0, 1, 0]), 2).exp()
        tensor([[2., 1.]])
    """
    index = groups.expand_as(values)
    peak = values.new_full((len(values), num_groups), -torch.inf)
    peak = peak.scatter_reduce(1, index, values.detach(), "amax")
    powers = (values - peak[:, groups]).exp()
    return torch.zeros_like(peak).index_add(1, groups, powers).log() + peak
