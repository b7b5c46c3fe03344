"""Measurements besides the results of runs: modes, maps, orders, blocks of matrices, correlations, sizes.

Functions on runs take the observations of an item and its runs, and return the observations with more rows,
and arrays for figures, which are of the first seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import squareform

from cophenet._common.checks import check_whole
from cophenet._common.files import read_json, write_json
from cophenet._common.tensor_files import content_checksum
from cophenet.paper.fits import fit_line
from cophenet.paper.mixture_modes import MODES, count_modes
from cophenet.paper.observations import Condition, Observation, Observations
from cophenet.paper.plan import VariantRuns
from cophenet.paper.published import printed
from cophenet.paper.queue import missing_data
from cophenet.paper.variants import SUBTREE
from cophenet.recipes import load_recipe
from cophenet.report.embedding import embed
from cophenet.runs import Run
from cophenet.tree import Hierarchy
from cophenet.vectors import map_arrays

if TYPE_CHECKING:
    from torch import Tensor

    from cophenet.recipes.recipe import Scale

__all__ = [
    "ORDERS",
    "OUTLIER",
    "correlations",
    "data_sizes",
    "matrices",
    "modes",
    "order_study",
    "orders",
    "umap",
]

Floats = NDArray[np.float64]
Measured = tuple[Observations, list[dict[str, Any]]]
# Orders of the samples in Fast FlowTree, with the options for them.
ORDERS: dict[str, dict[str, Any]] = {
    "batch order": {},
    "principal order": {"order": "principal"},
    "three principal orders": {"order": "principal", "n_orders": 3},
}
# As in the paper: Rank is an outlier, which alone would determine a fit.
OUTLIER = "rank"
# Published sizes are rounded; with fewer samples than this share of them, a part of the data is missing.
_WHOLE = 0.98
_FEWEST_POINTS = 4
_MOST = 10
_LIMIT = 9.5
# Key of the checksums of the features that numbers were measured on; earlier versions wrote none.
_CHECKSUMS = "features"


def _runs(
    observations: Observations, planned: Sequence[VariantRuns], folder: Path
) -> Iterator[tuple[Condition, int, Run, bool]]:
    """Yield condition, seed and run of all finished runs but controls, and whether it is the first seed."""
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
    """Mixture components per class: "components/<way>", and for the first seed "components/<way>@<epoch>".

    "components-null/<way>" is the same count on samples of one Gaussian for each class.
    """
    rows = []
    for condition, seed, run, first in _runs(observations, planned, folder):
        for when, ways in _run_modes(run, over_epochs=first).items():
            at = "" if when == "end" else f"@{int(when)}"
            for way, counts in ways.items():
                mean = counts["mean"]
                doubt = f"samples are too few: {mean:.1f} of at most {_MOST} components" * (mean >= _LIMIT)
                rows.append(Observation(condition, seed, f"components/{way}{at}", mean, doubt))
                rows.append(Observation(condition, seed, f"components-null/{way}{at}", counts["null"], doubt))
            if not at:
                failed = sum(counts["unconverged"] for counts in ways.values())
                rows.append(Observation(condition, seed, "components/unconverged", failed))
    return observations.extended(rows), []


def _run_modes(run: Run, *, over_epochs: bool) -> dict[str, dict[str, Any]]:
    """Modes of the saved features, after epochs and at the end; counted once and saved in the run folder.

    Checksums of the features are saved too: if a network was trained again, its modes are counted again.
    """
    path = run.path / "modes.json"
    saved = read_json(path) if path.is_file() else {}
    measured_on = saved.pop(_CHECKSUMS, {})
    # Counts without those of the null model are from an earlier version.
    saved = {when: ways for when, ways in saved.items() if all("null" in counts for counts in ways.values())}
    epochs = run.epoch_features(f"{run.recipe.data.domain}-test") if over_epochs else {}
    files = {f"{epoch:04d}": file for epoch, file in epochs.items()}
    files["end"] = _features(run)
    for when, file in files.items():
        now = content_checksum(file) if file.is_file() else None
        if now and (when not in saved or measured_on.get(when) not in (None, now)):
            features, labels = _arrays(file)
            saved[when] = {way: asdict(count_modes(features, labels, **o)) for way, o in MODES.items()}
            measured_on[when] = now
            # Written at once: counting takes minutes, and may be interrupted.
            write_json(path, {**saved, _CHECKSUMS: measured_on})
    return saved


def umap(observations: Observations, planned: Sequence[VariantRuns], folder: Path) -> Measured:
    """Projections of test features, and "map/between-groups": share of variance between coarsest groups."""
    rows, arrays = [], []
    for condition, seed, run, first in _runs(observations, planned, folder):
        if not _features(run).is_file():
            continue
        placed = embed(_features(run), run.tree.num_classes)
        nodes, group = np.unique(run.tree.ancestors(1), return_inverse=True)
        groups = group[placed.labels]
        share = _shared_variance(placed.points, groups)
        rows.append(Observation(condition, seed, "map/between-groups", share))
        if first:
            points = [[round(float(x), 4), round(float(y), 4)] for x, y in placed.points]
            about = {"objective": condition.objective, "seed": seed, "method": placed.method}
            names = [run.tree.names[node] for node in nodes]
            arrays.append({**about, "points": points, "group": groups.tolist(), "groups": names})
    return observations.extended(rows), arrays


def _shared_variance(points: NDArray[Any], groups: NDArray[Any]) -> float:
    """The share of the variance of points that is between groups.

    Example:
        >>> round(_shared_variance(np.array([[0, 0], [0, 2], [9, 0], [9, 2]]), np.array([0, 0, 1, 1])), 3)
        0.953
    """
    inside = sum(((points[groups == g] - points[groups == g].mean(0)) ** 2).sum() for g in np.unique(groups))
    return float(1 - inside / ((points - points.mean(0)) ** 2).sum())


def orders(observations: Observations, planned: Sequence[VariantRuns], folder: Path) -> Measured:
    """Fast FlowTree in several orders on test features: "order-<number>/<order>" as in `order_study`."""
    import torch

    rows = []
    for condition, seed, run, _ in _runs(observations, planned, folder):
        path, file = run.path / "orders.json", _features(run)
        saved = read_json(path) if path.is_file() else {}
        measured_on = saved.pop(_CHECKSUMS, None)
        now = content_checksum(file) if file.is_file() else None
        if now and (not saved or measured_on not in (None, now)):
            features, labels = (torch.from_numpy(array) for array in _arrays(file))
            saved = order_study(features, labels, run.tree)
            write_json(path, {**saved, _CHECKSUMS: now})
        rows += [
            Observation(condition, seed, f"order-{name}/{order}", value)
            for order, numbers in saved.items()
            for name, value in numbers.items()
        ]
    return observations.extended(rows), []


def order_study(
    features: Tensor, labels: Tensor, tree: Hierarchy, repeats: int = 5, seed: int = 0
) -> dict[str, dict[str, float]]:
    """Compare Fast FlowTree in each kind of order with the exact EMD, over random orders of the samples.

    Args:
        features: (N, d) floating point.
        labels: (N,) class indices of the tree.
        tree: The label tree.
        repeats: Number of random orders of the samples.
        seed: Seed of these orders.

    Returns:
        By kind of order: "error", the mean of value / EMD - 1 over pairs and orders; "spread", the standard
        deviation over orders relative to the mean, averaged over pairs; "cpcc" and "cpcc_spread", mean and
        standard deviation of the CPCC over orders. Under "emd", the "cpcc" of EMD.

    Example:
        >>> import torch
        >>> tree = Hierarchy.from_paths([("pet", "cat"), ("pet", "dog"), ("car", "bus")])
        >>> z = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
        >>> results = order_study(z, torch.arange(60) % 3, tree)
        >>> results["principal order"]["error"] < results["batch order"]["error"]
        True
        >>> results["principal order"]["spread"] < 1e-6
        True
    """
    import torch

    from cophenet.cpcc.pearson import cpcc
    from cophenet.transport import class_distances

    check_whole("repeats", repeats, 2)
    generator = torch.Generator().manual_seed(seed)
    shuffles = [torch.randperm(len(labels), generator=generator) for _ in range(repeats)]
    classes, exact = class_distances(features, labels, "emd")
    t = tree.condensed(classes.tolist())
    results: dict[str, dict[str, float]] = {"emd": {"cpcc": cpcc(exact.double(), t).item()}}
    for name, options in ORDERS.items():
        rho = torch.stack(
            [class_distances(features[s], labels[s], "fastft", **options)[1].double() for s in shuffles]
        )
        correlations = torch.stack([cpcc(row, t) for row in rho])
        results[name] = {
            "error": (rho / exact - 1).mean().item(),
            "spread": (rho.std(0, correction=0) / rho.mean(0)).mean().item(),
            "cpcc": correlations.mean().item(),
            "cpcc_spread": correlations.std(correction=0).item(),
        }
    return results


def matrices(observations: Observations, planned: Sequence[VariantRuns], folder: Path) -> Measured:
    """Class distances in the order of the tree, and how visible its blocks are in them.

    "blocks/<depth>": as in `_block_ratios`, for each level but the classes; "block-share": as in
    `_block_share`, of the subtree that one study changes.
    """
    rows, arrays = [], []
    for condition, seed, run, first in _runs(observations, planned, folder):
        details = run.details
        if details is None or condition.objective not in details["class_distances"]:
            continue
        order = run.tree.class_order
        matrix = squareform(np.array(details["class_distances"][condition.objective], dtype=np.float64))
        numbers = {f"blocks/{depth}": ratio for depth, ratio in _block_ratios(matrix, run.tree).items()}
        names = [run.tree.names[node] for node in run.tree.ancestors(1)]
        if SUBTREE in names:
            numbers["block-share"] = _block_share(matrix, np.array([name == SUBTREE for name in names]))
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
    return observations.extended(rows), arrays


def _cuts(groups: NDArray[Any]) -> list[int]:
    """Positions at which a new group begins."""
    return [int(place) + 1 for place in np.flatnonzero(groups[1:] != groups[:-1])]


def _block_ratios(matrix: Floats, tree: Hierarchy) -> dict[int, float]:
    """Mean distance inside the blocks of each level, divided by the mean distance outside of them.

    Only pairs in the same block of the next higher level count; levels without pairs of both kinds are left
    out.

    Args:
        matrix: (k, k) distances in the order of the tree's classes.
        tree: The label tree.

    Returns:
        Depth of a level, the coarsest first -> ratio.

    Example:
        >>> tree = Hierarchy.from_paths([("a", "x"), ("a", "y"), ("b", "z"), ("b", "w")])
        >>> _block_ratios(np.where(np.kron(np.eye(2), np.ones((2, 2))) > 0, 1.0, 4.0), tree)
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


