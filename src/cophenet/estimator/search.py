"""Cosine search among reshaped vectors: exact, or with faiss or hnswlib if these are installed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cophenet._common.arrays import release_pages
from cophenet._common.checks import check_choice, check_whole, wrong_argument
from cophenet._common.packages import import_optional
from cophenet.estimator.labels import find_known, node_ancestors, node_labels
from cophenet.estimator.samples import blocks, float_type
from cophenet.tree import Hierarchy

__all__ = ["BACKENDS", "Group", "SearchIndex", "SearchMixin", "SearchResult"]

BACKENDS = ("exact", "faiss", "hnswlib")
# Numbers of an index read at a time: 4 MB.
_PART = 1 << 20

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


class Group(NamedTuple):
    """Results of one query that lie below one node of the tree.

    Attributes:
        name: Label of the node.
        path: Names from below the root down to it.
        rows: (m,) positions of the results in the index, the best first.
        similarities: (m,) their cosines.
    """

    name: Any
    path: tuple[str, ...]
    rows: Ints
    similarities: Floats


@dataclass(frozen=True, eq=False)
class SearchResult:
    """The results of n queries.

    Attributes:
        rows: (n, k) positions in the index, the best first.
        similarities: (n, k) cosines.
        nodes: (n, k) the node of each result at the level of the search.
        names: (num_nodes,) label of each node.
        paths: (num_nodes,) path of each node.
    """

    rows: Ints
    similarities: Floats
    nodes: Ints
    names: NDArray[Any]
    paths: list[tuple[str, ...]]

    def __len__(self) -> int:
        """Number of queries."""
        return len(self.rows)

    def groups(self, query: int) -> list[Group]:
        """The results of a query by node; the node with the best result comes first."""
        nodes = self.nodes[query]
        groups = []
        for node in dict.fromkeys(nodes.tolist()):
            own = nodes == node
            rows, similarities = self.rows[query][own], self.similarities[query][own]
            groups.append(Group(self.names[node], self.paths[node], rows, similarities))
        return groups

    def __iter__(self) -> Iterator[list[Group]]:
        """The groups of each query."""
        return (self.groups(query) for query in range(len(self)))


class SearchIndex:
    """An index of vectors of norm one, searched by one of the backends.

    Args:
        vectors: (N, d), of any norm; a memory map if they do not fit in memory ("exact" only).
        nodes: (N,) the tree node of each vector.
        backend: "exact"; or "faiss" or "hnswlib", which use a graph of neighbours: fast and almost exact.
        unit: Whether the vectors have norm one already; then they are not copied.

    Example:
        >>> index = SearchIndex(np.eye(3, dtype=np.float32), np.arange(3))
        >>> index.search(np.array([[3.0, 1.0, 0.0]], dtype=np.float32), 2)[0]
        array([[0, 1]])
    """

    def __init__(self, vectors: Floats, nodes: Ints, backend: str = "exact", *, unit: bool = False) -> None:
        check_choice("backend", backend, BACKENDS)
        self.vectors, self.nodes, self.backend = vectors if unit else _unit(vectors), nodes, backend
        self._engine = _ENGINES[backend](self.vectors)

    def search(self, queries: Floats, k: int) -> tuple[Ints, Floats]:
        """The k best rows of each query, and their cosines. (n, d) -> (n, k), (n, k)."""
        if k > len(self.vectors):
            raise wrong_argument("k", f"must be at most {len(self.vectors)}, the rows of the index, got {k}")
        rows, similarities = self._engine(_unit(queries), k)
        return rows.astype(np.int64), similarities.astype(np.float32)

    def __getstate__(self) -> dict[str, Any]:
        """State without the engine, which is rebuilt."""
        return {"vectors": self.vectors, "nodes": self.nodes, "backend": self.backend}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the state and rebuild the engine."""
        self.__init__(**state, unit=True)  # type: ignore[misc]


def _unit(vectors: Floats) -> Floats:
    values = np.ascontiguousarray(vectors, dtype=np.float32)
    norms = np.linalg.norm(values, axis=1, keepdims=True)
    return np.asarray(values / np.where(norms == 0, 1, norms), dtype=np.float32)


