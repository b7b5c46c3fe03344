"""npz: arrays "features", "labels" and "logits" in an archive."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np
from numpy.lib import format as npy_format

from cophenet._common.files import replaced_file
from cophenet._common.limits import check_unpacked
from cophenet.vectors.columns import collect
from cophenet.vectors.formats import (
    Array,
    Columns,
    LabelFacts,
    Part,
    VectorFormat,
    check_bytes,
    register_format,
)
from cophenet.vectors.npy import UNREADABLE, write_array

__all__ = ["Npz"]


@register_format
class Npz(VectorFormat):
    """Arrays `features` (n, d) and `labels` (n,), compressed or not; one array for each column written."""

    extension: ClassVar[str] = ".npz"
    order: ClassVar[int] = 0

    def read(self, path: Path, rows: int | None, labelled: bool) -> Iterator[Part]:
        """Rows as they come out of the archive."""
        with _opened(path) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
            for name in ("features", "labels") if labelled else ("features",):
                if name not in names:
                    raise ValueError(f"has no array {name!r}, only {sorted(names)!r}")
            labels = _whole(archive, "labels") if "labels" in names else None
            if rows is None:
                yield _whole(archive, "features"), labels
                return
            with _member(archive, "features") as (stream, size):
                yield from _rows(stream, size, labels, rows)

    def write(self, path: Path, parts: Iterable[Columns]) -> None:
        """One array for each column."""
        with (
            replaced_file(path) as temporary,
            collect(parts, path.parent) as columns,
            zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive,
        ):
            for name, column in columns.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                    write_array(stream, column)

    def label_facts(self, path: Path) -> LabelFacts:
        """From the names in the archive and the header of the labels."""
        with _opened(path) as archive:
            names = archive.namelist()
            numbers = False
            if "labels.npy" in names:
                with _member(archive, "labels") as (stream, size):
                    numbers = _header(stream, size)[2].kind in "iu"
            return LabelFacts(numbers, "logits.npy" in names)


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (EOFError, OSError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{UNREADABLE}: {error}") from error


def _whole(archive: zipfile.ZipFile, name: str) -> Array:
    with _member(archive, name) as (stream, size):
        _header(stream, size)
    with _member(archive, name) as (stream, _):
        try:
            array: Array = npy_format.read_array(stream, allow_pickle=False)
        except ValueError as error:
            raise ValueError(f"{UNREADABLE}: {error}") from error
        return array


@contextmanager
def _member(archive: zipfile.ZipFile, name: str) -> Iterator[tuple[IO[bytes], int]]:
    """An array in the archive and its bytes; refused if it is huge by compression only."""
    member = archive.getinfo(f"{name}.npy")
    packed = min(member.compress_size, Path(str(archive.filename)).stat().st_size)
    check_unpacked(packed, member.file_size)
    with archive.open(member) as stream:
        yield stream, member.file_size


def _header(stream: IO[bytes], size: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether it lies column by column, and type of an array of so many bytes with its header."""
    try:
        major, _ = npy_format.read_magic(stream)
        read = npy_format.read_array_header_1_0 if major == 1 else npy_format.read_array_header_2_0
        shape, by_column, dtype = read(stream)
    except ValueError as error:
        raise ValueError(f"{UNREADABLE}: {error}") from error
    if dtype.hasobject:
        raise ValueError(f"{UNREADABLE}: the type is {dtype}")
    check_bytes(shape, dtype, size - stream.tell())
    return shape, by_column, dtype


def _rows(stream: IO[bytes], size: int, labels: Array | None, rows: int) -> Iterator[Part]:
    shape, by_column, dtype = _header(stream, size)
    if len(shape) != 2:
        raise ValueError(f"features must be (n, d), got shape {shape}")
    if by_column:
        advice = "save np.ascontiguousarray(features) instead"
        raise ValueError(f"features lie column by column, and cannot be read in parts; {advice}")
    if labels is not None and len(labels) != shape[0]:
        raise ValueError(f"{shape[0]} rows of features, but {len(labels)} labels")
    width = dtype.itemsize * shape[1]
    for start in range(0, shape[0], rows):
        count = min(rows, shape[0] - start)
        data = stream.read(width * count)
        if len(data) < width * count:
            raise ValueError("the array 'features' is cut off")
        features = np.frombuffer(data, dtype).reshape(count, shape[1])
        yield features, None if labels is None else labels[start : start + count]
