"""Files of vectors written some rows at a time."""

import re
import tempfile

import numpy as np
import pytest
from numpy.testing import assert_allclose

from cophenet.vectors import read_vectors, write_vectors
from cophenet.vectors.formats import find_format
from vectors.written_vectors import ROWS

NAMES = np.array(["owl", "jay", "cod"] * 40)


@pytest.mark.parametrize("ending", ["npz", "npy", "safetensors", "parquet", "csv"])
def test_what_is_written_in_parts_reads_back(ending, tmp_path):
    path = tmp_path / f"out_features.{ending}"
    labels = np.arange(len(ROWS)).astype(str)
    parts = (slice(start, start + 50) for start in range(0, len(ROWS), 50))
    assert write_vectors(path, ({"features": ROWS[p], "labels": labels[p]} for p in parts)) == len(ROWS)
    features, labels = read_vectors(path)
    assert_allclose(features, ROWS, rtol=1e-6)
    assert labels == [str(row) for row in range(len(ROWS))]


@pytest.mark.parametrize("ending", ["npz", "npy", "safetensors", "parquet", "csv"])
def test_labels_that_are_integers_in_one_part_and_names_in_another(ending, tmp_path):
    """They were positions in the list of names in the first part, but were written as numbers."""
    path = tmp_path / f"out_features.{ending}"
    for parts in (["0", "1"], ["a", "b"]), (["a", "1"], ["0", "1"], ["x"]), (["5", "-1"], ["07", "5"]):
        write_vectors(path, [{"features": ROWS[: len(part)], "labels": np.array(part)} for part in parts])
        assert read_vectors(path)[1] == [label for part in parts for label in part]


@pytest.mark.parametrize("ending", ["npz", "npy", "safetensors"])
@pytest.mark.parametrize(
    "later", [[0.5, 1.5], ["02", "03"], [float("nan")] * 2, np.array([2**63, 1], np.uint64)]
)
def test_numbers_are_not_truncated_to_the_type_of_the_first_part(ending, later, tmp_path):
    path = tmp_path / f"out_features.{ending}"
    parts = [{"features": ROWS[:2], "labels": np.array(values)} for values in ([0, 1], later)]
    demand = "all parts of labels must fit into the type of the first"
    wrong = rf"{re.escape(str(path))}: {demand}, got .* after int64"
    with pytest.raises(ValueError, match=wrong):
        write_vectors(path, parts)
    assert not path.exists()


@pytest.mark.parametrize("ending", ["npz", "npy", "safetensors"])
@pytest.mark.parametrize(("first", "later"), [("uint8", "int64"), ("int8", "uint16"), ("float32", "int64")])
def test_numbers_of_another_type_are_written_if_they_fit(ending, first, later, tmp_path):
    path = tmp_path / f"out_features.{ending}"
    parts = [{"features": ROWS[:3], "labels": np.array([1, 2, 3], dtype)} for dtype in (first, later)]
    write_vectors(path, parts)
    ((_, labels),) = find_format(path).read(path, rows=None, labelled=True)
    assert (labels.tolist(), labels.dtype) == ([1, 2, 3, 1, 2, 3], first)
    parts[1]["labels"] = np.array([1, 2, 2**24 + 1])
    with pytest.raises(ValueError, match=f"got .* after {first}"):
        write_vectors(path, parts)


def test_a_failed_writer_leaves_what_was_there(tmp_path):
    path = tmp_path / "out.csv"
    path.write_text("old")
    with pytest.raises(ValueError, match="zip"):
        write_vectors(path, [{"features": ROWS, "labels": NAMES[1:]}])
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("ending", ["npz", "npy", "safetensors", "parquet", "csv"])
def test_nothing_is_written_to_the_folder_of_temporary_files(ending, tmp_path, monkeypatch):
    """It may be small, or lie in memory: a file of vectors needs room only where it is written."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "no such folder"))
    write_vectors(tmp_path / f"out_features.{ending}", [{"features": ROWS}])
    write_vectors(tmp_path / f"out_features.{ending}", [{"features": ROWS}])
    assert [file.name for file in tmp_path.iterdir()] == [f"out_features.{ending}"]
