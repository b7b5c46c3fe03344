"""Tables as they stand in an item's JSON file: "name", "title", "columns", "rows" and "notes".

A cell is text, nothing, or a number: a mapping with "mean", "std" and "values" over seeds, its "unit", and
under "paper" what was published, if anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cophenet.report import Cell, Published, Table
from cophenet.report.table import Unit

__all__ = ["number_cell", "read_table", "write_table"]


def number_cell(
    measured: Mapping[str, Any] | None, unit: Unit = "percent", paper: Published | None = None
) -> dict[str, Any] | None:
    """A cell of a document; None if there is neither a measured nor a published number.

    Args:
        measured: "mean", "std" and "values" over seeds; None if nothing was measured.
        unit: "percent" for fractions, "seconds", "count" or "number".
        paper: What was published.

    Example:
        >>> number_cell({"mean": 0.5, "std": None, "values": [0.5]})["unit"]
        'percent'
    """
    if measured is None and paper is None:
        return None
    cell = dict(measured) if measured else {"mean": None, "std": None, "values": []}
    printed = None if paper is None else {"value": paper.value, "std": paper.std, "note": paper.note}
    return {**cell, "unit": unit, "paper": printed}


def read_table(table: Mapping[str, Any]) -> Table:
    """The table that a document holds.

    Example:
        >>> cell = number_cell({"mean": 0.5, "std": None, "values": [0.5]})
        >>> table = {"title": "T", "columns": ["run", "Acc"], "rows": [["a", cell]], "notes": []}
        >>> print(read_table(table).to_markdown())
        **T**
        <BLANKLINE>
        | run | Acc |
        |:--|--:|
        | a | 50.00 |
    """
    rows = [[_read_cell(cell) for cell in row] for row in table["rows"]]
    return Table.from_rows(table["columns"], rows, title=table["title"], notes=table["notes"])


def _read_cell(cell: Any) -> Cell | str | int | None:
    if not isinstance(cell, Mapping):
        plain: str | int | None = cell
        return plain
    paper = cell["paper"]
    printed = None if paper is None else Published(paper["value"], paper["std"], "", paper["note"])
    return Cell(cell["mean"], cell["std"], cell["unit"], printed)


def write_table(table: Mapping[str, Any]) -> dict[str, str]:
    """The text of a table's files, by their ending."""
    made = read_table(table)
    return {
        "md": f"{made.to_markdown()}\n",
        "csv": f"{made.to_csv()}\n",
        "tex": f"{made.to_latex()}\n",
    }
