"""Contents of `details.json`: all data that a report needs of one seed, except the features."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from cophenet.metrics._blocks import row_blocks
from cophenet.tree.lookup_tables import tree_tables

if TYPE_CHECKING:
    from torch import Tensor

    from cophenet.data import Samples
    from cophenet.metrics.cards import FeatureSet
    from cophenet.tree import Hierarchy

__all__ = ["FORMAT", "confusion", "describe_test", "node_accuracy", "show_inputs", "worst_mistakes"]

FORMAT = 1
_WORST = 20
_THUMBNAIL = 64
Labels = NDArray[np.int64]


def describe_test(test: FeatureSet, distances: Mapping[str, tuple[Tensor, Tensor]]) -> dict[str, Any]:
    """Create the document.

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
            name: _class_table(classes, rho, tree.num_classes) for name, (classes, rho) in distances.items()
        },
        "confusion": confusion(labels, predicted, tree.num_classes),
        # How a node is predicted. Files without this key used the ancestor of the predicted class.
        "node_prediction": "summed",
        "node_accuracy": node_accuracy(probabilities, test.labels, tree),
        "worst_mistakes": worst_mistakes(labels, predicted, chosen, tree),
    }


def _class_table(classes: Tensor, rho: Tensor, num_classes: int) -> list[float | None]:
    """Condensed distances of all classes, given those of the classes present; None if a class is absent.

    Example:
        >>> import torch
        >>> _class_table(torch.tensor([0, 2]), torch.tensor([1.5]), 3)
        [None, 1.5, None]
    """
    table = np.full((num_classes, num_classes), np.nan)
    first, second = np.triu_indices(len(classes), 1)
    labels = classes.numpy()
    table[labels[first], labels[second]] = rho.detach().numpy()
    condensed = table[np.triu_indices(num_classes, 1)]
    return [None if np.isnan(value) else value for value in condensed.tolist()]


def confusion(labels: Labels, predicted: Labels, num_classes: int) -> list[list[int]]:
    """Non-zero entries of the confusion matrix as (true, predicted, count), sorted.

    Example:
        >>> confusion(np.array([0, 0, 1]), np.array([1, 1, 1]), 2)
        [[0, 1, 2], [1, 1, 1]]
    """
    pairs, counts = np.unique(labels * num_classes + predicted, return_counts=True)
    return np.stack((pairs // num_classes, pairs % num_classes, counts), axis=1).tolist()  # type: ignore[no-any-return]


def node_accuracy(
    probabilities: Tensor, labels: Tensor, tree: Hierarchy
) -> dict[str, dict[str, float | int | None]]:
    """For each node, the share of the samples below it for which it is predicted.

    Consistent with `level_accuracy` at every level: the predicted node of a level is the one with the largest
    summed probability. A leaf is compared with the other leaves.

    Args:
        probabilities: (N, C).
        labels: (N,) true classes.
        tree: The label tree.

    Example:
        >>> from cophenet.tree import Hierarchy
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/")
        >>> p = torch.tensor([[0.3, 0.3, 0.4], [0.1, 0.8, 0.1]])
        >>> rates = node_accuracy(p, torch.tensor([0, 1]), tree)
        >>> rates[str(tree.node("pet"))], rates[str(tree.node("cat"))]
        ({'accuracy': 1.0, 'samples': 2}, {'accuracy': 0.0, 'samples': 1})
    """
    tables = tree_tables(tree, labels.device)
    right, total = (np.zeros((tree.num_levels, tree.num_nodes), dtype=np.int64) for _ in range(2))
    ancestors = [tree.ancestors(level) for level in tree.level_names]
    for rows in row_blocks(len(labels), 2 * tree.num_classes):
        levels = tables.level_sums(probabilities[rows], labels[rows])
        for depth, (sums, own) in zip(range(tree.num_levels - 1, -1, -1), levels, strict=True):
            nodes = ancestors[depth][labels[rows].numpy()]
            hit = (sums.argmax(1) == own).numpy()
            total[depth] += np.bincount(nodes, minlength=tree.num_nodes)
            right[depth] += np.bincount(nodes[hit], minlength=tree.num_nodes)
    # A class above the deepest level occurs at several levels: it is counted at the deepest one, as a class.
    own_level = np.where(tree.heights == 0, tree.num_levels, np.maximum(tree.depths, 1)) - 1
    places = np.arange(tree.num_nodes)
    hits, samples = right[own_level, places], total[own_level, places]
    hits[0] = samples[0] = len(labels)
    return {
        str(node): {"accuracy": hit / count if count else None, "samples": count}
        for node, (hit, count) in enumerate(zip(hits.tolist(), samples.tolist(), strict=True))
    }


def show_inputs(mistakes: Sequence[dict[str, Any]], samples: Samples) -> None:
    """Add the inputs to mistakes: "file", the name of the file, and "image", a small PNG as base64.

    Args:
        mistakes: Mistakes as returned by `worst_mistakes`, changed in place.
        samples: The test samples before any network; "image" is added for images only.
    """
    if not mistakes:
        return
    places = np.array([one["index"] for one in mistakes])
    for one, name in zip(mistakes, samples.inputs.names(samples.rows[places]), strict=True):
        if name:
            one["file"] = name
    inputs, _ = samples.take(places)
    if inputs.dtype != torch.uint8 or inputs.ndim != 4 or inputs.shape[1] not in (1, 3):
        return
    from PIL import Image

    for one, pixels in zip(mistakes, inputs.permute(0, 2, 3, 1).numpy(), strict=True):
        image = Image.fromarray(pixels.squeeze(-1) if pixels.shape[-1] == 1 else np.ascontiguousarray(pixels))
        image.thumbnail((_THUMBNAIL, _THUMBNAIL))
        stream = io.BytesIO()
        image.save(stream, format="PNG")
        one["image"] = base64.b64encode(stream.getvalue()).decode()


def worst_mistakes(
    labels: Labels, predicted: Labels, probabilities: NDArray[np.float64], tree: Hierarchy
) -> list[dict[str, Any]]:
    """The mistakes with the largest tree distance, at most 20; ties sorted by descending probability.

    Args:
        labels: (N,) true classes.
        predicted: (N,) predicted classes.
        probabilities: (N,) probabilities of the predicted classes.
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
