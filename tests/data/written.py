"""Small files in the true formats of CIFAR and Fashion-MNIST."""

from __future__ import annotations

import gzip
import struct
import tarfile
from pathlib import Path

import numpy as np

from cophenet.data.cifar import CIFAR10, CIFAR100, cifar100_tree

FINE = cifar100_tree().classes
COARSE_OF = {fine: place for place, names in enumerate(CIFAR100.values()) for fine in names}


def python2_pickle(value) -> bytes:
    """A pickle as Python 2 wrote it: protocol 2, byte strings, arrays by numpy's old names."""
    return b"\x80\x02" + _opcodes(value) + b"."


def _opcodes(value) -> bytes:
    if isinstance(value, str | bytes):
        raw = value.encode() if isinstance(value, str) else value
        return b"U" + bytes([len(raw)]) + raw if len(raw) < 256 else b"T" + struct.pack("<i", len(raw)) + raw
    if isinstance(value, int):
        return b"K" + bytes([value])
    if isinstance(value, list):
        return b"](" + b"".join(map(_opcodes, value)) + b"e"
    if isinstance(value, dict):
        return b"}(" + b"".join(_opcodes(part) for item in value.items() for part in item) + b"u"
    assert value.dtype == np.uint8
    start = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    shape = b"".join(b"J" + struct.pack("<i", size) for size in value.shape)
    dtype = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    return start + b"(K\x01(" + shape + b"t" + dtype + b"\x89" + _opcodes(value.tobytes()) + b"tb"


def pixels(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, 3072), dtype=np.uint8)


def cifar100_labels(count: int) -> tuple[list[int], list[int]]:
    fine = [(7 * i) % 100 for i in range(count)]
    return fine, [COARSE_OF[FINE[label]] for label in fine]


def write_cifar100_python(folder: Path, train: int = 200, test: int = 100) -> Path:
    folder.mkdir(parents=True)
    for seed, (name, count) in enumerate({"train": train, "test": test}.items()):
        fine, coarse = cifar100_labels(count)
        content = {"data": pixels(count, seed), "fine_labels": fine, "coarse_labels": coarse}
        (folder / name).write_bytes(python2_pickle({"batch_label": "a batch", **content}))
    meta = {"fine_label_names": list(FINE), "coarse_label_names": list(CIFAR100)}
    (folder / "meta").write_bytes(python2_pickle(meta))
    return folder


def write_cifar100_binary(folder: Path, train: int = 200, test: int = 100) -> Path:
    folder.mkdir(parents=True)
    for seed, (name, count) in enumerate({"train.bin": train, "test.bin": test}.items()):
        fine, coarse = cifar100_labels(count)
        labels = np.array([coarse, fine], dtype=np.uint8).T
        (folder / name).write_bytes(np.concatenate([labels, pixels(count, seed)], axis=1).tobytes())
    (folder / "fine_label_names.txt").write_text("\n".join(FINE) + "\n")
    (folder / "coarse_label_names.txt").write_text("\n".join(CIFAR100) + "\n")
    return folder


def _cifar10_batches():
    names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    return {
        name: (pixels(20, seed), [(3 * i + seed) % 10 for i in range(20)]) for seed, name in enumerate(names)
    }


def write_cifar10_python(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for name, (data, labels) in _cifar10_batches().items():
        (folder / name).write_bytes(python2_pickle({"data": data, "labels": labels}))
    (folder / "batches.meta").write_bytes(python2_pickle({"label_names": list(CIFAR10)}))
    return folder


def write_cifar10_binary(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for name, (data, labels) in _cifar10_batches().items():
        rows = np.concatenate([np.array(labels, dtype=np.uint8)[:, None], data], axis=1)
        (folder / f"{name}.bin").write_bytes(rows.tobytes())
    (folder / "batches.meta.txt").write_text("\n".join(CIFAR10) + "\n\n")
    return folder


def pack(folder: Path, archive: Path) -> Path:
    """The folder as a .tar.gz, with its own name inside."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, arcname=folder.name)
    return archive


def idx_bytes(values: np.ndarray) -> bytes:
    return bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()


def write_fashion_mnist(folder: Path, zipped: bool = False) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    for prefix, count in {"train": 40, "t10k": 20}.items():
        labels = np.arange(count, dtype=np.uint8) % 10
        images = rng.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        for name, values in {"images-idx3": images, "labels-idx1": labels}.items():
            content = gzip.compress(idx_bytes(values)) if zipped else idx_bytes(values)
            (folder / f"{prefix}-{name}-ubyte{'.gz' if zipped else ''}").write_bytes(content)
    return folder
