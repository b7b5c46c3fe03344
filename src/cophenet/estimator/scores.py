"""Scores that use the tree: those printed by `cophenet embed`, and a scorer for scikit-learn."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

from cophenet import metrics
from cophenet._common.checks import UndefinedWarning
from cophenet.cpcc import cpcc
from cophenet.estimator.embedder import HierarchicalEmbedder
from cophenet.estimator.labels import class_positions, find_known, find_nodes, to_tree
from cophenet.tree import Hierarchy

__all__ = ["FileScores", "TreeDistanceScorer"]

Floats = NDArray[np.floating]


class FileScores:
    """Scores of a file, accumulated by block: CPCC before and after, accuracy at every level.

    Args:
        embedder: The fitted estimator.
        fitted_here: Whether it was fitted on this file. The accuracy is then that on the calibration samples,
            by networks that have not seen them; otherwise that on the file.

    Example:
        >>> rows = np.repeat([[0.0, 1.0], [1.0, 0.0], [5.0, 5.0]], 20, axis=0)
        >>> names = np.repeat(["cat", "dog", "bus"], 20)
        >>> tree = {"pet": ["cat", "dog"], "car": ["bus"]}
        >>> embedder = HierarchicalEmbedder(tree, max_iter=9, hidden_size=8, random_state=0).fit(rows, names)
        >>> scores = FileScores(embedder, fitted_here=True)
        >>> scores.add(rows, embedder.transform(rows), names.tolist())
        >>> [row[:2] for row in scores.rows()]
        [('accuracy', 'level1'), ('accuracy', 'level2'), ('CPCC', 'given'), ('CPCC', 'reshaped')]
    """

    def __init__(self, embedder: HierarchicalEmbedder, *, fitted_here: bool) -> None:
        self.embedder, self.fitted_here = embedder, fitted_here
        self._given, self._reshaped = _ClassMeans(embedder.tree_), _ClassMeans(embedder.tree_)
        self._right: dict[str, float] = {}
        self._count = 0

    def add(self, given: Floats, reshaped: Floats, labels: list[str]) -> None:
        """Add some rows; those labelled with an inner node are skipped.

        Raises:
            ValueError: If the model does not know a label.
        """
        embedder, tree = self.embedder, self.embedder.tree_
        nodes = find_known(labels, embedder.classes_.astype(str), tree, len(given))
        position = class_positions(tree)[nodes]
        known = np.flatnonzero(position >= 0)
        if not len(known):
            return
        self._given.add(given[known], position[known])
        self._reshaped.add(reshaped[known], position[known])
        if not self.fitted_here:
            chances = torch.from_numpy(embedder.predict_proba(given[known])).double()
            rates = metrics.level_accuracy(chances, torch.from_numpy(position[known]), tree)
            for level, rate in rates.items():
                self._right[level] = self._right.get(level, 0.0) + float(rate) * len(known)
            self._count += len(known)

    def rows(self) -> list[tuple[str, str, str]]:
        """Rows of metric, level or kind of vectors, and value."""
        from cophenet.report.table import number

        if self.fitted_here:
            rates = self.embedder.decision_report_.get("accuracy", {})
        else:
            rates = {level: right / self._count for level, right in self._right.items()}
        rows = [("accuracy", level, number(rate, "fraction")) for level, rate in rates.items()]
        for name, means in (("given", self._given), ("reshaped", self._reshaped)):
            value = means.cpcc()
            rows += [] if value is None else [("CPCC", name, number(value, "fraction"))]
        return rows


class _ClassMeans:
    """Class means, accumulated by block."""

    def __init__(self, tree: Hierarchy) -> None:
        self.tree = tree
        self.counts = np.zeros(tree.num_classes, dtype=np.int64)
        self.sums: NDArray[np.float64] | None = None

    def add(self, rows: Floats, classes: NDArray[np.int64]) -> None:
        if self.sums is None:
            self.sums = np.zeros((len(self.counts), rows.shape[1]))
        np.add.at(self.sums, classes, rows)
        self.counts += np.bincount(classes, minlength=len(self.counts))

    def cpcc(self) -> float | None:
        """CPCC with the distance of class means; None where it is undefined."""
        present = np.flatnonzero(self.counts)
        if self.sums is None or len(present) < 3:
            return None
        target = torch.from_numpy(self.tree.condensed(present))
        distances = torch.from_numpy(pdist(self.sums[present] / self.counts[present, None]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UndefinedWarning)
            value = float(cpcc(distances, target))
        return None if math.isnan(value) else value


class TreeDistanceScorer:
    """Negative mean tree distance of prediction and truth; higher is better, 0 is best.

    For `GridSearchCV(..., scoring=TreeDistanceScorer(tree))`, with this or any other classifier or pipeline.

    Args:
        tree: As for `HierarchicalEmbedder`.
        labels: How labels are given: as "names" of classes of the tree, or as "positions" in them.

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
            ValueError: If a label or a prediction is not a class of the tree.
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
