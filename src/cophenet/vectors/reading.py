"""Files of feature vectors with labels: npz, npy pairs, safetensors, parquet, CSV. Nothing is unpickled."""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cophenet._common.checks import wrong_argument

__all__ = ["Features", "check_file", "is_number", "read_vectors"]

Features: TypeAlias = NDArray[np.float32]

_ARRAYS = ("features", "labels")
_MISSING = ("", "nan", "NaN")


def check_file(argument: str, value: object) -> None:
    """Refuse what is not the name of a file.

    Example:
        >>> check_file("train", 3)
        Traceback (most recent call last):
        ValueError: train must be the name of a file, got 3
    """
    if not isinstance(value, str | Path) or not str(value):
        raise wrong_argument(argument, f"must be the name of a file, got {value!r}")


def read_vectors(path: Path) -> tuple[Features, list[str]]:
    r"""Read feature vectors and their labels.

    The extension tells the format:

    - `.npz`: arrays `features` (n, d) and `labels` (n,).
    - `.npy`: features (n, d) in a file with "features" in its name, labels in the file beside it that has
      "labels" there instead, such as `train_features.npy` and `train_labels.npy`.
    - `.safetensors`: tensors `features` and `labels`.
    - `.csv`: a line with the names of the columns, one of them `label`; all others are features. Blank
      lines are passed over.
    - `.parquet`: likewise; a column may hold a list of numbers for each row.

    Labels stay the text they are, "00" too; whole numbers of arrays are written out, 7 as "7".

    Args:
        path: The file.

    Returns:
        Features (n, d), and the n labels as text.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it cannot be read, is ragged, holds what is not a finite number, or lacks a label.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "birds.csv"
        >>> _ = path.write_text("wing,tail,label\n1.5,2,owl\n0,1,jay\n")
        >>> read_vectors(path)
        (array([[1.5, 2. ], [0. , 1. ]], dtype=float32), ['owl', 'jay'])
    """
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise ValueError(f"{path}: the extension must be one of {', '.join(_READERS)}")
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing; put the file with features and labels there")
    features, labels = reader(path)
    checked = _check_features(np.asarray(features), path)
    given = _check_labels(np.asarray(labels), path)
    if len(checked) != len(given):
        raise ValueError(f"{path}: {len(checked)} rows of features, but {len(given)} labels")
    return checked, given


def _check_features(features: NDArray[Any], path: Path) -> Features:
    if features.ndim != 2 or 0 in features.shape:
        raise ValueError(f"{path}: features must be (n, d) and not empty, got shape {features.shape}")
    if features.dtype.kind not in "fiu":
        raise ValueError(f"{path}: features must be real numbers, got {features.dtype}")
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused as that
        values: Features = np.ascontiguousarray(features, dtype=np.float32)
    wrong = np.argwhere(~np.isfinite(values))
    if len(wrong):
        row, column = wrong[0].tolist()
        raise ValueError(
            f"{path}: {len(wrong)} features are not finite in float32, first in row {row}, column {column}: "
            f"{features[row, column]}"
        )
    return values


def _check_labels(labels: NDArray[Any], path: Path) -> list[str]:
    if labels.ndim != 1:
        raise ValueError(f"{path}: labels must be (n,), got shape {labels.shape}")
    if labels.dtype.kind in "iu":
        return [str(label) for label in labels.tolist()]
    if labels.dtype.kind == "S":
        try:
            labels = np.char.decode(labels, "utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}: labels must be names in UTF-8: {error}") from error
    if labels.dtype.kind != "U":
        raise ValueError(f"{path}: labels must be whole numbers or names, got {labels.dtype}")
    names: list[str] = labels.tolist()
    for row, name in enumerate(names):
        if name.strip() in _MISSING:
            raise ValueError(f"{path}: row {row} has no label but {name!r}; every row needs one")
    return names


def _pick(arrays: dict[str, Any], path: Path) -> tuple[Any, Any]:
    missing = [name for name in _ARRAYS if name not in arrays]
    if missing:
        raise ValueError(f"{path}: has no array {missing[0]!r}, only {sorted(arrays)!r}")
    return arrays["features"], arrays["labels"]


def _read_npz(path: Path) -> tuple[Any, Any]:
    loaded = _numpy_load(path)
    if not isinstance(loaded, dict):
        raise ValueError(f"{path}: not an npz file")
    return _pick(loaded, path)


