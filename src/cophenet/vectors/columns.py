"""Columns that come some rows at a time, collected for formats that write one column after the other."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import numpy as np

from cophenet.vectors.formats import Array, Columns

__all__ = ["Column", "collect"]


class Column:
    """Numbers or text on disk, so that there may be more than memory holds.

    Args:
        first: The first rows.
        folder: Where they lie, in a file without a name.

    Attributes:
        dtype: Type of the numbers, that of the first rows; for text, of the longest so far.
    """

    def __init__(self, first: Array, folder: Path) -> None:
        self._is_text = first.dtype.kind in "OU"
        self.dtype: np.dtype[Any] = np.dtype("<U1") if self._is_text else first.dtype
        self._file: IO[bytes] = TemporaryFile(dir=folder)  # noqa: SIM115 - closed by `collect`
        self._rows, self._width = 0, first.shape[1:]
        self._texts: list[tuple[int, np.dtype[Any]]] = []  # rows and type of each part

    def add(self, values: Array) -> None:
        """Append rows."""
        self._rows += len(values)
        if self._is_text:
            values = np.array([str(value) for value in values.tolist()], dtype=np.str_)
            self._texts.append((len(values), values.dtype))
            self.dtype = max(self.dtype, values.dtype, key=lambda dtype: dtype.itemsize)
        else:
            values = np.ascontiguousarray(values, dtype=self.dtype)
        self._file.write(values.tobytes())

    @property
    def shape(self) -> tuple[int, ...]:
        """Of all rows."""
        return (self._rows, *self._width)

    def copy_to(self, stream: IO[bytes]) -> None:
        """Write the bytes of all rows, one after the other."""
        self._file.seek(0)
        for rows, dtype in self._texts:
            part = np.frombuffer(self._file.read(rows * dtype.itemsize), dtype)
            stream.write(part.astype(self.dtype).tobytes())
        shutil.copyfileobj(self._file, stream, 1 << 20)

    def close(self) -> None:
        """Free the disk."""
        self._file.close()


@contextmanager
def collect(parts: Iterable[Columns], folder: Path) -> Iterator[dict[str, Column]]:
    """All rows of all parts, by column.

    Args:
        parts: Some rows each.
        folder: Where to collect them: that of the file which they become, whose disk has room for them.

    Example:
        >>> with collect([{"row": np.arange(2)}, {"row": np.arange(3)}], Path()) as columns:
        ...     columns["row"].shape
        (5,)
    """
    columns: dict[str, Column] = {}
    try:
        for part in parts:
            for name, values in part.items():
                if name not in columns:
                    columns[name] = Column(values, folder)
                columns[name].add(values)
        yield columns
    finally:
        for column in columns.values():
            column.close()
