"""Writers of tables: plain text for a terminal, Markdown, CSV, JSON, LaTeX and HTML."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape as html_text
from typing import TYPE_CHECKING, Any

from cophenet._common.csv_cells import to_cell

if TYPE_CHECKING:
    from cophenet.report.table import Cell, Table

__all__ = ["comma_separated", "html", "html_content", "json_text", "latex", "legend", "markdown", "terminal"]

_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "±": r"$\pm$",
        "↑": r"$\uparrow$",
        "↓": r"$\downarrow$",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        **{special: f"\\{special}" for special in "&%$#_"},
    }
)
_MARKDOWN = str.maketrans({special: f"\\{special}" for special in "\\|*_`<>[]#"})
_STAR = (
    '<span class="star" title="best, by more than noise">'
    '<span aria-hidden="true"> ★</span><span class="unseen"> best</span></span>'
)
Text = Callable[[str], str]


def legend(table: Table, *, best: str, paper: str) -> str:
    """The legend of a comparison: what its signs mean.

    Args:
        table: The table.
        best: How the best values are marked.
        paper: How the paper's values are marked.
    """
    signs = ["↑ higher is better, ↓ lower is better"]
    if table.units:
        signs.append(table.units)
    if any(len(row.seeds) > 1 for row in table.rows):
        signs.append("mean (std over seeds)")
    if any(cell.best for row in table.rows for cell in row.cells):
        signs.append(f"{best} best of the data set, by more than noise")
    if table.has_published:
        signs.append(f"{paper} as published, at the paper's scale")
    return "; ".join(signs)


@dataclass(frozen=True)
class _Shown:
    """A rendered column: its heading, a text for each row, and which texts are right-aligned."""

    heading: str
    texts: list[str]
    right: list[bool]
    numeric: bool


def _shown_columns(table: Table, escape: Text, best: Text, name: Text) -> list[_Shown]:
    """Render all columns: names of runs first, published numbers in brackets or in a separate column.

    Args:
        table: The table.
        escape: Escapes a text for the format.
        best: Marks a text as the best value.
        name: Escapes the name of a run for the format.
    """
    shown = []
    sides = [False] * len(table.rows)
    compared, remarks = table.layout == "comparison", _remarks(table)
    if compared:
        shown.append(_Shown("run", [name(row.name) for row in table.rows], sides, False))
    for place, column in enumerate(table.columns):
        cells = [row.cells[place] for row in table.rows]
        texts = [best(escape(cell.text)) if cell.best else escape(cell.text) for cell in cells]
        printed = [cell.published_text for cell in cells]
        numeric = _is_numeric(cells)
        if compared:
            pairs = zip(texts, printed, strict=True)
            texts = [f"{text} [{paper}]" if paper else text for text, paper in pairs]
        right = [numeric or isinstance(cell.label, int) for cell in cells]
        shown.append(_Shown(escape(column.heading), texts, right, numeric))
        if any(printed) and not compared:
            texts = [escape(paper + _mark(cell, remarks)) for cell, paper in zip(cells, printed, strict=True)]
            shown.append(_Shown("paper", texts, [True] * len(cells), True))
    return shown


def _is_numeric(cells: Iterable[Cell]) -> bool:
    return any(cell.unit is not None for cell in cells)


def _lines(shown: Sequence[_Shown]) -> list[tuple[str, ...]]:
    """The heading, then the rows."""
    return list(zip(*((column.heading, *column.texts) for column in shown), strict=True))


def _remarks(table: Table) -> list[str]:
    """Known errors in published numbers, in order of appearance, without duplicates."""
    cells = (cell.published for row in table.rows for cell in row.cells)
    return list(dict.fromkeys(cell.note for cell in cells if cell and cell.note))


def _mark(cell: Cell, remarks: Sequence[str]) -> str:
    note = cell.published and cell.published.note
    return f" [{remarks.index(note) + 1}]" if note else ""


def _notes(table: Table) -> list[str]:
    """The notes; for a document also the numbered remarks, which a comparison already has in its notes."""
    if table.layout == "comparison":
        return list(table.notes)
    numbered = (f"[{place}] {remark}" for place, remark in enumerate(_remarks(table), start=1))
    return [*table.notes, *numbered]


def terminal(table: Table, width: int | None) -> str:
    """Format a table as plain text, in blocks of columns that fit a width."""
    shown = _shown_columns(table, str, lambda text: f"{text}*", str)
    aligned = []
    for column in shown:
        size = max(map(len, (column.heading, *column.texts)))
        sides = zip((column.heading, *column.texts), (column.numeric, *column.right), strict=True)
        aligned.append([text.rjust(size) if right else text.ljust(size) for text, right in sides])
    first, *others = aligned
    parts = [table.title] if table.title else []
    parts += [
        "\n".join("  ".join(line).rstrip() for line in zip(first, *block, strict=True))
        for block in _blocks(others, len(first[0]), width)
    ]
    notes = _notes(table)
    if table.layout == "comparison":
        notes.insert(0, legend(table, best="*", paper="[]"))
    return "\n\n".join([*parts, "\n".join(notes)] if notes else parts)


def _blocks(columns: Sequence[list[str]], first: int, width: int | None) -> list[list[list[str]]]:
    """Split columns into blocks that fit beside the first column; each has at least one column."""
    blocks: list[list[list[str]]] = [[]]
    used = first
    for column in columns:
        if width is not None and blocks[-1] and used + 2 + len(column[0]) > width:
            blocks.append([])
            used = first
        blocks[-1].append(column)
        used += 2 + len(column[0])
    return blocks


def _markdown_text(text: str) -> str:
    return " ".join(text.split()).translate(_MARKDOWN)


def _cell_markup(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def markdown(table: Table, *, markup: bool = False) -> str:
    """Format a table as Markdown, with its title and notes.

    Args:
        table: The table.
        markup: Whether the texts of its cells are Markdown: only what would end a cell is escaped.
    """
    escape = _cell_markup if markup else _markdown_text
    shown = _shown_columns(table, escape, lambda text: f"**{text}**", escape)
    lines = [f"| {' | '.join(line)} |" for line in _lines(shown)]
    lines.insert(1, f"|{'|'.join('--:' if column.numeric else ':--' for column in shown)}|")
    notes = [_markdown_text(note) for note in _notes(table)]
    text = "\n".join(lines)
    if table.layout == "comparison":
        return f"{text}\n\n" + "  \n".join([legend(table, best="bold", paper="[]"), *notes])
    title = [f"**{_markdown_text(table.title)}**"] if table.title else []
    return "\n\n".join([*title, text, *notes])


def _csv_columns(table: Table) -> Iterable[tuple[str, list[object]]]:
    """Headings and values, every number in full precision."""
    compared = table.layout == "comparison"
    if compared:
        yield "run", [row.name for row in table.rows]
        yield "data", [row.data for row in table.rows]
        yield "objective", [row.objective for row in table.rows]
        yield "scale", [row.scale for row in table.rows]
        yield "seeds", [" ".join(map(str, row.seeds)) for row in table.rows]
    for place, column in enumerate(table.columns):
        cells = [row.cells[place] for row in table.rows]
        key = (column.key or column.name) + f" ({column.tree})" * bool(column.tree)
        yield (
            f"{key} mean" if compared else key,
            [cell.label if cell.unit is None else cell.mean for cell in cells],
        )
        if not compared and not _is_numeric(cells):
            continue
        yield f"{key} std", [cell.std for cell in cells]
        if compared and not any(cell.published for cell in cells):
            continue
        yield (
            f"{key} paper mean" if compared else f"{key} paper",
            [cell.published and cell.published.value for cell in cells],
        )
        if compared:
            yield f"{key} paper std", [cell.published and cell.published.std for cell in cells]


def named_columns(table: Table) -> dict[str, list[object]]:
    """The columns of the CSV file by their headings."""
    return dict(_csv_columns(table))


def comma_separated(table: Table) -> str:
    """Format as CSV in full precision; text that spreadsheets would run as a formula gets an apostrophe."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    columns = ([heading, *values] for heading, values in _csv_columns(table))
    writer.writerows(map(to_cell, row) for row in zip(*columns, strict=True))
    return stream.getvalue().rstrip("\n")


