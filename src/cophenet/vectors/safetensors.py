"""safetensors: tensors "features", "labels" and "logits" after a JSON header. Needs no package.

Labels that are names are stored as positions in a list of names, which is in the header's metadata under
"labels".
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from cophenet._common.arrays import check_arrays, recorded_checksum
from cophenet._common.files import replaced_file
from cophenet._common.safetensors_header import Header, header_bytes, read_header, refuse_damaged
from cophenet.vectors.formats import (
    Array,
    Columns,
    LabelFacts,
    Part,
    VectorFormat,
    check_bytes,
    is_whole,
    register_format,
    split_rows,
    to_tensor,
)
from cophenet.vectors.writing import Column, collect

__all__ = ["Safetensors"]

_TYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "I8": np.dtype("<i1"),
    "U64": np.dtype("<u8"),
    "U32": np.dtype("<u4"),
    "U16": np.dtype("<u2"),
    "U8": np.dtype("<u1"),
    "BOOL": np.dtype("?"),
    # Types that numpy does not have, with torch's name.
    "BF16": np.dtype([("bfloat16", "<i2")]),
    "F8_E5M2": np.dtype([("float8_e5m2", "<i1")]),
    "F8_E4M3": np.dtype([("float8_e4m3fn", "<i1")]),
}
_NAME_LETTERS = 1000


@register_format
class Safetensors(VectorFormat):
    """Tensors `features` (n, d), `labels` (n,) and `logits`; names of labels are in the metadata."""

    extension: ClassVar[str] = ".safetensors"
    order: ClassVar[int] = 2
    mapped: ClassVar[bool] = True
    text: ClassVar[bool] = False
    text_columns: ClassVar[tuple[str, ...]] = ("labels",)

    def read(self, path: Path, rows: int | None, labelled: bool) -> Iterator[Part]:
        """Read slices of the mapped file; unsigned integers and booleans become float32."""
        arrays = self._map(path, ("features", "labels"), labelled, "r")
        labels = _as_numpy_type(arrays["labels"]) if "labels" in arrays else None
        names = _names(path)
        for features, own in split_rows(arrays["features"], labels, rows):
            values = _as_numpy_type(features)
            given = own if own is None or names is None else _named(own, names)
            yield values if values.dtype.kind in "fi" else values.astype(np.float32), given

    def write(self, path: Path, parts: Iterable[Columns]) -> None:
        """Write one tensor per column."""
        kinds = {dtype: kind for kind, dtype in _TYPES.items()}
        names: dict[str, int] = {}
        with (
            replaced_file(path) as temporary,
            collect(parts, path) as given,
            collect(_numbered(given, names), path) as numbered,
            temporary.open("wb") as stream,
        ):
            columns = {**given, **numbered}
            tensors: dict[str, Any] = {}
            end = 0
            for name, column in columns.items():
                begin, end = end, end + column.dtype.itemsize * math.prod(column.shape)
                kind = kinds[column.dtype]
                tensors[name] = {"dtype": kind, "shape": list(column.shape), "data_offsets": [begin, end]}
            stream.write(header_bytes(tensors, {"labels": json.dumps(list(names))} if names else {}))
            for column in columns.values():
                column.copy_to(stream)

    def label_facts(self, path: Path) -> LabelFacts:
        """Facts from the header: labels are numbers unless there are names for them."""
        return LabelFacts(numbers=_names(path) is None, logits="logits" in _read_header(path).tensors)

    def map(self, path: Path, labelled: bool, mode: Literal["r", "c"]) -> dict[str, Array]:
        """Map each tensor; labels with names are returned as names, in memory."""
        arrays, names = self._map(path, ("features", "labels", "logits"), labelled, mode), _names(path)
        if names is not None and "labels" in arrays:
            arrays["labels"] = _named(arrays["labels"], names)
        return arrays

    def _map(
        self, path: Path, names: Iterable[str], labelled: bool, mode: Literal["r", "c"]
    ) -> dict[str, Array]:
        header, _, begin = _read_header(path)
        _check_bytes(path, path.stat().st_mtime_ns, path.stat().st_size)
        for name in ("features", "labels") if labelled else ("features",):
            if name not in header:
                raise ValueError(f"has no array {name!r}, only {sorted(header)!r}")
        return {name: _map_tensor(path, header[name], begin, mode) for name in names if name in header}


def _numbered(columns: Mapping[str, Column], names: dict[str, int]) -> Iterator[Columns]:
    """Labels that are text as integers: their values if all are integers, else positions in `names`.

    New names are appended to `names`.
    """
    labels = columns.get("labels")
    if labels is None or not labels.is_text:
        return
    whole = all(is_whole(text) for part in labels.parts() for text in part.tolist())
    for part in labels.parts():
        numbers = [int(text) if whole else names.setdefault(text, len(names)) for text in part.tolist()]
        yield {"labels": np.array(numbers, dtype=np.int64)}


def _names(path: Path) -> Array | None:
    """The names of a file's labels; None if the labels are numbers."""
    metadata = _read_header(path).metadata
    if "labels" not in metadata:
        return None
    with refuse_damaged():
        names = json.loads(metadata["labels"])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError("names of labels that are no list of text")
        if max(map(len, names), default=0) > _NAME_LETTERS:
            raise ValueError(f"a name of a label of more than {_NAME_LETTERS} letters (limit)")
        return np.array(names, dtype=np.str_)


def _named(labels: Array, names: Array) -> Array:
    with refuse_damaged():
        if labels.dtype.kind not in "iu" or (
            len(labels) and not 0 <= labels.min() <= labels.max() < len(names)
        ):
            raise ValueError(f"labels must be positions in {len(names)} names")
        return np.asarray(names[labels])


def _read_header(path: Path) -> Header:
    with path.open("rb") as stream:
        return read_header(stream, path.stat().st_size)


@lru_cache(maxsize=64)
def _check_bytes(path: Path, changed: int, size: int) -> None:
    """Raise if the file has a checksum and it does not match; cached for each state of the file."""
    _ = changed, size
    header, metadata, begin = _read_header(path)
    if recorded_checksum(metadata) is not None:
        tensors = {name: _map_tensor(path, entry, begin, "r") for name, entry in header.items()}
        try:
            check_arrays(tensors, metadata)
        except ValueError as error:
            raise ValueError(f"damaged, {error}; remove it and have it made again") from error


def _map_tensor(path: Path, entry: dict[str, Any], begin: int, mode: Literal["r", "c"]) -> Array:
    with refuse_damaged():
        kind, shape = entry["dtype"], tuple(entry["shape"])
        if kind not in _TYPES:
            raise ValueError(f"numbers of type {kind}, which is none of {', '.join(_TYPES)}")
        start, stop = (begin + offset for offset in entry["data_offsets"])
        dtype = _TYPES[kind]
        if not all(type(side) is int for side in shape):
            raise ValueError(f"shape {shape}")
        check_bytes(shape, dtype, stop - start)
        if start < begin or stop - start != dtype.itemsize * math.prod(shape):
            raise ValueError(f"bytes {start} to {stop} for shape {shape}")
        if start == stop:
            return np.empty(shape, dtype)
        return np.memmap(path, dtype, mode, start, shape)


def _as_numpy_type(values: Array) -> Array:
    """Convert numbers of a type that numpy does not have to float32; others do not change."""
    return to_tensor(np.array(values)).float().numpy() if values.dtype.names else values
