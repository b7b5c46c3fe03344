"""Read vectors from files: as a whole, in parts, or memory-mapped. Nothing is unpickled."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cophenet._common.checks import is_plain_text
from cophenet._common.limits import reading
from cophenet.vectors.formats import Array, LabelFacts, check_features, find_format, is_missing, to_tensor

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["ROWS", "Features", "label_facts", "map_arrays", "map_rows", "read_parts", "read_vectors"]

Features: TypeAlias = NDArray[np.float32]

ROWS = 16384


def read_vectors(path: str | os.PathLike[str]) -> tuple[Features, list[str]]:
    r"""Read feature vectors and their labels, all at once.

    The extension determines the format:

    - `.npz`: arrays `features` (n, d) and `labels` (n,).
    - `.npy`: features (n, d) in a file with "features" in its name, labels in the file next to it that has
      "labels" there instead, such as `train_features.npy` and `train_labels.npy`.
    - `.safetensors`: tensors `features` and `labels`.
    - `.csv`: a header line with the names of the columns, one of them `label`; all others are features. Blank
      lines are skipped.
    - `.parquet`: the same columns; a column may hold a list of numbers for each row.

    Labels that are text do not change, not even "00"; integers in arrays are converted to text, 7 to "7".

    Args:
        path: The file.

    Returns:
        Features (n, d), and the n labels as text.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it cannot be read, is ragged, contains anything but finite numbers, or lacks a label.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "birds.csv"
        >>> _ = path.write_text("wing,tail,label\n1.5,2,owl\n0,1,jay\n")
        >>> read_vectors(path)
        (array([[1.5, 2. ], [0. , 1. ]], dtype=float32), ['owl', 'jay'])
    """
    path = Path(path)
    form = find_format(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing; put the file with features and labels there")
    with _reading(path):
        ((features, labels),) = form.read(path, None, labelled=True)
        values = _finite_floats(features)
        texts = _texts(np.asarray(labels))
        for row, text in enumerate(texts):
            if is_missing(text):
                raise ValueError(f"row {row} has no label but {text!r}; every row needs one")
        if len(values) != len(texts):
            raise ValueError(f"{len(values)} rows of features, but {len(texts)} labels")
    return values, texts


def read_parts(path: str | os.PathLike[str], rows: int = ROWS) -> Iterator[tuple[Array, list[str] | None]]:
    r"""Yield features and labels in parts of some rows, so that a file may be larger than memory.

    The formats are those of `read_vectors`; labels may be missing, features have the dtype of the file.

    Args:
        path: The file.
        rows: Rows per part.

    Yields:
        Features (n, d), and n labels as text; None if the file has none.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it cannot be read.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "birds.csv"
        >>> _ = path.write_text("wing,tail,label\n1.5,2,owl\n0,1,jay\n")
        >>> [(part.tolist(), labels) for part, labels in read_parts(path, rows=1)]
        [([[1.5, 2.0]], ['owl']), ([[0.0, 1.0]], ['jay'])]
    """
    path = Path(path)
    form = find_format(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing")
    empty = True
    with _reading(path):
        for features, labels in form.read(path, rows, labelled=False):
            check_features(features)
            empty = False
            yield features, None if labels is None else _texts(labels)
        if empty:
            raise ValueError("there are no rows in it")


def map_rows(path: str | os.PathLike[str], folder: Path | None = None) -> tuple[Array, list[str] | None]:
    """Map all features into memory, and read their labels; formats without maps are copied to disk first.

    Args:
        path: The file.
        folder: Folder of the copy; None for the system's temporary folder. The copy has no name, and is
            deleted with the map.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it cannot be read.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "birds.npz"
        >>> np.savez(path, features=np.eye(2), labels=["owl", "jay"])
        >>> rows, labels = map_rows(path)
        >>> type(rows).__name__, rows.shape, labels
        ('memmap', (2, 2), ['owl', 'jay'])
    """
    path = Path(path)
    first, _ = next(read_parts(path))  # checks the file
    form = find_format(path)
    if form.mapped:
        with _reading(path):
            arrays = form.map(path, labelled=False, mode="r")
            if arrays["features"].dtype == first.dtype:  # otherwise reading converts it
                return arrays["features"], _texts(arrays["labels"]) if "labels" in arrays else None
    texts: list[str] = []
    count = width = 0
    dtype: np.dtype[Any] = np.dtype(np.float32)
    labels: list[str] | None = None
    with TemporaryFile(dir=folder) as copy:
        for features, labels in read_parts(path):
            if count and features.shape[1] != width:
                raise ValueError(f"{path}: rows of {width} and of {features.shape[1]} features")
            dtype = dtype if count else features.dtype
            width, count = features.shape[1], count + len(features)
            copy.write(np.ascontiguousarray(features, dtype=dtype).tobytes())
            texts += labels or []
        copy.flush()
        rows = np.memmap(copy, dtype=dtype, mode="r", shape=(count, width))
    return rows, None if labels is None else texts


def map_arrays(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Map the arrays "features", "labels" and, if there are any, "logits" of a file into memory.

    Args:
        path: A safetensors file; or an npy file with "features" in its name, whose labels and logits are in
            the files next to it with these words instead, such as `a_features.npy` and `a_labels.npy`.

    Raises:
        FileNotFoundError: If there is no such file, or no file of labels next to it.
        ValueError: If it cannot be read or mapped, or has no features or labels.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "features.npy"
        >>> np.save(path, np.eye(2)), np.save(path.with_name("labels.npy"), np.array([1, 0]))
        (None, None)
        >>> map_arrays(path)["labels"]
        tensor([1, 0])
    """
    path = Path(path)
    form = find_format(path, mapped=True)
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing; put the file with features there")
    with _reading(path):
        # Copy-on-write, although nothing is written: torch does not support read-only arrays.
        arrays = form.map(path, labelled=True, mode="c")
        return {name: _tensor(name, array) for name, array in arrays.items()}


