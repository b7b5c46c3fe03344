"""Class distances and CPCC of mapped features, in memory that does not grow with their number.

The plan of Fast FlowTree walks through two classes side by side: where it is, as a share of each class, is
the same in both. So a slice of that share needs only a slice of every class, and all pairs of classes are
brought forward together, slice by slice: every sample is read once, and while it is in the cache it
meets all its partners.
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

# Numbers of a slice that the cache of a machine holds, and samples that every class should have in one.
_SLICE_NUMBERS = 1 << 21
_LEAST_SAMPLES = 4
# A spread of distances so many times what rounding makes of a part of the features is none of rounding.
_FAR = 1e3


def stream_distances(
    shards: FeatureShards, distance: str = "fastft", *, progress: bool = False
) -> tuple[Tensor, Tensor]:
    """Distances between the feature clouds of all classes, as `class_distances` but streamed.

    Args:
        shards: The features.
        distance: "l2"; or "fastft" in the order of the samples, with uniform weights. Numba makes it several
            times faster (`pip install cophenet[fast]`).
        progress: Whether to show a progress bar on the standard error stream.

    Returns:
        (k,) the classes present, ascending; (k(k-1)/2,) the distances in the order of
        `itertools.combinations`, in float32, or float64 for such features.

    Raises:
        ValueError: If the distance is another, there is no sample, or a feature is not finite.

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
        # Squares of very large or very small features leave the type; a power of two is exact.
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
    """Cophenetic correlation of all samples at once, as the metric `CPCC` but streamed.

    Args:
        shards: The features, with labels that are positions in the tree's classes.
        tree: The label tree.
        distance: "l2" or "fastft", see `stream_distances`.
        level: Group the samples by their ancestors at this level instead of by class.
        progress: Whether to show a progress bar.

    Returns:
        A float64 scalar in [-1, 1]; NaN with a warning where it is undefined.

    Raises:
        ValueError: As `stream_distances`, or if a label is no class of the tree.

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
    """How far apart rounding of the features alone can set two distances; 0 where they are far from it."""
    counts = torch.bincount(shards.labels)
    blocks = shards.blocks(max(1, _SLICE_NUMBERS // max(1, shards.width)))
    largest = 0.0
    for block in blocks:
        norms: Tensor = torch.linalg.vector_norm(shards.read(block)[0], dim=1, dtype=torch.float64)
        largest = max(largest, float(norms.max()))
        rounding = largest * resolution(shards.dtype, int(counts.max()))
        # Collapsed features are all of one size: the first block tells whether to look at the others.
        if len(rho) < 2 or float(rho.max() - rho.min()) > _FAR * rounding:
            return 0.0
    return rounding


@dataclass(frozen=True, eq=False)
class _Walk:
    """How all pairs of classes are walked through, in slices of equal shares of every class.

    Attributes:
        classes: (k,) classes present.
        counts: (k,) samples of each.
        order: (N,) samples class by class, in their own order within each.
        slices: How many slices there are.
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
        """(k,) where each class begins in the order."""
        return np.cumsum(self.counts) - self.counts

    def slice(self, number: int) -> tuple[Indices, Indices]:
        """Samples of a slice, class by class; and (k,) where sample 0 of each class would be among them."""
        low = share(self.counts, number, self.slices)
        sizes = -share(-self.counts, number + 1, self.slices) - low
        rows = self.order[ragged_range(sizes, self.offsets + low)]
        return rows, np.cumsum(sizes) - sizes - low


def share(whole: Indices, number: int, slices: int) -> Indices:
    """The share `whole * number / slices`, rounded down, without large products; minus that of -whole is up.

    Example:
        >>> share(np.array([7, -7]), 1, 2)
        array([ 3, -4])
    """
    return whole // slices * number + whole % slices * number // slices


def _by_tensors(walk: _Walk, z: Tensor, base: Indices, number: int, total: Tensor) -> None:
    """Add what all pairs pay within a slice, without compiled code.

    A piece of a plan begins where a sample of either class begins: so the samples that begin in the slice
    give all pieces, those that begin together in both classes once.
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
    """The same in compiled code, in as many threads as torch has."""
    from cophenet.metrics.streaming.kernels import walk_slice

    threads = torch.get_num_threads()

    def part(ends: tuple[int, int]) -> None:
        pairs = (walk.first[slice(*ends)], walk.second[slice(*ends)])
        sums = total.numpy()[slice(*ends)]
        walk_slice(z.numpy(), base, walk.counts, pairs, (number, walk.slices), sums)

    bounds = np.linspace(0, len(walk.first), 4 * threads + 1).astype(np.int64)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(part, pairwise(bounds.tolist())))
