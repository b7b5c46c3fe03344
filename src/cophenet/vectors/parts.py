"""Files of vectors read a part at a time, so that they may be larger than memory.

The formats, the names of arrays and columns and the meaning of labels are those of
`cophenet.vectors.reading`; here labels may be missing.
"""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cophenet.vectors.reading import is_number

__all__ = ["SUFFIXES", "label_source", "read_chunks", "spool"]

Array = NDArray[Any]
Chunk = tuple[Array, list[str] | None]

ROWS = 16384
_TORCH_TYPES = {
    f"torch.{name}" for name in ("float64", "float32", "float16", "int64", "int32", "int16", "int8")
}
_ARROW_FLOATS = {"float": np.float32, "halffloat": np.float16}


def read_chunks(path: Path, rows: int = ROWS) -> Iterator[Chunk]:
    r"""Features and labels (None if the file has none), some rows at a time.

    Args:
        path: An npz, npy, safetensors, parquet or CSV file.
        rows: Rows at a time.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it cannot be read.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "birds.csv"
        >>> _ = path.write_text("wing,tail,label\n1.5,2,owl\n0,1,jay\n")
        >>> [(part.tolist(), labels) for part, labels in read_chunks(path, rows=1)]
        [([[1.5, 2.0]], ['owl']), ([[0.0, 1.0]], ['jay'])]
    """
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise ValueError(f"{path}: the extension must be one of {', '.join(_READERS)}")
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing")
    empty = True
    try:
        for features, labels in reader(path, rows):
            if features.ndim != 2 or features.dtype.kind not in "fiu":
                given = f"shape {features.shape} of {features.dtype}"
                raise ValueError(f"features must be (n, d) real numbers, got {given}")
            empty = False
            yield features, labels
    except (ValueError, EOFError, zipfile.BadZipFile, csv.Error) as error:
        raise ValueError(f"{path}: {error}") from error
    if empty:
        raise ValueError(f"{path}: there are no rows in it")


def spool(path: Path, folder: Path | None = None) -> tuple[Array, list[str] | None]:
    """All rows as a memory map, and their labels; of other formats than npy a copy on disk is made.

    Args:
        path: The file.
        folder: Where to make the copy; None for the system's folder of temporary files. The copy has no name,
            and goes when the map does.
    """
    if path.suffix.lower() == ".npy":
        first = next(read_chunks(path))  # checks the file
        mapped: Array = np.load(path, mmap_mode="r", allow_pickle=False)
        return mapped, None if first[1] is None else _npy_labels(path, len(mapped))
    texts: list[str] | None = None
    count = width = 0
    dtype: np.dtype[Any] = np.dtype(np.float32)
    with TemporaryFile(dir=folder) as copy:
        for features, labels in read_chunks(path):
            if count and features.shape[1] != width:
                raise ValueError(f"{path}: rows of {width} and of {features.shape[1]} features")
            dtype = dtype if count else features.dtype
            width, count = features.shape[1], count + len(features)
            copy.write(np.ascontiguousarray(features, dtype=dtype).tobytes())
            if labels is not None:
                texts = labels if texts is None else texts + labels
        copy.flush()
        return np.memmap(copy, dtype=dtype, mode="r", shape=(count, width)), texts


def label_source(path: Path) -> tuple[bool, bool]:
    """Whether the labels of a file are numbers, and whether it has logits, as the files of a run do.

    Labels of a CSV file are text, also where they look like numbers.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "birds.npz"
        >>> np.savez(path, features=np.eye(2), labels=np.array([1, 0]))
        >>> label_source(path)
        (True, False)
    """
    kind = path.suffix.lower()
    if kind == ".npz":
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            with archive.open("labels.npy") if "labels.npy" in names else nullcontext() as stream:
                numbers = stream is not None and _npy_header(stream)[2].kind in "iu"
        return numbers, "logits.npy" in names
    if kind == ".npy":
        beside = {name: path.with_name(path.name.replace("features", name)) for name in ("labels", "logits")}
        numbers = beside["labels"].is_file() and np.load(beside["labels"], mmap_mode="r").dtype.kind in "iu"
        return numbers, beside["logits"] != path and beside["logits"].is_file()
    if kind == ".safetensors":
        from safetensors import safe_open

        with safe_open(path, framework="pt") as file:
            return True, "logits" in file.keys()  # noqa: SIM118 - no mapping
    if kind == ".parquet":
        from pyarrow.parquet import read_schema  # type: ignore[import-untyped]
        from pyarrow.types import is_integer  # type: ignore[import-untyped]

        schema = read_schema(path)
        return "label" in schema.names and is_integer(schema.field("label").type), False
    return False, False


def _parts(values: Any, labels: list[str] | None, rows: int) -> Iterator[Chunk]:
    for start in range(0, len(values), rows):
        stop = start + rows
        yield np.asarray(values[start:stop]), None if labels is None else labels[start:stop]


def _texts(labels: Any, count: int) -> list[str]:
    array = np.asarray(labels)
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8")
    if array.ndim != 1 or array.dtype.kind not in "iuU":
        raise ValueError(f"labels must be (n,) whole numbers or names, got {array.shape} of {array.dtype}")
    if len(array) != count:
        raise ValueError(f"{count} rows of features, but {len(array)} labels")
    return [str(label) for label in array.tolist()]


def _npy_labels(path: Path, count: int) -> list[str] | None:
    beside = path.with_name(path.name.replace("features", "labels"))
    if beside == path or not beside.is_file():
        return None
    return _texts(np.load(beside, allow_pickle=False), count)