def json_text(table: Table) -> str:
    """Format a comparison as JSON: an entry for each run, with its metrics by key."""
    metrics = {
        column.key: {"key": column.key, "title": column.title, "higher_is_better": column.higher_is_better}
        for column in table.columns
    }
    runs = [
        {
            "run": row.name,
            "data": row.data,
            "objective": row.objective,
            "scale": row.scale,
            "seeds": list(row.seeds),
            "metrics": {
                column.key: _json_cell(cell, column.tree)
                for column, cell in zip(table.columns, row.cells, strict=True)
                if cell.mean is not None
            },
        }
        for row in table.rows
    ]
    return json.dumps({"metrics": [*metrics.values()], "runs": runs, "notes": list(table.notes)}, indent=2)


def _json_cell(cell: Cell, tree: str) -> dict[str, Any]:
    content: dict[str, Any] = {"mean": cell.mean, "std": cell.std, "best": cell.best}
    if tree:
        content["tree"] = tree
    if cell.against is not None:
        content["against_flat"] = cell.against._asdict()
    if cell.published is not None:
        content["paper"] = {"mean": cell.published.value, "std": cell.published.std}
    return content


def latex(table: Table) -> str:
    """Format a table as a LaTeX tabular."""

    def escape(text: str) -> str:
        return text.translate(_LATEX)

    # Names in braces: LaTeX would read a bracket after the end of a row as an argument of `\\`.
    shown = _shown_columns(
        table, escape, lambda text: f"\\textbf{{{text}}}", lambda text: f"{{{escape(text)}}}"
    )
    heading, *rows = (" & ".join(line) for line in _lines(shown))
    notes = [f"% {' '.join(note.split())}" for note in _notes(table)]
    align = "l" + "r" * (len(shown) - 1)
    body = [*(f"{row} \\\\" for row in rows), "\\bottomrule", "\\end{tabular}"]
    if table.layout == "document":
        begin = [f"\\begin{{tabular}}{{{align}}}", "\\toprule", f"{heading} \\\\ \\midrule"]
        title = [f"% {table.title}"] if table.title else []
        return "\n".join([*title, *notes, *begin, *body])
    # Without arrows, because 8-bit engines such as pdfLaTeX fail on them.
    signs = legend(table, best="bold", paper="[]").replace("↑", "up:").replace("↓", "down:")
    begin = [f"\\begin{{tabular}}{{@{{}}{align}@{{}}}}", "\\toprule", f"{heading} \\\\", "\\midrule"]
    return "\n".join([f"% needs \\usepackage{{booktabs}}; {signs}", *begin, *body, *notes])


