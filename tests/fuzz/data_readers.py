"""A fuzz target for each reader of the files of data sets: pickles, archives, IDX, images."""

from __future__ import annotations

import gzip
import io
import pickle
import tarfile
from functools import partial

import numpy as np
from PIL import Image

from cophenet.data.augmentation import CentreCrop, RandomCrop
from cophenet.data.cifar_files import CIFAR10_LAYOUTS, CIFAR100_LAYOUTS, read_batches
from cophenet.data.fashion_mnist import read_idx
from cophenet.data.image_files import ImageFiles

from .harness import FileTarget, all_of, saved

PIXELS = np.random.default_rng(1).integers(0, 256, (3, 3072), dtype=np.uint8)


def _batch():
    content = {
        "data": PIXELS,
        "fine_labels": [3, 1, 2],
        "coarse_labels": [0, 1, 2],
        "filenames": ["a", "b", "c"],
    }
    return [pickle.dumps(content, protocol) for protocol in (0, 2, 4, 5)]


def _meta():
    names = {"fine_label_names": [f"fine {i}" for i in range(9)], "coarse_label_names": ["a", "b"]}
    return [pickle.dumps(names, protocol) for protocol in (0, 2, 4)]


def _write_cifar(folder):
    inside = folder / CIFAR100_LAYOUTS[0].folder
    inside.mkdir()
    for name, content in (("train", _batch()[1]), ("test", _batch()[1]), ("meta", _meta()[1])):
        (inside / name).write_bytes(content)


def _read_cifar(path):
    read_batches(CIFAR100_LAYOUTS[0], path.parent)


def _records():
    return [b"\x03" + PIXELS[0].tobytes() + b"\x01" + PIXELS[1].tobytes()]


def _write_binary(folder):
    for name in CIFAR10_LAYOUTS[1].files:
        (folder / name).write_bytes(b"cat\ndog\n" if name.endswith("txt") else _records()[0])


def _read_binary(path):
    read_batches(CIFAR10_LAYOUTS[1], path.parent)


def _tar():
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in (("train", _batch()[1]), ("test", _batch()[1]), ("meta", _meta()[1])):
            info = tarfile.TarInfo(f"{CIFAR100_LAYOUTS[0].folder}/{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return [buffer.getvalue()]


def _idx():
    return [
        bytes([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4]) + bytes(range(24)),
        b"\0\0\x08\x01\0\0\0\x02ab",
    ]


def _images(*formats):
    picture = Image.fromarray(PIXELS[0].reshape(32, 32, 3))
    plain = [saved(lambda file, kind=kind: picture.save(file, kind)) for kind in formats]
    grey = [saved(lambda file, kind=kind: picture.convert("L").save(file, kind)) for kind in formats[:1]]
    return [*plain, *grey]


def _read_image(path):
    files = ImageFiles([str(path)], CentreCrop(8, 9), RandomCrop())
    all_of(
        path,
        lambda _: files.take(np.array([0])),
        lambda _: files.augmented(np.array([0]), np.array([5])),
        lambda _: files.problem(0),
    )


PICKLE_TOKENS = (
    b"cos\nsystem\n",
    b"\x8e" + b"\xff" * 8,
    b"r\xff\xff\xff\x1f",
    b"\x96" + b"\x7f" * 8,
    b"\x8f",
    b"0",
    b"2",
)
FOLDER = CIFAR100_LAYOUTS[0].folder
TARGETS = [
    FileTarget("cifar-batch", _batch, _read_cifar, f"{FOLDER}/train", _write_cifar, tokens=PICKLE_TOKENS),
    FileTarget("cifar-meta", _meta, _read_cifar, f"{FOLDER}/meta", _write_cifar, tokens=PICKLE_TOKENS),
    FileTarget("cifar-binary", _records, _read_binary, "data_batch_1.bin", _write_binary),
    FileTarget(
        "archive",
        _tar,
        lambda path: read_batches(CIFAR100_LAYOUTS[0], path),
        f"{FOLDER}.tar.gz",
        wrap=gzip.compress,
        tokens=(
            b"ustar  \0",
            b"ustar\x0000",
            b"0000000\0",
            b"77777777777\0",
            b"\x80" + b"\xff" * 11,
            b"11 path=x\n",
        ),
    ),
    FileTarget("idx", _idx, read_idx, "images-idx3-ubyte"),
    FileTarget("idx-gz", _idx, read_idx, "images-idx3-ubyte.gz", wrap=gzip.compress),
    FileTarget("image-png", partial(_images, "PNG"), _read_image, "a.png"),
    FileTarget("image-jpeg", partial(_images, "JPEG", "PPM"), _read_image, "a.jpg"),
    FileTarget("image-others", partial(_images, "TIFF", "BMP", "WEBP", "GIF"), _read_image, "a.tif"),
]
