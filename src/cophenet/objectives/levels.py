"""Labels at every level of a tree, and sums of probabilities from one level to the next."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from cophenet.tree import Hierarchy

__all__ = ["LevelMaps", "group_logsumexp"]


class LevelMaps(nn.Module):
    """Which node each class belongs to at each level, in the order of `tree.cut(level)`.

    Args:
        tree: The label tree, of height D with C classes; a class above a level stands for itself there.

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
        """Label at row `level` of `labels` of each label at the next finer row."""
        return self.get_buffer(f"parents{level}")


def group_logsumexp(values: Tensor, groups: Tensor, num_groups: int) -> Tensor:
    """Log-sum-exp of columns by group; no group may be empty.

    Args:
        values: (B, n), finite.
        groups: (n,) group of each column.
        num_groups: How many groups there are.

    Returns:
        (B, num_groups), differentiable, finite also where a group's sum would underflow.

    Example:
        >>> group_logsumexp(torch.zeros(1, 3), torch.tensor([0, 1, 0]), 2).exp()
        tensor([[2., 1.]])
    """
    index = groups.expand_as(values)
    peak = values.new_full((len(values), num_groups), -torch.inf)
    peak = peak.scatter_reduce(1, index, values.detach(), "amax")
    powers = (values - peak[:, groups]).exp()
    return torch.zeros_like(peak).index_add(1, groups, powers).log() + peak