def _read_npy(path: Path) -> tuple[Any, Any]:
    if "features" not in path.name:
        raise ValueError(
            f"{path}: a .npy file of features needs 'features' in its name, so that the labels are found "
            "in the file with 'labels' there"
        )
    label_path = path.with_name(path.name.replace("features", "labels"))
    if not label_path.is_file():
        raise FileNotFoundError(f"{label_path} is missing; put the labels of {path.name} there")
    return _numpy_load(path), _numpy_load(label_path)


def _numpy_load(path: Path) -> Any:
    try:
        # Opened here, for numpy leaves a file open that turns out to be damaged.
        with path.open("rb") as stream:
            loaded = np.load(stream, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return loaded
            return {name: loaded[name] if name in _ARRAYS else None for name in loaded.files}
    except (ValueError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path}: cannot be read as numpy arrays without objects: {error}") from error


def _read_safetensors(path: Path) -> tuple[Any, Any]:
    try:
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    except ImportError as error:
        raise ImportError("safetensors files need safetensors: pip install 'cophenet[data]'") from error
    try:
        features, labels = _pick(load_file(path), path)
    except SafetensorError as error:
        raise ValueError(f"{path}: truncated, damaged or not a safetensors file: {error}") from error
    # numpy has no bfloat16.
    values = (features.float() if features.is_floating_point() else features).numpy()
    return values, (labels.float() if labels.is_floating_point() else labels).numpy()


def _read_parquet(path: Path) -> tuple[Any, Any]:
    try:
        from pyarrow import ArrowException  # type: ignore[import-untyped]
        from pyarrow.parquet import read_table  # type: ignore[import-untyped]
    except ImportError as error:
        raise ImportError("parquet files need pyarrow: pip install 'cophenet[data]'") from error
    try:
        table = read_table(path)
    except (ArrowException, OSError) as error:
        raise ValueError(f"{path}: truncated, damaged or not a parquet file: {error}") from error
    _need_label_column(table.column_names, path)
    for name in table.column_names:
        if table[name].null_count:
            raise ValueError(f"{path}: column {name!r} has {table[name].null_count} empty cells")
    columns = [
        _numbers(table[name].to_pylist(), name, path) for name in table.column_names if name != "label"
    ]
    return np.concatenate(columns, axis=1), table["label"].to_pylist()


def _numbers(values: list[Any], name: str, path: Path) -> NDArray[Any]:
    """(n, 1) numbers, or (n, d) if every cell is a list."""
    try:
        column = np.array(values)
    except ValueError:
        lengths = sorted({len(value) for value in values})
        raise ValueError(f"{path}: column {name!r} is ragged, with lists of {lengths[:5]} numbers") from None
    if column.dtype.kind not in "fiu" or column.ndim > 2:
        raise ValueError(f"{path}: column {name!r} must hold numbers or lists of numbers")
    return column.reshape(len(values), -1)


def _read_csv(path: Path) -> tuple[Any, Any]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            return _parse_csv(csv.reader(stream, strict=True), path)
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path}: not a CSV file in UTF-8: {error}") from error


def _parse_csv(lines: Any, path: Path) -> tuple[Any, Any]:
    rows = (row for row in lines if row)  # a blank line has no cells
    header: list[str] = next(rows, [])
    at = _need_label_column(header, path)
    features, labels = [], []
    for row in rows:
        if len(row) != len(header):
            place = f"line {lines.line_num}"
            raise ValueError(f"{path}: {place} has {len(row)} cells, the first line has {len(header)}")
        labels.append(row.pop(at))
        if labels[-1].strip() in _MISSING:
            raise ValueError(
                f"{path}: line {lines.line_num} has no label but {labels[-1]!r}; every line needs one"
            )
        try:
            features.append(np.array(row, dtype=np.float64))
        except ValueError:
            cell = next(cell for cell in row if not is_number(cell))
            raise ValueError(f"{path}: line {lines.line_num}: {cell!r} is not a number") from None
    return np.array(features), np.array(labels, dtype=np.str_)


def is_number(cell: str) -> bool:
    """Whether the text of a cell can be read as a number.

    Example:
        >>> is_number("1e-3"), is_number("cat")
        (True, False)
    """
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _need_label_column(names: list[str], path: Path) -> int:
    if names.count("label") != 1 or len(names) < 2:
        raise ValueError(
            f"{path}: needs one column called 'label' and columns of features, got {names[:6]!r}"
        )
    return names.index("label")


_READERS: dict[str, Callable[[Path], tuple[Any, Any]]] = {
    ".npz": _read_npz,
    ".npy": _read_npy,
    ".safetensors": _read_safetensors,
    ".parquet": _read_parquet,
    ".csv": _read_csv,
}
