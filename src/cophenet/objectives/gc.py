"""Geometric consistency: a node's classifier weight points in the direction of its children's sum."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn

from cophenet.objectives.base import StepOutput
from cophenet.objectives.consistency import Consistency
from cophenet.objectives.registry import register_objective
from cophenet.transport.grouping import unit_rows

__all__ = ["GC", "geometric_consistency"]


def geometric_consistency(
    coarse_weight: Tensor, fine_weight: Tensor, parents: Tensor, variant: Literal["paper", "haf"] = "paper"
) -> Tensor:
    r"""1 - cosine of each node's weight and the sum of its children's weights.

    .. math::

        \sum_i \left( 1 - \cos\left( W_i, \sum_{j \text{ child of } i} W'_j \right) \right)

    W are the coarse, W' the fine weights. Garg et al., ECCV 2022, arXiv:2207.12646.

    Args:
        coarse_weight: (m, d).
        fine_weight: (n, d).
        parents: (n,) coarse label of each fine label.
        variant: "paper" sums over the nodes; "haf" averages, and first scales each child to norm one.

    Returns:
        A scalar.

    Example:
        >>> coarse, fine = torch.tensor([[2.0, 2.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> geometric_consistency(coarse, fine, torch.tensor([0, 0])).abs() < 1e-6
        tensor(True)
    """
    children = unit_rows(fine_weight) if variant == "haf" else fine_weight
    sums = torch.zeros_like(coarse_weight).index_add(0, parents, children)
    gaps = 1 - (unit_rows(coarse_weight) * unit_rows(sums)).sum(1)
    return gaps.mean() if variant == "haf" else gaps.sum()


@register_objective
class GC(Consistency):
    r"""Cross entropy of the classes and the consistency of adjacent heads' weights.

    .. math::

        \mathrm{loss} = \mathrm{CE} + \lambda \sum_l \sum_i
        \left( 1 - \cos\left( W^l_i, \sum_{j \text{ child of } i} W^{l+1}_j \right) \right)

    Garg, Sani and Anand, "Learning Hierarchy Aware Features for Reducing Mistake Severity", ECCV 2022,
    arXiv:2207.12646 (its geometric loss); appendix G of the OT-CPCC paper (arXiv:2410.03052).

    Only the finest head has a cross entropy. The heads must be modules with a `weight`, one row per output.

    Args:
        tree: The label tree, with at least two levels.
        weight: Weight of the consistency term.
        variant: "paper"; or "haf", as in the authors' code: children of norm one, the mean over the nodes of
            a level, and heads whose logits are computed with weight rows of norm one.
    """

    name = "gc"

    def check_heads(self, step: StepOutput) -> None:
        """Raise if a head has no weight with one row per output."""
        if not isinstance(step.heads, (Mapping, nn.ModuleDict)):
            raise ValueError(f"heads must be modules by head name, got {type(step.heads).__name__}")
        modules = dict(step.heads.items())
        for head in self.heads:
            module = modules.get(head.name)
            weight = getattr(module, "weight", None)
            if not isinstance(weight, Tensor):
                raise ValueError(f"heads must hold a module with a weight for {head.name!r}, got {module}")
            shape = (head.num_outputs, step.features.shape[1])
            if weight.shape != shape:
                given = tuple(weight.shape)
                raise ValueError(f"the weight of head {head.name!r} must have shape {shape}, got {given}")

    def gaps(self, step: StepOutput) -> list[Tensor]:
        """1 - cosine of the heads' weights, level by level."""
        rows: list[Tensor] = [step.heads[head.name].weight for head in self.heads]  # type: ignore[misc]
        rows = [row if row.dtype == torch.float64 else row.float() for row in rows]
        return [
            geometric_consistency(coarse, fine, self.maps.parents(level), self.variant)
            for level, (coarse, fine) in enumerate(pairwise(rows))
        ]
