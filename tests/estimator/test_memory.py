"""The commands on files of vectors take memory for some rows, not for the file.

Counted is what Python and numpy allocate, which is the same each time, and not the pages of mapped files
(tests/common/test_mapped.py). What is read at a time is made smaller, so that a small file shows what a large
one does.
"""

import tracemalloc

import numpy as np
import pytest

from cophenet import HierarchicalEmbedder
from cophenet.estimator import samples, search
from cophenet.estimator.vector_files import index_file, predict_file, search_file, write_answers
from cophenet.vectors import formats, map_rows, write_vectors
from estimator.vectors import TREE

ROWS, WIDTH = 3_000, 256
SIZE = ROWS * WIDTH * 4
FILES = ["large.npz", "large_features.npy", "large_features.safetensors", "large.parquet", "large.csv"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A file of 3 MB in every format, and a small one."""
    folder = tmp_path_factory.mktemp("memory")
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(ROWS, WIDTH)).astype(np.float32)
    labels = rng.integers(0, len(TREE.classes), ROWS)
    names = np.array(TREE.classes)[labels]
    for name in FILES:
        columns = {"features": rows.round(1), "labels": labels if "safetensors" in name else names}
        write_vectors(folder / name, [columns])
    write_vectors(folder / "small.npz", [{"features": rows[:50], "labels": names[:50]}])
    return folder


@pytest.fixture(scope="module")
def embedder(folder):
    with np.load(folder / "large.npz") as file:
        rows, names = file["features"][:200], file["labels"][:200]
    return HierarchicalEmbedder(TREE, max_iter=1, random_state=0).fit(rows, names)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    for module, name in ((samples, "_BLOCK"), (search, "_PART"), (formats, "_PART")):
        monkeypatch.setattr(module, name, 1 << 15)


def peak(work):
    """Most bytes that were allocated at a time."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def rows_of(path, column):
    with np.load(path) as columns:
        return len(columns[column])


@pytest.mark.parametrize("file", FILES)
def test_predict(file, folder, embedder):
    answers = folder / "answers.npz"
    assert peak(lambda: predict_file(embedder, folder / file, answers, "argmax", None)) < SIZE / 2
    assert rows_of(answers, "node") == ROWS


@pytest.mark.parametrize("file", FILES[:-1])  # csv takes long, and is copied as npz is
def test_search_in_a_large_file(file, folder, embedder):
    def work():
        index_file(embedder, folder / file, None, "exact", folder)
        write_answers(folder / "near.csv", search_file(embedder, folder / "small.npz", 3, None), 3)

    assert peak(work) < SIZE / 2
    mapped = embedder.index_.vectors
    assert len(mapped) == ROWS
    rows, _ = map_rows(folder / file, folder)
    np.testing.assert_allclose(mapped, embedder.build_index(rows).index_.vectors, atol=1e-6)


def test_search_for_a_large_file(folder, embedder):
    index_file(embedder, folder / "small.npz", None, "exact", folder)
    answers = search_file(embedder, folder / "large.npz", 1, None)
    assert peak(lambda: write_answers(folder / "near.npz", answers, 1)) < SIZE / 2
    assert rows_of(folder / "near.npz", "row") == ROWS
