"""Exact search, some vectors at a time."""

import numpy as np
import pytest

from cophenet.estimator import search
from cophenet.estimator.search import SearchIndex


def slow_search(vectors, queries, k):
    """Row by row; whole numbers, so that equal cosines are equal to the last bit."""
    answers = []
    for query in queries:
        cosines = [float(query @ vector) for vector in vectors]
        answers.append(sorted(range(len(vectors)), key=lambda row: (-cosines[row], row))[:k])
    return answers


@pytest.mark.parametrize("part", [1, 15, 1 << 22])
@pytest.mark.parametrize("k", [1, 7, 40])
def test_the_best_rows_and_of_equal_ones_the_first(part, k, monkeypatch):
    monkeypatch.setattr(search, "_PART", part)
    rng = np.random.default_rng(k)
    vectors = rng.integers(-1, 2, (40, 3)).astype(np.float32)  # many are the same
    queries = rng.integers(-2, 3, (9, 3)).astype(np.float32)
    index = SearchIndex(vectors, np.arange(40), unit=True)
    rows, cosines = index._engine(queries, k)
    assert rows.tolist() == slow_search(vectors, queries, k)
    np.testing.assert_array_equal(cosines, np.take_along_axis(queries @ vectors.T, rows, axis=1))


def test_vectors_of_norm_one_are_not_copied():
    vectors = np.eye(3, dtype=np.float32)
    index = SearchIndex(vectors, np.arange(3), unit=True)
    assert index.vectors is vectors
    again = SearchIndex.__new__(SearchIndex)
    again.__setstate__(index.__getstate__())
    assert again.vectors is vectors
    np.testing.assert_array_equal(SearchIndex(5 * vectors, np.arange(3)).vectors, vectors)
