"""Tables written some rows at a time, as a whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import numpy as np

from cophenet.vectors.formats import Columns, VectorFormat, find_format, is_whole

__all__ = ["check_columns", "check_output", "write_vectors"]


def write_vectors(
    path: str | os.PathLike[str], parts: Iterable[Columns], numbered: Collection[str] = ()
) -> int:
    """Write named columns, (n,) or (n, d), of numbers or text, to a file.

    - `.csv`: one column for each number; `features` becomes x0, x1, ...; `labels` is called `label`.
    - `.parquet`: likewise, but (n, d) is one column of lists.
    - `.npz`: one array for each column.
    - `.npy`: the first column; `labels`, if there are any, in the file beside it that has "labels" instead of
      "features" in its name.
    - `.safetensors`: numbers; labels that are names are positions in a list of them, in the file's metadata.
      Other text that is whole numbers is written as these, and refused if it is not, unless a column of
      numbers says the same (`numbered`).

    Args:
        path: The file; its extension tells the format.
        parts: Some rows each; the columns are the same each time.
        numbered: Columns of text to leave out where a format has numbers only.

    Returns:
        How many rows were written.

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
    """Refuse a file that cannot be written.

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
    """Refuse columns that a file cannot hold.

    Example:
        >>> check_columns(Path("a.safetensors"), {"group": np.array(["owl", "jay"])})
        Traceback (most recent call last):
        ValueError: a.safetensors: safetensors holds no text, but group are names
    """
    _fitting(find_format(path), path, columns, ())


def _fitting(form: VectorFormat, path: Path, columns: Columns, numbered: Collection[str]) -> Columns:
    """The columns as a format can hold them."""
    try:
        form.check_columns(path, columns)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    if form.text:
        return columns
    fitting = {}
    for name, values in columns.items():
        if values.dtype.kind not in "OU":
            fitting[name] = values
        elif name not in numbered:
            texts = [str(value) for value in values.tolist()]
            if not all(is_whole(text) for text in texts):
                if name in form.text_columns:
                    fitting[name] = np.array(texts)
                    continue
                raise ValueError(f"{path}: {form.extension[1:]} holds no text, but {name} are names")
            fitting[name] = np.array([int(text) for text in texts], dtype=np.int64)
    return fitting
