"""Whether two runs differ by more than noise: paired over seeds, or over the test samples of one seed.

Claims of the paper (`paper.verdicts`) have the same interval over seeds, but need three of them: the test
samples that widen it here, or decide about a single seed, are not in their table of numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cophenet.evaluation.intervals import Interval, mean_interval, resampled_interval, resampled_means
from cophenet.runs.json_files import details_tree
from cophenet.tree import Hierarchy

if TYPE_CHECKING:
    from cophenet.runs.run import Run

__all__ = ["Measured", "difference", "level_identities", "measured_tree"]

_ROWS = 8192
Floats = npt.NDArray[np.float64]


class Measured:
    """The metrics of a run, with the intervals that separate differences from noise.

    Args:
        results: Content of its `results.json`.
        run: The run, whose saved test logits are read for the noise of the test samples; None to skip it.
        tree: The tree used in evaluation; None to read it when it is needed.

    Example:
        >>> metrics = {"source/severity": {"mean": 1.5, "std": 0.1, "values": [1.4, 1.6]}}
        >>> run = Measured({"seeds": [0, 1], "metrics": metrics})
        >>> run.by_seed("source/severity"), round(run.interval("source/severity").low, 2)
        ({0: 1.4, 1: 1.6}, 0.23)
    """

    def __init__(
        self, results: Mapping[str, Any], run: Run | None = None, tree: Hierarchy | None = None
    ) -> None:
        self.results, self.run, self._tree = results, run, tree

    def by_seed(self, key: str) -> dict[int, float]:
        """The defined values of a metric, by seed."""
        metric = self.results["metrics"].get(key)
        values = [] if metric is None else metric["values"]
        pairs = zip(self.results["seeds"], values, strict=False)
        return {seed: value for seed, value in pairs if value is not None}

    def interval(self, key: str) -> Interval | None:
        """Mean and interval of a metric over seeds, or over the test samples of one seed; None if unknown."""
        values = self.by_seed(key)
        if len(values) > 1:
            return mean_interval(list(values.values()))
        means = self.resampled.get(key) if values else None
        return None if means is None else resampled_interval(means)

    @cached_property
    def resampled(self) -> dict[str, Floats]:
        """Bootstrap means, by key, of metrics that are means over test samples; seeds are averaged first.

        These are the accuracy of every level, the hierarchical distance of predictions
        (hierarchical-distance@1) and that of mistakes (severity). Empty without a run or saved logits.
        """
        if self.run is None:
            return {}
        return dict(_resample(self.run, self._tree or measured_tree(self.run)))


def difference(one: Measured, other: Measured, key: str) -> Interval | None:
    """A metric of one run minus that of another, with its interval.

    If the runs share two or more seeds, differences are paired by seed, and the interval is at least as wide
    as that over the test samples. If each run has one seed, the interval is over the test samples of the same
    data. None if neither is possible.

    Example:
        >>> def run(*values):
        ...     return Measured({"seeds": [0, 1, 2], "metrics": {"source/severity": {"values": values}}})
        >>> tree, flat = run(1.2, 1.3, 1.25), run(1.5, 1.6, 1.6)
        >>> difference(tree, flat, "source/severity").sign, difference(flat, flat, "source/severity").sign
        (-1, 0)
    """
    mine, others = one.by_seed(key), other.by_seed(key)
    common = [seed for seed in mine if seed in others]
    gaps = [mine[seed] - others[seed] for seed in common]
    if len(common) < 2 and (len(mine) != 1 or len(others) != 1):
        return None
    left, right = one.resampled.get(key), other.resampled.get(key)
    samples = None if left is None or right is None else resampled_interval(left - right)
    if len(common) < 2:
        return samples
    return mean_interval(gaps, 0.0 if samples is None else (samples.high - samples.low) / 2)


def _resample(run: Run, tree: Hierarchy) -> Iterator[tuple[str, Floats]]:
    """Yield keys with bootstrap means from the saved test logits; nothing if these are missing or invalid."""
    from cophenet.vectors import map_arrays

    domain, scores = run.recipe.data.domain, list[Floats]()
    for part in run.parts:
        try:
            arrays = map_arrays(part.features_path(f"{domain}-test"))
            logits, labels = arrays["logits"].numpy(), np.array(arrays["labels"].numpy())
        except (OSError, ValueError, KeyError):  # the error is reported where the features are drawn
            return
        if logits.shape != (len(labels), tree.num_classes) or not len(labels):
            return
        if labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() >= tree.num_classes:
            return
        scores.append(np.column_stack(_scores(np.asarray(logits), labels, tree)).astype(np.float64))
    if len({len(one) for one in scores}) != 1:
        return
    means = resampled_means(np.mean(scores, axis=0))
    for place, level in enumerate(tree.level_names):
        yield f"{domain}/accuracy/{level}", means[:, place]
    wrong = 1 - means[:, len(tree.level_names) - 1]
    yield f"{domain}/hierarchical-distance@1", means[:, -1]
    if wrong.all():
        yield f"{domain}/severity", means[:, -1] / wrong


def _scores(
    logits: npt.NDArray[np.float32], labels: npt.NDArray[np.int64], tree: Hierarchy
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    """Whether predictions are correct at each level (N, levels), and their hierarchical distances (N,)."""
    import torch

    from cophenet.tree.lookup_tables import tree_tables

    tables, truth = tree_tables(tree, torch.device("cpu")), torch.from_numpy(labels.astype(np.int64))
    hits = np.zeros((len(labels), tree.num_levels), dtype=bool)
    heights = np.zeros(len(labels), dtype=np.int64)
    for start in range(0, len(labels), _ROWS):
        rows = slice(start, start + _ROWS)
        block = torch.from_numpy(np.array(logits[rows])).double().softmax(1)
        for depth, (sums, own) in enumerate(tables.level_sums(block, truth[rows])):
            hits[rows, -1 - depth] = (sums.argmax(1) == own).numpy()
        heights[rows] = tables.heights[tables.class_ancestors(truth[rows], block.argmax(1))].numpy()
    return hits, heights


def measured_tree(run: Run) -> Hierarchy:
    """The tree used in the evaluation of a run; for a control, not the shuffled tree used in training."""
    from cophenet.recipes.settings import TreeSettings

    if run.recipe.tree == TreeSettings():
        return run.tree
    details = run.parts[0].details
    return run.tree if details is None else details_tree(details)


def level_identities(tree: Hierarchy) -> dict[str, str]:
    """A hash for each level: equal for equal groups of the same classes, independent of names of groups.

    Example:
        >>> from cophenet.tree import Hierarchy
        >>> one, other = (
        ...     level_identities(Hierarchy.from_paths([(pet, "cat"), (pet, "dog"), ("car", second)]))
        ...     for pet, second in (("pet", "van"), ("animal", "van"))
        ... )
        >>> one == other
        True
    """
    order = np.argsort(np.array(tree.classes, dtype=object), kind="stable")
    names = "\0".join(tree.classes[label] for label in order)
    identities = {}
    for level in tree.level_names:
        _, first, groups = np.unique(tree.ancestors(level)[order], return_index=True, return_inverse=True)
        content = names.encode() + first[groups].astype("<i8").tobytes()
        identities[level] = hashlib.sha256(content).hexdigest()[:16]
    return identities
