"""Trees from hierarchical clustering: from a linkage matrix, or from class means of features."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cophenet.tree.names import fresh_names
from cophenet.tree.parts import DEFAULT_ROOT, FloatArray, IntArray, Parts, check_name

# Merge heights that differ by less than this fraction of the largest one are ties up to rounding.
TIE = 1e-12

METHODS = ("single", "complete", "average", "weighted", "ward")


def parts_from_linkage(linkage: npt.ArrayLike, names: Sequence[str] | None = None) -> Parts:
    """Tree of a linkage matrix, whose path distances are the cophenetic distances."""
    merges = np.asarray(linkage, dtype=np.float64)
    if merges.ndim != 2 or merges.shape[1] != 4 or len(merges) == 0:
        raise ValueError(f"linkage must have shape (num_classes - 1, 4), got {merges.shape}")
    count = len(merges) + 1
    names = [str(label) for label in range(count)] if names is None else list(names)
    if len(names) != count:
        raise ValueError(f"names must name the {count} classes of the linkage, got {len(names)}")
    for name in names:
        check_name(name)
    if len(set(names)) < count:
        # Paths cannot distinguish classes here: the names of inner nodes are generated.
        raise ValueError(
            f"names must differ from each other, got {Counter(names).most_common(1)[0][0]!r} twice"
        )
    parents = _linkage_parents(merges)
    heights = np.concatenate((np.zeros(count), merges[:, 2]))
    if not np.isfinite(heights).all() or (heights < 0).any():
        raise ValueError("linkage: merge heights must be finite and not negative")
    highest = heights.max()
    if highest == 0:
        return Parts([-1] + [0] * count, [DEFAULT_ROOT, *names])
    lengths = (heights[parents[:-1]] - heights[:-1]) / 2
    if (lengths < -TIE * highest).any():
        raise ValueError("linkage is not monotone: a merge is lower than one below it")
    tied = lengths <= TIE * highest
    if tied[:count].any():
        same = [names[label] for label in np.flatnonzero(tied[:count])]
        raise ValueError(
            f"classes {same[:4]!r} are at distance 0 from another; edge weights must be positive"
        )
    return _joined(parents, lengths, tied, names)


def _linkage_parents(merges: FloatArray) -> IntArray:
    """Parent of each cluster, leaves first. Shapes: (k - 1, 4) -> (2k - 1,)."""
    count = len(merges) + 1
    pairs = merges[:, :2]
    limit = (count + np.arange(len(merges)))[:, None]
    if not ((pairs == np.floor(pairs)) & (pairs >= 0) & (pairs < limit)).all():
        raise ValueError("linkage: a merge names a cluster that does not exist yet")
    flat = pairs.astype(np.int64).ravel()
    if len(np.unique(flat)) < len(flat):
        raise ValueError("linkage: a cluster is merged twice")
    parents = np.full(2 * count - 1, -1, dtype=np.int64)
    parents[flat] = count + np.arange(len(merges)).repeat(2)
    return parents


def _joined(
    parents: IntArray, lengths: FloatArray, tied: npt.NDArray[np.bool_], names: Sequence[str]
) -> Parts:
    """Merge every inner node with an edge of length 0 above it into its parent."""
    above = parents.tolist()
    top = list(range(len(above)))
    for node in range(len(above) - 2, len(names) - 1, -1):
        if tied[node]:
            top[node] = top[above[node]]
    # From the root down, so that the root is the first inner node; the classes come first in label order.
    inner = [node for node in range(len(above) - 1, len(names) - 1, -1) if top[node] == node]
    order = [*range(len(names)), *inner]
    place = {node: index for index, node in enumerate(order)}
    return Parts(
        parents=[-1 if above[node] < 0 else place[top[above[node]]] for node in order],
        names=[*names, DEFAULT_ROOT, *fresh_names(names, len(inner) - 1)],
        weights=[0.0 if above[node] < 0 else float(lengths[node]) for node in order],
    )


def parts_from_features(features: Any, labels: Any, *, method: str, names: Sequence[str] | None) -> Parts:
    """Cluster the class means."""
    if method not in METHODS:
        raise ValueError(f"method must be one of {METHODS}, got {method!r}")
    matrix = _to_matrix(features)
    present, inverse = _to_classes(labels, len(matrix))
    if len(present) < 2:
        raise ValueError(f"labels must hold at least two classes, got {len(present)}")
    if names is None:
        names = [str(label) for label in present.tolist()]
    if len(names) != len(present):
        raise ValueError(f"names must name the {len(present)} classes of labels, got {len(names)}")
    order = np.argsort(inverse, kind="stable")
    counts = np.bincount(inverse)
    starts = np.cumsum(counts) - counts
    means = np.add.reduceat(matrix[order], starts, axis=0) / counts[:, None]

    from scipy.cluster.hierarchy import linkage

    return parts_from_linkage(linkage(means, method=method), names)


def _to_matrix(features: Any) -> FloatArray:
    if hasattr(features, "detach"):
        # Converted to double by torch, because numpy has no bfloat16.
        features = features.detach().cpu().double()
    matrix = np.asarray(features, dtype=np.float64)
    if matrix.ndim != 2 or matrix.size == 0:
        raise ValueError(f"features must have shape (N, d) with N, d > 0, got {matrix.shape}")
    if not np.isfinite(matrix).all():
        raise ValueError("features must be finite, got NaN or infinity")
    return matrix


def _to_classes(labels: Any, rows: int) -> tuple[npt.NDArray[Any], IntArray]:
    if hasattr(labels, "detach"):
        labels = labels.detach().cpu()
    array = np.asarray(labels)
    if array.dtype == object and all(isinstance(label, str) for label in array.ravel()):
        array = array.astype(str)
    if array.shape != (rows,):
        raise ValueError(f"labels must have shape ({rows},), one per row of features, got {array.shape}")
    if array.dtype.kind not in "iuU":
        raise ValueError(f"labels must be integers or strings, got dtype {array.dtype}")
    present, inverse = np.unique(array, return_inverse=True)
    return present, inverse
