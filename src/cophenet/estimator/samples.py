"""Training data of the estimator: rows standardised by block, held-out samples, the order of an epoch.

A memory map is never copied as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cophenet.tree import Hierarchy

__all__ = [
    "Scale",
    "Split",
    "TrainingSet",
    "blocks",
    "draw_epoch",
    "fit_scale",
    "float_type",
    "split_rows",
    "to_host",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Numbers copied from the rows at a time: 8 MB in float64.
_BLOCK = 1 << 20


def to_host(values: Any) -> Any:
    """A torch tensor as a numpy array; anything else is returned unchanged.

    Example:
        >>> to_host(torch.tensor([1.5, 2.0], dtype=torch.bfloat16))
        array([1.5, 2. ], dtype=float32)
    """
    if not isinstance(values, Tensor):
        return values
    values = values.detach().cpu()
    # numpy has no bfloat16.
    return (values.float() if values.dtype == torch.bfloat16 else values).numpy()


def float_type(rows: NDArray[Any]) -> np.dtype[Any]:
    """The type of results computed from rows: that of the rows, or float64 if they are not floats."""
    return rows.dtype if rows.dtype.kind == "f" else np.dtype(np.float64)


def blocks(count: int, width: int) -> Iterator[slice]:
    """Yield slices of rows, of a bounded number of values each.

    Example:
        >>> list(blocks(5, 1 << 19))
        [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    step = max(1, _BLOCK // max(1, width))
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


@dataclass(frozen=True)
class Scale:
    """Standardisation of inputs to mean 0 and similar variances.

    Attributes:
        mean: (d,) float64.
        deviation: (d,) float64, positive.
    """

    mean: Floats
    deviation: Floats

    def __call__(self, rows: NDArray[Any], dtype: torch.dtype) -> Tensor:
        """Standardise rows, in float64 so that a large offset does not cost precision. (n, d) -> (n, d)."""
        values = rows.astype(np.float64)
        values -= self.mean
        values /= self.deviation
        return torch.from_numpy(values).to(dtype)


def fit_scale(rows: NDArray[Any], chosen: Ints, *, shrink: bool = False) -> Scale:
    """Mean and standard deviation of the chosen rows, in two passes of bounded memory.

    Args:
        rows: (n, d).
        chosen: (m,) numbers of rows.
        shrink: Whether to average each variance with the median one, so that nearly constant inputs are not
            scaled up to the size of the others. Otherwise the deviation of a constant input is 1.

    Example:
        >>> rows = np.array([[0.0, 0.0, 5.0], [8.0, 2.0, 5.0]])
        >>> fit_scale(rows, np.arange(2)).deviation, fit_scale(rows, np.arange(2), shrink=True).deviation ** 2
        (array([4., 1., 1.]), array([12.25,  4.75,  4.25]))
    """
    parts = [chosen[part] for part in blocks(len(chosen), rows.shape[1])]
    mean = sum(rows[part].sum(0, dtype=np.float64) for part in parts) / len(chosen)
    squares = sum(np.square(rows[part].astype(np.float64) - mean).sum(0) for part in parts)
    deviation = np.sqrt(squares / len(chosen))
    # Inputs that vary only by rounding are constant.
    constant = deviation <= 1e-12 * np.maximum(np.abs(mean), 1e-300)
    if shrink and not constant.all():
        variance = np.where(constant, 0.0, deviation) ** 2
        deviation = np.sqrt((variance + np.median(variance[~constant])) / 2)
        constant[:] = False
    return Scale(np.asarray(mean), np.where(constant, 1.0, deviation))


@dataclass(frozen=True)
class Split:
    """Positions of the samples for training, for early stopping, and for calibration of decisions."""

    train: Ints
    stop: Ints
    calibrate: Ints


def split_rows(targets: Ints, stop: float, calibrate: float, rng: np.random.Generator) -> Split:
    """Hold out a share of every label, as far as it has samples, but never its last one.

    Args:
        targets: (n,) labels as numbers.
        stop: Share for early stopping.
        calibrate: Share for calibration of decisions.
        rng: Random generator.

    Example:
        >>> parts = split_rows(np.arange(40) % 2, 0.1, 0.2, np.random.default_rng(0))
        >>> len(parts.train), len(parts.stop), len(parts.calibrate)
        (28, 4, 8)
    """
    _, labels, counts = np.unique(targets, return_inverse=True, return_counts=True)
    order = np.lexsort((rng.random(len(targets)), labels))
    rank = np.arange(len(targets)) - (np.cumsum(counts) - counts)[labels[order]]
    # Evenly from every label: sorted by the share of its samples that come before, with a random offset per
    # label.
    place = (rank + rng.random(len(counts))[labels[order]]) / counts[labels[order]]
    place[rank == 0] = -1.0
    sizes = [round(len(targets) * share) for share in (stop, calibrate)]
    most = len(targets) - len(counts)
    held = order[np.argsort(-place, kind="stable")[: min(sum(sizes), most)]]
    held = rng.permutation(held)
    first = min(sizes[0], len(held))
    train = np.setdiff1d(np.arange(len(targets)), held)
    return Split(train, np.sort(held[:first]), np.sort(held[first:]))


def draw_epoch(chosen: Ints, weights: Floats | None, rng: np.random.Generator) -> Ints:
    """Draw as many samples as are chosen, in random order, each as often as its weight says.

    With n chosen samples and weights of mean one, sample i occurs floor(w_i) or ceil(w_i) times, w_i on
    average (systematic sampling: Madow, 1949, Annals of Mathematical Statistics 20(3)).

    Args:
        chosen: (n,) positions of samples.
        weights: Weight of each sample, by position; None for equal weights.
        rng: Random generator.

    Example:
        >>> np.bincount(draw_epoch(np.arange(4), np.array([2.0, 1.0, 1.0, 0.0]), np.random.default_rng(0)))
        array([2, 1, 1])
    """
    order = rng.permutation(chosen)
    if weights is None or not len(order):
        return order
    ends = np.cumsum(weights[order]) * (len(order) / weights[order].sum())
    # The last end is an exact integer, in spite of rounding.
    ends[-1] = len(order)
    counts = np.diff(np.floor(ends + rng.random()), prepend=0.0).astype(np.int64)
    return rng.permutation(np.repeat(order, counts))


class TrainingSet(NamedTuple):
    """Samples to train on.

    Attributes:
        rows: (n, d) as given; of a memory map only batches are read.
        targets: (n,) class indices, or C + index in `inner`.
        inner: (m,) inner nodes of the tree that occur as labels.
        tree: The tree of the C classes.
        scale: Standardises rows.
        split: Which samples are held out.
        weights: (n,) sample weights; None for equal weights.
    """

    rows: NDArray[Any]
    targets: Ints
    inner: Ints
    tree: Hierarchy
    scale: Scale
    split: Split
    weights: Floats | None = None

    def inputs(self, chosen: Ints, device: torch.device) -> Tensor:
        """Standardised rows of some samples, (m,) -> (m, d) float32."""
        return self.scale(self.rows[chosen], torch.float32).to(device)
