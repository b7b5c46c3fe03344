"""What `details.json` holds: everything a report draws of one seed beside the features themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

    from cophenet.metrics.cards import FeatureSet
    from cophenet.tree import Hierarchy

__all__ = ["FORMAT", "class_table", "confusion", "describe_test", "node_accuracy", "worst_mistakes"]

FORMAT = 1
_WORST = 20
Labels = NDArray[np.int64]


def describe_test(test: FeatureSet, distances: Mapping[str, tuple[Tensor, Tensor]]) -> dict[str, Any]:
    """The whole document.

    Args:
        test: The test samples with the logits of their classes.
        distances: Name of a class distance -> the classes present and their condensed distances.
    """
    probabilities = test.logits.double().softmax(1)
    chosen, predicted = (column[:, 0].numpy() for column in probabilities.topk(1, dim=1))
    labels, tree = test.labels.numpy(), test.tree
    return {
        "format": FORMAT,
        "tree": {"names": list(tree.names), "parents": tree.parents.tolist()},
        "classes": list(tree.classes),
        "levels": list(tree.level_names),
        "class_distances": {
            name: class_table(classes, rho, tree.num_classes) for name, (classes, rho) in distances.items()
        },
        "confusion": confusion(labels, predicted, tree.num_classes),
        "node_accuracy": node_accuracy(labels, predicted, tree),
        "worst_mistakes": worst_mistakes(labels, predicted, chosen, tree),
    }


def class_table(classes: Tensor, rho: Tensor, num_classes: int) -> list[float | None]:
    """Condensed distances of all classes from those of the classes present; None where one is absent.

    Example:
        >>> import torch
        >>> class_table(torch.tensor([0, 2]), torch.tensor([1.5]), 3)
        [None, 1.5, None]
    """
    table = np.full((num_classes, num_classes), np.nan)
    first, second = np.triu_indices(len(classes), 1)
    labels = classes.numpy()
    table[labels[first], labels[second]] = rho.detach().numpy()
    condensed = table[np.triu_indices(num_classes, 1)]
    return [None if np.isnan(value) else value for value in condensed.tolist()]


def confusion(labels: Labels, predicted: Labels, num_classes: int) -> list[list[int]]:
    """The entries that are not zero, as (true, predicted, count), in order.

    Example:
        >>> confusion(np.array([0, 0, 1]), np.array([1, 1, 1]), 2)
        [[0, 1, 2], [1, 1, 1]]
    """
    pairs, counts = np.unique(labels * num_classes + predicted, return_counts=True)
    return np.stack((pairs // num_classes, pairs % num_classes, counts), axis=1).tolist()  # type: ignore[no-any-return]


def node_accuracy(
    labels: Labels, predicted: Labels, tree: Hierarchy
) -> dict[str, dict[str, float | int | None]]:
    """For each node, the share of the samples below it whose predicted class is below it too.

    Example:
        >>> from cophenet.tree import Hierarchy
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/")
        >>> rates = node_accuracy(np.array([0, 1]), np.array([1, 1]), tree)
        >>> rates[str(tree.node("pet"))], rates[str(tree.node("cat"))]
        ({'accuracy': 1.0, 'samples': 2}, {'accuracy': 0.0, 'samples': 1})
    """
    right, total = (np.zeros(tree.num_nodes, dtype=np.int64) for _ in range(2))
    right[0] = total[0] = len(labels)
    for level in tree.level_names:
        nodes = tree.ancestors(level)
        own = nodes[labels]
        here = np.bincount(own, minlength=tree.num_nodes)
        hits = np.bincount(own[own == nodes[predicted]], minlength=tree.num_nodes)
        # A class above a level is met again there, with the same counts.
        right, total = np.where(here > 0, hits, right), np.where(here > 0, here, total)
    return {
        str(node): {"accuracy": hits / samples if samples else None, "samples": samples}
        for node, (hits, samples) in enumerate(zip(right.tolist(), total.tolist(), strict=True))
    }


def worst_mistakes(
    labels: Labels, predicted: Labels, probabilities: NDArray[np.float64], tree: Hierarchy
) -> list[dict[str, float | int]]:
    """The mistakes farthest apart in the tree, the most certain first among equals.

    Args:
        labels: (N,) true classes.
        predicted: (N,) predicted classes.
        probabilities: (N,) of the predicted classes.
        tree: The label tree.
    """
    wrong = np.flatnonzero(labels != predicted)
    apart = tree.pair_distances(labels[wrong], predicted[wrong])
    order = np.lexsort((wrong, -probabilities[wrong], -apart))[:_WORST]
    return [
        {
            "index": int(wrong[place]),
            "true": int(labels[wrong[place]]),
            "predicted": int(predicted[wrong[place]]),
            "tree_distance": float(apart[place]),
            "probability": float(probabilities[wrong[place]]),
        }
        for place in order
    ]