def _block_share(matrix: Floats, members: NDArray[np.bool_]) -> float:
    """Mean distance between some classes, divided by the mean of the whole matrix.

    Example:
        >>> distances = np.array([[0, 2, 4], [2, 0, 4], [4, 4, 0.0]])
        >>> round(_block_share(distances, np.array([True, True, False])), 2)
        0.9
    """
    block = matrix[np.ix_(members, members)]
    return float(np.nanmean(block[~np.eye(len(block), dtype=bool)]) / np.nanmean(matrix))


def correlations(observations: Observations, _planned: Sequence[VariantRuns], _folder: Path) -> Measured:
    """Add "correlation/<cpcc>/<level>": Pearson's r over objectives, for seeds that all objectives have.

    Between CPCC, by l2 and by the distance trained with, and the means of coarse and fine metrics.
    """
    conditions, rows = [], []
    for recipe in observations.recipes:
        wanted = [c for c in observations.plain() if c.recipe == recipe and c.objective != OUTLIER]
        there = [c for c in wanted if observations.measured(c)]
        condition = Condition(recipe, there[0].data if there else "", "")
        conditions.append(condition)
        lacking = f"{len(there)} of {len(wanted)} objectives were run" * (len(there) < len(wanted))
        for cpcc in ("cpcc/l2", "cpcc/own"):
            for level in ("coarse", "fine"):
                columns = [[observations.values(c, m) for c in there] for m in (cpcc, f"mean/{level}")]
                for seed, (x, y) in _by_seed(*columns):
                    r = fit_line(x, y).correlation
                    rows.append(Observation(condition, seed, f"correlation/{cpcc}/{level}", r, lacking))
    return observations.extended(rows, conditions), []


