"""Two-dimensional projections of features.

UMAP or t-SNE is computed once and saved beside the features; PCA is used if neither is possible.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from cophenet._common.files import write_bytes
from cophenet._common.limits import reading
from cophenet._common.tensor_files import content_checksum, dump_tensors, read_metadata, read_tensors
from cophenet.vectors import map_arrays

__all__ = ["Embedding", "embed"]

MOST_POINTS = 2000
# t-SNE is slow for more points; UMAP is slow to start.
_MOST_FOR_TSNE = 1000
_FEWEST = 5
Method = Literal["UMAP", "t-SNE"]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Embedding:
    """Samples projected to two dimensions.

    Attributes:
        points: Coordinates, shape (n, 2).
        labels: Classes, shape (n,).
        samples: Number of samples in the file; at most 2000 are shown, for t-SNE at most 1000.
        method: "UMAP", "t-SNE" or "PCA".
        note: Why another method than the requested one was used; empty otherwise.
    """

    points: Floats
    labels: npt.NDArray[np.int64]
    samples: int
    method: str
    note: str


def embed(path: Path, num_classes: int, method: Method = "UMAP") -> Embedding:
    """Project the features of a file to two dimensions, deterministically.

    The result is cached beside the file, for UMAP as `umap-<file name>`, and reused while the features are
    unchanged. In a folder that is not writable it is computed again each time.

    Args:
        path: A safetensors file with `features` (N, d) and `labels` (N,).
        num_classes: Number of classes.
        method: "UMAP" (McInnes et al. 2018), or "t-SNE" (van der Maaten and Hinton 2008), which is faster
            for few points.

    Raises:
        ValueError: If the file cannot be read, or has non-finite features or labels out of range.
    """
    features, labels = _load(path, num_classes)
    rows = _chosen(len(features), MOST_POINTS if method == "UMAP" else _MOST_FOR_TSNE)
    shown = features[rows]
    if len(shown) < _FEWEST:
        note = f"{method} needs {_FEWEST} samples, there are {len(shown)}"
        return Embedding(_pca(shown), labels[rows], len(features), "PCA", note)
    name, lay_out, package = _METHODS[method]
    cache = path.with_name(f"{name}-{path.name}")
    digest = content_checksum(path)
    points = _cached(cache, digest, len(rows))
    if points is None:
        try:
            points = lay_out(shown)
        except ImportError:
            note = f"{package} is not installed: pip install 'cophenet[report]'"
            return Embedding(_pca(shown), labels[rows], len(features), "PCA", note)
        _save(cache, digest, points)
    return Embedding(points, labels[rows], len(features), method, "")


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


def _chosen(count: int, most: int) -> npt.NDArray[np.int64]:
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).choice(count, most, replace=False))


def _umap(features: Floats) -> Floats:
    with warnings.catch_warnings():
        # UMAP warns that a seed forces one thread, and about few neighbours: both are intended.
        warnings.simplefilter("ignore")
        from umap import UMAP

        neighbours = min(15, len(features) - 1)
        init = "spectral" if len(features) > 4 * neighbours else "random"
        fit = UMAP(n_neighbors=neighbours, init=init, random_state=0, n_jobs=1).fit_transform(features)
    return np.ascontiguousarray(fit, dtype=np.float32)


def _tsne(features: Floats) -> Floats:
    from sklearn.manifold import TSNE

    # Thirty principal components are enough to find the neighbours.
    width = min(30, *features.shape)
    centred = features.astype(np.float64) - features.mean(axis=0, keepdims=True)
    left, singular, _ = np.linalg.svd(centred, full_matrices=False)
    reduced = left[:, :width] * singular[:width]
    start = reduced[:, :2] if width > 1 else np.column_stack([reduced, 0 * reduced])
    start = 1e-4 * start / max(float(start[:, 0].std()), 1e-12)
    few = min(30.0, (len(features) - 1) / 3)
    fit = TSNE(perplexity=few, init=start, random_state=0, max_iter=500).fit_transform(reduced)
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
    """Points cached for the same features; None if there are none, or the file is damaged."""
    if not cache.is_file():
        return None
    try:
        if read_metadata(cache).get("features") != digest:
            return None
        points: Floats = read_tensors(cache)["points"].numpy()
    except Exception:  # a damaged file may raise anything; the points are computed again
        return None
    good = points.shape == (count, 2) and points.dtype == np.float32 and np.isfinite(points).all()
    return points if good else None


def _save(cache: Path, digest: str, points: Floats) -> None:
    if not cache.parent.is_symlink():  # a link may lead out of the run folder
        with suppress(OSError):
            write_bytes(cache, dump_tensors({"points": torch.from_numpy(points)}, {"features": digest}))


# Prefix of the cache file, the projection, and the package that it needs.
_METHODS: dict[Method, tuple[str, Callable[[Floats], Floats], str]] = {
    "UMAP": ("umap", lambda features: _umap(features), "umap-learn"),
    "t-SNE": ("tsne", lambda features: _tsne(features), "scikit-learn"),
}
