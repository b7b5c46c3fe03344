"""NumPy's formats, without pickled objects.

npz: arrays "features", "labels" and "logits" in an archive. npy: features in a file with "features" in its
name, labels and logits in separate files next to it.
"""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any, ClassVar, Literal

import numpy as np
from numpy.lib import format as npy_format

from cophenet._common.files import replaced_file, replaced_files
from cophenet._common.limits import check_unpacked, reading
from cophenet.vectors.formats import (
    Array,
    Columns,
    LabelFacts,
    Part,
    VectorFormat,
    check_bytes,
    fewer_rows,
    register_format,
    split_rows,
)
from cophenet.vectors.writing import Column, collect

__all__ = ["Npy", "Npz", "read_arrays"]

# Bytes unpacked at a time.
_CHUNK = 1 << 20
_UNREADABLE = "cannot be read as an array of numbers or text, without objects"


@register_format
class Npz(VectorFormat):
    """Arrays `features` (n, d) and `labels` (n,), compressed or not; writes one array per column."""

    extension: ClassVar[str] = ".npz"
    order: ClassVar[int] = 0

    def read(self, path: Path, rows: int | None, labelled: bool) -> Iterator[Part]:
        """Read rows while the archive is unpacked."""
        with _opened(path) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
            for name in ("features", "labels") if labelled else ("features",):
                if name not in names:
                    raise ValueError(f"has no array {name!r}, only {sorted(names)!r}")
            labelled = "labels" in names
            if rows is None:
                yield _whole(archive, "features"), _whole(archive, "labels") if labelled else None
                return
            with (
                _member(archive, "features") as features,
                _member(archive, "labels") if labelled else nullcontext() as labels,
            ):
                yield from _rows(features, labels, rows)

    def write(self, path: Path, parts: Iterable[Columns]) -> None:
        """Write one array per column."""
        with (
            replaced_file(path) as temporary,
            collect(parts, path) as columns,
            zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive,
        ):
            for name, column in columns.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                    _write_array(stream, column)

    def label_facts(self, path: Path) -> LabelFacts:
        """Facts from the names in the archive and the header of the labels."""
        with _opened(path) as archive:
            names = archive.namelist()
            numbers = False
            if "labels.npy" in names:
                with _member(archive, "labels") as (stream, size):
                    numbers = _header(stream, size)[2].kind in "iu"
            return LabelFacts(numbers, "logits.npy" in names)


