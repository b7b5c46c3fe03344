"""Readers of the files of CIFAR-10 and CIFAR-100: python and binary version, in a folder or an archive."""

from __future__ import annotations

import gzip
import reprlib
import tarfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from cophenet._common.limits import UNPACKED_BYTES, Unpacked, read_stream, reading, size_text
from cophenet._common.pickles import read_plain_pickle
from cophenet.data.dataset import Requirement

__all__ = [
    "CIFAR10_LAYOUTS",
    "CIFAR100_LAYOUTS",
    "Batch",
    "Layout",
    "find_layout",
    "layout_requirements",
    "missing_layout",
    "read_batches",
]

PIXELS = 3 * 32 * 32
# Maximum number of files in an archive; real ones have fewer than ten.
_MEMBERS = 10_000
HOME = "https://www.cs.toronto.edu/~kriz/cifar.html"
Names = list[list[str]]


@dataclass(frozen=True, eq=False)
class Batch:
    """The images and labels of one file.

    Attributes:
        images: (n, 3, 32, 32) uint8.
        labels: (n, kinds) int64: fine labels, followed by coarse labels if the file has them.
    """

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]


@dataclass(frozen=True)
class Layout:
    """The files of one of the official versions.

    Attributes:
        folder: The folder inside the archive.
        train: Files of training images.
        test: Files of test images.
        names: Files of class names, with one or more lists each.
        read: Reads a file of images from the argument `stream`; the argument `where` names it in errors.
        read_names: Reads a file of class names, with the same arguments.
    """

    folder: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    names: tuple[str, ...]
    read: Callable[..., Batch]
    read_names: Callable[..., Names]

    @property
    def files(self) -> tuple[str, ...]:
        """All files that are read."""
        return (*self.train, *self.test, *self.names)


def _python_batch(*label_keys: str, stream: IO[bytes], where: str) -> Batch:
    content = _pickled_dict(stream, where, ("data", *label_keys))
    data = content["data"]
    if not isinstance(data, np.ndarray) or data.ndim != 2 or data.shape[1] != PIXELS:
        shape = getattr(data, "shape", type(data).__name__)
        raise ValueError(f"{where}: data must be (n, {PIXELS}) bytes, got {shape}")
    columns = [_label_column(content[key], len(data), where, key) for key in label_keys]
    return _batch(data, np.stack(columns, axis=1), where)


def _label_column(values: Any, count: int, where: str, key: str) -> NDArray[np.int64]:
    if not isinstance(values, list) or not all(type(value) is int for value in values):
        raise ValueError(f"{where}: {key} must be a list of numbers")
    if len(values) != count:
        raise ValueError(f"{where}: {key} has {len(values)} labels for {count} images")
    try:
        return np.array(values, dtype=np.int64)
    except OverflowError:
        largest = max(values, key=abs)
        raise ValueError(f"{where}: {key} must be small numbers from 0 on, got {largest}") from None


def _python_names(*keys: str, stream: IO[bytes], where: str) -> Names:
    content = _pickled_dict(stream, where, keys)
    for key in keys:
        names = content[key]
        if not isinstance(names, list | tuple) or not all(isinstance(name, str | bytes) for name in names):
            raise ValueError(f"{where}: {key} must be a list of names, got {reprlib.repr(names)}")
    return [[_text(name) for name in content[key]] for key in keys]


def _pickled_dict(stream: IO[bytes], where: str, keys: Sequence[str]) -> dict[str, Any]:
    content = read_plain_pickle(stream, where)
    entries = {_text(key): value for key, value in content.items()} if isinstance(content, dict) else {}
    missing = [key for key in keys if key not in entries]
    if missing:
        raise ValueError(f"{where}: not a file of this data set, it has no {missing[0]!r}")
    return entries


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _binary_batch(label_bytes: int, stream: IO[bytes], where: str) -> Batch:
    content = np.frombuffer(_all_bytes(stream), np.uint8)
    record = label_bytes + PIXELS
    if content.size % record:
        raise ValueError(
            f"{where}: {content.size} bytes are not a whole number of images of {record} bytes; "
            "the file is truncated or of another kind"
        )
    rows = content.reshape(-1, record)
    # On disk the coarse label comes before the fine one.
    labels = rows[:, :label_bytes][:, ::-1].astype(np.int64)
    return _batch(rows[:, label_bytes:], labels, where)


def _all_bytes(stream: IO[bytes]) -> bytes:
    most = UNPACKED_BYTES.value
    content = read_stream(stream, most + 1)
    if len(content) > most:
        raise ValueError(f"larger than {size_text(most)} {UNPACKED_BYTES.note}")
    return content


def _text_names(stream: IO[bytes], where: str) -> Names:
    try:
        return [_all_bytes(stream).decode("ascii").split()]
    except UnicodeDecodeError:
        raise ValueError(f"{where}: not a list of class names") from None


def _batch(pixels: NDArray[np.uint8], labels: NDArray[np.int64], where: str) -> Batch:
    if not len(pixels):
        raise ValueError(f"{where}: holds no images")
    return Batch(pixels.reshape(-1, 3, 32, 32), labels)