def _tensor(name: str, array: Array) -> Tensor:
    try:
        return to_tensor(array)
    except TypeError as error:
        raise ValueError(f"{name} cannot be read as an array of numbers: {error}") from error


def label_facts(path: Path) -> LabelFacts:
    """Facts that help to distinguish names from positions if the labels of a file are numbers.

    Labels of a CSV file are text, even if they look like numbers.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "birds.npz"
        >>> np.savez(path, features=np.eye(2), labels=np.array([1, 0]))
        >>> label_facts(path)
        LabelFacts(numbers=True, logits=False)
    """
    with _reading(path):
        return find_format(path).label_facts(path)


def _reading(path: Path) -> AbstractContextManager[None]:
    return reading(path, f"a {path.suffix.lower()[1:]} file of vectors")


def _finite_floats(features: Array) -> Features:
    if features.ndim != 2 or 0 in features.shape:
        raise ValueError(f"features must be (n, d) and not empty, got shape {features.shape}")
    if features.dtype.kind not in "fiu":
        raise ValueError(f"features must be real numbers, got {features.dtype}")
    if isinstance(features, np.memmap):
        features = np.array(features)  # the file may change later
    with np.errstate(over="ignore"):  # values that are too large become infinite, which raises below
        values: Features = np.ascontiguousarray(features, dtype=np.float32)
    wrong = np.argwhere(~np.isfinite(values))
    if len(wrong):
        row, column = wrong[0].tolist()
        raise ValueError(
            f"{len(wrong)} features are not finite in float32, first in row {row}, column {column}: "
            f"{features[row, column]}"
        )
    return values


def _texts(labels: Array) -> list[str]:
    if labels.ndim != 1:
        raise ValueError(f"labels must be (n,), got shape {labels.shape}")
    if labels.dtype.kind == "S":
        try:
            labels = np.char.decode(labels, "utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"labels must be names in UTF-8: {error}") from error
    if labels.dtype.kind not in "iuU":
        raise ValueError(f"labels must be whole numbers or names, got {labels.dtype}")
    # Equal texts are stored in memory once.
    starts = range(0, len(labels), ROWS)
    texts = [sys.intern(str(label)) for start in starts for label in labels[start : start + ROWS].tolist()]
    if labels.dtype.kind == "U" and not is_plain_text("".join(set(texts))):
        row, text = next(item for item in enumerate(texts) if not is_plain_text(item[1]))
        raise ValueError(f"row {row}: a label must be text without control characters, got {text!r:.200}")
    return texts
