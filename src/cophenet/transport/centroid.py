"""Distances between class centroids: l2, l1 and the Poincare distance."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from cophenet._common.checks import check_number, wrong_argument
from cophenet.transport.base import ClassDistance, register_distance
from cophenet.transport.batch import ClassBatch
from cophenet.transport.point_distances import distances_of_means, euclidean

__all__ = ["L1", "L2", "Poincare"]


@register_distance
class L2(ClassDistance):
    r"""Euclidean distance of the (weighted) class means.

    .. math::

        \rho(u, v) = \left\| \sum_i a_i z_i - \sum_j b_j z'_j \right\|_2

    Used by l2-CPCC: Zeng, Tachet des Combes and Zhao, "Learning Structured Representations by Embedding Class
    Hierarchy", ICLR 2023; section 2.1 of the OT-CPCC paper (arXiv:2410.03052). A lower bound of "emd", which
    it equals for Gaussians of one covariance (Proposition 3.1 there).

    Example:
        >>> from cophenet.transport.grouping import group_by_class
        >>> z = torch.tensor([[0.0, 0.0], [2.0, 0.0], [1.0, 5.0]])
        >>> L2()(group_by_class(z, torch.tensor([0, 0, 1])))
        tensor([5.])
    """

    name = "l2"
    pair_cost = "none"
    degree = 1
    stateless = True
    wide = True
    traceable = True

    def forward(self, batch: ClassBatch) -> Tensor:
        """(P,) distances of the batch's pairs."""
        return distances_of_means(batch)


@register_distance
class L1(ClassDistance):
    r"""Sum of absolute differences of the (weighted) class means.

    .. math::

        \rho(u, v) = \left\| \sum_i a_i z_i - \sum_j b_j z'_j \right\|_1

    "l2" with another norm (section 2.1 of the OT-CPCC paper, arXiv:2410.03052).

    Example:
        >>> from cophenet.transport.grouping import group_by_class
        >>> z = torch.tensor([[0.0, 0.0], [2.0, 0.0], [2.0, 5.0]])
        >>> L1()(group_by_class(z, torch.tensor([0, 0, 1])))
        tensor([6.])
    """

    name = "l1"
    pair_cost = "none"
    degree = 1
    stateless = True

    def forward(self, batch: ClassBatch) -> Tensor:
        """(P,) distances of the batch's pairs."""
        means = batch.means()
        table = torch.cdist(means, means, p=1.0)
        return table[batch.on_device(batch.first), batch.on_device(batch.second)].to(batch.given.dtype)

    def magnitude(self, batch: ClassBatch) -> Tensor:
        """The largest l1 norm of a sample."""
        return batch.largest_norm(1)


@register_distance
class Poincare(ClassDistance):
    r"""Hyperbolic distance of the (weighted) class means, all scaled to one norm inside the unit ball.

    .. math::

        \rho(u, v) = \operatorname{arccosh}\left( 1 + \frac{2 \|x - y\|^2}{(1 - \|x\|^2)(1 - \|y\|^2)} \right)

    x is the mean of class u scaled to length `norm`, y that of class v.

    The Poincare ball's distance: Nickel and Kiela, "Poincare Embeddings for Learning Hierarchical
    Representations", NeurIPS 2017, arXiv:1705.08039, equation 1.

    All means get the same norm, including those already inside the ball, so that training and
    evaluation use one formula. Means whose directions agree up to rounding of the features have distance 0; a
    mean that is 0 up to rounding has no direction and is placed at the origin. Otherwise the factor
    1 / (1 - norm^2) would turn rounding errors into distances.

    Args:
        norm: The norm every mean is rescaled to, below 1.

    Example:
        >>> from cophenet.transport.grouping import group_by_class
        >>> z = torch.tensor([[3.0, 0.0], [0.0, 4.0]])
        >>> Poincare(norm=0.5)(group_by_class(z, torch.tensor([0, 1])))
        tensor([1.6807])
    """

    name = "poincare"
    pair_cost = "none"
    degree = 0
    stateless = True

    def __init__(self, norm: float = 1 - 1e-5) -> None:
        super().__init__()
        check_number("norm", norm, least=False)
        if norm >= 1:
            raise wrong_argument("norm", f"must be below 1, got {norm}")
        self.norm = norm

    def forward(self, batch: ClassBatch) -> Tensor:
        """(P,) distances of the batch's pairs."""
        means = batch.means()
        first, second = batch.on_device(batch.first), batch.on_device(batch.second)
        rounding = batch.largest_norm() * batch.resolution
        length = torch.linalg.vector_norm(means, dim=1, keepdim=True)
        directed = ~(length <= rounding)  # True for NaN, which must not be hidden
        reach = length.where(directed, 1.0)
        points = torch.where(directed, means * (self.norm / reach), 0.0)
        slack = torch.ones_like(length).masked_fill_(directed, math.sqrt(1 - self.norm**2))
        blur = rounding / reach.detach() * directed
        slack_and_blur = torch.cat((slack, blur), dim=1)
        left, right = slack_and_blur.index_select(0, first), slack_and_blur.index_select(0, second)
        chord = euclidean(points, batch)
        # Distances within rounding are divided by infinity: 0, with gradient 0.
        near = chord.detach() <= left[:, 1] + right[:, 1]
        scale = (left[:, 0] * right[:, 0]).masked_fill_(near, math.inf)
        # arccosh(1 + 2 x^2) = 2 arcsinh(x), whose derivative is finite at 0.
        return (2 * torch.asinh(chord / scale)).to(batch.given.dtype)
