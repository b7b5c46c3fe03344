"""Stratified sampling: a few samples of every class, or a share of every class, drawn by a seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cophenet._common.checks import check_share, check_whole

if TYPE_CHECKING:
    from cophenet.data.dataset import Labels, Part, Samples

__all__ = ["draw_test_part", "k_shot", "stratified_split"]


def k_shot(samples: Samples, k: int, seed: int) -> Samples:
    """A few samples of every class, drawn without replacement.

    Args:
        samples: Samples to draw from.
        k: Samples per class.
        seed: Determines the draw. With the same seed, the samples for a smaller `k` are a subset of those for
            a larger one.

    Returns:
        `k` samples of each class, sorted by class.

    Raises:
        ValueError: If a class has fewer than `k` samples.

    Example:
        >>> from cophenet.data.synthetic import Synthetic
        >>> train = Synthetic(samples_per_class=10).load(None).samples("train")
        >>> k_shot(train, 2, seed=0).labels[:6]
        array([0, 0, 1, 1, 2, 2])
    """
    check_whole("k", k, 1)
    check_whole("seed", seed, 0)
    counts = samples.counts()
    if counts.min() < k:
        label = int(counts.argmin())
        raise ValueError(
            f"k must not exceed the samples of a class: got {k}, but class "
            f"{samples.tree.classes[label]!r} has {counts[label]}"
        )
    order, starts = _shuffled_by_class(samples.labels, samples.tree.num_classes, seed)
    return samples.subset(np.concatenate([order[start : start + k] for start in starts]))


def stratified_split(labels: Labels, fraction: float, seed: int) -> tuple[Labels, Labels]:
    """Split samples in two parts, with the same share of every class.

    Args:
        labels: (n,) class of each sample, from 0.
        fraction: Share of the second part, between 0 and 1; rounded to a whole number of samples for each
            class, with at least one sample in each part.
        seed: Determines which samples.

    Returns:
        Positions of both parts, each in ascending order.

    Raises:
        ValueError: If a class has a single sample.

    Example:
        >>> stratified_split(np.array([0, 0, 0, 0, 1, 1]), 0.5, seed=0)[1]
        array([2, 3, 4])
    """
    check_share("fraction", fraction)
    check_whole("seed", seed, 0)
    counts = np.bincount(labels)
    if (counts == 1).any():
        raise ValueError(
            f"class {int(np.argmax(counts == 1))} has a single sample and cannot be split in two"
        )
    order, starts = _shuffled_by_class(labels, len(counts), seed)
    shares = np.clip(np.rint(counts * fraction), np.minimum(counts, 1), np.maximum(counts - 1, 0)).astype(
        np.int64
    )
    second = np.concatenate([order[start : start + n] for start, n in zip(starts, shares, strict=True)])
    chosen = np.zeros(len(labels), dtype=bool)
    chosen[second] = True
    return np.flatnonzero(~chosen), np.flatnonzero(chosen)


def draw_test_part(
    samples: Samples, share: float, seed: int, *, too_few: str = "has a single sample", instead: str
) -> dict[Part, Samples]:
    """Split samples without a test part: draw a share of every class for it.

    Args:
        samples: All samples.
        share: As the `fraction` of `stratified_split`.
        seed: Determines which samples.
        too_few: What is wrong with a class of one sample, for the message.
        instead: What could be given instead of more samples, for the message.

    Raises:
        ValueError: If a class has a single sample; names it.

    Example:
        >>> from cophenet.data.synthetic import Synthetic
        >>> samples = Synthetic(samples_per_class=10).load(None).samples("train")
        >>> drawn = draw_test_part(samples, 0.2, seed=0, instead="a test file")
        >>> drawn["train"].counts()[:2], drawn["test"].counts()[:2]
        (array([8, 8]), array([2, 2]))
    """
    single = np.flatnonzero(samples.counts() == 1)
    if single.size:
        name = samples.tree.classes[single[0]]
        raise ValueError(f"class {name!r} {too_few}; two are needed to draw a test part, or {instead}")
    train, test = stratified_split(samples.labels, share, seed)
    return {"train": samples.subset(train), "test": samples.subset(test)}


def _shuffled_by_class(labels: Labels, classes: int, seed: int) -> tuple[Labels, Labels]:
    """Positions sorted by class, in random order within each class, and the start of each class."""
    keys = np.random.default_rng(seed).random(len(labels))
    starts = np.concatenate([[0], np.cumsum(np.bincount(labels, minlength=classes))[:-1]])
    return np.lexsort((keys, labels)), starts