_TRAIN_BATCHES = tuple(f"data_batch_{i}" for i in range(1, 6))
CIFAR10_LAYOUTS = (
    Layout(
        "cifar-10-batches-py",
        _TRAIN_BATCHES,
        ("test_batch",),
        ("batches.meta",),
        partial(_python_batch, "labels"),
        partial(_python_names, "label_names"),
    ),
    Layout(
        "cifar-10-batches-bin",
        tuple(f"{name}.bin" for name in _TRAIN_BATCHES),
        ("test_batch.bin",),
        ("batches.meta.txt",),
        partial(_binary_batch, 1),
        _text_names,
    ),
)
CIFAR100_LAYOUTS = (
    Layout(
        "cifar-100-python",
        ("train",),
        ("test",),
        ("meta",),
        partial(_python_batch, "fine_labels", "coarse_labels"),
        partial(_python_names, "fine_label_names", "coarse_label_names"),
    ),
    Layout(
        "cifar-100-binary",
        ("train.bin",),
        ("test.bin",),
        ("fine_label_names.txt", "coarse_label_names.txt"),
        partial(_binary_batch, 2),
        _text_names,
    ),
)
# Archives whose name differs from that of the folder inside.
_ARCHIVES = {"cifar-10-batches-py": "cifar-10-python", "cifar-10-batches-bin": "cifar-10-binary"}


def find_layout(data_dir: Path | None, layouts: Sequence[Layout]) -> tuple[Layout, Path] | None:
    """Find a version: a complete folder is preferred to an archive, an archive to an incomplete folder.

    Args:
        data_dir: The folder that contains one of the versions, or is one.
        layouts: The versions, in order of preference.

    Returns:
        The version and its path; None if there is none.
    """
    if data_dir is None:
        return None
    versions = [
        (layout, place)
        for layout in layouts
        for place in (data_dir / layout.folder, data_dir, data_dir / _archive(layout))
        if _looks_like(place, layout)
    ]
    return min(versions, key=lambda version: _missing_count(*version), default=None)


def missing_layout(data_dir: Path | None, layouts: Sequence[Layout]) -> Requirement:
    """The missing requirement if none of the versions was found: what to put where."""
    note = f"this folder or {_archive(layouts[0])}, or {layouts[1].folder} or its archive; from {HOME}"
    return Requirement((data_dir or Path()) / layouts[0].folder, False, note)


def _archive(layout: Layout) -> str:
    return f"{_ARCHIVES.get(layout.folder, layout.folder)}.tar.gz"


def _looks_like(place: Path, layout: Layout) -> bool:
    if place.is_file():
        return place.name == _archive(layout)
    # Any file of a version identifies it; missing files are reported on reading.
    return place.is_dir() and (
        place.name == layout.folder or any((place / name).is_file() for name in layout.files)
    )


def _missing_count(layout: Layout, place: Path) -> float:
    """Number of missing files; 0.5 for an archive, which is not opened for this."""
    if place.is_file():
        return 0.5
    return sum(not (place / name).is_file() for name in layout.files)


def layout_requirements(layout: Layout, place: Path) -> list[Requirement]:
    """The files of a version that was found, or its archive."""
    if place.is_file():
        return [Requirement(place, True, f"archive of {layout.folder}")]
    return [
        Requirement(place / name, (place / name).is_file(), f"part of {layout.folder}, from {HOME}")
        for name in layout.files
    ]


def read_batches(layout: Layout, place: Path) -> tuple[dict[str, Batch], Names]:
    """Read all files of a version.

    Args:
        layout: The version.
        place: Its folder or archive.

    Returns:
        The images by file, and the lists of class names.

    Raises:
        FileNotFoundError: If a file is missing.
        ValueError: If a file is truncated or of another kind.
    """
    batches: dict[str, Batch] = {}
    names: dict[str, Names] = {}
    with _opened(layout, place) as files:
        for name, stream, where in files:
            if name in layout.names:
                names[name] = layout.read_names(stream=stream, where=where)
            else:
                batches[name] = layout.read(stream=stream, where=where)
    missing = [name for name in layout.files if name not in batches and name not in names]
    if missing:
        raise FileNotFoundError(f"{place} lacks {', '.join(missing)} of {layout.folder}; get it from {HOME}")
    return batches, [lines for name in layout.names for lines in names[name]]


@contextmanager
def _opened(layout: Layout, place: Path) -> Iterator[Iterator[tuple[str, IO[bytes], str]]]:
    if not place.is_file():
        yield _in_folder(layout, place)
        return
    with reading(place, "a .tar.gz"), gzip.open(place) as stream:
        unpacked: Any = Unpacked(stream, place.stat().st_size)
        with tarfile.open(fileobj=unpacked, mode="r:") as archive:
            yield _in_archive(layout, archive, place)


def _in_folder(layout: Layout, place: Path) -> Iterator[tuple[str, IO[bytes], str]]:
    for name in layout.files:
        path = place / name
        if path.is_file():
            with path.open("rb") as stream:
                yield name, stream, str(path)


def _in_archive(
    layout: Layout, archive: tarfile.TarFile, place: Path
) -> Iterator[tuple[str, IO[bytes], str]]:
    # In the order of the archive: seeking backwards in a compressed file means reading it again.
    for number, member in enumerate(archive):
        if number >= _MEMBERS:
            raise ValueError(f"more than {_MEMBERS:,} files in it (limit)")
        folder, _, name = member.name.removeprefix("./").partition("/")
        # Links and sparse files do not belong to it.
        plain = member.isreg() and not member.issparse()
        wanted = plain and folder == layout.folder and name in layout.files
        stream = archive.extractfile(member) if wanted else None
        if stream is not None:
            yield name, stream, f"{place}:{member.name}"
