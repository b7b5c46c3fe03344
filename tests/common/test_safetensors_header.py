"""Files of tensors are written to the byte as before, and by two writers with one header."""

import numpy as np
import pytest
import torch

from cophenet._common.safetensors_header import read_header
from cophenet._common.tensor_files import dump_tensors
from cophenet.vectors import write_vectors

PACKAGE = (
    b'\xf8\0\0\0\0\0\0\0{"__metadata__":{"checksum":"1d1c5edc108b03f5","method":"umap","z":"\xc3\xbc"},'
    b'"b":{"dtype":"I64","shape":[3],"data_offsets":[0,24]},'
    b'"points":{"dtype":"F32","shape":[3,2],"data_offsets":[24,48]},'
    b'"\xc3\xa4":{"dtype":"F16","shape":[1],"data_offsets":[48,50]}}   '
)
VECTORS = (
    b'\xc8\0\0\0\0\0\0\0{"__metadata__": {"labels": "[\\"\\\\u00e4ul\\", \\"jay\\"]"}, '
    b'"features": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}, '
    b'"labels": {"dtype": "I64", "shape": [2], "data_offsets": [16, 32]}}    '
)
NUMBERS = (
    b'\x90\0\0\0\0\0\0\0{"features": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}, '
    b'"labels": {"dtype": "I64", "shape": [2], "data_offsets": [16, 32]}}    '
)


def test_a_file_of_tensors():
    tensors = {"points": torch.zeros(3, 2), "b": torch.arange(3), "ä": torch.ones(1).half()}
    data = dump_tensors(tensors, {"z": "ü", "method": "umap"})
    assert data == PACKAGE + np.arange(3).tobytes() + bytes(24) + np.ones(1, np.float16).tobytes()


@pytest.mark.parametrize(
    ("labels", "header", "numbers"), [(["äul", "jay"], VECTORS, [0, 1]), (["1", "-2"], NUMBERS, [1, -2])]
)
def test_a_file_of_vectors(labels, header, numbers, tmp_path):
    path, rows = tmp_path / "a.safetensors", np.eye(2, dtype=np.float32)
    write_vectors(path, [{"features": rows, "labels": np.array(labels)}])
    assert path.read_bytes() == header + rows.tobytes() + np.array(numbers).tobytes()
    with path.open("rb") as stream:
        assert read_header(stream, path.stat().st_size).begin == len(header)
