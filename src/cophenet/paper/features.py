"""What is measured on the saved features and distances of runs: modes, maps, orders, blocks of matrices.

Each function takes the observations of an item with the runs they are of, and gives the rows to add and the
arrays that its figure draws, which are of the first seed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cophenet._common.files import read_json, write_json
from cophenet.paper.items import SUBTREE
from cophenet.paper.modes import count_modes
from cophenet.paper.observations import Condition, Observation, Observations
from cophenet.paper.orders import order_study
from cophenet.paper.plan import VariantRuns
from cophenet.report.embedding import embed
from cophenet.report.matrices import square, tree_order
from cophenet.runs import Run
from cophenet.tree import Hierarchy
from cophenet.vectors import map_arrays

__all__ = ["MODES", "block_ratios", "block_share", "matrices", "modes", "orders", "shared_variance", "umap"]

Floats = NDArray[np.float64]
Measured = tuple[list[Observation], list[dict[str, Any]]]
# The two ways of counting modes; the first is the paper's.
MODES: dict[str, dict[str, Any]] = {
    "diagonal": {"covariance": "diag"},
    "full, PCA(32)": {"covariance": "full", "project": 32},
}
_MOST = 10
_LIMIT = 9.5


def _runs(
    observations: Observations, planned: Sequence[VariantRuns], folder: Path
) -> Iterator[tuple[Condition, int, Run, bool]]:
    """Condition, seed and run of all that is finished but controls, and whether it is the first seed."""
    for condition, runs in zip(observations.conditions, planned, strict=True):
        if not condition.control:
            for place, seed in enumerate(observations.seeds(condition)):
                assert seed is not None
                yield condition, seed, Run.open(runs.path(folder, seed)), place == 0


def _features(run: Run) -> Path:
    """The test features of a trained network."""
    return run.features_path(f"{run.recipe.data.domain}-test")


def _arrays(path: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    arrays = map_arrays(path)
    return np.array(arrays["features"].numpy()), np.array(arrays["labels"].numpy())


def modes(observations: Observations, planned: Sequence[VariantRuns], folder: Path) -> Measured:
    """Mixture components per class: "components/<way>" at the end, "components/<way>@<epoch>" of a seed."""
    rows = []
    for condition, seed, run, first in _runs(observations, planned, folder):
        for when, ways in _run_modes(run, over_epochs=first).items():
            at = "" if when == "end" else f"@{int(when)}"
            for way, counts in ways.items():
                mean = counts["mean"]
                doubt = f"samples are too few: {mean:.1f} of at most {_MOST} components" * (mean >= _LIMIT)
                rows.append(Observation(condition, seed, f"components/{way}{at}", mean, doubt))
            if not at:
                failed = sum(counts["unconverged"] for counts in ways.values())
                rows.append(Observation(condition, seed, "components/unconverged", failed))
    return rows, []


def _run_modes(run: Run, *, over_epochs: bool) -> dict[str, dict[str, Any]]:
    """Modes of the saved features, after epochs and at the end; counted once and saved in the run folder."""
    path = run.path / "modes.json"
    saved = read_json(path) if path.is_file() else {}
    domain = run.recipe.data.domain
    files = {
        match[1]: file
        for file in sorted((run.path / "features").glob(f"epoch*-{domain}-test.safetensors"))
        if over_epochs and (match := re.match(r"epoch(\d+)-", file.name))
    }
    files["end"] = _features(run)
    for when, file in files.items():
        if when not in saved and file.is_file():
            features, labels = _arrays(file)
            saved[when] = {way: asdict(count_modes(features, labels, **o)) for way, o in MODES.items()}
            # At once: it takes minutes, and may be interrupted.
            write_json(path, saved)
    return saved


def umap(observations: Observations, planned: Sequence[VariantRuns], folder: Path) -> Measured:
    """Test features in the plane, and "map/between-groups": the variance between the coarsest groups."""
    rows, arrays = [], []
    for condition, seed, run, first in _runs(observations, planned, folder):
        if not _features(run).is_file():
            continue
        placed = embed(_features(run))
        nodes, group = np.unique(run.tree.ancestors(1), return_inverse=True)
        groups = group[placed.labels]
        rows.append(
            Observation(condition, seed, "map/between-groups", shared_variance(placed.points, groups))
        )
        if first:
            points = [[round(float(x), 4), round(float(y), 4)] for x, y in placed.points]
            about = {"objective": condition.objective, "seed": seed, "method": placed.method}
            names = [run.tree.names[node] for node in nodes]
            arrays.append({**about, "points": points, "group": groups.tolist(), "groups": names})
    return rows, arrays


def shared_variance(points: NDArray[Any], groups: NDArray[Any]) -> float:
    """The share of the variance of points that is between groups.

    Example:
        >>> round(shared_variance(np.array([[0, 0], [0, 2], [9, 0], [9, 2]]), np.array([0, 0, 1, 1])), 3)
        0.953
    """
    inside = sum(((points[groups == g] - points[groups == g].mean(0)) ** 2).sum() for g in np.unique(groups))
    return float(1 - inside / ((points - points.mean(0)) ** 2).sum())


def orders(observations: Observations, planned: Sequence[VariantRuns], folder: Path) -> Measured:
    """Fast FlowTree in several orders on test features: "order-<number>/<order>" as in `order_study`."""
    import torch

    rows = []
    for condition, seed, run, _ in _runs(observations, planned, folder):
        path = run.path / "orders.json"
        if not path.is_file() and _features(run).is_file():
            features, labels = (torch.from_numpy(array) for array in _arrays(_features(run)))
            write_json(path, order_study(features, labels, run.tree))
        if path.is_file():
            rows += [
                Observation(condition, seed, f"order-{name}/{order}", value)
                for order, numbers in read_json(path).items()
                for name, value in numbers.items()
            ]
    return rows, []


def matrices(observations: Observations, planned: Sequence[VariantRuns], folder: Path) -> Measured:
    """Class distances in the order of the tree, and how much its blocks show in them.

    "blocks/<depth>": as in `block_ratios`, for each level but the classes; "block-share": as in
    `block_share`, of the subtree that one study changes.
    """
    rows, arrays = [], []
    for condition, seed, run, first in _runs(observations, planned, folder):
        details = run.details
        if details is None or condition.objective not in details["class_distances"]:
            continue
        order = tree_order(run.tree)
        condensed = [np.nan if v is None else v for v in details["class_distances"][condition.objective]]
        matrix = square(np.array(condensed), len(order))
        numbers = {f"blocks/{depth}": ratio for depth, ratio in block_ratios(matrix, run.tree).items()}
        names = [run.tree.names[node] for node in run.tree.ancestors(1)]
        if SUBTREE in names:
            numbers["block-share"] = block_share(matrix, np.array([name == SUBTREE for name in names]))
        rows += [Observation(condition, seed, *pair) for pair in numbers.items()]
        if first:
            placed = matrix[np.ix_(order, order)]
            groups = [run.tree.ancestors(depth)[order] for depth in range(1, len(run.tree.level_names))]
            arrays.append(
                {
                    "objective": condition.objective,
                    "setting": dict(condition.setting),
                    "matrix": [
                        [None if np.isnan(v) else round(v, 4) for v in row] for row in placed.tolist()
                    ],
                    "levels": [_cuts(group) for group in groups],
                }
            )
    return rows, arrays


def _cuts(groups: NDArray[Any]) -> list[int]:
    """Where the next group begins."""
    return [int(place) + 1 for place in np.flatnonzero(groups[1:] != groups[:-1])]


def block_ratios(matrix: Floats, tree: Hierarchy) -> dict[int, float]:
    """Mean distance inside the blocks of a level over that outside of them, level by level.

    Outside, but in the same block of the next higher level; levels without pairs of both kinds are left out.

    Args:
        matrix: (k, k) distances in the order of the tree's classes.
        tree: The label tree.

    Returns:
        Depth of a level, the coarsest first -> ratio.

    Example:
        >>> tree = Hierarchy.from_paths([("a", "x"), ("a", "y"), ("b", "z"), ("b", "w")])
        >>> block_ratios(np.where(np.kron(np.eye(2), np.ones((2, 2))) > 0, 1.0, 4.0), tree)
        {1: 0.25}
    """
    above = np.ones(matrix.shape, dtype=bool)
    ratios = {}
    for depth in range(1, len(tree.level_names)):
        group = tree.ancestors(depth)
        same = group[:, None] == group[None, :]
        inside, outside = same & ~np.eye(len(matrix), dtype=bool), above & ~same
        if inside.any() and outside.any():
            ratios[depth] = float(np.nanmean(matrix[inside]) / np.nanmean(matrix[outside]))
        above = same
    return ratios


def block_share(matrix: Floats, members: NDArray[np.bool_]) -> float:
    """Mean distance between some classes over the mean of the whole matrix.

    Example:
        >>> distances = np.array([[0, 2, 4], [2, 0, 4], [4, 4, 0.0]])
        >>> round(block_share(distances, np.array([True, True, False])), 2)
        0.9
    """
    block = matrix[np.ix_(members, members)]
    return float(np.nanmean(block[~np.eye(len(block), dtype=bool)]) / np.nanmean(matrix))
