"""Remembered samples of earlier batches, which are appended to a batch as constants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cophenet.transport.class_layout import HostArrays

__all__ = ["Recalled", "amplify_gradients"]


@dataclass(frozen=True, eq=False)
class Recalled:
    """Remembered samples of earlier batches, to be appended to a batch as constants.

    Attributes:
        features: (M, d) all slots of the memory, including unused ones.
        weights: (M,) float64 masses, used if flow weights are given for the batch.
        rows: (m,) the slots in use.
        classes: (m,) classes of these, after regrouping.
    """

    features: Tensor
    weights: Tensor
    rows: NDArray[np.int64]
    classes: NDArray[np.int64]

    def behind(self, z: Tensor, groups: NDArray[np.int64], weights: Tensor | None) -> Tensor:
        """(B + M, d) the features of a batch, with amplified gradients, followed by the remembered ones."""
        return torch.cat((amplify_gradients(z, groups, self, weights), self.features.to(z.dtype)))


class _Amplified(torch.autograd.Function):
    """The identity, with the gradient of every row multiplied by a factor."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, factors: Tensor) -> Tensor:
        ctx.save_for_backward(factors)
        return rows.view_as(rows)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (factors,) = ctx.saved_tensors
        return grad * factors[:, None].to(grad.dtype), None


def amplify_gradients(
    features: Tensor, classes: NDArray[np.int64], recalled: Recalled, weights: Tensor | None = None
) -> Tensor:
    """The features, with gradients amplified to make up for the remembered samples of their class.

    Remembered samples have mass but no gradient, so the gradient of a batch would shrink as the memory fills.
    The gradient of a sample is therefore multiplied by the mass of its class over the batch's share of that
    mass, which gives it the size it has without a memory.

    Args:
        features: (B, d).
        classes: (B,) class numbers, starting at 0.
        recalled: The remembered samples.
        weights: (B,) masses of the samples; None for equal ones.

    Example:
        >>> z = torch.zeros(2, 1, requires_grad=True)
        >>> recalled = Recalled(torch.zeros(3, 1), torch.ones(3), np.arange(3), np.array([0, 0, 0]))
        >>> amplify_gradients(z, np.array([0, 1]), recalled).sum().backward()
        >>> z.grad.flatten().tolist()
        [4.0, 1.0]
    """
    count = int(max(classes.max(), recalled.classes.max(initial=0))) + 1
    if weights is None:
        own, rest = (np.bincount(part, minlength=count)[classes] for part in (classes, recalled.classes))
        factors = torch.from_numpy(1 + rest / own).to(features.device, non_blocking=True)
    else:
        moved = HostArrays({"own": classes, "rows": recalled.rows, "classes": recalled.classes})
        at, empty = moved.on(features.device), features.new_zeros(count, dtype=torch.float64)
        mass = empty.index_add(0, at["own"], weights.detach().double())[at["own"]]
        old = empty.index_add(0, at["classes"], recalled.weights[at["rows"]])[at["own"]]
        factors = torch.where(mass > 0, 1 + old / mass, 1.0)
    amplified: Tensor = _Amplified.apply(features, factors)  # type: ignore[no-untyped-call]
    return amplified
