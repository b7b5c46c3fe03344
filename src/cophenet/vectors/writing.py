"""Write tables atomically in parts of some rows; collect columns one after the other."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import numpy as np

from cophenet.vectors.formats import Array, Columns, VectorFormat, find_format, is_whole

__all__ = ["check_columns", "check_output", "collect", "write_vectors"]


def write_vectors(
    path: str | os.PathLike[str], parts: Iterable[Columns], numbered: Collection[str] = ()
) -> int:
    """Write named columns, (n,) or (n, d), of numbers or text, to a file.

    - `.csv`: one column for each number; `features` becomes x0, x1, ...; `labels` is called `label`.
    - `.parquet`: the same, but (n, d) is one column of lists.
    - `.npz`: one array per column.
    - `.npy`: the first column; `labels`, if there are any, in the file next to it that has "labels" in its
      name instead of "features".
    - `.safetensors`: numbers; labels that are names are positions in a list of names, in the file's metadata.
      Other text is converted if it consists of integers, and raises an error if not, unless a column of
      numbers contains the same information (`numbered`).

    Args:
        path: The file; its extension determines the format.
        parts: Parts of some rows; all have the same columns.
        numbered: Columns of text to leave out if a format supports only numbers.

    Returns:
        Number of rows written.

    Raises:
        ValueError: If the file cannot be written, or cannot hold the columns.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "out.npz"
        >>> write_vectors(path, [{"features": np.eye(2), "labels": np.array(["owl", "jay"])}])
        2
        >>> np.load(path)["labels"]
        array(['owl', 'jay'], dtype='<U3')
    """
    target, rows = Path(path), 0
    form = check_output(target)

    def checked() -> Iterator[Columns]:
        nonlocal rows
        for columns in parts:
            rows += len(next(iter(columns.values())))
            yield _fitting(form, target, columns, numbered)

    form.write(target, checked())
    return rows


def check_output(path: Path) -> VectorFormat:
    """Raise if a file cannot be written.

    Returns:
        Its format.

    Example:
        >>> check_output(Path("no/such/folder.npz"))
        Traceback (most recent call last):
        ValueError: no/such/folder.npz: there is no folder no/such
    """
    form = find_format(path)
    if not path.parent.is_dir():
        raise ValueError(f"{path}: there is no folder {path.parent}")
    if path.is_dir():
        raise ValueError(f"{path}: is a folder; give the name of a file")
    return form


def check_columns(path: Path, columns: Columns) -> None:
    """Raise if a file cannot hold columns.

    Example:
        >>> check_columns(Path("a.safetensors"), {"group": np.array(["owl", "jay"])})
        Traceback (most recent call last):
        ValueError: a.safetensors: safetensors holds no text, but group are names
    """
    _fitting(find_format(path), path, columns, ())


def _fitting(form: VectorFormat, path: Path, columns: Columns, numbered: Collection[str]) -> Columns:
    """Convert the columns to what a format supports."""
    try:
        form.check_columns(path, columns)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    if form.text:
        return columns
    fitting = {}
    for name, values in columns.items():
        if values.dtype.kind not in "OU" or name in form.text_columns:
            fitting[name] = values
        elif name not in numbered:
            texts = [str(value) for value in values.tolist()]
            if not all(is_whole(text) for text in texts):
                raise ValueError(f"{path}: {form.extension[1:]} holds no text, but {name} are names")
            fitting[name] = np.array([int(text) for text in texts], dtype=np.int64)
    return fitting


class Column:
    """Numbers or text on disk, so that they may be larger than memory.

    Args:
        name: Name of the column, for messages.
        first: The first rows.
        path: The output file, in whose folder is the unnamed temporary file.

    Attributes:
        is_text: Whether it holds text; later numbers are converted to it.
        dtype: For numbers the dtype of the first rows; for text that of the longest one so far.
    """

    def __init__(self, name: str, first: Array, path: Path) -> None:
        self.name, self.path = name, path
        self.is_text = first.dtype.kind in "OU"
        self.dtype: np.dtype[Any] = np.dtype("<U1") if self.is_text else first.dtype
        self._file: IO[bytes] = TemporaryFile(dir=path.parent)  # noqa: SIM115 - closed by `collect`
        self._rows, self._width = 0, first.shape[1:]
        self._texts: list[tuple[int, np.dtype[Any]]] = []  # rows and type of each part

    def add(self, values: Array) -> None:
        """Append rows.

        Raises:
            ValueError: If they would change, as text, fractions or larger numbers after integers.
        """
        self._rows += len(values)
        if self.is_text:
            values = np.array([str(value) for value in values.tolist()], dtype=np.str_)
            self._texts.append((len(values), values.dtype))
            self.dtype = max(self.dtype, values.dtype, key=lambda dtype: dtype.itemsize)
        elif not _keeps_values(values, self.dtype):
            raise ValueError(
                f"{self.path}: all parts of {self.name} must fit into the type of the first, "
                f"got {values.dtype} after {self.dtype}"
            )
        else:
            values = np.ascontiguousarray(values, dtype=self.dtype)
        self._file.write(values.tobytes())

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of all rows."""
        return (self._rows, *self._width)

    def parts(self) -> Iterator[Array]:
        """Yield the parts of a column of text as they were added."""
        self._file.seek(0)
        for rows, dtype in self._texts:
            yield np.frombuffer(self._file.read(rows * dtype.itemsize), dtype)

    def copy_to(self, stream: IO[bytes]) -> None:
        """Write the bytes of all rows to a stream."""
        for part in self.parts():
            stream.write(part.astype(self.dtype).tobytes())
        shutil.copyfileobj(self._file, stream, 1 << 20)

    def close(self) -> None:
        """Delete the temporary file."""
        self._file.close()


def _keeps_values(values: Array, dtype: np.dtype[Any]) -> bool:
    """Whether numbers are the same in another type; fractions may be rounded.

    Example:
        >>> one = np.array([1, 300])
        >>> _keeps_values(one[:1], np.dtype(np.uint8)), _keeps_values(one, np.dtype(np.uint8))
        (True, False)
    """
    kinds = {values.dtype.kind, dtype.kind}
    if kinds == {"f"} or not kinds <= {*"biuf"}:
        return np.can_cast(values.dtype, dtype, "same_kind")
    with np.errstate(invalid="ignore"):  # NaN as an integer
        cast = values.astype(dtype)
        # Back as well: integers above 2**53 equal the float64 that they are compared as.
        return np.array_equal(cast, values) and np.array_equal(cast.astype(values.dtype), values)


@contextmanager
def collect(parts: Iterable[Columns], path: Path) -> Iterator[dict[str, Column]]:
    """Collect all rows of all parts, by column.

    Args:
        parts: Parts of some rows.
        path: The output file, in whose folder are temporary files, because its disk has space for them.

    Example:
        >>> with collect([{"row": np.arange(2)}, {"row": np.arange(3)}], Path("out.npz")) as columns:
        ...     columns["row"].shape
        (5,)
    """
    columns: dict[str, Column] = {}
    try:
        for part in parts:
            for name, values in part.items():
                if name not in columns:
                    columns[name] = Column(name, values, path)
                columns[name].add(values)
        yield columns
    finally:
        for column in columns.values():
            column.close()
