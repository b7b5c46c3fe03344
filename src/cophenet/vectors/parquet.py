"""parquet: a column "label", and columns of numbers or of lists of numbers.

The number of values in a file is read from its footer here: pyarrow can return it too, but its function ends
the process (`std::terminate`) for a damaged column instead of raising an error.

Sources: the Thrift compact protocol
(https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md);
parquet.thrift of https://github.com/apache/parquet-format, for the field numbers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from cophenet._common.files import replaced_file
from cophenet._common.limits import check_unpacked
from cophenet._common.packages import import_optional
from cophenet.vectors.formats import (
    Array,
    Columns,
    LabelFacts,
    Part,
    VectorFormat,
    check_label_column,
    fewer_rows,
    register_format,
)

__all__ = ["Parquet"]


@register_format
class Parquet(VectorFormat):
    """A column `label`, all others are features; (n, d) is written as one column of lists."""

    extension: ClassVar[str] = ".parquet"
    order: ClassVar[int] = 3

    def read(self, path: Path, rows: int | None, labelled: bool) -> Iterator[Part]:
        """Read batches of rows, in the float type of the columns."""
        with _opened(path) as file:
            cells = count_values(path)
            # Raises if the values, at eight bytes each, are suspiciously many for the size of the file.
            check_unpacked(path.stat().st_size, 8 * max(cells, file.metadata.num_rows))
            if labelled:
                check_label_column(file.schema_arrow.names)
            width = cells // max(1, file.metadata.num_rows)
            for batch in [file.read()] if rows is None else file.iter_batches(fewer_rows(rows, width)):
                columns = {name: batch.column(name) for name in batch.schema.names}
                for name, column in columns.items():
                    if column.null_count:
                        raise ValueError(f"column {name!r} has {column.null_count} empty cells")
                labels = np.array(columns.pop("label").to_pylist()) if "label" in columns else None
                if not columns:
                    raise ValueError("columns other than 'label' must hold numbers or lists of numbers")
                yield np.concatenate([_numbers(*item) for item in columns.items()], axis=1), labels

    def write(self, path: Path, parts: Iterable[Columns]) -> None:
        """Write one column for each."""
        pa, pq = _packages()
        with replaced_file(path) as temporary:
            writer = None
            try:
                for columns in parts:
                    cells = {name: _arrow(pa, values) for name, values in columns.items()}
                    table = pa.table({"label" if name == "labels" else name: cells[name] for name in cells})
                    writer = writer or pq.ParquetWriter(temporary, table.schema)
                    writer.write_table(table)
            finally:
                if writer is not None:
                    writer.close()

    def label_facts(self, path: Path) -> LabelFacts:
        """Facts from the schema."""
        pa, _ = _packages()
        with _opened(path) as file:
            schema = file.schema_arrow
            numbers = "label" in schema.names and pa.types.is_integer(schema.field("label").type)
            return LabelFacts(numbers, logits=False)


def _packages() -> tuple[Any, Any]:
    pyarrow = import_optional("pyarrow.parquet", "parquet files need", "cophenet[data]")
    return pyarrow, pyarrow.parquet


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    pa, pq = _packages()
    try:
        # Read columns in pieces, not as a whole.
        with pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
            yield file
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"truncated, damaged or not a parquet file: {error}") from error


def _numbers(name: str, column: Any) -> Array:
    """(n, 1) numbers, or (n, d) if every cell is a list, in the float type of the column."""
    pa, _ = _packages()
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    is_list = hasattr(column.type, "value_type")
    flat = column.flatten() if is_list else column
    lengths = np.unique(column.value_lengths()).tolist() if is_list else [1]
    whole = pa.types.is_integer(flat.type)
    if flat.null_count or not (whole or pa.types.is_floating(flat.type)) or lengths == [0]:
        raise ValueError(f"column {name!r} must hold numbers or lists of numbers")
    if len(lengths) > 1:
        raise ValueError(f"column {name!r} is ragged, with lists of {lengths[:5]} numbers")
    values: Array = flat.to_numpy(zero_copy_only=False).reshape(len(column), *(lengths or [1]))
    return values.astype(np.result_type(values, np.int64)) if whole else values


def _arrow(pa: Any, values: Array) -> Any:
    flat = pa.array(values.ravel().tolist() if values.dtype.kind in "OU" else values.ravel())
    return pa.FixedSizeListArray.from_arrays(flat, values.shape[1]) if values.ndim == 2 else flat


_ROW_GROUPS, _COLUMNS, _METADATA, _NUM_VALUES = 4, 1, 3, 5
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
_INTEGERS = (4, 5, 6)
_DEPTH = 32


def count_values(path: Path) -> int:
    """Number of values in all columns of all row groups, from the footer.

    Raises:
        ValueError: If the footer is damaged.
    """
    with path.open("rb") as file:
        end = file.seek(0, 2)
        file.seek(max(0, end - 8))
        size = int.from_bytes(file.read(4), "little")
        file.seek(max(0, end - 8 - size))
        footer = _Reader(file.read(size))
    try:
        groups = footer.struct(0)[_ROW_GROUPS]
        counts = [column[_METADATA][_NUM_VALUES] for group in groups for column in group[_COLUMNS]]
        if any(count < 0 for count in counts):
            raise ValueError
        return sum(counts)
    except (IndexError, KeyError, TypeError, ValueError, struct.error) as error:
        raise ValueError("truncated, damaged or not a parquet file: its footer makes no sense") from error


class _Reader:
    """Parser of structures in the Thrift compact protocol, returned as dicts by field number."""

    def __init__(self, content: bytes) -> None:
        self.content, self.place = content, 0

    def struct(self, depth: int) -> dict[int, Any]:
        """Read all fields up to the stop field."""
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            step, kind = divmod(head, 16)
            number = number + step if step else self._signed()
            fields[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth + 1)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if depth > _DEPTH:
            raise ValueError(f"more than {_DEPTH} levels")
        if kind in (_TRUE, _FALSE, _BYTE):  # in lists; in fields, booleans are part of the header
            return self._byte()
        if kind in _INTEGERS:
            return self._signed()
        if kind == _DOUBLE:
            return struct.unpack("<d", self._bytes(8))[0]
        if kind == _BINARY:
            return self._bytes(self._unsigned())
        if kind in (_LIST, _SET):
            count, element = divmod(self._byte(), 16)
            return [
                self._value(element, depth + 1) for _ in range(self._unsigned() if count == 15 else count)
            ]
        if kind == _STRUCT:
            return self.struct(depth)
        raise ValueError(f"{kind} is no type of a parquet footer")

    def _byte(self) -> int:
        self.place += 1
        return self.content[self.place - 1]

    def _bytes(self, count: int) -> bytes:
        self.place += count
        if self.place > len(self.content):
            raise IndexError("the footer ends early")
        return self.content[self.place - count : self.place]

    def _unsigned(self) -> int:
        value = shift = 0
        while (byte := self._byte()) >= 128:
            value |= (byte & 127) << shift
            shift += 7
            if shift > 63:
                raise ValueError("a number has more than 64 bits")
        return value | byte << shift

    def _signed(self) -> int:
        value = self._unsigned()
        return value >> 1 ^ -(value & 1)
