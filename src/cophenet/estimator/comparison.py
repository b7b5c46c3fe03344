"""Compare the estimator with classifiers of scikit-learn on the same vectors.

Every method is fitted on the same training vectors and measured on the same test vectors, by its predictions
and by the vectors that it works with. Settings of the other methods (C, k) are chosen on a part of the
training vectors.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler, normalize
from torch import Tensor

from cophenet import metrics
from cophenet._common.checks import UndefinedWarning
from cophenet.cpcc import cpcc
from cophenet.estimator.embedder import HierarchicalEmbedder
from cophenet.estimator.samples import split_rows
from cophenet.metrics.mean_average_precision import class_prototypes, level_labels, prototype_map
from cophenet.transport import class_distances
from cophenet.tree import Hierarchy

if TYPE_CHECKING:
    from cophenet.report.table import Unit

__all__ = ["METHODS", "FittedMethod", "Score", "compare_methods", "measure_method", "split_vectors"]

Array = NDArray[Any]
Ints = NDArray[np.int64]

_STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
_NEIGHBORS = (1, 3, 5, 10, 20, 50)


class FittedMethod(NamedTuple):
    """A method after fitting.

    Attributes:
        embed: Maps rows to the vectors that the method works with.
        probabilities: Maps rows to class probabilities (n, C).
    """

    embed: Callable[[Array], Array]
    probabilities: Callable[[Array], Array]


class Score(NamedTuple):
    """A score of a method.

    Attributes:
        value: The score, a fraction for percent; NaN where it is undefined.
        unit: Its unit.

    Example:
        >>> Score(0.8125, "percent").text, Score(0.5, "level").text, Score(math.nan, "percent").text
        ('81.25%', '0.500', '-')
    """

    value: float
    unit: Unit

    @property
    def text(self) -> str:
        """The score as text, "-" where it is undefined."""
        from cophenet.report.table import number

        if math.isnan(self.value):
            return "-"
        return number(self.value, self.unit) + "%" * (self.unit == "percent")


def lda(rows: Array, labels: Ints, tree: Hierarchy, _seed: int) -> FittedMethod:
    """Linear discriminant analysis and its projections, with Ledoit-Wolf shrinkage if samples are few."""
    few = len(rows) < 4 * rows.shape[1]
    model = (
        LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto") if few else LinearDiscriminantAnalysis()
    )
    model.fit(rows, labels)
    return FittedMethod(model.transform, _all_classes(model, tree))


def logistic_regression(rows: Array, labels: Ints, tree: Hierarchy, seed: int) -> FittedMethod:
    """Multinomial logistic regression on standardised vectors; C is chosen on held-out vectors."""
    scale = StandardScaler().fit(rows)
    scaled = scale.transform(rows)
    one, other, own, truth = split_vectors(scaled, labels, seed)

    def fit(strength: float, vectors: Array, codes: Ints) -> Any:
        return LogisticRegression(C=strength, max_iter=200, tol=1e-3).fit(vectors, codes)

    best = max(_STRENGTHS, key=lambda strength: fit(strength, one, own).score(other, truth))
    model = fit(best, scaled, labels)
    chances = _all_classes(model, tree)
    return FittedMethod(scale.transform, lambda given: chances(scale.transform(given)))


def nearest_neighbors(rows: Array, labels: Ints, tree: Hierarchy, seed: int) -> FittedMethod:
    """Nearest neighbours by cosine, weighted by inverse distance; k is chosen on held-out vectors."""

    def votes(known: Array, codes: Ints, queries: Array) -> Callable[[int], Array]:
        most = min(max(_NEIGHBORS), len(known))
        index = NearestNeighbors(n_neighbors=most, algorithm="brute").fit(normalize(known))
        distances, places = index.kneighbors(normalize(queries))
        weights, found = 1 / np.maximum(distances, 1e-6), codes[places]

        def count(k: int) -> Array:
            sums = np.zeros((len(queries), tree.num_classes))
            np.add.at(sums, (np.arange(len(queries))[:, None], found[:, :k]), weights[:, :k])
            return np.asarray(sums / sums.sum(1, keepdims=True))

        return count

    one, other, own, truth = split_vectors(rows, labels, seed)
    tried = votes(one, own, other)
    best = max(_NEIGHBORS, key=lambda k: float((tried(k).argmax(1) == truth).mean()))
    return FittedMethod(lambda given: given, lambda given: votes(rows, labels, given)(best))


def _embedder(strength: float | str) -> Callable[[Array, Ints, Hierarchy, int], FittedMethod]:
    def fit(rows: Array, labels: Ints, tree: Hierarchy, seed: int) -> FittedMethod:
        model = HierarchicalEmbedder(tree, tree_strength=strength, labels="positions", random_state=seed).fit(
            rows, labels
        )
        return FittedMethod(model.transform, _all_classes(model, tree))

    return fit


METHODS: dict[str, Callable[[Array, Ints, Hierarchy, int], FittedMethod]] = {
    "LDA": lda,
    "logistic regression": logistic_regression,
    "nearest neighbours": nearest_neighbors,
    "cophenet, without the tree": _embedder(0),
    "cophenet": _embedder("auto"),
}


def _all_classes(model: Any, tree: Hierarchy) -> Callable[[Array], Array]:
    """Probabilities of all classes of the tree; 0 for classes without training samples."""

    def chances(rows: Array) -> Array:
        out = np.zeros((len(rows), tree.num_classes))
        out[:, model.classes_] = model.predict_proba(rows)
        return out

    return chances


def split_vectors(rows: Array, labels: Ints, seed: int) -> tuple[Array, Array, Ints, Ints]:
    """Split off a quarter of every class: rows to fit, rows to test, labels to fit, labels to test."""
    split = split_rows(labels, 0.25, 0.0, np.random.default_rng(seed))
    return rows[split.train], rows[split.stop], labels[split.train], labels[split.stop]


def compare_methods(
    rows: Array, labels: Ints, tree: Hierarchy, seed: int
) -> Iterator[tuple[str, dict[str, Score]]]:
    """Yield name and scores of every method, fitted on three quarters of the vectors, tested on the rest.

    Args:
        rows: (n, d).
        labels: (n,) positions in the classes of the tree.
        tree: The tree of the classes.
        seed: Seed of the split and of the methods.
    """
    train, test, train_labels, test_labels = split_vectors(rows, labels, seed)
    for name, fit in METHODS.items():
        method = fit(train, train_labels, tree, seed)
        yield name, measure_method(method, (train, train_labels), (test, test_labels), tree)


def measure_method(
    method: FittedMethod, train: tuple[Array, Ints], test: tuple[Array, Ints], tree: Hierarchy
) -> dict[str, Score]:
    """Accuracy and MAP at some levels, mean tree distance of predictions, and CPCC of the vectors.

    Args:
        method: The fitted method.
        train: Its training vectors and labels; MAP ranks the test vectors by the means of these classes.
        test: Test vectors and labels.
        tree: The tree; labels are positions in its classes.

    Returns:
        "accuracy LEVEL", "tree distance" (mean of prediction and truth), "MAP LEVEL" (by class means and
        cosine) and "CPCC" (with fastft; NaN where it is undefined).
    """
    labels, levels = torch.from_numpy(test[1]), tree.summary_levels()
    chances = torch.from_numpy(np.asarray(method.probabilities(test[0]), dtype=np.float64))
    accuracies = metrics.level_accuracy(chances, labels, tree)
    scores = {f"accuracy {name}": Score(float(accuracies[name]), "percent") for name in levels}
    answers = chances.argmax(1).numpy()
    scores["tree distance"] = Score(float(tree.pair_distances(answers, test[1]).mean()), "level")
    one, other = _vectors(method, train[0]), _vectors(method, test[0])
    for name in levels:
        classes, means = class_prototypes(one, level_labels(torch.from_numpy(train[1]), tree, name))
        precision = prototype_map(other, level_labels(labels, tree, name), means, classes)
        scores[f"MAP {name}"] = Score(float(precision), "percent")
    present, distances = class_distances(other, labels, distance="fastft")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedWarning)
        scores["CPCC"] = Score(float(cpcc(distances, tree.condensed(present.tolist()))), "percent")
    return scores


def _vectors(method: FittedMethod, rows: Array) -> Tensor:
    return torch.from_numpy(np.asarray(method.embed(rows), dtype=np.float32))