def read_arrays(path: Path, names: Sequence[str]) -> dict[str, Array]:
    """Read arrays of an archive; nothing is unpickled.

    Raises:
        ValueError: If one is missing, or the file is damaged or its unpacked size is suspiciously large.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "two.npz")
        >>> np.savez(path, x=np.eye(2), y=np.arange(2))
        >>> read_arrays(path, ["y"])
        {'y': array([0, 1])}
    """
    with reading(path, "an npz archive"), _opened(path) as archive:
        there = [name.removesuffix(".npy") for name in archive.namelist()]
        for name in names:
            if name not in there:
                raise ValueError(f"has no array {name!r}, only {sorted(there)!r:.200}")
        return {name: _whole(archive, name) for name in names}


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (EOFError, OSError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{_UNREADABLE}: {error}") from error


def _whole(archive: zipfile.ZipFile, name: str) -> Array:
    with _member(archive, name) as (stream, size):
        _header(stream, size)
    with _member(archive, name) as (stream, _):
        try:
            array: Array = npy_format.read_array(stream, allow_pickle=False)
        except ValueError as error:
            raise ValueError(f"{_UNREADABLE}: {error}") from error
        return array


@contextmanager
def _member(archive: zipfile.ZipFile, name: str) -> Iterator[tuple[IO[bytes], int]]:
    """An array in the archive and its size in bytes; raises if its compression ratio is suspicious."""
    member = archive.getinfo(f"{name}.npy")
    packed = min(member.compress_size, Path(str(archive.filename)).stat().st_size)
    check_unpacked(packed, member.file_size)
    with archive.open(member) as stream:
        yield stream, member.file_size


def _header(stream: IO[bytes], size: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read the header of an array, `size` bytes with its header: shape, Fortran order, dtype."""
    try:
        major, _ = npy_format.read_magic(stream)
        read = npy_format.read_array_header_1_0 if major == 1 else npy_format.read_array_header_2_0
        shape, by_column, dtype = read(stream)
    except ValueError as error:
        raise ValueError(f"{_UNREADABLE}: {error}") from error
    if dtype.hasobject:
        raise ValueError(f"{_UNREADABLE}: the type is {dtype}")
    check_bytes(shape, dtype, size - stream.tell())
    return shape, by_column, dtype


def _rows(features: tuple[IO[bytes], int], labels: tuple[IO[bytes], int] | None, rows: int) -> Iterator[Part]:
    shape, by_column, dtype = _header(*features)
    if len(shape) != 2:
        raise ValueError(f"features must be (n, d), got shape {shape}")
    if by_column:
        advice = "save np.ascontiguousarray(features) instead"
        raise ValueError(f"features lie column by column, and cannot be read in parts; {advice}")
    if labels is not None:
        label_shape, _, label_dtype = _header(*labels)
        if len(label_shape) != 1:
            raise ValueError(f"labels must be (n,), got shape {label_shape}")
        if label_shape != shape[:1]:
            raise ValueError(f"{shape[0]} rows of features, but {label_shape[0]} labels")
    step = fewer_rows(rows, shape[1])
    for start in range(0, shape[0], step):
        count = min(step, shape[0] - start)
        yield (
            _take(features[0], "features", dtype, (count, shape[1])),
            None if labels is None else _take(labels[0], "labels", label_dtype, (count,)),
        )


def _take(stream: IO[bytes], name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """Read the next values of an array."""
    array = np.empty(shape, dtype)
    size = dtype.itemsize * math.prod(shape)
    data = array.reshape(-1).view(np.uint8).data if size else memoryview(b"")
    for start in range(0, size, _CHUNK):
        piece = stream.read(min(_CHUNK, size - start))
        if len(piece) < min(_CHUNK, size - start):
            raise ValueError(f"the array {name!r} is cut off")
        data[start : start + len(piece)] = piece
    return array


@register_format
class Npy(VectorFormat):
    """Features (n, d); labels (n,) and logits are in the files with these words in place of "features".

    For example `train_features.npy`, `train_labels.npy` and `train_logits.npy`. Of tables without features
    only the first column is written.
    """

    extension: ClassVar[str] = ".npy"
    order: ClassVar[int] = 1
    mapped: ClassVar[bool] = True

    def read(self, path: Path, rows: int | None, labelled: bool) -> Iterator[Part]:
        """Read slices of the mapped file."""
        arrays = _map_files(path, ("features", "labels"), labelled, "r")
        yield from split_rows(arrays["features"], arrays.get("labels"), rows)

    def write(self, path: Path, parts: Iterable[Columns]) -> None:
        """Write the first column, and labels in a file next to it."""
        with collect(parts, path) as columns:
            files = {path: next(iter(columns.values()))}
            if "labels" in columns:
                files[_beside(path, "labels")] = columns["labels"]
            with replaced_files(*files) as temporaries:
                for temporary, column in zip(temporaries, files.values(), strict=True):
                    with temporary.open("wb") as stream:
                        _write_array(stream, column)

    def check_columns(self, path: Path, names: Iterable[str]) -> None:
        """Raise if there are labels but no name for their file."""
        if "labels" in names and "features" not in path.name:
            raise ValueError("needs 'features' in its name, so that labels have a file beside it")

    def label_facts(self, path: Path) -> LabelFacts:
        """Facts from the header of the labels."""
        arrays = _map_files(path, ("features", "labels"), labelled=False, mode="r")
        numbers = "labels" in arrays and arrays["labels"].dtype.kind in "iu"
        logits = _beside(path, "logits")
        return LabelFacts(numbers, logits != path and logits.is_file())

    def map(self, path: Path, labelled: bool, mode: Literal["r", "c"]) -> dict[str, Array]:
        """Map the file and those next to it."""
        return _map_files(path, ("features", "labels", "logits"), labelled, mode)


def _beside(path: Path, name: str) -> Path:
    return path.with_name(path.name.replace("features", name))


def _map_files(path: Path, names: Iterable[str], labelled: bool, mode: Literal["r", "c"]) -> dict[str, Array]:
    if labelled and "features" not in path.name:
        raise ValueError(
            "a .npy file of features needs 'features' in its name, so that the labels are found in the file "
            "with 'labels' there"
        )
    files = {name: _beside(path, name) for name in names}
    if labelled and not files["labels"].is_file():
        raise FileNotFoundError(f"{files['labels']} is missing; put the labels of {path.name} there")
    return {
        name: _map_file(file, mode, "" if name == "features" else f"{file.name} ")
        for name, file in files.items()
        if name == "features" or (file != path and file.is_file())
    }


def _map_file(path: Path, mode: Literal["r", "c"], called: str) -> Array:
    try:
        _check_header(path)
        array = npy_format.open_memmap(path, mode=mode)
        check_bytes(array.shape, array.dtype, path.stat().st_size)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{called}{_UNREADABLE}: {error}") from error
    return array


def _check_header(path: Path) -> None:
    """Raise if the declared header is longer than the file: memory would be allocated for it."""
    with path.open("rb") as stream:
        start = stream.read(12)
    length = int.from_bytes(start[8:10] if start[6:7] == b"\x01" else start[8:12], "little")
    size = path.stat().st_size
    if length > size:
        raise ValueError(f"a header of {length} bytes in a file of {size}")


def _write_array(stream: IO[bytes], column: Column) -> None:
    """Write a column in numpy's format."""
    header = {"descr": column.dtype.str, "fortran_order": False, "shape": column.shape}
    npy_format.write_array_header_1_0(stream, header)
    column.copy_to(stream)
