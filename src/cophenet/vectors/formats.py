"""Interface and registry of formats of vector files.

A format is a module of this package: a subclass of `VectorFormat` with the decorator `register_format`. That
of another package is an entry point of the group `cophenet.vectors` with the extension as its name.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from cophenet._common.arrays import release_pages
from cophenet._common.registry import Registry

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "Array",
    "Columns",
    "LabelFacts",
    "Part",
    "VectorFormat",
    "check_bytes",
    "check_features",
    "check_label_column",
    "fewer_rows",
    "find_format",
    "format_list",
    "is_missing",
    "is_whole",
    "register_format",
    "split_rows",
    "to_tensor",
]

Array: TypeAlias = NDArray[Any]
# Features (n, d) and labels (n,), integers or text; None if the file has no labels.
Part: TypeAlias = tuple[Array, Array | None]
# Columns (n,) or (n, d) of numbers or text, by name.
Columns: TypeAlias = Mapping[str, Array]

# Largest number of values read at a time: 2 MB in float64.
_PART = 1 << 18

_Format = TypeVar("_Format", bound="type[VectorFormat]")


class LabelFacts(NamedTuple):
    """Facts that help to distinguish names from positions if labels are numbers.

    Attributes:
        numbers: Whether the labels are numbers, not text.
        logits: Whether the file has logits, as files of a run do; its labels are then positions.
    """

    numbers: bool
    logits: bool


class VectorFormat(ABC):
    """A format of files with feature vectors.

    Invalid files raise a `ValueError` without the name of the file, which callers prepend.

    Attributes:
        extension: Extension of the file names, with the dot.
        order: Sort key in listings; ties are sorted by extension.
        mapped: Whether `map` is supported.
        text: Whether text can be written; numbers always can.
        text_columns: Columns that may be text even if `text` is False.
    """

    extension: ClassVar[str]
    order: ClassVar[int] = 100
    mapped: ClassVar[bool] = False
    text: ClassVar[bool] = True
    text_columns: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def read(self, path: Path, rows: int | None, labelled: bool) -> Iterator[Part]:
        """Yield features and labels, in parts of some rows.

        Args:
            path: The file, which exists.
            rows: Rows per part, fewer if they are wide (`fewer_rows`); None for all in one part.
            labelled: Whether to raise if a file has no labels.
        """

    @abstractmethod
    def write(self, path: Path, parts: Iterable[Columns]) -> None:
        """Write columns, in parts of some rows; an existing file is replaced atomically.

        Args:
            path: The file.
            parts: At least one part; all have the same columns. `read` must find "features" and "labels" in
                the file.
        """

    def check_columns(self, path: Path, names: Iterable[str]) -> None:
        """Raise if columns cannot be written to a file of this name."""
        _ = path, names

    def label_facts(self, path: Path) -> LabelFacts:
        """Facts about the labels of a file, which may have none."""
        _ = path
        return LabelFacts(numbers=False, logits=False)

    def map(self, path: Path, labelled: bool, mode: Literal["r", "c"]) -> dict[str, Array]:
        """Memory maps of the arrays "features", "labels" and "logits", as far as they exist.

        Numbers of a type that numpy does not have, such as bfloat16, have a structured type, see `to_tensor`.

        Args:
            path: The file, which exists.
            labelled: Whether to raise if a file has no labels.
            mode: Mode of `numpy.memmap`: read-only, or copy-on-write.
        """
        raise NotImplementedError(f"{path}: {self.extension} files are not mapped ({labelled=}, {mode=})")


def _check_name(name: str, cls: object) -> None:
    extension = getattr(cls, "extension", None)
    if name != extension:
        raise ValueError(f"the name of a format must be its extension {extension!r}, got {name!r}")


_FORMATS: Registry[type[VectorFormat]] = Registry(
    "format", "cophenet.vectors", "cophenet.vectors", _check_name
)


def register_format(cls: _Format) -> _Format:
    """Class decorator: register a format for files with its `extension`.

    Raises:
        ValueError: If a format with this extension exists.

    Example:
        >>> from cophenet.vectors.numpy_files import Npz
        >>> register_format(Npz)
        Traceback (most recent call last):
        ValueError: a format named '.npz' exists already
    """
    _FORMATS.register(cls.extension)(cls)
    return cls


def format_list() -> str:
    """The extensions of all formats, without the dot, for the middle of a sentence.

    Those of other packages, which are not loaded for this, are sorted as if they had the default order;
    names that are no extension, which `find_format` never looks up, are left out.

    Example:
        >>> format_list()
        'npz, npy, safetensors, parquet or csv'
    """
    loaded = _FORMATS.loaded()
    extensions = [name for name in _FORMATS.names() if Path(f"vectors{name}").suffix.lower() == name]
    extensions.sort(key=lambda name: (loaded.get(name, VectorFormat).order, name))
    *names, last = (name[1:] for name in extensions)
    return f"{', '.join(names)} or {last}"


def find_format(path: Path, mapped: bool = False) -> VectorFormat:
    """Return the format of a file, from its extension.

    Args:
        path: The file, which need not exist.
        mapped: Whether only formats that can be mapped are allowed.

    Example:
        >>> find_format(Path("birds.CSV")).extension
        '.csv'
        >>> find_format(Path("birds.xls"))
        Traceback (most recent call last):
        ValueError: birds.xls: the extension must be one of .npz, .npy, .safetensors, .parquet, .csv
    """
    suffix = path.suffix.lower()
    form = _FORMATS.get(suffix) if suffix in _FORMATS.names() else None
    if form is None or (mapped and not form.mapped):
        formats = sorted(_FORMATS.members().values(), key=lambda form: (form.order, form.extension))
        allowed = [form.extension for form in formats if form.mapped or not mapped]
        listed = " or ".join(allowed) if mapped else f"one of {', '.join(allowed)}"
        raise ValueError(f"{path}: the extension must be {listed}")
    return form()


def check_bytes(shape: Sequence[int], dtype: np.dtype[Any], given: int) -> None:
    """Raise if a header declares a larger array than there are bytes, before memory is allocated for it.

    Example:
        >>> check_bytes((10**9, 512), np.dtype(np.float32), 800)
        Traceback (most recent call last):
        ValueError: shape (1000000000, 512) of float32 needs 2048000000000 bytes, there are 800
    """
    if min(shape, default=0) < 0:
        raise ValueError(f"shape {tuple(shape)} has a negative size")
    # Text of length zero takes no bytes, however many rows are declared.
    needed = max(dtype.itemsize, 1) * math.prod(shape)
    if needed > given:
        raise ValueError(f"shape {tuple(shape)} of {dtype} needs {needed} bytes, there are {given}")


def check_features(features: Array) -> None:
    """Raise if features are not (n, d) real numbers.

    Example:
        >>> check_features(np.array(["owl"]))
        Traceback (most recent call last):
        ValueError: features must be (n, d) real numbers, got shape (1,) of <U3
    """
    if features.ndim != 2 or not features.shape[1] or features.dtype.kind not in "fiu":
        given = f"shape {features.shape} of {features.dtype}"
        raise ValueError(f"features must be (n, d) real numbers, got {given}")


def check_label_column(names: list[str]) -> None:
    """Raise if a table has no column of labels, or no columns of features.

    Example:
        >>> check_label_column(["x0", "x1"])
        Traceback (most recent call last):
        ValueError: needs one column called 'label' and columns of features, got ['x0', 'x1']
    """
    if names.count("label") != 1 or len(names) < 2:
        raise ValueError(f"needs one column called 'label' and columns of features, got {names[:6]!r}")


def is_missing(label: str) -> bool:
    """Whether a label is empty or NaN, as from an empty cell of a table.

    Example:
        >>> is_missing(" "), is_missing("NaN"), is_missing("nandu")
        (True, True, False)
    """
    return label.strip() in ("", "nan", "NaN")


def is_whole(text: str) -> bool:
    """Whether a label is an integer as written by `str`.

    Example:
        >>> is_whole("-7"), is_whole("07"), is_whole("7.0")
        (True, False, False)
    """
    return re.fullmatch(r"0|-?[1-9][0-9]{0,17}", text) is not None


def fewer_rows(rows: int, width: int) -> int:
    """Reduce a number of rows, so that parts with wide rows also take little memory.

    Example:
        >>> fewer_rows(16384, 32), fewer_rows(16384, 1024)
        (8192, 256)
    """
    return max(1, min(rows, _PART // max(1, width)))


def split_rows(features: Array, labels: Array | None, rows: int | None) -> Iterator[Part]:
    """Yield arrays in parts of some rows; without `rows` as they are.

    Example:
        >>> [len(part) for part, _ in split_rows(np.eye(5), None, 2)]
        [2, 2, 1]
    """
    if rows is None:
        yield features, labels
        return
    if features.ndim != 2:
        check_features(features)
    if labels is not None and len(labels) != len(features):
        raise ValueError(f"{len(features)} rows of features, but {len(labels)} labels")
    step = fewer_rows(rows, features.shape[1])
    for start in range(0, len(features), step):
        stop = start + step
        yield np.asarray(features[start:stop]), None if labels is None else labels[start:stop]
        release_pages(features)


def to_tensor(array: Array) -> Tensor:
    """A tensor that shares the memory of an array; a structured type of one field is torch's of that name.

    Example:
        >>> to_tensor(np.array([(16256,)], dtype=[("bfloat16", "<i2")]))
        tensor([1.], dtype=torch.bfloat16)
    """
    import torch

    if array.dtype.names is None:
        return torch.from_numpy(array)
    (name,) = array.dtype.names
    return torch.from_numpy(array[name]).view(getattr(torch, name))
