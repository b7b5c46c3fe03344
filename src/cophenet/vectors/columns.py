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
    """Numbers on disk, so that there may be more of them than memory; text in memory.

    Args:
        first: The first rows.
        folder: Where the numbers lie, in a file without a name.

    Attributes:
        texts: The text; None for numbers.
        dtype: Type of the numbers, that of the first rows.
    """

    def __init__(self, first: Array, folder: Path) -> None:
        self.texts: list[str] | None = [] if first.dtype.kind in "OU" else None
        self.dtype: np.dtype[Any] = first.dtype
        self._file: IO[bytes] = TemporaryFile(dir=folder)  # noqa: SIM115 - closed by `collect`
        self._rows, self._width = 0, first.shape[1:]

    def add(self, values: Array) -> None:
        """Append rows."""
        self._rows += len(values)
        if self.texts is not None:
            self.texts += [str(value) for value in values.tolist()]
        else:
            self._file.write(np.ascontiguousarray(values, dtype=self.dtype).tobytes())

    @property
    def shape(self) -> tuple[int, ...]:
        """Of all rows."""
        return (self._rows, *self._width)

    def copy_to(self, stream: IO[bytes]) -> None:
        """Write the bytes of all numbers, row after row."""
        self._file.seek(0)
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
