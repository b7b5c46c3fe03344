"""Tables written a part at a time: beside their place first, then moved there as a whole."""

from __future__ import annotations

import csv
import json
import re
import shutil
import uuid
import zipfile
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from cophenet.vectors.parts import SUFFIXES

__all__ = ["TableWriter"]

Array = NDArray[Any]
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")  # as str(int) writes it
_DTYPES = {"float32": "F32", "float64": "F64", "float16": "F16", "int64": "I64"}


class TableWriter:
    """Named columns, (n,) or (n, d), of numbers or text, as a file.

    - `.csv`: one column for each number; `features` becomes x0, x1, ...; `labels` is called `label`.
    - `.parquet`: likewise, but (n, d) is one column of lists.
    - `.npz`: one array for each column.
    - `.npy`: the first column; `labels`, if there are any, in the file beside it that has "labels" instead of
      "features" in its name.
    - `.safetensors`: numbers only; text that is whole numbers is written as these, other text is refused
      unless a column of numbers says the same (`numbered`).

    Args:
        path: The file; its extension tells the format.
        numbered: Columns of text that safetensors may leave out.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "out.npz"
        >>> with TableWriter(path) as table:
        ...     table.add({"features": np.eye(2), "labels": np.array(["owl", "jay"])})
        >>> np.load(path)["labels"]
        array(['owl', 'jay'], dtype='<U3')
    """

    def __init__(self, path: Path, numbered: tuple[str, ...] = ()) -> None:
        if path.suffix.lower() not in SUFFIXES:
            raise ValueError(f"{path}: the extension must be one of {', '.join(SUFFIXES)}")
        if not path.parent.is_dir():
            raise ValueError(f"{path}: there is no folder {path.parent}")
        if path.is_dir():
            raise ValueError(f"{path}: is a folder; give the name of a file")
        self.path, self.numbered = path, numbered
        self.kind = path.suffix.lower()
        self.part = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
        self.columns: dict[str, _Column] = {}
        self.open: Any = None
        self.writer: Any = None

    def __enter__(self) -> TableWriter:
        """The writer itself."""
        return self

    def check(self, columns: dict[str, Array]) -> None:
        """Refuse columns that the format cannot hold.

        Raises:
            ValueError: If safetensors would have to hold names, or labels have no file of their own.
        """
        if self.kind == ".npy" and "labels" in columns and "features" not in self.path.name:
            reason = "so that labels have a file beside it"
            raise ValueError(f"{self.path}: needs 'features' in its name, {reason}")
        for name, values in columns.items():
            texts = values.dtype.kind in "OU" and self.kind == ".safetensors" and name not in self.numbered
            if texts and not all(_WHOLE.fullmatch(str(value)) for value in values.tolist()):
                raise ValueError(f"{self.path}: safetensors holds no text, but {name} are names")

    def add(self, columns: dict[str, Array]) -> None:
        """Append rows; the columns are the same each time."""
        self.check(columns)
        if self.kind == ".csv":
            self._add_csv(columns)
        elif self.kind == ".parquet":
            self._add_parquet(columns)
        else:
            for name, values in columns.items():
                self.columns.setdefault(name, _Column()).add(values)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Move the file to its place, or remove it after an error."""
        try:
            if self.writer is not None and self.kind == ".parquet":
                self.writer.close()
            if self.open is not None:
                self.open.close()
            if kind is None:
                finish = {".npz": self._npz, ".npy": self._npy, ".safetensors": self._safetensors}
                finish.get(self.kind, lambda: None)()
                self.part.replace(self.path)
        finally:
            self.part.unlink(missing_ok=True)

    def _add_csv(self, columns: dict[str, Array]) -> None:
        if self.writer is None:
            self.open = self.part.open("w", newline="", encoding="utf-8")
            self.writer = csv.writer(self.open, lineterminator="\n")
            self.writer.writerow([cell for name, values in columns.items() for cell in _header(name, values)])
        cells = [values.reshape(len(values), -1).tolist() for values in columns.values()]
        self.writer.writerows([cell for group in row for cell in group] for row in zip(*cells, strict=True))

    def _add_parquet(self, columns: dict[str, Array]) -> None:
        try:
            import pyarrow as pa  # type: ignore[import-untyped]
            import pyarrow.parquet as pq  # type: ignore[import-untyped]
        except ImportError as error:
            raise ImportError("parquet files need pyarrow: pip install 'cophenet[data]'") from error
        made = {}
        for name, values in columns.items():
            flat = pa.array(values.ravel().tolist() if values.dtype.kind in "OU" else values.ravel())
            lists = pa.FixedSizeListArray.from_arrays(flat, values.shape[1]) if values.ndim == 2 else flat
            made["label" if name == "labels" else name] = lists
        table = pa.table(made)
        if self.writer is None:
            self.writer = pq.ParquetWriter(self.part, table.schema)
        self.writer.write_table(table)

    def _npz(self) -> None:
        with zipfile.ZipFile(self.part, "w", zipfile.ZIP_STORED) as archive:
            for name, column in self.columns.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                    column.write_npy(stream)

    def _npy(self) -> None:
        first = next(iter(self.columns))
        labels = self.columns.get("labels")
        beside = self.path.with_name(self.path.name.replace("features", "labels"))
        with self.part.open("wb") as stream:
            self.columns[first].write_npy(stream)
        if labels is not None:
            other = beside.with_name(f".{beside.name}.{uuid.uuid4().hex}.tmp")
            try:
                with other.open("wb") as stream:
                    labels.write_npy(stream)
                other.replace(beside)
            finally:
                other.unlink(missing_ok=True)

    def _safetensors(self) -> None:
        kept = {name: column for name, column in self.columns.items() if name not in self.numbered}
        header, at = {}, 0
        for name, column in kept.items():
            column.as_numbers()
            end = at + column.size
            kind = _DTYPES[column.dtype.name]
            header[name] = {"dtype": kind, "shape": list(column.shape), "data_offsets": [at, end]}
            at = end
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with self.part.open("wb") as stream:
            stream.write(len(text).to_bytes(8, "little") + text)
            for column in kept.values():
                column.copy_to(stream)


def _header(name: str, values: Array) -> list[str]:
    if values.ndim == 1:
        return ["label" if name == "labels" else name]
    start = "x" if name == "features" else name
    return [f"{start}{i}" for i in range(values.shape[1])]


class _Column:
    """Numbers of a column on disk until all are there, text in memory."""

    def __init__(self) -> None:
        self.texts: list[str] | None = None
        self.file: IO[bytes] | None = None
        self.rows, self.width = 0, ()
        self.dtype: np.dtype[Any] = np.dtype(np.str_)

    def add(self, values: Array) -> None:
        """Append rows."""
        self.rows += len(values)
        if values.dtype.kind in "OU":
            self.texts = (self.texts or []) + [str(value) for value in values.tolist()]
            return
        if self.file is None:
            self.file = TemporaryFile()  # noqa: SIM115 - closed when it is copied
            self.width, self.dtype = values.shape[1:], values.dtype
        self.file.write(np.ascontiguousarray(values, dtype=self.dtype).tobytes())

    @property
    def shape(self) -> tuple[int, ...]:
        """Of all rows."""
        return (self.rows, *self.width)

    @property
    def size(self) -> int:
        """Bytes of all rows."""
        return int(np.prod(self.shape)) * self.dtype.itemsize

    def as_numbers(self) -> None:
        """Text of whole numbers as these."""
        if self.texts is None:
            return
        values = np.array([int(text) for text in self.texts], dtype=np.int64)
        self.texts, self.rows = None, 0
        self.add(values)

    def write_npy(self, stream: Any) -> None:
        """As an array of numpy's format."""
        if self.texts is not None:
            np.lib.format.write_array(stream, np.array(self.texts, dtype=np.str_), allow_pickle=False)
            return
        header = {"descr": self.dtype.str, "fortran_order": False, "shape": self.shape}
        np.lib.format.write_array_header_1_0(stream, header)
        self.copy_to(stream)

    def copy_to(self, stream: Any) -> None:
        """All bytes, in order."""
        assert self.file is not None
        self.file.seek(0)
        shutil.copyfileobj(self.file, stream, 1 << 20)
        self.file.close()
