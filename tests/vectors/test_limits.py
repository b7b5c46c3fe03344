"""Files of vectors that declare more than they hold, or that are huge by compression only."""

import json
import struct
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cophenet.vectors import csv, label_facts, map_arrays, map_rows, read_parts, read_vectors
from cophenet.vectors.parquet import count_values

READERS = [read_vectors, lambda path: list(read_parts(path)), map_rows]


def npy(shape, descr="<f4", data=b"", version=1, length=None):
    """An npy file with any header."""
    header = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode() + b"\n"
    count = len(header) if length is None else length
    return (
        b"\x93NUMPY"
        + bytes([version, 0])
        + struct.pack("<H" if version == 1 else "<I", count)
        + header
        + data
    )


def write_npz(path, features, labels=None):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("features.npy", features)
        archive.writestr("labels.npy", npy((1,), "<i8", bytes(8)) if labels is None else labels)


def write_safetensors(path, header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def refuse(path, message, readers=READERS):
    for read in readers:
        with pytest.raises(ValueError, match=message) as caught:
            read(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("shape", "descr", "message"),
    [
        (
            (10**10, 512),
            "<f4",
            r"shape \(10000000000, 512\) of float32 needs 20480000000000 bytes",
        ),
        ((-1, -1), "<f4", "has a negative size"),
        ((10**12,), "<U0", "needs 1000000000000 bytes"),
        ((1,), "<U100000000", "needs 400000000 bytes"),
    ],
)
def test_arrays_in_archives_are_no_larger_than_their_bytes(shape, descr, message, tmp_path):
    path = tmp_path / "a.npz"
    write_npz(path, npy(shape, descr, bytes(4)))
    refuse(path, message)
    write_npz(path, npy((1, 1), data=bytes(4)), npy(shape, descr, bytes(4)))
    refuse(path, message)
    with pytest.raises(ValueError, match=message):
        label_facts(path)


@pytest.mark.parametrize(
    "content",
    [
        npy((10**10, 512), data=bytes(64)),
        npy((-4, -4), data=bytes(64)),
        npy((10**12,), "<U0", bytes(64)),
        npy((1, 1), data=bytes(4), version=2, length=2**32 - 1),
        npy((2, 2), "<f4\n(", bytes(16)),
        npy((1, 1)).replace(b"(1, 1)", b"(" * 500),
        b"\x93NUMPY\x01\x00",
        b"",
    ],
)
def test_mapped_arrays_are_no_larger_than_their_file(content, tmp_path):
    path = tmp_path / "features.npy"
    path.write_bytes(content)
    np.save(tmp_path / "labels.npy", np.zeros(1, dtype=int))
    refuse(path, r"features.npy: ", [*READERS, map_arrays])


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [10**12, 4], "data_offsets": [0, 16]},
        {"dtype": "F32", "shape": [-2, -2], "data_offsets": [0, 16]},
        {"dtype": "F32", "shape": [2.0, 2], "data_offsets": [0, 16]},
        {"dtype": "F32", "shape": [True, 4], "data_offsets": [0, 16]},
        {"dtype": "F32", "shape": [4, 4], "data_offsets": [-48, 16]},
        {"dtype": "F32", "shape": 4, "data_offsets": [0, 16]},
        {"dtype": "F32", "shape": [4, 1], "data_offsets": [0]},
        {"dtype": [], "shape": [4, 1], "data_offsets": [0, 16]},
        [],
        None,
    ],
)
def test_tensors_are_no_larger_than_their_file(entry, tmp_path):
    path = tmp_path / "a.safetensors"
    labels = {"dtype": "I64", "shape": [0], "data_offsets": [16, 16]}
    write_safetensors(path, {"features": entry, "labels": labels}, bytes(16))
    refuse(path, "a.safetensors: ", [*READERS, map_arrays])


def test_headers_of_tensors_are_limited(tmp_path):
    path = tmp_path / "a.safetensors"
    write_safetensors(path, b'{"features":' * 5000)
    refuse(path, "nested deeper than 500 levels")
    path.write_bytes((2**62).to_bytes(8, "little") + b"{}")
    refuse(path, "a header of 4611686018427387904 bytes")
    with path.open("wb") as stream:  # a hole takes no disk
        stream.write((200_000_000).to_bytes(8, "little"))
        stream.truncate(300_000_000)
    refuse(path, r"a header of 200000000 bytes, more than 100 MB \(limit\)")


def test_archives_are_no_bombs(tmp_path, monkeypatch):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, features=np.zeros((50_000, 4), np.float32), labels=np.zeros(50_000, int))
    assert len(read_vectors(path)[1]) == 50_000
    monkeypatch.setenv("COPHENET_MAX_UNPACKED_BYTES", "100000")
    refuse(path, r"a.npz: .* unpack to more than 100 kB \(limit; COPHENET_MAX_UNPACKED_BYTES sets another\)")


def test_tables_are_no_bombs(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": np.zeros(100_000), "label": ["a"] * 100_000}), path)
    assert len(read_vectors(path)[1]) == 100_000
    monkeypatch.setenv("COPHENET_MAX_UNPACKED_BYTES", "100000")
    refuse(path, r"a.parquet: .* unpack to more than 100 kB \(limit; COPHENET_MAX_UNPACKED_BYTES")


def test_lines_are_limited(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    path.write_text("x,label\n1.00000000000000000000,a\n")
    monkeypatch.setattr(csv, "LINE_BYTES", 20)
    refuse(path, r"a.csv: line 2 is longer than 20 bytes \(limit\)")


@pytest.mark.parametrize("change", [{"compression": 99}, {"flag_bits": 1}])
def test_archives_that_zipfile_cannot_read(change, tmp_path):
    path = tmp_path / "a.npz"
    write_npz(path, npy((1, 1), data=bytes(4)))
    content = bytearray(path.read_bytes())
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = -1
        while (at := content.find(mark, at + 1)) >= 0:
            here = at + place + (2 if "compression" in change else 0)
            content[here : here + 2] = next(iter(change.values())).to_bytes(2, "little")
    path.write_bytes(content)
    refuse(path, "a.npz: truncated, damaged or not a npz file of vectors")


@pytest.mark.parametrize("label", ["a\x1bb", "a\nb", "a\u202eb"])
def test_labels_that_cannot_be_drawn_are_refused_with_their_row(label, tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, features=np.eye(3), labels=["x", label, "y"])
    refuse(path, r"a.npz: row 1: a label must be text without control characters, got 'a\\")


@pytest.mark.parametrize("rows_of_a_group", [7, 1000])
def test_values_are_counted_from_the_footer(tmp_path, rows_of_a_group):
    lists = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(400.0)), 4)
    table = pa.table({"x": lists, "y": np.arange(100), "z": [True] * 100, "label": ["ä" * 200] * 100})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=rows_of_a_group, compression="zstd")
    assert count_values(tmp_path / "a.parquet") == 100 * (4 + 1 + 1 + 1)
    for content in (b"", b"PAR1", (tmp_path / "a.parquet").read_bytes()[:-9] + b"\x01\x00\x00\x00PAR1"):
        (tmp_path / "b.parquet").write_bytes(content)
        with pytest.raises(ValueError, match="its footer makes no sense"):
            count_values(tmp_path / "b.parquet")
