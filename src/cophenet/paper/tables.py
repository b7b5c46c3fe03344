"""Tables of reproduced items as text, measured numbers with the published ones beside them.

A table is plain data, as it stands in an item's JSON file: "name", "title", "columns", "rows" and "notes". A
cell is text, nothing, or a number: a mapping with "mean", "std" and "values" over seeds, its "unit", and
under "paper" what was published, if anything.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from cophenet.report.published_numbers import Published

__all__ = ["Cell", "Table", "cell_text", "number_cell", "table_csv", "table_latex", "table_markdown"]

Table: TypeAlias = Mapping[str, Any]
Cell: TypeAlias = "str | int | Mapping[str, Any] | None"
_LATEX = str.maketrans(
    {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {special: f"\\{special}" for special in "&%$#_{}"}
)
_MARKDOWN = str.maketrans({special: f"\\{special}" for special in "\\|*_`<>[]#"})


def number_cell(
    found: Mapping[str, Any] | None, unit: str = "percent", paper: Published | None = None
) -> dict[str, Any] | None:
    """A cell of a table; None if there is neither a measured nor a published number.

    Args:
        found: "mean", "std" and "values" over seeds; None if nothing was measured.
        unit: "percent" for fractions, "seconds", "count" or "number".
        paper: What was published.

    Example:
        >>> number_cell({"mean": 0.5, "std": None, "values": [0.5]})["unit"]
        'percent'
    """
    if found is None and paper is None:
        return None
    cell = dict(found) if found else {"mean": None, "std": None, "values": []}
    printed = None if paper is None else {"value": paper.value, "std": paper.std, "note": paper.note}
    return {**cell, "unit": unit, "paper": printed}


def _shown(value: float, unit: str) -> str:
    if unit == "percent":
        return f"{100 * value:.2f}"
    if unit == "count":
        return f"{value:,.0f}"
    return f"{value:.3g}" if unit == "seconds" else f"{value:.2f}"


def _spread(mean: float | None, std: float | None, unit: str) -> str:
    if mean is None:
        return "-"
    return _shown(mean, unit) if std is None else f"{_shown(mean, unit)} ({_shown(std, unit)})"


def cell_text(cell: Cell, *, paper: bool = False) -> str:
    """A cell as it is shown: mean (std), or the published number.

    Example:
        >>> cell_text({"mean": 0.9385, "std": 0.0005, "unit": "percent", "paper": None})
        '93.85 (0.05)'
    """
    if not isinstance(cell, Mapping):
        return "" if paper else ("-" if cell is None else str(cell))
    if not paper:
        return _spread(cell["mean"], cell["std"], cell["unit"])
    printed = cell["paper"]
    return "" if printed is None else _spread(printed["value"], printed["std"], cell["unit"])


def _has_paper(table: Table, column: int) -> bool:
    cells = (row[column] for row in table["rows"])
    return any(isinstance(cell, Mapping) and cell["paper"] is not None for cell in cells)


def _columns(table: Table) -> list[tuple[int, bool]]:
    """Position of each shown column, and whether it is what was published."""
    shown = []
    for column in range(len(table["columns"])):
        shown.append((column, False))
        if _has_paper(table, column):
            shown.append((column, True))
    return shown


def _footnotes(table: Table) -> list[str]:
    """What is known to be wrong with published cells, in order of appearance, without repetition."""
    cells = [cell for row in table["rows"] for cell in row if isinstance(cell, Mapping) and cell["paper"]]
    return list(dict.fromkeys(cell["paper"]["note"] for cell in cells if cell["paper"]["note"]))


def _mark(cell: Cell, footnotes: Sequence[str]) -> str:
    note = cell["paper"]["note"] if isinstance(cell, Mapping) and cell["paper"] else None
    return f" [{footnotes.index(note) + 1}]" if note else ""


def _text_rows(table: Table) -> tuple[list[str], list[list[str]], list[str]]:
    """Heading, rows and notes, all as text."""
    columns, footnotes = _columns(table), _footnotes(table)
    heading = ["paper" if paper else table["columns"][column] for column, paper in columns]
    rows = [
        [
            cell_text(row[column], paper=paper) + (_mark(row[column], footnotes) if paper else "")
            for column, paper in columns
        ]
        for row in table["rows"]
    ]
    numbered = [f"[{place}] {note}" for place, note in enumerate(footnotes, start=1)]
    return heading, rows, [*table["notes"], *numbered]


def table_markdown(table: Table) -> str:
    """As Markdown, with its title and notes.

    Example:
        >>> cell = number_cell({"mean": 0.5, "std": None, "values": [0.5]})
        >>> table = {"title": "T", "columns": ["run", "Acc"], "rows": [["a", cell]], "notes": []}
        >>> print(table_markdown(table))
        **T**
        <BLANKLINE>
        | run | Acc |
        |:--|--:|
        | a | 50.00 |
        <BLANKLINE>
    """
    heading, rows, notes = _text_rows(table)
    numbers = [
        paper or any(isinstance(row[column], Mapping) for row in table["rows"])
        for column, paper in _columns(table)
    ]
    lines = [f"**{table['title'].translate(_MARKDOWN)}**", ""]
    lines.append(f"| {' | '.join(cell.translate(_MARKDOWN) for cell in heading)} |")
    lines.append("|" + "|".join("--:" if number else ":--" for number in numbers) + "|")
    lines += [f"| {' | '.join(cell.translate(_MARKDOWN) for cell in row)} |" for row in rows]
    lines.append("")
    for note in notes:
        lines += [note.translate(_MARKDOWN), ""]
    return "\n".join(lines)


def table_latex(table: Table) -> str:
    """As a LaTeX tabular that needs the package booktabs, notes as comments."""
    heading, rows, notes = _text_rows(table)
    lines = [f"% {table['title']}", *(f"% {note}" for note in notes)]
    lines += [rf"\begin{{tabular}}{{{'l' + 'r' * (len(heading) - 1)}}}", r"\toprule"]
    lines.append(" & ".join(cell.translate(_LATEX) for cell in heading) + r" \\ \midrule")
    lines += [" & ".join(cell.translate(_LATEX) for cell in row) + r" \\" for row in rows]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def table_csv(table: Table) -> str:
    """As CSV in full precision: mean, std and the published mean of every number in columns of their own."""
    columns = range(len(table["columns"]))
    numeric = [any(isinstance(row[c], Mapping) for row in table["rows"]) for c in columns]
    heading: list[object] = []
    for column, name in enumerate(table["columns"]):
        heading += [name, f"{name} std", f"{name} paper"] if numeric[column] else [name]
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(heading)
    for row in table["rows"]:
        cells: list[object] = []
        for column in columns:
            cell = row[column]
            if isinstance(cell, Mapping):
                cells += [cell["mean"], cell["std"], cell["paper"] and cell["paper"]["value"]]
            else:
                cells += [cell, None, None] if numeric[column] else [cell]
        writer.writerow(["" if cell is None else cell for cell in cells])
    return stream.getvalue()