def _by_seed(
    first: Sequence[Mapping[int | None, float | None]], second: Sequence[Mapping[int | None, float | None]]
) -> Iterator[tuple[int | None, tuple[list[float], list[float]]]]:
    """Yield the points of every seed that all objectives have, if they are enough for a line."""
    if len(first) < _FEWEST_POINTS:
        return
    common = set.intersection(*(set(values) for values in (*first, *second)))
    for seed in sorted(common, key=lambda seed: -1 if seed is None else seed):
        pairs = [(a[seed], b[seed]) for a, b in zip(first, second, strict=True)]
        known = [(x, y) for x, y in pairs if x is not None and y is not None]
        x, y = [x for x, _ in known], [y for _, y in known]
        if len(known) >= _FEWEST_POINTS and len(set(x)) > 1 and len(set(y)) > 1:
            yield seed, (x, y)


def data_sizes(
    recipes: Sequence[str], scale: Scale, data_dir: Path | None, tell: Callable[[str], None]
) -> Observations:
    """Count samples and classes of available data sets; "<count>/of-printed" is relative to the paper."""
    conditions, rows = [], []
    for recipe in recipes:
        source = load_recipe(recipe, scale).data.create_source()
        condition = Condition(recipe, source.name, "", comparable=True)
        conditions.append(condition)
        missing = missing_data(source, data_dir)
        if missing:
            tell(f"left out: {missing}")
            continue
        data = source.load(data_dir)
        counts = {f"samples/{part}": len(data.samples(part)) for part in ("train", "test")}
        for domain in ("source", "target"):
            counts[f"classes/{domain}"] = data.samples("test", domain).tree.num_classes
        rows += [Observation(condition, None, *pair) for pair in _counted(source.name, counts)]
    return Observations(tuple(conditions), tuple(rows))


def _counted(data: str, counts: Mapping[str, int]) -> Iterator[tuple[str, float, str]]:
    for metric, count in counts.items():
        yield metric, count, ""
        paper = printed(data, None, metric)
        if paper is not None:
            share = count / paper.value
            part = f"a part of the data is here ({metric} {count:,} of {paper.value:,.0f})"
            yield f"{metric}/of-printed", share, part * (share < _WHOLE)
