"""How well class distances fit a tree: distortion for a given tree, hyperbolicity for any tree."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cophenet._common.lazy import torch
from cophenet.metrics._blocks import full_precision, row_blocks
from cophenet.metrics._checks import check_k, ratio
from cophenet.metrics.cophenetic_correlation import DistanceMetric

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["DeltaHyperbolicity", "TreeDistortion", "delta_hyperbolicity", "tree_distortion"]

MOST_SAMPLES = 2**40


def _check_condensed(name: str, values: Tensor) -> Tensor:
    """Return the distances in float64; raise unless they are (P,), finite and not negative."""
    if not isinstance(values, torch.Tensor) or values.ndim != 1 or not values.is_floating_point():
        tensor = isinstance(values, torch.Tensor)
        given = f"{tuple(values.shape)} {values.dtype}" if tensor else type(values).__name__
        raise ValueError(f"{name} must be a floating-point tensor of shape (P,), got {given}")
    result = full_precision(values).double()
    if not (torch.isfinite(result) & (result >= 0)).all():
        raise ValueError(f"{name} must be finite and not negative")
    return result


def tree_distortion(rho: Tensor, t: Tensor | NDArray[np.float64]) -> dict[str, Tensor]:
    r"""How unevenly class distances stretch the tree metric, independent of their scale.

    With the stretch r_p = rho_p / t_p of every pair p of classes:

    .. math::

        \mathrm{average} = \frac{1}{P} \sum_p \left| \frac{r_p}{\bar r} - 1 \right|,
        \qquad \mathrm{worst} = \frac{\max_p r_p}{\min_p r_p}

    Without pairs there is no distortion: 0 and 1. If some classes coincide, "worst" is infinite; if all do,
    "average" is 1, because no scale helps. The distortions of Sala et al. 2018, Representation Tradeoffs for
    Hyperbolic Embeddings, arXiv:1804.03329; the average one after scaling the mean stretch to 1.

    Args:
        rho: (P,) distances of class pairs in feature space.
        t: (P,) positive distances of the same pairs in the tree.

    Returns:
        Float64 scalars: "average", 0 or more, and "worst", 1 or more.

    Raises:
        ValueError: If an argument has a wrong shape, type or value.

    Example:
        >>> values = tree_distortion(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([2.0, 4.0, 4.0]))
        >>> round(values["average"].item(), 4), values["worst"].item()
        (0.1905, 1.5)
    """
    stretch = _check_condensed("rho", rho)
    metric = _check_condensed("t", torch.as_tensor(t).to(rho.device))
    if stretch.shape != metric.shape:
        raise ValueError(
            f"rho and t must have one shape (P,), got {tuple(stretch.shape)} and {tuple(metric.shape)}"
        )
    if not (metric > 0).all():
        raise ValueError("t must be positive, got a tree distance of 0 between two classes")
    if not len(stretch):
        return {"average": stretch.new_zeros(()), "worst": stretch.new_ones(())}
    stretch = stretch / metric
    mean, (low, high) = stretch.mean(), stretch.aminmax()
    average = (stretch / mean - 1).abs().mean() if mean > 0 else torch.ones_like(mean)
    return {"average": average, "worst": high / low if low > 0 else torch.full_like(low, torch.inf)}


def _square(distances: Tensor) -> Tensor:
    """Symmetric distance matrix from the condensed upper triangle. (P,) -> (k, k)."""
    size = (1 + math.isqrt(1 + 8 * len(distances))) // 2
    if size * (size - 1) // 2 != len(distances):
        raise ValueError(
            f"distances must hold k (k - 1) / 2 pairs of k classes, got {len(distances)} distances"
        )
    table = distances.new_zeros(size, size)
    first, second = torch.triu_indices(size, size, 1, device=distances.device)
    table[first, second] = distances
    table[second, first] = distances
    return table


def _largest_gap(table: Tensor) -> Tensor:
    """Largest gap between the sum of one pairing and the larger of the other two, over all quadruples."""
    size = len(table)
    first, second = torch.triu_indices(size, size, 1, device=table.device)
    largest = table.new_zeros(())
    # With these diagonals the gap of a quadruple with a repeated class is minus infinity.
    far, near = table.clone().fill_diagonal_(torch.inf), table.clone().fill_diagonal_(-torch.inf)
    for rows in row_blocks(len(first), 4 * size * size):
        i, j = far[first[rows]], far[second[rows]]
        others = torch.maximum(i[:, :, None] + j[:, None, :], j[:, :, None] + i[:, None, :])
        gaps = table[first[rows], second[rows], None, None] + near - others
        largest = torch.maximum(largest, gaps.amax())
    return largest


def _draw_quadruples(size: int, count: int, generator: torch.Generator | None) -> Tensor:
    """Four different numbers below `size`, ascending, for each draw. (4, count)."""
    drawn = torch.empty(0, count, dtype=torch.int64)
    for drawn_before in range(4):
        number = torch.randint(size - drawn_before, (count,), generator=generator)
        for smaller in drawn:
            number += number >= smaller
        drawn = torch.cat((drawn, number[None])).sort(0).values
    return drawn


def _sampled_gap(table: Tensor, samples: int, generator: torch.Generator | None) -> Tensor:
    """The largest gap among quadruples drawn at random."""
    largest = table.new_zeros(())
    for rows in row_blocks(samples, 16):
        a, b, c, d = _draw_quadruples(len(table), rows.stop - rows.start, generator).to(table.device)
        sums = torch.stack((table[a, b] + table[c, d], table[a, c] + table[b, d], table[a, d] + table[b, c]))
        high = sums.topk(2, dim=0).values
        largest = torch.maximum(largest, (high[0] - high[1]).amax())
    return largest


def delta_hyperbolicity(
    distances: Tensor, samples: int | None = None, generator: torch.Generator | None = None
) -> dict[str, Tensor]:
    r"""Gromov's four-point delta: 0 exactly if the distances are those of some tree.

    There are three ways to split four classes w, x, y, z into two pairs; delta is half the gap between the
    two largest sums:

    .. math::

        \delta = \frac{1}{2} \max_{w, x, y, z} (S_1 - S_2),
        \qquad S_1 \ge S_2 \ge S_3 \text{ the sums } d_{wx} + d_{yz}, \; d_{wy} + d_{xz}, \; d_{wz} + d_{xy}

    Exact in O(k^4) time and bounded memory: less than a second for k = 100 classes. Fewer than four classes
    always fit a tree: 0. Gromov 1987, Hyperbolic Groups, doi:10.1007/978-1-4613-9586-7_3; relative to the
    largest distance as in Khrulkov et al. 2020, arXiv:1904.02239.

    Args:
        distances: (k (k - 1) / 2,) in the order of `itertools.combinations`.
        samples: Draw this many quadruples instead of using all; the result is then a lower bound.
        generator: Random generator of the draws, on the CPU; torch's global one by default.

    Returns:
        Float64 scalars: "delta", and "relative", 2 delta over the largest distance, in [0, 1] for a
        metric; 0 if all distances are 0.

    Raises:
        ValueError: If an argument has a wrong shape, type or value.

    Example:
        >>> square = torch.tensor([1.0, 2.0, 1.0, 1.0, 2.0, 1.0])  # a cycle of four
        >>> {name: value.item() for name, value in delta_hyperbolicity(square).items()}
        {'delta': 1.0, 'relative': 1.0}
    """
    table = _square(_check_condensed("distances", distances))
    if samples is not None:
        check_k("samples", samples, MOST_SAMPLES)
    if len(table) < 4:
        gap = table.new_zeros(())
    elif samples is None:
        gap = _largest_gap(table)
    else:
        gap = _sampled_gap(table, samples, generator)
    widest = table.amax()
    return {"delta": gap / 2, "relative": gap / widest if widest > 0 else torch.zeros_like(gap)}


class TreeDistortion(DistanceMetric):
    r"""How unevenly class distances stretch the tree metric, as `tree_distortion`.

    .. math::

        \mathrm{average} = \frac{1}{P} \sum_p \left| \frac{r_p}{\bar r} - 1 \right|,
        \qquad \mathrm{worst} = \frac{\max_p r_p}{\min_p r_p}, \qquad r_p = \frac{\rho_p}{t_p}

    over all pairs p of classes. Sala et al. 2018, arXiv:1804.03329. Without samples the values are NaN, with
    a warning.

    Args:
        tree: The label tree.
        distance: Distance between two classes, by name or as an object.
        level: Group the samples by their ancestors at this level, by depth or name, instead of by class.
        flow_weights: "uniform", "distance" or "inverse": how much each sample of a class weighs.
        **options: The distance's own options, such as `reg=10.0` for "sinkhorn", and those of
            `torchmetrics.Metric`.

    Example:
        >>> from cophenet import Hierarchy
        >>> from cophenet.metrics import TreeDistortion
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/")
        >>> values = TreeDistortion(tree)(torch.tensor([[0.0], [2.0], [5.0]]), torch.tensor([0, 1, 2]))
        >>> round(values["average"].item(), 4), round(values["worst"].item(), 4)
        (0.1667, 1.6667)
    """

    higher_is_better = False

    def compute(self) -> dict[str, Tensor]:
        """Scalars "average" and "worst"."""
        geometry = self.geometry()
        classes, rho = geometry.distances
        if not len(classes):
            return dict.fromkeys(("average", "worst"), ratio(rho.new_zeros(()), 0, "tree distortion"))
        return tree_distortion(rho, geometry.tree_distances)


class DeltaHyperbolicity(DistanceMetric):
    r"""Gromov's four-point delta of the class distances, as `delta_hyperbolicity`, over all quadruples.

    .. math::

        \delta = \frac{1}{2} \max_{w, x, y, z} (S_1 - S_2),
        \qquad S_1 \ge S_2 \ge S_3 \text{ the sums } d_{wx} + d_{yz}, \; d_{wy} + d_{xz}, \; d_{wz} + d_{xy}

    Gromov 1987, doi:10.1007/978-1-4613-9586-7_3. Without samples the values are NaN, with a warning.

    Args:
        tree: The label tree.
        distance: Distance between two classes, by name or as an object.
        level: Group the samples by their ancestors at this level, by depth or name, instead of by class.
        flow_weights: "uniform", "distance" or "inverse": how much each sample of a class weighs.
        **options: The distance's own options, such as `reg=10.0` for "sinkhorn", and those of
            `torchmetrics.Metric`.

    Example:
        >>> from cophenet import Hierarchy
        >>> from cophenet.metrics import DeltaHyperbolicity
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus", "car/van"], sep="/")
        >>> corners = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
        >>> round(DeltaHyperbolicity(tree)(corners, torch.arange(4))["delta"].item(), 4)
        0.4142
    """

    higher_is_better = False

    def compute(self) -> dict[str, Tensor]:
        """Scalars "delta" and "relative"."""
        classes, rho = self.geometry().distances
        if not len(classes):
            return dict.fromkeys(("delta", "relative"), ratio(rho.new_zeros(()), 0, "delta-hyperbolicity"))
        return delta_hyperbolicity(rho)
