"""A table of runs as text: for a terminal, Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cophenet.evaluation.keys import MetricInfo
    from cophenet.report.comparison import Cell, Column, Table

__all__ = ["comma_separated", "latex", "legend", "markdown", "number", "terminal", "with_spread"]

_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "±": r"$\pm$",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        **{special: f"\\{special}" for special in "&%$#_"},
    }
)
_MARKDOWN = str.maketrans({special: f"\\{special}" for special in "\\|*_`<>[]#"})


def number(value: float, info: MetricInfo) -> str:
    """A value as it is shown: percent with two digits after the point as in the paper, else three.

    Example:
        >>> from cophenet.evaluation import describe
        >>> number(0.98765, describe("source/accuracy/fine")), number(1.25, describe("source/severity"))
        ('98.77', '1.250')
    """
    return f"{100 * value:.2f}" if info.percent else f"{value:.3f}"


def with_spread(mean: float, std: float | None, info: MetricInfo) -> str:
    """Mean (std) as the paper's tables have it; the mean alone for a single seed."""
    return number(mean, info) if std is None else f"{number(mean, info)} ({number(std, info)})"


def heading(column: Column) -> str:
    """The abbreviation of a metric, with an arrow to where it is better."""
    return f"{column.info.short} {'↑' if column.info.higher_is_better else '↓'}"


def legend(table: Table, *, best: str, paper: str) -> list[str]:
    """What the signs of a table mean, and its notes.

    Args:
        table: The table.
        best: How the best values are marked.
        paper: How the paper's values are marked.
    """
    signs = ["↑ higher is better, ↓ lower is better"]
    if any(column.info.percent for column in table.columns):
        signs.append("all but Sev and HD in percent" if _has_plain(table) else "in percent")
    if any(len(row.seeds) > 1 for row in table.rows):
        signs.append("mean (std over seeds)")
    if any(cell.best for row in table.rows for cell in row.cells):
        signs.append(f"{best} best value of the data set")
    if table.has_published:
        signs.append(f"{paper} as published, at the paper's scale")
    return ["; ".join(signs), *table.notes]


def _has_plain(table: Table) -> bool:
    return any(not column.info.percent for column in table.columns)


def _paper(cell: Cell, column: Column) -> str:
    if cell.published is None:
        return ""
    return with_spread(cell.published.value, cell.published.std, column.info)


def _grid(table: Table, mark: Callable[[str], str], escape: Callable[[str], str]) -> list[list[str]]:
    """The cells of all rows as text, with the run's name first."""
    grid = []
    for row in table.rows:
        line = [escape(row.name)]
        for column, cell in zip(table.columns, row.cells, strict=True):
            text = mark(cell.text) if cell.best else cell.text
            printed = _paper(cell, column)
            line.append(f"{text} [{printed}]" if printed else text)
        grid.append(line)
    return grid


def terminal(table: Table, width: int | None) -> str:
    """As text, in blocks of columns that fit a width."""
    header = ["run", *(heading(column) for column in table.columns)]
    grid = [header, *_grid(table, lambda text: f"{text}*", str)]
    widths = [max(len(line[i]) for line in grid) for i in range(len(header))]
    blocks = []
    for block in _blocks(widths, width):
        lines = []
        for line in grid:
            cells = [line[0].ljust(widths[0]), *(line[i].rjust(widths[i]) for i in block)]
            lines.append("  ".join(cells).rstrip())
        blocks.append("\n".join(lines))
    return "\n\n".join([*blocks, "\n".join(legend(table, best="*", paper="[]"))])


def _blocks(widths: Sequence[int], width: int | None) -> list[list[int]]:
    """Columns that fit beside the first one, at least one per block."""
    blocks: list[list[int]] = [[]]
    used = widths[0]
    for i in range(1, len(widths)):
        if width is not None and blocks[-1] and used + 2 + widths[i] > width:
            blocks.append([])
            used = widths[0]
        blocks[-1].append(i)
        used += 2 + widths[i]
    return blocks


def markdown(table: Table) -> str:
    """As a Markdown table."""
    header = ["run", *(_markdown_text(heading(column)) for column in table.columns)]
    grid = _grid(table, lambda text: f"**{text}**", _markdown_text)
    rules = [":--", *("--:" for _ in table.columns)]
    lines = [f"| {' | '.join(line)} |" for line in (header, *grid)]
    lines.insert(1, f"|{'|'.join(rules)}|")
    notes = [_markdown_text(note) for note in table.notes]
    return "\n".join(lines) + "\n\n" + "  \n".join([legend(table, best="bold", paper="[]")[0], *notes])


def _markdown_text(text: str) -> str:
    return " ".join(text.split()).translate(_MARKDOWN)


def comma_separated(table: Table) -> str:
    """As CSV in full precision."""
    printed = [any(row.cells[i].published for row in table.rows) for i in range(len(table.columns))]
    header = ["run", "data", "objective", "scale", "seeds"]
    for column, has in zip(table.columns, printed, strict=True):
        kinds = ("mean", "std", "paper mean", "paper std") if has else ("mean", "std")
        header += [f"{column.key} {kind}" for kind in kinds]
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(header)
    for row in table.rows:
        line: list[object] = [row.name, row.data, row.objective, row.scale, " ".join(map(str, row.seeds))]
        for cell, has in zip(row.cells, printed, strict=True):
            line += [cell.mean, cell.std]
            if has:
                line += [None, None] if cell.published is None else [cell.published.value, cell.published.std]
        writer.writerow(line)
    return stream.getvalue().rstrip("\n")


def _spelled(text: str) -> str:
    """Without arrows, as engines that read bytes stumble over them."""
    return text.replace("↑", "up:").replace("↓", "down:")


def latex(table: Table) -> str:
    """As a LaTeX tabular."""
    header = ["run"]
    for column in table.columns:
        arrow = "uparrow" if column.info.higher_is_better else "downarrow"
        header.append(f"{column.info.short.translate(_LATEX)} $\\{arrow}$")
    # In braces, as a bracket right after a row's end would be taken for its argument.
    grid = _grid(table, lambda text: f"\\textbf{{{text}}}", lambda text: f"{{{text.translate(_LATEX)}}}")
    lines = [
        f"% needs \\usepackage{{booktabs}}; {_spelled(legend(table, best='bold', paper='[]')[0])}",
        f"\\begin{{tabular}}{{@{{}}l{'r' * len(table.columns)}@{{}}}}",
        "\\toprule",
        f"{' & '.join(header)} \\\\",
        "\\midrule",
        *(f"{' & '.join(line)} \\\\" for line in grid),
        "\\bottomrule",
        "\\end{tabular}",
        *(f"% {' '.join(note.split())}" for note in table.notes),
    ]
    return "\n".join(lines)