def html(table: Table, kind: str) -> str:
    """Format a table as an HTML table element; the first cell of a row is its heading."""
    compared = table.layout == "comparison"
    heads = ['<th scope="col">run</th>'] if compared else []
    rows = [[f'<th scope="row">{html_text(row.name)}</th>'] if compared else [] for row in table.rows]
    for place, column in enumerate(table.columns):
        cells = [row.cells[place] for row in table.rows]
        title = f' title="{html_text(column.title)}"' if column.title else ""
        heads.append(f'<th scope="col"{title}>{html_text(column.heading)}</th>')
        for row, cell in zip(rows, cells, strict=True):
            row.append(_html_cell(cell, paper=compared, heading=not row))
        if not compared and any(cell.published for cell in cells):
            heads.append('<th scope="col">paper</th>')
            for row, cell in zip(rows, cells, strict=True):
                row.append(_html_published(cell))
    return "\n".join(
        [
            f'<table class="{kind}">' if kind else "<table>",
            f"<thead><tr>{''.join(heads)}</tr></thead>",
            "<tbody>",
            *(f"<tr>{''.join(row)}</tr>" for row in rows),
            "</tbody>",
            "</table>",
        ]
    )


def _html_cell(cell: Cell, *, paper: bool, heading: bool) -> str:
    """One cell, with the published number below it if `paper` is set."""
    if heading:
        return f'<th scope="row">{html_text(cell.text)}</th>'
    kind = ' class="best"' if cell.best else ""
    return f"<td{kind}>{html_content(cell, paper=paper)}</td>"


def html_content(cell: Cell, *, paper: bool) -> str:
    """The content of a cell in HTML: its text, a star if it is the best, the published number if `paper`."""
    small = ""
    if paper and cell.published:
        small = f'<small title="{html_text(cell.published.source)}">paper {cell.published_text}</small>'
    return f"{html_text(cell.text)}{_STAR * cell.best}{small}"


def _html_published(cell: Cell) -> str:
    if cell.published is None:
        return "<td>&ndash;</td>"
    return f"<td>{cell.published_text}<small>{html_text(cell.published.source)}</small></td>"
