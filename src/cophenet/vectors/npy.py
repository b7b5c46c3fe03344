"""npy: features in a file with "features" in its name, labels and logits in files beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, ClassVar, Literal

from numpy.lib import format as npy_format

from cophenet._common.files import replaced_files
from cophenet.vectors.formats import (
    Array,
    Columns,
    LabelFacts,
    Part,
    VectorFormat,
    check_bytes,
    register_format,
    split_rows,
)
from cophenet.vectors.writing import Column, collect

__all__ = ["UNREADABLE", "Npy", "write_array"]

UNREADABLE = "cannot be read as an array of numbers or text, without objects"


@register_format
class Npy(VectorFormat):
    """Features (n, d); labels (n,) and logits are in the files with these words instead of "features".

    Such as `train_features.npy`, `train_labels.npy` and `train_logits.npy`. Other tables than features are
    written as their first column alone.
    """

    extension: ClassVar[str] = ".npy"
    order: ClassVar[int] = 1
    mapped: ClassVar[bool] = True

    def read(self, path: Path, rows: int | None, labelled: bool) -> Iterator[Part]:
        """Slices of the mapped file."""
        arrays = _map_files(path, ("features", "labels"), labelled, "r")
        yield from split_rows(arrays["features"], arrays.get("labels"), rows)

    def write(self, path: Path, parts: Iterable[Columns]) -> None:
        """The first column, and labels beside it."""
        with collect(parts, path.parent) as columns:
            files = {path: next(iter(columns.values()))}
            if "labels" in columns:
                files[_beside(path, "labels")] = columns["labels"]
            with replaced_files(*files) as temporaries:
                for temporary, column in zip(temporaries, files.values(), strict=True):
                    with temporary.open("wb") as stream:
                        write_array(stream, column)

    def check_columns(self, path: Path, names: Iterable[str]) -> None:
        """Labels need a file of their own."""
        if "labels" in names and "features" not in path.name:
            raise ValueError("needs 'features' in its name, so that labels have a file beside it")

    def label_facts(self, path: Path) -> LabelFacts:
        """From the header of the labels."""
        arrays = _map_files(path, ("features", "labels"), labelled=False, mode="r")
        numbers = "labels" in arrays and arrays["labels"].dtype.kind in "iu"
        logits = _beside(path, "logits")
        return LabelFacts(numbers, logits != path and logits.is_file())

    def map(self, path: Path, labelled: bool, mode: Literal["r", "c"]) -> dict[str, Array]:
        """The file and those beside it."""
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
        raise ValueError(f"{called}{UNREADABLE}: {error}") from error
    return array


def _check_header(path: Path) -> None:
    """Refuse a header that says it is longer than the file, for which memory would be taken."""
    with path.open("rb") as stream:
        start = stream.read(12)
    length = int.from_bytes(start[8:10] if start[6:7] == b"\x01" else start[8:12], "little")
    size = path.stat().st_size
    if length > size:
        raise ValueError(f"a header of {length} bytes in a file of {size}")


def write_array(stream: IO[bytes], column: Column) -> None:
    """Write a column as numpy does."""
    header = {"descr": column.dtype.str, "fortran_order": False, "shape": column.shape}
    npy_format.write_array_header_1_0(stream, header)
    column.copy_to(stream)
