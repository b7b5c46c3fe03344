"""Class distances and CPCC of memory-mapped features, with only a slice of the features in memory at a time.

The transport plan of Fast FlowTree goes through the samples of two classes in parallel: at each point, the
same fraction of both classes is used up. So the part of the plan between two fractions needs only a slice of
every class, and all pairs of classes are processed together, slice by slice: every sample is read once, and
compared with all its partners while it is in the cache.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.util import find_spec
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cophenet._common.checks import check_choice
from cophenet.cpcc.pearson import cpcc
from cophenet.metrics._checks import check_indices, check_tree
from cophenet.metrics.streaming import StreamedDistance
from cophenet.metrics.streaming.scores import class_sums
from cophenet.metrics.streaming.shards import FeatureShards, add_blocks
from cophenet.transport.batch import out_of_range, resolution, times_power_of_two
from cophenet.transport.ground import sample_distances
from cophenet.transport.plan import ragged_range
from cophenet.tree import Hierarchy

__all__ = ["stream_cpcc", "stream_distances"]

Indices = NDArray[np.int64]

# Values per slice, chosen to fit into the CPU cache, and the least mean number of samples per class in it.
_SLICE_NUMBERS = 1 << 21
_LEAST_SAMPLES = 4
# If the range of distances is this many times the rounding error of some features, it is not due to rounding.
_FAR = 1e3


def stream_distances(
    shards: FeatureShards, distance: str = "fastft", *, progress: bool = False
) -> tuple[Tensor, Tensor]:
    r"""Distances between all pairs of classes, as `class_distances` but streamed.

    Between class u with samples z_i and mean mu_u, and class v with samples z'_j and mean mu_v:

    .. math::

        \rho_{\mathrm{l2}}(u, v) = \| \mu_u - \mu_v \|_2, \qquad
        \rho_{\mathrm{fastft}}(u, v) = \sum_{ij} P_{ij} \| z_i - z'_j \|_2, \qquad
        P_{ij} = \left| [(i-1)/m, \; i/m) \cap
        [(j-1)/n, \; j/n) \right|

    Zeng et al. 2025, arXiv:2410.03052, section 2.1 and Algorithm 1.

    Args:
        shards: The features.
        distance: "l2"; or "fastft" in the order of the samples, with uniform weights. Numba makes it several
            times faster (`pip install cophenet[fast]`).
        progress: Whether to show a progress bar on the standard error stream.

    Returns:
        (k,) the classes present, ascending; (k(k-1)/2,) the distances in the order of
        `itertools.combinations`, in float64 for float64 features, else in float32.

    Raises:
        ValueError: If the distance is unknown, there are no samples, or a feature is not finite.

    Example:
        >>> z = torch.tensor([[0.0, 0.0], [0.0, 2.0], [3.0, 0.0], [3.0, 2.0]])
        >>> shards = FeatureShards([z[:3], z[3:]], torch.tensor([4, 4, 9, 9]))
        >>> stream_distances(shards)
        (tensor([4, 9]), tensor([3.]))
    """
    check_choice("distance", distance, [member.value for member in StreamedDistance])
    if not len(shards):
        raise ValueError("shards must hold at least one sample, got none")
    if distance == "l2":
        classes, counts, sums = class_sums(shards, progress)
        return classes, torch.pdist(sums / counts[:, None]).to(shards.dtype)
    walk = _Walk.of(shards)
    total = torch.zeros(len(walk.first), dtype=torch.float64)
    advance = partial(_by_tensors if find_spec("numba") is None else _compiled, walk)

    def work(number: int) -> None:
        rows, base = walk.slice(number)
        z = shards.take(torch.from_numpy(rows))
        excess = out_of_range(float(z.abs().max()), z.dtype)
        if not excess:
            advance(z, base, number, total)
            return
        # Squares of very large or small features overflow or underflow; scaling by powers of two is exact.
        part = torch.zeros_like(total)
        advance(times_power_of_two(z, -excess), base, number, part)
        total.add_(times_power_of_two(part, excess))

    total = add_blocks(range(walk.slices), work, total, "fastft", progress)
    return torch.from_numpy(walk.classes), total.to(shards.dtype)


def stream_cpcc(
    shards: FeatureShards,
    tree: Hierarchy,
    distance: str = "l2",
    *,
    level: int | str | None = None,
    progress: bool = False,
) -> Tensor:
    r"""Cophenetic correlation (CPCC) of all samples, as the metric `CPCC` but streamed.

    .. math::

        \mathrm{CPCC} = \frac{\sum_p r_p s_p}{\sqrt{\sum_p r_p^2 \sum_p s_p^2}},
        \qquad r = \rho - \bar\rho, \quad s = t - \bar t

    over all pairs p of classes. Sokal and Rohlf 1962, doi:10.2307/1217208; Zeng et al. 2025,
    arXiv:2410.03052.

    Args:
        shards: The features, with class indices of the tree as labels.
        tree: The label tree.
        distance: "l2" or "fastft", see `stream_distances`.
        level: Group the samples by their ancestors at this level instead of by class.
        progress: Whether to show a progress bar.

    Returns:
        A float64 scalar in [-1, 1]; NaN with a warning where it is undefined.

    Raises:
        ValueError: As `stream_distances`, or if a label is not a class of the tree.

    Example:
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus", "car/van"], sep="/")
        >>> z = torch.tensor([[0.0, 1.0], [0.0, 2.0], [9.0, 1.0], [9.0, 2.0]])
        >>> round(stream_cpcc(FeatureShards([z], torch.arange(4)), tree).item(), 3)
        1.0
    """
    check_tree(tree)
    check_indices("labels", shards.labels, len(shards), tree.num_classes)
    if level is not None:
        shards, tree = shards.at_level(tree, level), tree.cut(level)[0]
    classes, rho = stream_distances(shards, distance, progress=progress)
    return cpcc(rho, tree.condensed(classes.numpy()), _rounding(shards, rho)).double()


def _rounding(shards: FeatureShards, rho: Tensor) -> float:
    """Largest difference between two distances that rounding can cause; 0 if distances differ far more."""
    counts = torch.bincount(shards.labels)
    blocks = shards.blocks(max(1, _SLICE_NUMBERS // max(1, shards.width)))
    largest = 0.0
    for block in blocks:
        norms: Tensor = torch.linalg.vector_norm(shards.read(block)[0], dim=1, dtype=torch.float64)
        largest = max(largest, float(norms.max()))
        rounding = largest * resolution(shards.dtype, int(counts.max()))
        # Collapsed features all have the same norm, so the first block decides whether others are needed.
        if len(rho) < 2 or float(rho.max() - rho.min()) > _FAR * rounding:
            return 0.0
    return rounding


@dataclass(frozen=True, eq=False)
class _Walk:
    """Traversal of all pairs of classes, in slices with an equal fraction of every class.

    Attributes:
        classes: (k,) classes present.
        counts: (k,) number of samples of each.
        order: (N,) sample indices sorted by class, in their original order within a class.
        slices: Number of slices.
        first: (P,) first class of every pair.
        second: (P,) second class.
    """

    classes: Indices
    counts: Indices
    order: Indices
    slices: int
    first: Indices
    second: Indices

    @classmethod
    def of(cls, shards: FeatureShards) -> _Walk:
        labels = shards.labels.numpy()
        classes, counts = np.unique(labels, return_counts=True)
        rows = max(_SLICE_NUMBERS // max(1, shards.width), _LEAST_SAMPLES * len(classes))
        first, second = np.triu_indices(len(classes), 1)
        order = np.argsort(labels, kind="stable")
        return cls(classes, counts, order, -(-len(labels) // rows), first, second)

    @cached_property
    def offsets(self) -> Indices:
        """(k,) position in `order` where each class begins."""
        return np.cumsum(self.counts) - self.counts

    def slice(self, number: int) -> tuple[Indices, Indices]:
        """Samples of a slice, class by class, and (k,) the row that sample 0 of each class would have."""
        low = share(self.counts, number, self.slices)
        sizes = -share(-self.counts, number + 1, self.slices) - low
        rows = self.order[ragged_range(sizes, self.offsets + low)]
        return rows, np.cumsum(sizes) - sizes - low


def share(whole: Indices, number: int, slices: int) -> Indices:
    """`whole * number / slices` rounded down, without large products; negate `whole` and result to round up.

    Example:
        >>> share(np.array([7, -7]), 1, 2)
        array([ 3, -4])
    """
    return whole // slices * number + whole % slices * number // slices


def _by_tensors(walk: _Walk, z: Tensor, base: Indices, number: int, total: Tensor) -> None:
    """Add the transport costs of all pairs within a slice to `total`, without compiled code.

    A piece of a plan begins where a sample of either class begins. So the samples that begin in the slice
    give all its pieces; where samples of both classes begin together, the piece is counted once.
    """
    begins = [-share(-walk.counts, number + step, walk.slices) for step in (0, 1)]
    sides = ((walk.first, walk.second), (walk.second, walk.first))
    for side, (own, other) in enumerate(sides):
        sizes = (begins[1] - begins[0])[own]
        pair = np.repeat(np.arange(len(own)), sizes)
        m, n = walk.counts[own][pair], walk.counts[other][pair]
        sample = ragged_range(sizes, begins[0][own])
        left = sample * n
        partner = left // m
        right = np.minimum(left + n, (partner + 1) * m)
        chosen = slice(None) if side == 0 else left % m != 0
        source, target = sample + base[own][pair], partner + base[other][pair]
        distance = sample_distances(z, torch.from_numpy(source[chosen]), torch.from_numpy(target[chosen]))
        mass = torch.from_numpy(((right - left) / (m * n))[chosen])
        total.index_add_(0, torch.from_numpy(pair[chosen]), mass * distance)


def _compiled(walk: _Walk, z: Tensor, base: Indices, number: int, total: Tensor) -> None:
    """The same as `_by_tensors` in compiled code, with as many threads as torch uses."""
    from cophenet.metrics.streaming.fastft_kernel import walk_slice

    threads = torch.get_num_threads()

    def part(ends: tuple[int, int]) -> None:
        pairs = (walk.first[slice(*ends)], walk.second[slice(*ends)])
        sums = total.numpy()[slice(*ends)]
        walk_slice(z.numpy(), base, walk.counts, pairs, (number, walk.slices), sums)

    bounds = np.linspace(0, len(walk.first), 4 * threads + 1).astype(np.int64)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(part, pairwise(bounds.tolist())))
