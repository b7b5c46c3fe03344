"""Features laid out in the plane.

UMAP or t-SNE is computed once and saved beside the features; PCA replaces it where it is not possible.
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
# t-SNE takes longer with more, UMAP takes long to begin.
_MOST_FOR_TSNE = 1000
_FEWEST = 5
Method = Literal["UMAP", "t-SNE"]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Embedding:
    """Samples in the plane.

    Attributes:
        points: Their places, shape (n, 2).
        labels: Their classes, shape (n,).
        samples: How many there are in the file, of which at most 2000 are shown, by t-SNE 1000.
        method: "UMAP", "t-SNE" or "PCA".
        note: Why it is not the method that was asked for; empty if it is.
    """

    points: Floats
    labels: npt.NDArray[np.int64]
    samples: int
    method: str
    note: str


def embed(path: Path, num_classes: int, method: Method = "UMAP") -> Embedding:
    """Lay out the features of a file, the same every time.

    The result is written beside the file, of UMAP as `umap-<its name>`, and read again as long as the
    features are the same; a folder that cannot be written to only costs the time again.

    Args:
        path: A safetensors file with `features` (N, d) and `labels` (N,).
        num_classes: How many classes the labels are of.
        method: "UMAP" (McInnes et al. 2018), or "t-SNE" (van der Maaten and Hinton 2008), which is quicker
            for few points.

    Raises:
        ValueError: If the file cannot be read, or holds numbers that are not finite, or other labels.
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
        # It warns that a seed means one thread, and that few samples have few neighbours: both are known.
        warnings.simplefilter("ignore")
        from umap import UMAP

        neighbours = min(15, len(features) - 1)
        init = "spectral" if len(features) > 4 * neighbours else "random"
        fit = UMAP(n_neighbors=neighbours, init=init, random_state=0, n_jobs=1).fit_transform(features)
    return np.ascontiguousarray(fit, dtype=np.float32)


def _tsne(features: Floats) -> Floats:
    from sklearn.manifold import TSNE

    # Thirty components hold what neighbours are told by.
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
    """The points saved for the same features; None if there are none that can be read."""
    if not cache.is_file():
        return None
    try:
        if read_metadata(cache).get("features") != digest:
            return None
        points: Floats = read_tensors(cache)["points"].numpy()
    except Exception:  # damaged files fail in any way; it is made again
        return None
    good = points.shape == (count, 2) and points.dtype == np.float32 and np.isfinite(points).all()
    return points if good else None


def _save(cache: Path, digest: str, points: Floats) -> None:
    if not cache.parent.is_symlink():  # which leads out of the run folder
        with suppress(OSError):
            write_bytes(cache, dump_tensors({"points": torch.from_numpy(points)}, {"features": digest}))


# Name of the file, what lays out, and the package it needs.
_METHODS: dict[Method, tuple[str, Callable[[Floats], Floats], str]] = {
    "UMAP": ("umap", lambda features: _umap(features), "umap-learn"),
    "t-SNE": ("tsne", lambda features: _tsne(features), "scikit-learn"),
}
