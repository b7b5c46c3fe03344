"""Predictions of the estimator: classes, or inner nodes where no class is likely enough."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cophenet._common.checks import check_choice, check_share, wrong_argument
from cophenet.estimator import decisions
from cophenet.estimator.decision_curve import DecisionCurve, decision_curve
from cophenet.estimator.familiarity import Familiarity, Unlike
from cophenet.estimator.labels import class_positions, classes_below, find_known, node_labels
from cophenet.estimator.neighbors import Neighbors
from cophenet.estimator.samples import Scale, blocks
from cophenet.estimator.validation import check_weights
from cophenet.metrics.accuracy import level_accuracy
from cophenet.tree import Hierarchy

__all__ = ["DecisionMixin"]

Array = NDArray[Any]
Ints = NDArray[np.int64]


class DecisionMixin:
    """Predictions from the probabilities of an estimator, which defines `_rows` and `_probabilities`."""

    network_: Any
    input_scale_: Scale
    history_: list[dict[str, float]]
    neighbors_: Neighbors | None
    classes_: Array
    tree_: Hierarchy
    given_tree_: Hierarchy | None
    error_target: float
    labels: str
    calibration_scores_: NDArray[np.float64]
    uncalibrated_: float
    calibration_counts_: Ints | None
    decision_report_: dict[str, Any]
    decision_curve_: DecisionCurve | None
    familiarity_: Familiarity | None

    def _rows(self, X: Any) -> Array:  # noqa: N803
        raise NotImplementedError

    def _probabilities(self, rows: Array, chosen: Ints | None = None) -> Iterator[tuple[slice, Tensor]]:
        raise NotImplementedError

    def predict(self, X: Any, decision: str = "argmax", error_target: float | None = None) -> Array:  # noqa: N803
        """Predict a class, or a node of the tree, for each vector.

        Args:
            X: (n, d) vectors.
            decision: "argmax" is the likeliest class. "expected-cost" is the class with the least expected
                height of the lowest common ancestor with the true one. "specific-if-confident" is the most
                specific node that is certain enough for the error target, and may be an inner node.
            error_target: For "specific-if-confident", a target in place of that of the estimator.

        Returns:
            (n,) classes as in `classes_`. With "specific-if-confident" an array of objects, which may also be
            inner nodes: their names; if the name is ambiguous their path, joined by "/"; if the path is
            ambiguous too, with a "/" at its end.

        Warns:
            UserWarning: If the error target may not hold: more vectors are unlike the training data than
                chance explains.
        """
        rows = self._rows(X)
        nodes = self._decide(rows, decision, error_target)
        if decision == "specific-if-confident":
            self._warn_of_shift(rows)
        return self._names(nodes, decision)

    def predict_path(
        self,
        X: Any,  # noqa: N803
        decision: str = "argmax",
        error_target: float | None = None,
    ) -> list[tuple[str, ...]]:
        """Names on the path from below the root to the prediction of `predict`; empty for the root."""
        rows = self._rows(X)
        nodes = self._decide(rows, decision, error_target)
        if decision == "specific-if-confident":
            self._warn_of_shift(rows)
        paths = {node: self.tree_.path(node) for node in np.unique(nodes).tolist()}
        return [paths[node] for node in nodes.tolist()]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:  # noqa: N803
        """Share of vectors whose likeliest class is the label, or lies below it.

        Args:
            X: (n, d) vectors.
            y: (n,) labels.
            sample_weight: (n,) weight of each vector; None for equal weights.
        """
        rows = self._rows(X)
        nodes = find_known(y, self.classes_, self.tree_, len(rows), self.labels)
        weights = None if sample_weight is None else check_weights(sample_weight, len(rows))
        answers = self._decide(rows, "argmax")
        right = (nodes <= answers) & (answers < nodes + self.tree_.sizes[nodes])
        return float(np.average(right, weights=weights))

    def calibrate(self, X: Any, y: Any) -> Any:  # noqa: N803
        """Calibrate "specific-if-confident" on other samples, which must not have been used in training.

        Args:
            X: (n, d) vectors.
            y: (n,) labels; samples labelled with an inner node are skipped.

        Returns:
            The estimator itself.
        """
        rows = self._rows(X)
        chosen, classes = self._known(y, len(rows))
        self.uncalibrated_ = 0.0
        self._calibrate(rows, chosen, classes)
        return self

    def decision_report(self, X: Any, y: Any, error_target: float | None = None) -> dict[str, Any]:  # noqa: N803
        """Evaluate "specific-if-confident" on some samples; those labelled with an inner node are skipped.

        Returns:
            The basis of the guarantee: "error_target", "threshold", "calibration_samples" (their number),
            "uncovered_classes" (those without a calibration sample), and "uncalibrated", the share of
            training samples that are the only one of their class and so cannot calibrate: all samples like
            them count as errors. Then "samples", "error" (share of wrong predictions), "coverage" (share of
            predictions that are classes), "root" (share that are the root), "depth" (mean) and "depths"
            (share of predictions by depth). "unlike" is the share of the samples that are unlike the training
            data, 0.05 on average for samples of the same distribution, and "is_shift" whether there are more
            than chance explains; both are None if unknown.

        Raises:
            ValueError: If there are too few calibration samples for the target, or no label here is a class.

        Warns:
            UserWarning: If the samples have shifted, so that the target may not hold for them.
        """
        rows = self._rows(X)
        chosen, classes = self._known(y, len(rows))
        target = self.error_target if error_target is None else error_target
        limit = self._limit(target)
        report = self._report(self._walk(rows, chosen), classes, target, limit)
        unlike = self._warn_of_shift(rows)
        share, is_shift = (None, None) if unlike is None else unlike
        return {**report, "unlike": share, "is_shift": is_shift}

    def decision_curve(self, X: Any, y: Any) -> DecisionCurve:  # noqa: N803
        """Error rate of "specific-if-confident" against how specific it is, at every threshold.

        Args:
            X: (n, d) vectors.
            y: (n,) labels; samples labelled with an inner node are skipped.
        """
        rows = self._rows(X)
        chosen, classes = self._known(y, len(rows))
        return decision_curve(self._walk(rows, chosen), torch.from_numpy(classes), self.tree_)

    def familiarity(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Conformal p-value of each vector: the share of held-out samples at least as far from training data.

        The distance is that to the nearest class mean, with the covariance within classes. Of vectors of the
        same distribution 5 % have 0.05 or less; if there are far more, error guarantees do not hold.

        Args:
            X: (n, d) vectors.

        Returns:
            (n,) float64, above 0, at most 1.

        Raises:
            ValueError: If it is unknown: the estimator was loaded from a run, was saved by an early version,
                or has no calibration samples.
        """
        rows = self._rows(X)
        if self.familiarity_ is None or not len(self.familiarity_.held_out):
            raise ValueError(
                "familiarity needs an estimator fitted on vectors, by this version, with "
                "calibration_fraction above 0"
            )
        return self.familiarity_.p_values(self.familiarity_.distances(rows))

    def _warn_of_shift(self, rows: Array) -> Unlike | None:
        """Share of rows that are unlike the training data, with a warning if there are too many."""
        if self.familiarity_ is None:
            return None
        unlike = self.familiarity_.judge(self.familiarity_.count(rows), len(rows))
        if unlike is not None and unlike.is_shift:
            warnings.warn(unlike.message(), UserWarning, stacklevel=3)
        return unlike

    def _names(self, nodes: Ints, decision: str) -> Array:
        """The labels that `predict` returns for nodes."""
        if decision == "specific-if-confident":
            return np.asarray(node_labels(self.tree_, self.classes_)[nodes])
        return np.asarray(self.classes_[class_positions(self.tree_)[nodes]])

    def _known(self, y: Any, count: int) -> tuple[Ints, Ints]:
        """Positions of the samples that are labelled with a class, and the indices of these classes."""
        nodes = find_known(y, self.classes_, self.tree_, count, self.labels)
        position = class_positions(self.tree_)[nodes]
        chosen = np.flatnonzero(position >= 0)
        if not len(chosen):
            raise ValueError("y must hold classes, got labels of inner nodes only")
        return chosen, position[chosen]

    def _calibrate(self, rows: Array, chosen: Ints, classes: Ints, answers: Tensor | None = None) -> None:
        """Calibrate on some samples; `answers` are their probabilities, if these are known already."""
        walks, labels = [], torch.from_numpy(classes)
        right = dict.fromkeys(self.tree_.level_names, 0.0)
        known = None if answers is None else ((at, answers[at].double()) for at in blocks(*answers.shape))
        for part, probabilities in known or self._probabilities(rows, chosen):
            walks.append(decisions.walk_down(probabilities, self.tree_))
            for level, rate in level_accuracy(probabilities, labels[part], self.tree_).items():
                right[level] += float(rate) * len(probabilities)
        self.calibration_counts_ = np.bincount(classes, minlength=self.tree_.num_classes)
        if self.familiarity_ is not None:
            distances = np.sort(self.familiarity_.distances(rows, chosen))
            self.familiarity_ = replace(self.familiarity_, held_out=distances)
        target = float(self.error_target)
        if not walks:
            self.decision_report_ = self._report(None, classes, target, None)
            return
        walk = _joined(walks)
        self.calibration_scores_ = np.sort(decisions.first_wrong(walk, labels, self.tree_).numpy())
        self.decision_curve_ = decision_curve(walk, labels, self.tree_)
        limit = decisions.threshold(self.calibration_scores_, target, self.uncalibrated_)
        self.decision_report_ = self._report(walk, classes, target, limit)
        accuracy = {level: total / len(chosen) for level, total in right.items()}
        self.decision_report_["accuracy"] = accuracy

    def _walk(self, rows: Array, chosen: Ints) -> decisions.Walk:
        """The paths of some samples, at least one, down the tree."""
        found = self._probabilities(rows, chosen)
        return _joined([decisions.walk_down(each, self.tree_) for _, each in found])

    def _report(
        self, walk: decisions.Walk | None, classes: Ints, target: float, limit: float | None
    ) -> dict[str, Any]:
        """Basis of the guarantee, and results on some samples; without a threshold only their number."""
        report: dict[str, Any] = {"samples": len(classes)}
        if walk is not None and limit is not None:
            report = decisions.report(walk.stop(limit), torch.from_numpy(classes), self.tree_)
        return {"error_target": target, "threshold": limit, **self._basis(), **report}

    def _basis(self) -> dict[str, Any]:
        """Which samples the guarantee is based on."""
        counts = self.calibration_counts_
        return {
            "calibration_samples": len(self.calibration_scores_),
            "uncovered_classes": None if counts is None else self.classes_[counts == 0].tolist(),
            "uncalibrated": self.uncalibrated_,
        }

    def _decide(self, rows: Array, decision: str, error_target: float | None = None) -> Ints:
        """The predicted node of each row."""
        return np.concatenate([nodes for nodes, _ in self._decided(rows, decision, error_target)])

    def _answer(
        self, rows: Array, decision: str, error_target: float | None
    ) -> tuple[Ints, NDArray[np.float64]]:
        """The nodes of `_decide` and the probability of each, from one pass through the network."""
        found = self._decided(rows, decision, error_target)
        nodes, sums = zip(*((nodes, self._sums_below(nodes, each)) for nodes, each in found), strict=True)
        return np.concatenate(nodes), np.concatenate(sums)

    def _decided(
        self, rows: Array, decision: str, error_target: float | None
    ) -> Iterator[tuple[Ints, Tensor]]:
        """Yield predicted nodes, and the probabilities of the classes, by block."""
        limit = self._limit_of(decision, error_target)
        for _, probabilities in self._probabilities(rows):
            yield decisions.decide(probabilities, self.tree_, decision, limit).numpy(), probabilities

    def _sums_below(self, nodes: Ints, probabilities: Tensor) -> NDArray[np.float64]:
        """The summed probability of the classes below one node for each row, (n,), (n, C) -> (n,)."""
        below = classes_below(self.tree_, nodes)
        return np.asarray(np.where(below, probabilities.numpy(), 0.0).sum(1))

    def _limit_of(self, decision: str, error_target: float | None) -> float:
        """The threshold of a decision; 0 for decisions without one."""
        check_choice("decision", decision, decisions.DECISIONS)
        sure = decision == "specific-if-confident"
        if error_target is not None and not sure:
            raise wrong_argument(
                "error_target", f"is for decision 'specific-if-confident', got decision {decision!r}"
            )
        return self._limit(error_target) if sure else 0.0

    def _limit(self, error_target: float | None) -> float:
        target = self.error_target if error_target is None else error_target
        check_share("error_target", target)
        limit = decisions.threshold(self.calibration_scores_, target, self.uncalibrated_)
        if limit is None:
            raise wrong_argument(
                "error_target", f"{float(target)} cannot be promised {self._shortfall(target)}"
            )
        return limit

    def _shortfall(self, target: float) -> str:
        """Why a target cannot be guaranteed, and what to do."""
        rare = self.uncalibrated_
        if rare >= target:
            return (
                f"where {rare:.1%} of the samples are the only one of their class, so that none is left to "
                "calibrate on: calibrate on samples of these classes too"
            )
        needed = int(np.ceil((1 - rare) / (target - rare) - 1e-9)) - 1
        return (
            f"with {len(self.calibration_scores_)} samples to calibrate on, it needs {needed}: "
            "calibrate on more of them"
        )


def _joined(walks: list[decisions.Walk]) -> decisions.Walk:
    nodes, masses = zip(*walks, strict=True)
    return decisions.Walk(torch.cat(nodes), torch.cat(masses))
