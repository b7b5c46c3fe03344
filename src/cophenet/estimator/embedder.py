"""The estimator."""

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
from cophenet.estimator import storage
from cophenet.estimator.from_run import RunNetwork, check_bytes, flat_inputs, read_run
from cophenet.estimator.labels import to_tree
from cophenet.estimator.onnx import write_onnx
from cophenet.estimator.prediction import DecisionMixin
from cophenet.estimator.samples import blocks, float_type
from cophenet.estimator.search import SearchMixin
from cophenet.estimator.training import Fitted, train_embedder
from cophenet.estimator.validation import check_parameters, check_rows, fit_weights
from cophenet.tree.tables import add_columns

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

    Four small networks are trained side by side on the standardised vectors, by cross entropy at every level
    of the tree and CPCC; `tree_strength` says how much the tree decides. Or a residual adapter is trained by
    one of the objectives of `cophenet.objectives`. A label may be a class or an inner node: a sample known
    only as "dog" trains the levels it knows. Some samples calibrate decisions: each of them is left out by
    one of the four networks. Where that makes these samples likelier, the nearest training samples have a say
    in answers (`cophenet.estimator.neighbors`); then their reshaped vectors are part of the model.

    Args:
        tree: A `Hierarchy`, a nested dict, a list of paths, the name of a tree file; or None to infer a tree
            from the class means.
        tree_strength: How much the tree decides, from 0 (not at all) to 1 (distances follow it as far as
            possible); "auto" for what improves all levels.
        objective: "auto"; or to train an adapter, a name from `cophenet.objectives.objective_names()`: that
            of a class distance is cross entropy with CPCC.
        objective_options: Options of a named objective, such as ``{"weight": 0.5}``.
        labels: What labels are: "names" of nodes of the tree (the number 7 is "7"), or "positions" in the
            classes of the tree, from 0.
        class_weight: What samples of each label count, times their own weight: a mapping of labels to
            weights, 1 for those it leaves out; "balanced", so that all labels count the same in sum; None.
        n_components: Size of a reshaped vector, at most that of the four hidden layers; None for the number
            of classes, but at most that of the input and at least 64. With a named objective None is that of
            the input.
        hidden_size: Size of a hidden layer; 0 for a linear network.
        learning_rate: Step size of AdamW, at its highest; "auto" for 0.002, less for vectors of more than 384
            numbers in proportion, 1.4 times as much from 20,000 samples on; with a named objective 0.003.
        weight_decay: Weight decay of AdamW; "auto" for 0.01, with a named objective 1.
        batch_size: Samples of a step; "auto" for 256, or for an eighth of fewer samples, but at least 32; for
            512 from 20,000 samples on.
        max_iter: Epochs; "auto" for 20, more where samples are few and down to 6 where they are very many.
            With a named objective epochs at most, in all of its phases together; "auto" for 100.
        n_iter_no_change: With a named objective, stop after so many epochs in which the held-out loss is not
            the lowest so far.
        validation_fraction: With a named objective, share of the samples held out to stop in time; 0 to train
            all epochs.
        calibration_fraction: Share of the samples that calibrate decisions; 0 for none.
        error_target: Largest expected share of wrong answers of the decision "specific-if-confident".
        random_state: Seed, `numpy.random.RandomState` or None, as in scikit-learn.
        device: Where to compute, as torch names it.
        verbose: Whether to show a progress bar.

    Attributes:
        classes_: (C,) the classes that the labels reach, ascending.
        tree_: Their tree, its classes in the order of `classes_`.
        given_tree_: The whole tree that was given; None if the tree was inferred.
        n_features_in_: Size of a vector.
        n_iter_: Epochs trained.
        history_: Epoch, loss and held-out loss of every epoch.
        decision_report_: What "specific-if-confident" does on the samples that calibrate it, and the
            "accuracy" on them at every level, by networks that have not seen them.
        decision_curve_: Its errors on them against how specific it is; None without such samples.

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

        There is no `partial_fit`: the scale of the inputs, the length of the training and the samples that
        calibrate decisions follow from all samples. A memory map trains on what does not fit in memory.

        Args:
            X: (n, d) numbers: numpy, torch, pandas, polars, or a memory map, of which only batches are read.
            y: (n,) names or numbers of classes or inner nodes.
            sample_weight: (n,) how often each sample is seen, relative to the others: one of weight 2 counts
                like two of weight 1, and those of weight 0 are left out (of a memory map, the others are then
                copied). Decisions are calibrated without weights. None for 1.

        Raises:
            ValueError: If a parameter, the vectors, the labels or the weights are wrong.
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
        """Probabilities, in the float type of the input.

        Args:
            X: (n, d) vectors.
            level: Depth or name of a level of `tree_`, for sums over the classes below its nodes; None for
                the classes.

        Returns:
            (n, C) in the order of `classes_`, or (n, nodes) in that of `tree_.cut(level)[0].classes`.
        """
        return self._proba(self._rows(X), level)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a folder of `model.safetensors` and JSON files; an older model in its place is replaced.

        Raises:
            ValueError: If there is something else in its place.
        """
        check_is_fitted(self)
        storage.save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: str | None = None) -> HierarchicalEmbedder:
        """Read what `save` wrote; nothing is unpickled, and nothing that the folder names is run.

        Args:
            path: The folder.
            device: Where to compute; None for where the model was fitted, or with a warning for the CPU where
                there is no such device.

        Raises:
            ValueError: If the folder holds no model, a damaged one, or one of a newer format.
        """
        return storage.load(cls(), path, device)

    @classmethod
    def from_run(cls, path: str | os.PathLike[str], *, trust: bool = False) -> HierarchicalEmbedder:
        """The network of a trained run, for inference; of several seeds, give the folder of one.

        Inputs are then what the run's data set holds, flattened or not: images as bytes 0..255, of the size
        that they have there (files: that of the recipe); other numbers are refused. Resizing, normalization
        and a frozen backbone are part of the network. The data set is read once, for its mean. Nothing is
        held out of a run, so call `calibrate` before the decision "specific-if-confident".

        Args:
            path: The folder.
            trust: Whether code of a user's own that the folder names may run, such as a backbone by import
                path.

        Raises:
            TrustError: If the folder names such code and may not.
            ValueError: If there is no such run, or it has several seeds.
        """
        parameters, fitted = read_run(path, trust=trust)
        estimator = cls(**parameters)
        estimator._set_fitted(fitted)
        return estimator

    def to_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write an ONNX file: "vectors" (n, d) float32 -> "embedding" and "probabilities".

        The file is run with onnxruntime and compared before it takes its place.
        """
        check_is_fitted(self)
        write_onnx(self, path)

    def __sklearn_tags__(self) -> Any:
        """Results have the float type of the input."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _set_fitted(self, fitted: Fitted) -> None:
        """Set what was learned, not calibrated yet; an index of another network is removed."""
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
        """The network and its inputs for all or the chosen rows, by block; in float64 if the rows are."""
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
        """Probabilities in float64 on the host, by block."""
        for part, network, inputs in self._blocks(rows, chosen):
            features, logits = network(inputs)
            probabilities = logits.double().softmax(1)
            if self.neighbors_ is not None:
                probabilities = self.neighbors_.blend(probabilities, features)
            yield part, probabilities.cpu()

    def _features(self, rows: Array) -> Iterator[tuple[slice, Array]]:
        """Reshaped vectors on the host, by block."""
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
