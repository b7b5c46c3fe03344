"""Tables of other programs: a header that names the columns, then rows; separated by tabs or commas."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Columns:
    """A table as columns.

    Attributes:
        cells: The cells of each column, by its name in the header in small letters.
        lines: Line of each row, for messages.
    """

    cells: dict[str, list[str]]
    lines: list[int]

    def find(self, names: Sequence[str]) -> list[str] | None:
        """The first of some columns that the table has."""
        return next((self.cells[name] for name in names if name in self.cells), None)

    def need(self, what: str, names: Sequence[str]) -> list[str]:
        """The first of some columns that the table has; an error if there is none."""
        column = self.find(names)
        if column is None:
            given = f"the table has {list(self.cells)!r:.200}"
            raise ValueError(f"line 1: no column for the {what}: one of {', '.join(names)}; {given}")
        return column


def parse_columns(text: str) -> Columns:
    """Read a table; with tabs in its header quotes mean nothing, as in tables of GBIF."""
    first = text.partition("\n")[0]
    file = io.StringIO(text, newline="")
    if "\t" in first:
        reader = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE, strict=True)
    else:
        reader = csv.reader(file, strict=True)
    rows: list[list[str]] = []
    lines: list[int] = []
    start = 1
    try:
        for row in reader:
            if row:
                rows.append(row)
                lines.append(start)
            start = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num}: malformed row: {error}") from None
    if not rows:
        raise ValueError("the table is empty: it must begin with a header")
    header = [name.strip().lower() for name in rows[0]]
    if len(set(header)) < len(header):
        raise ValueError(f"line {lines[0]}: two columns have the same name: {header!r:.200}")
    for row, line in zip(rows, lines, strict=True):
        if len(row) != len(header):
            raise ValueError(f"line {line}: {len(row)} cells in a table of {len(header)} columns")
    cells = {name: [row[place].strip() for row in rows[1:]] for place, name in enumerate(header)}
    return Columns(cells, lines[1:])
