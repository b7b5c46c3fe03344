"""CSV: a header line with the names of the columns, one of them "label", all others numbers."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np

from cophenet._common.csv_cells import from_cell, to_cell
from cophenet._common.files import replaced_file
from cophenet._common.limits import LINE_BYTES, size_text
from cophenet.vectors.formats import (
    Array,
    Columns,
    Part,
    VectorFormat,
    check_label_column,
    fewer_rows,
    is_missing,
    register_format,
)

__all__ = ["Csv"]


@register_format
class Csv(VectorFormat):
    """A column `label`, all others are features; blank lines are skipped.

    One column is written for each number; `features` become x0, x1, ... Labels are text, even if they look
    like numbers. Text that a spreadsheet would execute, such as "=1+1", is written with an apostrophe in
    front, which `read` removes.
    """

    extension: ClassVar[str] = ".csv"
    order: ClassVar[int] = 4

    def read(self, path: Path, rows: int | None, labelled: bool) -> Iterator[Part]:
        """Read lines of cells."""
        try:
            with path.open(newline="", encoding="utf-8-sig") as stream:
                yield from _parse(csv.reader(_lines(stream), strict=True), rows, labelled)
        except (UnicodeDecodeError, csv.Error) as error:
            raise ValueError(f"not a CSV file in UTF-8: {error}") from error

    def write(self, path: Path, parts: Iterable[Columns]) -> None:
        """Write lines of cells."""
        with replaced_file(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            for number, columns in enumerate(parts):
                if number == 0:
                    writer.writerow(to_cell(cell) for item in columns.items() for cell in _header(*item))
                cells = [_cells(values) for values in columns.values()]
                writer.writerows(
                    [cell for group in row for cell in group] for row in zip(*cells, strict=True)
                )


def _lines(stream: IO[str]) -> Iterator[str]:
    """Yield the lines of a file; raises if one is longer than the limit."""
    number = 0
    while line := stream.readline(LINE_BYTES):
        number += 1
        if len(line) == LINE_BYTES and not line.endswith(("\n", "\r")):
            raise ValueError(f"line {number} is longer than {size_text(LINE_BYTES)} (limit)")
        yield line


def _cells(values: Array) -> list[list[object]]:
    rows: list[list[object]] = values.reshape(len(values), -1).tolist()
    return [list(map(to_cell, row)) for row in rows] if values.dtype.kind in "OU" else rows


def _header(name: str, values: Array) -> list[str]:
    if values.ndim == 1:
        return ["label" if name == "labels" else name]
    start = "x" if name == "features" else name
    return [f"{start}{i}" for i in range(values.shape[1])]


def _parse(lines: Any, rows: int | None, labelled: bool) -> Iterator[Part]:
    filled = (row for row in lines if row)  # a blank line has no cells
    header: list[str] = next(filled, [])
    if labelled:
        check_label_column(header)
    elif header and all(_is_number(cell) for cell in header):
        raise ValueError("the first line must hold the names of the columns, but it holds numbers")
    at = header.index("label") if "label" in header else None
    step = None if rows is None else fewer_rows(rows, len(header))
    features: list[Array] = []
    labels: list[str] = []

    def part() -> Part:
        values = np.array(features).reshape(len(features), len(header) - (at is not None))
        return values, None if at is None else np.array(labels, dtype=np.str_)

    for row in filled:
        line = f"line {lines.line_num}"
        if len(row) != len(header):
            raise ValueError(f"{line} has {len(row)} cells, the first line has {len(header)}")
        if at is not None:
            labels.append(from_cell(row.pop(at)))
            if labelled and is_missing(labels[-1]):
                raise ValueError(f"{line} has no label but {labels[-1]!r}; every line needs one")
        try:
            features.append(np.array(row, dtype=np.float64))
        except ValueError:
            cell = next(cell for cell in row if not _is_number(cell))
            raise ValueError(f"{line}: {cell!r} is not a number") from None
        if len(features) == step:
            yield part()
            features, labels = [], []
    if features or rows is None:
        yield part()


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
