"""Class prototypes, retrieval by prototypes, and accuracy of memory-mapped features."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from cophenet.metrics._blocks import full_precision, product
from cophenet.metrics._checks import check_indices, ratio
from cophenet.metrics.accuracy import By, accuracy_compute, accuracy_update, check_accuracy_options
from cophenet.metrics.mean_average_precision import check_prototypes, match_prototypes
from cophenet.metrics.streaming.shards import FeatureShards, add_blocks
from cophenet.tree import Hierarchy

__all__ = ["class_sums", "stream_accuracy", "stream_map", "stream_prototypes"]

# Values per block: 8 MB in float32, so that intermediate results stay in the cache.
_BLOCK_NUMBERS = 1 << 21


def _rows(*widths: int) -> int:
    return max(1, _BLOCK_NUMBERS // max(1, *widths))


def class_sums(shards: FeatureShards, progress: bool) -> tuple[Tensor, Tensor, Tensor]:
    """(k,) classes present, (k,) number of samples of each, (k, d) float64 sums of their features."""
    classes, place, counts = torch.unique(shards.labels, return_inverse=True, return_counts=True)
    sums = torch.zeros(len(classes), shards.width, dtype=torch.float64)

    def work(block: tuple[int, slice, slice]) -> None:
        values, _ = shards.read(block)
        sums.index_add_(0, place[block[2]], values.double())

    return classes, counts, add_blocks(shards.blocks(_rows(shards.width)), work, sums, "means", progress)


def stream_prototypes(shards: FeatureShards, *, progress: bool = False) -> tuple[Tensor, Tensor]:
    r"""Mean feature of each class that has samples, as `class_prototypes` but streamed.

    .. math::

        \mu_c = \frac{1}{n_c} \sum_{i : y_i = c} z_i

    Snell et al. 2017, arXiv:1703.05175, equation 1.

    Args:
        shards: The features; for a level of a tree, give `shards.at_level(tree, level)`.
        progress: Whether to show a progress bar.

    Returns:
        (k,) the classes present, ascending; (k, d) their means.

    Raises:
        ValueError: If a feature is not finite.

    Example:
        >>> z = torch.tensor([[1.0, 0.0], [3.0, 0.0], [0.0, 1.0]])
        >>> stream_prototypes(FeatureShards([z], torch.tensor([5, 5, 2])))
        (tensor([2, 5]), tensor([[0., 1.], [2., 0.]]))
    """
    classes, counts, sums = class_sums(shards, progress)
    return classes, (sums / counts[:, None]).to(shards.dtype)


def stream_map(
    shards: FeatureShards, prototypes: Tensor, classes: Tensor | None = None, *, progress: bool = False
) -> Tensor:
    r"""Mean average precision of retrieval by class prototypes, as `prototype_map` but streamed.

    .. math::

        \mathrm{AP}_c = \frac{1}{n_c} \sum_{i : y_i = c} \mathrm{precision@}i,
        \qquad \mathrm{MAP} = \frac{1}{C} \sum_c \mathrm{AP}_c

    Zeng et al. 2025, arXiv:2410.03052.

    Two passes: the first scores every sample by the prototype of its own class; the second counts, for
    each of these scores, the samples of all classes that reach it. Memory is a few numbers per sample.

    Args:
        shards: The test features; for a level of a tree, give `shards.at_level(tree, level)`.
        prototypes: (k, d) one for each class, such as `stream_prototypes` of the training features.
        classes: (k,) class of each prototype; 0, 1, ... by default.
        progress: Whether to show a progress bar.

    Returns:
        A float64 scalar in [0, 1]; NaN with a warning if no class has a prototype and samples.

    Raises:
        ValueError: If an argument has a wrong shape, type or value, or a feature is not finite.

    Example:
        >>> features = torch.tensor([[1.0, 0.1], [0.9, 0.3], [0.2, 1.0], [0.8, 0.4]])
        >>> shards = FeatureShards([features], torch.tensor([0, 1, 1, 0]))
        >>> round(stream_map(shards, torch.eye(2)).item(), 4)
        0.8333
    """
    classes = check_prototypes(prototypes, classes)
    if prototypes.shape[1] != shards.width:
        given = tuple(prototypes.shape)
        raise ValueError(f"prototypes must have shape (k, {shards.width}), got {given}")
    ascending, order = classes.sort()
    used, counts, row = match_prototypes(shards.labels, ascending)
    precisions = torch.zeros(0, dtype=torch.float64)
    if len(used):
        search = _Search(shards, normalize(prototypes.detach().to(shards.dtype))[order][used], row)
        precisions = search.average_precisions(search.own_scores(progress), counts, progress)
    return ratio(precisions.sum(), len(precisions), "prototype MAP", "no class has a prototype and samples")


class _Search:
    """Retrieval of samples by prototypes of norm one.

    Args:
        shards: The samples.
        weights: (k, d) prototypes of classes that have samples.
        row: (N,) index of the prototype of each sample's class; -1 if the class has none.
    """

    def __init__(self, shards: FeatureShards, weights: Tensor, row: Tensor) -> None:
        self.shards, self.weights, self.row = shards, weights, row
        self.blocks = shards.blocks(_rows(shards.width, len(weights)))

    def scores(self, block: tuple[int, slice, slice]) -> Tensor:
        """(k, n) cosines of a block of samples to the prototypes."""
        values, _ = self.shards.read(block)
        norms = torch.linalg.vector_norm(values, dim=1).clamp_(min=torch.finfo(values.dtype).tiny)
        return product(self.weights, values.T).div_(norms)

    def own_scores(self, progress: bool) -> Tensor:
        """(N,) cosine of every sample to the prototype of its class, 0 if there is none."""
        own = torch.zeros(len(self.row), dtype=self.shards.dtype)

        def work(block: tuple[int, slice, slice]) -> None:
            rows = self.row[block[2]]
            values = self.scores(block).gather(0, rows.clamp(min=0)[None])[0]
            own[block[2]] = values.masked_fill(rows < 0, 0)

        return add_blocks(self.blocks, work, own, "own scores", progress)

    def average_precisions(self, own: Tensor, counts: Tensor, progress: bool) -> Tensor:
        """(k,) average precision of every class, from own scores (N,) and samples per class (k,)."""
        by_class = self.row.argsort(stable=True)[int((self.row < 0).sum()) :]
        levels = [part.sort().values for part in torch.split(own[by_class], counts.tolist())]
        # The scores of the n samples of a class divide the scores of all samples into n + 1 ranges.
        starts = [0, *(counts + 1).cumsum(0).tolist()]
        reached = torch.zeros(starts[-1], dtype=torch.int64)

        def work(block: tuple[int, slice, slice]) -> None:
            scores, rows = self.scores(block), self.row[block[2]]
            members = (rows >= 0).nonzero().flatten()
            # Use exactly the values that were sorted: a second product may round differently.
            scores[rows[members], members] = own[block[2]][members]
            # Sorted first, so that consecutive lookups are close together in memory.
            for place, (level, values) in enumerate(
                zip(levels, np.sort(scores.numpy(), axis=1), strict=True)
            ):
                part = np.searchsorted(level.numpy(), values, side="right")
                hits = np.bincount(part, minlength=len(level) + 1)
                reached[starts[place] : starts[place + 1]] += torch.from_numpy(hits)

        reached = add_blocks(self.blocks, work, reached, "MAP", progress)
        pieces = torch.split(reached, (counts + 1).tolist())
        return torch.stack([_average_precision(*pair) for pair in zip(levels, pieces, strict=True)])


def _average_precision(level: Tensor, reached: Tensor) -> Tensor:
    """Mean precision at a class's sorted scores (n,), given the number of samples in each range (n + 1,)."""
    ahead = reached.flip(0).cumsum(0).flip(0)[1:]
    right = len(level) - torch.searchsorted(level, level)
    return (right.double() / ahead).mean()


