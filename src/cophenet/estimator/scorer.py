"""A score for searches of scikit-learn that knows the tree: how far answers are from the truth in it."""

from __future__ import annotations

from typing import Any

import numpy as np

from cophenet.estimator.labels import class_positions, find_nodes, to_tree

__all__ = ["TreeDistanceScorer"]


class TreeDistanceScorer:
    """Minus the mean tree distance of answer and truth; higher is better, 0 is best.

    For `GridSearchCV(..., scoring=TreeDistanceScorer(tree))`, over this or any other classifier or pipeline.

    Args:
        tree: As for `HierarchicalEmbedder`.
        labels: What labels are: "names" of classes of the tree, or "positions" in them.

    Example:
        >>> from sklearn.dummy import DummyClassifier
        >>> rows, names = np.zeros((4, 1)), np.array(["cat", "cat", "dog", "bus"])
        >>> always_cat = DummyClassifier().fit(rows, names)
        >>> TreeDistanceScorer({"pet": ["cat", "dog"], "car": ["bus"]})(always_cat, rows, names)
        -1.5
    """

    def __init__(self, tree: Any, labels: str = "names") -> None:
        self.tree, self.labels = to_tree(tree), labels

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:  # noqa: N803
        """The score of a fitted classifier on vectors with labels.

        Raises:
            ValueError: If a label or an answer is no class of the tree.
        """
        truth, answers = (self._classes(given) for given in (y, estimator.predict(X)))
        return -float(self.tree.pair_distances(truth, answers).mean())

    def _classes(self, given: Any) -> Any:
        present, inverse = np.unique(np.asarray(given), return_inverse=True)
        nodes, missing = find_nodes(present, self.tree, self.labels)
        found = class_positions(self.tree)[nodes]
        if missing or (found < 0).any():
            wrong = missing or present[found < 0].tolist()
            raise ValueError(f"tree distances need classes of the tree, got {wrong[:5]!r}")
        return found[inverse]