def _exact(vectors: Floats) -> Any:
    """Exact search by all cosines, in blocks; the vectors are read once for all queries."""
    step = max(1, _PART // vectors.shape[1])

    def search(queries: Floats, k: int) -> tuple[Ints, Floats]:
        rows: Ints = np.empty((len(queries), 0), dtype=np.int64)
        cosines: Floats = np.empty((len(queries), 0), dtype=np.float32)
        for start in range(0, len(vectors), step):
            more_rows, more = _best(vectors[start : start + step], queries, k)
            rows, cosines = np.hstack((rows, start + more_rows)), np.hstack((cosines, more))
            order = np.lexsort((rows, -cosines), axis=1)[:, :k]
            rows, cosines = np.take_along_axis(rows, order, 1), np.take_along_axis(cosines, order, 1)
            release_pages(vectors)
        return rows, cosines

    return search


def _best(vectors: Floats, queries: Floats, k: int) -> tuple[Ints, Floats]:
    """The k best vectors of each query with their cosines, unsorted; of ties the first ones. (n, k)."""
    k = min(k, len(vectors))
    rows = np.empty((len(queries), k), dtype=np.int64)
    cosines = np.empty((len(queries), k), dtype=np.float32)
    for part in blocks(len(queries), len(vectors)):
        distances = -(queries[part] @ vectors.T)
        top = np.argpartition(distances, k - 1, axis=1)[:, :k]
        last = np.take_along_axis(distances, top[:, -1:], axis=1)
        tied = np.flatnonzero(np.count_nonzero(distances <= last, axis=1) > k)
        top[tied] = np.argsort(distances[tied], axis=1, kind="stable")[:, :k]
        rows[part], cosines[part] = top, -np.take_along_axis(distances, top, axis=1)
    return rows, cosines


def _load(name: str) -> Any:
    return import_optional(name, f"backend {name!r} needs", "cophenet[index]" if name == "faiss" else name)


def _faiss(vectors: Floats) -> Any:
    faiss = _load("faiss")
    index = faiss.IndexHNSWFlat(vectors.shape[1], 32, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = 200
    index.add(vectors)

    def search(queries: Floats, k: int) -> tuple[Ints, Floats]:
        index.hnsw.efSearch = max(64, 2 * k)
        similarities, rows = index.search(queries, k)
        return rows, similarities

    return search


def _hnswlib(vectors: Floats) -> Any:
    index = _load("hnswlib").Index(space="ip", dim=vectors.shape[1])
    index.init_index(max_elements=len(vectors), ef_construction=200, M=32, random_seed=0)
    index.add_items(vectors)

    def search(queries: Floats, k: int) -> tuple[Ints, Floats]:
        index.set_ef(max(64, 2 * k))
        rows, distances = index.knn_query(queries, k=k)
        return rows, 1 - distances

    return search


_ENGINES = {"exact": _exact, "faiss": _faiss, "hnswlib": _hnswlib}


class SearchMixin:
    """Search among reshaped vectors, for an estimator with `_rows`, `_decide`, `_embed` and `_features`."""

    classes_: NDArray[Any]
    tree_: Hierarchy
    index_: SearchIndex

    def build_index(
        self: Any,
        X: Any,  # noqa: N803
        y: Any = None,
        *,
        backend: str = "exact",
        folder: str | os.PathLike[str] | None = None,
    ) -> Any:
        """Build a search index of vectors.

        Args:
            X: (n, d) vectors.
            y: (n,) their labels, by which results are grouped; None to use the predicted classes.
            backend: "exact", or "faiss" or "hnswlib" if installed.
            folder: Folder of an unnamed temporary file for the reshaped vectors, so that with "exact" they
                need not fit in memory; None to keep them in memory.

        Returns:
            The estimator itself.
        """
        rows = self._rows(X)
        if y is None:
            nodes = self._decide(rows, "argmax")
        else:
            nodes = find_known(y, self.classes_, self.tree_, len(rows), self.labels)
        if folder is None:
            self.index_ = SearchIndex(self._embed(rows), nodes, backend)
            return self
        with TemporaryFile(dir=folder) as file:
            for _, features in self._features(rows):
                file.write(_unit(features.astype(float_type(rows))).tobytes())
            file.flush()
            vectors = np.memmap(file, np.float32, "r", shape=(len(rows), self._n_features_out))
        self.index_ = SearchIndex(vectors, nodes, backend, unit=True)
        return self

    def search(self: Any, X: Any, k: int = 10, level: int | str | None = None) -> SearchResult:  # noqa: N803
        """Find the most similar vectors of the index, by cosine, grouped by the tree.

        Args:
            X: (n, d) queries.
            k: Results per query.
            level: Level of `tree_` whose nodes are the groups; None to group by the labels of the index.

        Returns:
            The results; iterate over them for the groups of each query.
        """
        rows = self._rows(X)
        check_whole("k", k, 1)
        if not hasattr(self, "index_"):
            raise ValueError("there is no index to search in: call build_index first")
        answers, similarities = self.index_.search(self._embed(rows), k)
        nodes = self.index_.nodes[answers]
        if level is not None:
            nodes = node_ancestors(self.tree_, level)[nodes]
        paths = [self.tree_.path(node) for node in range(self.tree_.num_nodes)]
        return SearchResult(answers, similarities, nodes, node_labels(self.tree_, self.classes_), paths)
