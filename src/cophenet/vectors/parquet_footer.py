"""How many values a parquet file says it has, from its footer.

pyarrow tells the same, but what it calls for a damaged column ends the process (`std::terminate`) instead of
raising an error.

Sources: the Thrift compact protocol (https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md);
parquet.thrift of https://github.com/apache/parquet-format, for the numbers of fields.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

__all__ = ["count_values"]

_ROW_GROUPS, _COLUMNS, _METADATA, _NUM_VALUES = 4, 1, 3, 5
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
_INTEGERS = (4, 5, 6)
_DEPTH = 32


def count_values(path: Path) -> int:
    """Values of all columns of all row groups, as the footer says.

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
    """Structures as dicts by the numbers of their fields, from the Thrift compact protocol."""

    def __init__(self, content: bytes) -> None:
        self.content, self.place = content, 0

    def struct(self, depth: int) -> dict[int, Any]:
        """All fields up to the stop."""
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
        if kind in (_TRUE, _FALSE, _BYTE):  # as elements; as fields, truth is part of the head
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