def stream_accuracy(
    shards: FeatureShards,
    tree: Hierarchy,
    head: Callable[[Tensor], Tensor] | None = None,
    *,
    by: By = "sum",
    progress: bool = False,
) -> dict[str, Tensor]:
    r"""Accuracy at each level of the tree, as `level_accuracy` but streamed.

    .. math::

        \mathrm{acc}_l = \frac{1}{N} \sum_i \left[ \hat y_i^l = a_l(y_i) \right],
        \qquad \hat y_i^l \text{ the prediction at level } l, \; a_l(y_i) \text{ the ancestor there}

    Zeng et al. 2025, arXiv:2410.03052.

    Args:
        shards: The features, with class indices of the tree as labels.
        tree: The label tree.
        head: Maps features (n, d) in full precision to logits (n, C); None for the logits of the shards.
        by: "sum" predicts at each level by the summed probabilities below its nodes; "argmax" takes the
            ancestors of the best class.
        progress: Whether to show a progress bar.

    Returns:
        A float64 scalar in [0, 1] for each level name, from the root down; NaN without samples.

    Raises:
        ValueError: If there are no logits, or they or the labels do not fit the tree.

    Example:
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/")
        >>> shards = FeatureShards([torch.eye(3)], torch.tensor([0, 1, 2]))
        >>> stream_accuracy(shards, tree, head=lambda z: 9 * z)["level1"]
        tensor(1., dtype=torch.float64)
    """
    check_accuracy_options(tree, by, 1)
    check_indices("labels", shards.labels, len(shards), tree.num_classes)
    if head is None and not len(shards.logits):
        raise ValueError("shards have no logits; give head=, from features to logits")
    hits = torch.zeros(tree.num_levels, dtype=torch.int64)

    def work(block: tuple[int, slice, slice]) -> None:
        number, inside, overall = block
        if head is None:
            logits = full_precision(shards.logits[number][inside])
        else:
            with torch.no_grad():
                logits = head(shards.read(block)[0])
        scores = logits.softmax(1) if by == "sum" else logits
        hits.add_(accuracy_update(scores, shards.labels[overall], tree, by, 1)[0])

    size = _rows(shards.width, 2 * tree.num_classes)
    return accuracy_compute(
        add_blocks(shards.blocks(size), work, hits, "accuracy", progress), len(shards), tree
    )
