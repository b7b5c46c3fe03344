"""Fashion-MNIST, read from its IDX files, the format of the MNIST family."""

from __future__ import annotations

import gzip
import io
import math
import zlib
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from cophenet._common.limits import UNPACKED_BYTES, Unpacked, read_bytes, reading
from cophenet.data.dataset import ArrayInputs, DataSet, Part, Requirement, Samples, split_data_set
from cophenet.data.download import RemoteFile
from cophenet.data.registry import DataSource, register_source
from cophenet.tree import Hierarchy

__all__ = ["FashionMnist", "fashion_mnist_tree", "read_idx"]

_ADDRESS = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
HOME = "https://github.com/zalandoresearch/fashion-mnist"
# Mean and standard deviation over all pixels of the official training images, scaled to 0..1.
FASHION_MNIST_MEAN, FASHION_MNIST_STD = (0.2860,), (0.3530,)

# In label order.
_CLASSES = (
    ("garments", "T-shirt/top"),
    ("garments", "Trouser"),
    ("garments", "Pullover"),
    ("garments", "Dress"),
    ("garments", "Coat"),
    ("footwear", "Sandal"),
    ("garments", "Shirt"),
    ("footwear", "Sneaker"),
    ("bags", "Bag"),
    ("footwear", "Ankle boot"),
)
_PREFIX: dict[Part, str] = {"train": "train", "test": "t10k"}
# The data folder itself, and subfolders in which other tools put the files.
_FOLDERS = ("", "fashion-mnist", "FashionMNIST/raw")
_UNSIGNED_BYTES = 0x08  # the type of an IDX file's values


def fashion_mnist_tree() -> Hierarchy:
    """The tree of the ten classes in garments, footwear and bags.

    Example:
        >>> fashion_mnist_tree().cut("coarse")[0].classes
        ('garments', 'footwear', 'bags')
    """
    return Hierarchy.from_paths(_CLASSES, root="fashion-mnist", level_names=("coarse", "fine"))


@register_source
class FashionMnist(DataSource):
    """Fashion-MNIST: 28 x 28 grey images of ten classes.

    Read from the four IDX files, plain or gzipped, in the data folder or in `fashion-mnist` or
    `FashionMNIST/raw` below it. Bags have a single class, so they are in neither source nor target.

    Example:
        >>> [need.path.name for need in FashionMnist().requirements(None)][:2]
        ['train-images-idx3-ubyte', 'train-labels-idx1-ubyte']
    """

    name = "fashion-mnist"
    summary = "Fashion-MNIST, 10 classes in garments, footwear, bags; from the IDX files"

    remote_files = (
        RemoteFile(_ADDRESS + "train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d", 26421880),
        RemoteFile(_ADDRESS + "train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe", 29515),
        RemoteFile(_ADDRESS + "t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79", 4422102),
        RemoteFile(_ADDRESS + "t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310", 5148),
    )

    def tree(self) -> Hierarchy:
        """The tree of all classes."""
        return fashion_mnist_tree()

    def requirements(self, data_dir: Path | None) -> list[Requirement]:
        """The four files, and whether they are there, plain or with .gz."""
        files = _find(data_dir)
        note = f"plain or with .gz, from {HOME}"
        # Without a folder nothing is there, not even what is in the current folder.
        return [
            Requirement(path, data_dir is not None and path.is_file(), note)
            for pair in files.values()
            for path in pair
        ]

    def load(self, data_dir: Path | None) -> DataSet:
        """Read the data set."""
        missing = [need for need in self.requirements(data_dir) if not need.found]
        if missing:
            names = ", ".join(need.path.name for need in missing)
            raise FileNotFoundError(
                f"data {self.name!r} was not found: put {names} ({missing[0].note}) "
                f"into {missing[0].path.parent} and give data_dir"
            )
        tree = self.tree()
        parts = {part: _read(tree, *paths) for part, paths in _find(data_dir).items()}
        return split_data_set(
            self.name, tree, parts.__getitem__, mean=FASHION_MNIST_MEAN, std=FASHION_MNIST_STD
        )


def _find(data_dir: Path | None) -> dict[Part, list[Path]]:
    """Paths of images and labels of each part: existing ones, or those where they are expected."""
    kinds = ("images-idx3-ubyte", "labels-idx1-ubyte")
    return {
        part: [_existing(data_dir, f"{prefix}-{kind}") for kind in kinds] for part, prefix in _PREFIX.items()
    }


def _existing(data_dir: Path | None, name: str) -> Path:
    if data_dir is None:
        return Path(name)
    places = [data_dir / folder / (name + suffix) for folder in _FOLDERS for suffix in ("", ".gz")]
    return next((place for place in places if place.is_file()), places[0])


def _read(tree: Hierarchy, image_path: Path, label_path: Path) -> Samples:
    images, labels = read_idx(image_path), read_idx(label_path).astype(np.int64)
    if images.ndim != 3 or images.shape[1:] != (28, 28):
        raise ValueError(f"{image_path}: images must be (n, 28, 28), got {images.shape}")
    if labels.shape != (len(images),):
        raise ValueError(f"{label_path}: has labels {labels.shape} for {len(images)} images")
    if not len(labels) or labels.max() >= tree.num_classes:
        largest = labels.max() if len(labels) else None
        raise ValueError(
            f"{label_path}: labels must be 0 to {tree.num_classes - 1}, the largest is {largest}"
        )
    return Samples(ArrayInputs(torch.from_numpy(images[:, None])), np.arange(len(labels)), labels, tree)


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read an IDX file of unsigned bytes.

    Args:
        path: The file; gzip is detected by its first bytes, not by its name.

    Returns:
        The array, in the shape given in the file.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file is truncated, damaged or of another kind.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "labels-idx1-ubyte"
        >>> _ = path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 5, 0, 4]))
        >>> read_idx(path)
        array([5, 0, 4], dtype=uint8)
    """
    content = read_bytes(path, UNPACKED_BYTES)
    if content[:2] == b"\x1f\x8b":
        with reading(path), gzip.open(io.BytesIO(content)) as stream:
            try:
                content = Unpacked(stream, len(content)).read()
            except (EOFError, zlib.error, OSError) as error:
                raise ValueError(f"the gzip file is truncated or damaged ({error})") from error
    if len(content) < 4 or content[:2] != b"\0\0":
        raise ValueError(f"{path}: not an IDX file, it starts with {content[:4]!r}")
    if content[2] != _UNSIGNED_BYTES:
        raise ValueError(f"{path}: holds values of IDX type {content[2]:#04x}; only unsigned bytes are read")
    start = 4 + 4 * content[3]
    shape: list[int] = np.frombuffer(content[4:start], ">u4").tolist() if len(content) >= start else []
    if len(content) != start + math.prod(shape):
        raise ValueError(
            f"{path}: {len(content)} bytes do not fit the stated shape {tuple(shape)!s:.100}; "
            "the file is truncated or damaged"
        )
    values: NDArray[np.uint8] = np.frombuffer(content, np.uint8, offset=start).copy().reshape(shape)
    return values
