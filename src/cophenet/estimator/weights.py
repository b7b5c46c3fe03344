"""What samples count, `sample_weight` and `class_weight`: how often each is seen in an epoch.

An objective may compare whole classes or groups of samples, so that its loss is no sum over samples that
could be weighted. A sample that is seen twice counts twice in every one of them, and in the mean and variance
of a batch; so weights are frequencies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cophenet._common.checks import check_number
from cophenet.estimator.labels import find_nodes, label_text
from cophenet.estimator.validation import check_weights
from cophenet.tree import Hierarchy

__all__ = ["draw_epoch", "fit_weights"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def fit_weights(
    labels: NDArray[Any], sample_weight: Any, class_weight: Any, tree: Hierarchy | None = None
) -> Floats | None:
    """The product of both weights, (n,); None if neither is given.

    Args:
        labels: (n,) as the user writes them: classes or inner nodes.
        sample_weight: (n,) or None.
        class_weight: A mapping of labels to weights, 1 for those it leaves out; "balanced", so that all
            labels that occur weigh the same in sum; or None.
        tree: Whose nodes may be weighted although no label is one.

    Raises:
        ValueError: If a weight is negative or not finite, all are 0, their number is another than that of the
            labels, or `class_weight` names what neither the labels nor the tree have.

    Example:
        >>> fit_weights(np.array(["cat", "dog", "dog"]), [1, 1, 0.5], {"cat": 3})
        array([3. , 1. , 0.5])
        >>> fit_weights(np.array([7, 8, 8, 8]), None, "balanced").round(3)
        array([2.   , 0.667, 0.667, 0.667])
    """
    if sample_weight is None and class_weight is None:
        return None
    weights = np.ones(len(labels)) if sample_weight is None else check_weights(sample_weight, len(labels))
    if class_weight is None:
        return weights
    present, place, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if isinstance(class_weight, str) and class_weight == "balanced":
        each: Floats = len(labels) / (len(present) * counts)
        return weights * each[place]
    if not isinstance(class_weight, Mapping):
        raise ValueError(f"class_weight must be a mapping, 'balanced' or None, got {class_weight!r}")
    texts = [label_text(label) for label in present.tolist()]
    given = {label_text(label): weight for label, weight in class_weight.items()}
    unknown = sorted(given.keys() - set(texts))
    if unknown and tree is not None:
        # Positions are texts here too, and a part of the samples may lack some classes.
        counted = {str(position) for position in range(tree.num_classes)}
        unknown = [text for text in find_nodes(np.array(unknown), tree, "names")[1] if text not in counted]
    if unknown:
        raise ValueError(f"class_weight has labels that neither y nor the tree has: {unknown[:5]}")
    for text, weight in given.items():
        check_number(f"class_weight of {text!r}", weight)
    each = np.array([float(given.get(text, 1.0)) for text in texts])
    weights = weights * each[place]
    if not weights.any():
        raise ValueError("class_weight and sample_weight leave no sample with a weight above 0")
    return weights


def draw_epoch(chosen: Ints, weights: Floats | None, rng: np.random.Generator) -> Ints:
    """As many samples as are chosen, in random order, each as often as its weight says.

    With n chosen samples and weights of mean one, sample i occurs floor(w_i) or ceil(w_i) times, w_i on
    average (systematic sampling: Madow, 1949, Annals of Mathematical Statistics 20(3)).

    Args:
        chosen: (n,) positions of samples.
        weights: What each sample counts, by position; None for equally much.
        rng: Decides.

    Example:
        >>> np.bincount(draw_epoch(np.arange(4), np.array([2.0, 1.0, 1.0, 0.0]), np.random.default_rng(0)))
        array([2, 1, 1])
    """
    order = rng.permutation(chosen)
    if weights is None or not len(order):
        return order
    ends = np.cumsum(weights[order]) * (len(order) / weights[order].sum())
    # The last end is whole, whatever rounding says.
    ends[-1] = len(order)
    counts = np.diff(np.floor(ends + rng.random()), prepend=0.0).astype(np.int64)
    return rng.permutation(np.repeat(order, counts))
