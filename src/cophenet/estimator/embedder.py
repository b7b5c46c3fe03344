"""The scikit-learn estimator `HierarchicalEmbedder`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from cophenet._common.arrays import release_pages
from cophenet.estimator import saving
from cophenet.estimator.from_run import RunNetwork, check_bytes, flat_inputs, read_run
from cophenet.estimator.labels import to_tree
from cophenet.estimator.onnx import write_onnx
from cophenet.estimator.prediction import DecisionMixin
from cophenet.estimator.samples import blocks, float_type
from cophenet.estimator.search import SearchMixin
from cophenet.estimator.training import Fitted, train_embedder
from cophenet.estimator.validation import check_parameters, check_rows, fit_weights
from cophenet.tree.lookup_tables import add_columns

__all__ = ["HierarchicalEmbedder"]

Array = NDArray[Any]
Ints = NDArray[np.int64]


@dataclass(eq=False, repr=False)
class HierarchicalEmbedder(
    DecisionMixin,
    SearchMixin,
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    ClassifierMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Reshape vectors so that they follow a label tree, and classify with the tree in mind.

    By default, four small networks are trained together on the standardised vectors, with cross entropy at
    every level of the tree and CPCC; `tree_strength` sets the influence of the tree. With a named objective,
    a residual adapter is trained with that objective of `cophenet.objectives` instead. A label may be a class
    or an inner node: a sample labelled only "dog" trains the levels that this label determines. Some samples
    calibrate decisions: each of them is left out by one of the four networks. If this raises the likelihood
    of these samples, votes of the nearest training samples are blended into predictions
    (`cophenet.estimator.neighbors`); the reshaped vectors of the training samples are then part of the model.

    Args:
        tree: A `Hierarchy`, a nested dict, a list of paths, the name of a tree file; or None to infer a tree
            from the class means.
        tree_strength: Influence of the tree, from 0 (none) to 1 (distances follow it as far as possible);
            "auto" for 0.3, which improves all levels.
        objective: "auto" for the default training; or a name from `cophenet.objectives.objective_names()` to
            train an adapter. The name of a class distance means cross entropy with CPCC.
        objective_options: Options of a named objective, such as ``{"weight": 0.5}``.
        labels: How labels are given: as "names" of nodes of the tree (the number 7 is "7"), or as "positions"
            in the classes of the tree, from 0.
        class_weight: Weights of labels, multiplied with the sample weights: a mapping of labels to weights, 1
            for labels that are missing; "balanced", so that all labels have the same total weight; or None.
        n_components: Size of a reshaped vector, at most the total size of the four hidden layers; None for
            the number of classes, but at most the input size and at least 64. With a named objective, None is
            the input size.
        hidden_size: Size of a hidden layer; 0 for a linear network.
        learning_rate: Highest learning rate of AdamW; "auto" for 0.002, reduced in proportion for vectors of
            more than 384 numbers, and 1.4 times as high from 20,000 samples on; 0.003 with a named objective.
        weight_decay: Weight decay of AdamW; "auto" for 0.01, with a named objective 1.
        batch_size: Samples per step; "auto" for an eighth of the samples, but at least 32 and at most 256
            (512 from 20,000 samples on, without a named objective).
        max_iter: Number of epochs; "auto" for 20, more if samples are few, and down to 6 if they are very
            many. With a named objective, the largest number of epochs of all its phases together; "auto" for
            100.
        n_iter_no_change: With a named objective, stop a phase after this many epochs without a new lowest
            held-out loss.
        validation_fraction: With a named objective, share of the samples held out for early stopping; 0 to
            train all epochs.
        calibration_fraction: Share of the samples that calibrate decisions; 0 for none.
        error_target: Largest expected share of wrong predictions of the decision "specific-if-confident".
        random_state: Seed, `numpy.random.RandomState` or None, as in scikit-learn.
        device: Device to compute on, in torch's notation.
        verbose: Whether to show a progress bar.

    Attributes:
        classes_: (C,) the classes that are labels, or lie below labels, ascending.
        tree_: The tree of these classes, in the order of `classes_`.
        given_tree_: The whole tree that was given; None if the tree was inferred.
        n_features_in_: Size of a vector.
        n_iter_: Number of epochs trained.
        history_: Epoch, loss and held-out loss of every epoch.
        decision_report_: Results of "specific-if-confident" on the calibration samples, and the "accuracy" on
            them at every level, by networks that have not seen them.
        decision_curve_: Its error rate on them against how specific it is; None without calibration samples.

    Example:
        >>> vectors = np.random.default_rng(0).normal(size=(80, 5)) + 4 * np.repeat(np.eye(4, 5), 20, axis=0)
        >>> names = np.repeat(["cat", "dog", "bus", "van"], 20)
        >>> tree = {"pet": ["cat", "dog"], "car": ["bus", "van"]}
        >>> embedder = HierarchicalEmbedder(tree, random_state=0).fit(vectors, names)
        >>> embedder.transform(vectors).shape, embedder.predict_path(vectors[:1])
        ((80, 64), [('pet', 'cat')])
    """

    tree: Any = None
    objective: str = "auto"
    _: KW_ONLY
    tree_strength: float | str = "auto"
    objective_options: Mapping[str, Any] | None = None
    labels: str = "names"
    class_weight: Mapping[Any, float] | str | None = None
    n_components: int | None = None
    hidden_size: int = 256
    learning_rate: float | str = "auto"
    weight_decay: float | str = "auto"
    batch_size: int | str = "auto"
    max_iter: int | str = "auto"
    n_iter_no_change: int = 10
    validation_fraction: float = 0.1
    calibration_fraction: float = 0.1
    error_target: float = 0.05
    random_state: Any = None
    device: str | torch.device = "cpu"
    verbose: bool = False

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> HierarchicalEmbedder:  # noqa: N803
        """Train on vectors with labels.

        There is no `partial_fit`: the scale of the inputs, the number of epochs and the calibration samples
        depend on all samples. Data that does not fit in memory can be given as a memory map.

        Args:
            X: (n, d) numbers: numpy, torch, pandas, polars, or a memory map, of which only batches are read.
            y: (n,) names or numbers of classes or inner nodes.
            sample_weight: (n,) how often each sample is seen, relative to the others: a sample of weight 2
                counts like two of weight 1, and samples of weight 0 are left out (of a memory map, the others
                are then copied). Decisions are calibrated without weights. None for equal weights.

        Raises:
            ValueError: If a parameter, the vectors, the labels or the weights are invalid.
        """
        check_parameters(self)
        rows, labels = check_rows(self, X, y, reset=True)
        given = None if self.tree is None else to_tree(self.tree)
        weights = fit_weights(labels, sample_weight, self.class_weight, given)
        if weights is not None and not weights.all():
            used = weights > 0
            rows, labels, weights = rows[used], labels[used], weights[used]
        fitted, held_out = train_embedder(self, rows, labels, given, weights)
        self._set_fitted(fitted)
        self._calibrate(rows, *held_out)
        return self

    def transform(self, X: Any) -> Array:  # noqa: N803
        """Reshaped vectors, in the float type of the input. (n, d) -> (n, n_components)."""
        return self._embed(self._rows(X))

    def predict_proba(self, X: Any, level: int | str | None = None) -> Array:  # noqa: N803
        """Class probabilities, in the float type of the input.

        Args:
            X: (n, d) vectors.
            level: Depth or name of a level of `tree_`, to sum over the classes below each of its nodes; None
                for the classes.

        Returns:
            (n, C) in the order of `classes_`, or (n, nodes) in the order of `tree_.cut(level)[0].classes`.
        """
        return self._proba(self._rows(X), level)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a folder of `model.safetensors` and JSON files; an existing saved model is replaced.

        Raises:
            ValueError: If the path exists and is not a saved model, or the estimator was loaded from a run.
        """
        check_is_fitted(self)
        saving.save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: str | None = None) -> HierarchicalEmbedder:
        """Load a saved model; nothing is unpickled, and no code named by the folder is run.

        Args:
            path: The folder.
            device: Device to compute on; None for the device of training, or the CPU, with a warning, if that
                device is not available.

        Raises:
            ValueError: If the folder holds no model, a damaged one, or one of a newer format.
        """
        return saving.load(cls(), path, device)

    @classmethod
    def from_run(cls, path: str | os.PathLike[str], *, trust: bool = False) -> HierarchicalEmbedder:
        """Load the network of a trained run for inference; of a run of several seeds, give the folder of one.

        Inputs are then inputs of the run's data set, flattened or not: images as bytes 0..255, of the size
        that they have there (image files: the size in the recipe); other numbers raise an error. Resizing,
        normalization and a frozen backbone are part of the network. The data set is read once, for its mean.
        A run has no calibration samples, so call `calibrate` before using the decision
        "specific-if-confident".

        Args:
            path: The folder.
            trust: Whether to run user code that the folder names, such as a backbone given by import path.

        Raises:
            TrustError: If the folder names such code and `trust` is False.
            ValueError: If there is no such run, or it has several seeds.
        """
        parameters, fitted = read_run(path, trust=trust)
        estimator = cls(**parameters)
        estimator._set_fitted(fitted)
        return estimator

    def to_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write an ONNX file: "vectors" (n, d) float32 -> "embedding" and "probabilities".

        The file is run with onnxruntime and compared with the estimator before it is saved.
        """
        check_is_fitted(self)
        write_onnx(self, path)

    def __sklearn_tags__(self) -> Any:
        """Tags: results have the float type of the input."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _set_fitted(self, fitted: Fitted) -> None:
        """Set the fitted state, not calibrated yet; remove the search index of an earlier network."""
        self.__dict__.pop("index_", None)
        self.classes_, self.tree_, self.given_tree_ = fitted.classes, fitted.tree, fitted.given_tree
        self.network_, self.input_scale_ = fitted.network, fitted.scale
        self.history_, self.n_iter_ = fitted.history, len(fitted.history)
        self.n_features_in_, self._n_features_out = len(fitted.scale.mean), self.network_.num_features
        self.calibration_scores_, self.decision_report_ = np.zeros(0), {}
        self.calibration_counts_, self.decision_curve_ = None, None
        self.uncalibrated_, self.familiarity_ = fitted.uncalibrated, fitted.familiarity
        self.neighbors_ = fitted.neighbors

    def _rows(self, X: Any) -> Array:  # noqa: N803
        check_is_fitted(self)
        network = self.network_
        if not isinstance(network, RunNetwork):
            return np.asarray(check_rows(self, X))
        rows = np.asarray(check_rows(self, flat_inputs(X, network.shape)))
        if network.is_bytes:
            check_bytes(rows)
        return rows

    def _blocks(self, rows: Array, chosen: Ints | None = None) -> Iterator[tuple[slice, Any, Tensor]]:
        """Yield slice, network and inputs of all or the chosen rows, by block; in float64 if the rows are."""
        dtype = torch.float64 if rows.dtype == np.float64 else torch.float32
        network = self.network_ if dtype == torch.float32 else deepcopy(self.network_).double()
        width = rows.shape[1] + getattr(network, "num_values", self._n_features_out + len(self.classes_))
        width += 0 if self.neighbors_ is None else len(self.neighbors_.classes)
        with torch.inference_mode():
            for part in blocks(len(rows) if chosen is None else len(chosen), width):
                block = rows[part if chosen is None else chosen[part]]
                yield part, network, self.input_scale_(block, dtype).to(self.device)
                release_pages(rows)

    def _probabilities(self, rows: Array, chosen: Ints | None = None) -> Iterator[tuple[slice, Tensor]]:
        """Yield slices and probabilities in float64 on the host, by block."""
        for part, network, inputs in self._blocks(rows, chosen):
            features, logits = network(inputs)
            probabilities = logits.double().softmax(1)
            if self.neighbors_ is not None:
                probabilities = self.neighbors_.blend(probabilities, features)
            yield part, probabilities.cpu()

    def _features(self, rows: Array) -> Iterator[tuple[slice, Array]]:
        """Yield slices and reshaped vectors on the host, by block."""
        for part, network, inputs in self._blocks(rows):
            yield part, network(inputs)[0].cpu().numpy()

    def _embed(self, rows: Array) -> Array:
        out = np.empty((len(rows), self._n_features_out), dtype=float_type(rows))
        for part, features in self._features(rows):
            out[part] = features
        return out

    def _proba(self, rows: Array, level: int | str | None = None) -> Array:
        place = None if level is None else torch.from_numpy(self.tree_.cut(level)[1].copy())
        width = len(self.classes_) if place is None else int(place.max()) + 1
        out = np.empty((len(rows), width), dtype=float_type(rows))
        for part, probabilities in self._probabilities(rows):
            out[part] = (probabilities if place is None else add_columns(probabilities, place)).numpy()
        return out
