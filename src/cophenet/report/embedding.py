"""Features laid out in the plane, and drawn as points coloured by the tree.

UMAP is computed once and saved beside the features; PCA replaces it where it is not possible.
"""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from cophenet._common.files import write_bytes
from cophenet._common.limits import reading
from cophenet.report.style import hide_axes, look, marker_svg, scatter_groups, styled
from cophenet.tree import Hierarchy
from cophenet.vectors import map_arrays

__all__ = ["Embedding", "Key", "embed", "embedding_figure", "embedding_keys"]

MOST_POINTS = 2000
_FEWEST_FOR_UMAP = 5
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Embedding:
    """Samples in the plane.

    Attributes:
        points: Their places, shape (n, 2).
        labels: Their classes, shape (n,).
        samples: How many there are in the file, of which at most 2000 are shown.
        method: "UMAP" or "PCA".
        note: Why it is not UMAP; empty if it is.
    """

    points: Floats
    labels: npt.NDArray[np.int64]
    samples: int
    method: str
    note: str


@dataclass(frozen=True)
class Key:
    """An entry of a legend.

    Attributes:
        name: Name of the group.
        svg: Its marker.
    """

    name: str
    svg: str


def embed(path: Path, num_classes: int) -> Embedding:
    """Lay out the features of a file, the same every time.

    UMAP's result is written beside the file as `umap-<its name>` and read again as long as the features
    are the same; a folder that cannot be written to only costs the time again.

    Args:
        path: A safetensors file with `features` (N, d) and `labels` (N,).
        num_classes: How many classes the labels are of.

    Raises:
        ValueError: If the file cannot be read, or holds numbers that are not finite, or other labels.
    """
    features, labels = _load(path, num_classes)
    rows = _chosen(len(features))
    shown = features[rows]
    if len(shown) < _FEWEST_FOR_UMAP:
        note = f"UMAP needs {_FEWEST_FOR_UMAP} samples, there are {len(shown)}"
        return Embedding(_pca(shown), labels[rows], len(features), "PCA", note)
    cache = path.with_name(f"umap-{path.name}")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    points = _cached(cache, digest, len(rows))
    if points is None:
        try:
            points = _umap(shown)
        except ImportError:
            note = "umap-learn is not installed: pip install 'cophenet[report]'"
            return Embedding(_pca(shown), labels[rows], len(features), "PCA", note)
        _save(cache, digest, points)
    return Embedding(points, labels[rows], len(features), "UMAP", "")


def _load(path: Path, num_classes: int) -> tuple[Floats, npt.NDArray[np.int64]]:
    try:
        arrays = map_arrays(path)
    except ValueError as error:
        raise ValueError(f"{path.name} is no file of features: {error}") from error
    with reading(path, "a file of features"):
        features, labels = np.array(arrays["features"].numpy()), np.array(arrays["labels"].numpy())
    if features.ndim != 2 or labels.shape != (len(features),) or not len(features):
        raise ValueError(f"{path} holds features {features.shape} and labels {labels.shape}")
    if labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() >= num_classes:
        raise ValueError(f"{path} holds labels that are no classes from 0 to {num_classes - 1}")
    if not np.isfinite(features).all():
        raise ValueError(f"{path} holds features that are not finite")
    return features, labels


def _chosen(count: int) -> npt.NDArray[np.int64]:
    if count <= MOST_POINTS:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).choice(count, MOST_POINTS, replace=False))


def _umap(features: Floats) -> Floats:
    with warnings.catch_warnings():
        # It warns that a seed means one thread, and that few samples have few neighbours: both are known.
        warnings.simplefilter("ignore")
        from umap import UMAP

        neighbours = min(15, len(features) - 1)
        init = "spectral" if len(features) > 4 * neighbours else "random"
        fit = UMAP(n_neighbors=neighbours, init=init, random_state=0, n_jobs=1).fit_transform(features)
    return np.ascontiguousarray(fit, dtype=np.float32)


def _pca(features: Floats) -> Floats:
    """The two leading principal components, each with its largest entry positive; shape (n, 2)."""
    centred = features.astype(np.float64)
    centred -= centred.mean(axis=0, keepdims=True)
    left, singular, _ = np.linalg.svd(centred, full_matrices=False)
    scores = np.zeros((len(features), 2))
    rank = min(2, len(singular))
    scores[:, :rank] = left[:, :rank] * singular[:rank]
    largest = scores[np.abs(scores).argmax(axis=0), [0, 1]]
    return (scores * np.where(largest < 0, -1.0, 1.0)).astype(np.float32)


def _cached(cache: Path, digest: str, count: int) -> Floats | None:
    """The points saved for the same features; None if there are none that can be read."""
    from safetensors import safe_open

    if not cache.is_file():
        return None
    try:
        with safe_open(cache, framework="np") as file:
            if (file.metadata() or {}).get("features") != digest:
                return None
            points: Floats = file.get_tensor("points")
    except Exception:  # damaged files fail in any way; it is made again
        return None
    good = points.shape == (count, 2) and points.dtype == np.float32 and np.isfinite(points).all()
    return points if good else None


def _save(cache: Path, digest: str, points: Floats) -> None:
    from safetensors.numpy import save

    if cache.parent.is_symlink():  # leads out of the run folder
        return
    try:
        write_bytes(cache, save({"points": points}, metadata={"features": digest}))
    except OSError:
        return


def _groups(tree: Hierarchy, level: str) -> tuple[npt.NDArray[np.int64], list[str]]:
    """The group of each class, numbered in tree order, and the groups' names."""
    nodes, groups = np.unique(tree.ancestors(level), return_inverse=True)
    return groups, [tree.names[node] for node in nodes]


@styled
def embedding_figure(
    points: npt.NDArray[np.floating], labels: npt.NDArray[np.int64], tree: Hierarchy, level: str
) -> Figure:
    """Samples as points, with the colour and marker of their group at a level.

    Args:
        points: Places in the plane, shape (N, 2).
        labels: Classes of the samples, shape (N,).
        tree: The tree.
        level: Name of a level of the tree.
    """
    figure = Figure(figsize=(4.4, 4.0), dpi=160, layout="constrained")
    axes = figure.add_subplot()
    groups, _ = _groups(tree, level)
    size = float(np.clip(9000 / max(len(points), 1), 5, 26))
    scatter_groups(axes, points, groups[labels], size=size, alpha=0.75)
    axes.margins(0.03)
    hide_axes(axes)
    return figure


def embedding_keys(tree: Hierarchy, level: str) -> list[Key]:
    """The legend of `embedding_figure`."""
    return [Key(name, marker_svg(*look(index))) for index, name in enumerate(_groups(tree, level)[1])]