def _read_npy(path: Path, rows: int) -> Iterator[Chunk]:
    values = np.load(path, mmap_mode="r", allow_pickle=False)
    yield from _parts(values, _npy_labels(path, len(values)), rows)


def _read_npz(path: Path, rows: int) -> Iterator[Chunk]:
    """Row by row out of the archive, compressed or not."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        if "features.npy" not in names:
            raise ValueError(f"has no array 'features', only {names}")
        with archive.open("features.npy") as stream:
            shape, by_column, dtype = _npy_header(stream)
            labels = None
            if "labels.npy" in names:
                with archive.open("labels.npy") as other:
                    labels = _texts(np.lib.format.read_array(other, allow_pickle=False), shape[0])
            if len(shape) != 2:
                raise ValueError(f"features must be (n, d), got shape {shape}")
            if by_column:
                advice = "save np.ascontiguousarray(features) instead"
                raise ValueError(f"features lie column by column, and cannot be read in parts; {advice}")
            size = dtype.itemsize * shape[1]
            for start in range(0, shape[0], rows):
                count = min(rows, shape[0] - start)
                data = stream.read(size * count)
                if len(data) < size * count:
                    raise ValueError("the array 'features' is cut off")
                part = np.frombuffer(data, dtype).reshape(count, shape[1])
                yield part, None if labels is None else labels[start : start + count]


def _npy_header(stream: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    major, _ = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
    shape, by_column, dtype = read(stream)
    if dtype.hasobject:
        raise ValueError("arrays of objects are not read")
    return shape, by_column, dtype


def _read_safetensors(path: Path, rows: int) -> Iterator[Chunk]:
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise ImportError("safetensors files need safetensors: pip install 'cophenet[embed]'") from error
    try:
        with safe_open(path, framework="pt") as file:
            names = list(file.keys())
            if "features" not in names:
                raise ValueError(f"has no tensor 'features', only {names}")
            values = file.get_slice("features")
            count = values.get_shape()[0]
            labels = _texts(file.get_tensor("labels").numpy(), count) if "labels" in names else None
            for start in range(0, count, rows):
                part = values[start : start + rows]
                # numpy has no bfloat16.
                features = (part.float() if str(part.dtype) not in _TORCH_TYPES else part).numpy()
                yield features, None if labels is None else labels[start : start + rows]
    except SafetensorError as error:
        raise ValueError(f"truncated, damaged or not a safetensors file: {error}") from error


def _read_parquet(path: Path, rows: int) -> Iterator[Chunk]:
    try:
        from pyarrow import ArrowException  # type: ignore[import-untyped]
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise ImportError("parquet files need pyarrow: pip install 'cophenet[data]'") from error
    try:
        with ParquetFile(path) as file:
            for batch in file.iter_batches(rows):
                columns = {name: batch.column(name) for name in batch.schema.names}
                labels = columns.pop("label").to_pylist() if "label" in columns else None
                parts = [_parquet_numbers(values) for values in columns.values()]
                if not parts or any(part.dtype.kind not in "fiu" for part in parts):
                    raise ValueError("columns other than 'label' must hold numbers or lists of numbers")
                features = np.concatenate(parts, axis=1)
                yield features, None if labels is None else _texts(labels, len(features))
    except ArrowException as error:
        raise ValueError(f"truncated, damaged or not a parquet file: {error}") from error


def _parquet_numbers(column: Any) -> Array:
    """(n, 1), or (n, d) of lists, in the float type of the column."""
    values = np.array(column.to_pylist()).reshape(len(column), -1)
    kind = str(getattr(column.type, "value_type", column.type))
    return (
        values.astype(_ARROW_FLOATS[kind]) if kind in _ARROW_FLOATS and values.dtype.kind == "f" else values
    )


def _read_csv(path: Path, rows: int) -> Iterator[Chunk]:
    with path.open(newline="", encoding="utf-8-sig") as stream:
        lines = csv.reader(stream, strict=True)
        header = next(lines, [])
        if header and all(is_number(cell) for cell in header):
            raise ValueError("the first line must hold the names of the columns, but it holds numbers")
        at = header.index("label") if "label" in header else None
        cells: list[tuple[int, list[str]]] = []
        for row in lines:
            if len(row) not in (0, len(header)):
                place = f"line {lines.line_num}"
                raise ValueError(f"{place} has {len(row)} cells, the first line has {len(header)}")
            cells += [(lines.line_num, row)] if row else []  # a blank line has no cells
            if len(cells) == rows:
                yield _parse_cells(cells, at)
                cells = []
        if cells:
            yield _parse_cells(cells, at)


def _parse_cells(cells: list[tuple[int, list[str]]], at: int | None) -> Chunk:
    labels = None if at is None else [row.pop(at) for _, row in cells]
    try:
        return np.array([row for _, row in cells], dtype=np.float64), labels
    except ValueError:
        line, cell = next((line, cell) for line, row in cells for cell in row if not is_number(cell))
        raise ValueError(f"line {line} has {cell!r} where a number should be") from None


_READERS: dict[str, Callable[[Path, int], Iterator[Chunk]]] = {
    ".npz": _read_npz,
    ".npy": _read_npy,
    ".safetensors": _read_safetensors,
    ".parquet": _read_parquet,
    ".csv": _read_csv,
}

SUFFIXES = tuple(_READERS)
