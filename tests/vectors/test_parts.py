"""Files of vectors read some rows at a time, or as a memory map."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from safetensors.torch import save_file

from cophenet.vectors import map_rows, read_parts, read_vectors
from vectors.written_vectors import ROWS, WRITERS

CODES = np.arange(len(ROWS)) % 5


@pytest.mark.parametrize("write", WRITERS)
def test_parts_of_a_file_are_the_file(write, tmp_path):
    path = tmp_path / write(tmp_path / "some", ROWS, np.arange(len(ROWS)) % 7)
    features, labels = read_vectors(path)
    parts = list(read_parts(path, rows=50))
    assert [len(part) for part, _ in parts] == [50, 50, 20]
    assert_allclose(np.concatenate([part for part, _ in parts]), features)
    assert [label for _, texts in parts for label in texts] == labels
    rows, texts = map_rows(path)
    assert isinstance(rows, np.memmap)
    assert_allclose(rows, features)
    assert texts == labels


def test_types_are_kept(tmp_path):
    wide = ROWS.astype(np.float64)
    tensors = {"features": torch.from_numpy(wide), "labels": torch.from_numpy(CODES)}
    save_file(tensors, tmp_path / "some.safetensors")
    assert next(read_parts(tmp_path / "some.safetensors"))[0].dtype == np.float64
    rows, _ = map_rows(tmp_path / "some.safetensors")
    assert_array_equal(rows, wide)
    for write in WRITERS[3:5]:
        narrow = map_rows(tmp_path / write(tmp_path / "narrow", ROWS, CODES))[0]
        assert narrow.dtype == (np.float32 if write is WRITERS[3] else np.float64)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,2\n3,4\n", r"wrong.csv: the first line must hold the names of the columns"),
        ("a,b\n1,2\n\n3,x\n", r"wrong.csv: line 4: 'x' is not a number"),
    ],
)
def test_a_wrong_csv_file_is_reported_with_its_line(tmp_path, text, message):
    (tmp_path / "wrong.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        list(read_parts(tmp_path / "wrong.csv"))


def test_columns_in_an_archive_are_reported_with_the_remedy(tmp_path):
    np.savez(tmp_path / "by_column.npz", features=np.asfortranarray(ROWS))
    with pytest.raises(ValueError, match=r"by_column.npz: .*save np.ascontiguousarray\(features\)"):
        list(read_parts(tmp_path / "by_column.npz"))
