"""The table of numbers that every command prints and every document and page shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from cophenet.evaluation.intervals import Interval
from cophenet.report import formats
from cophenet.report.published_numbers import Published

__all__ = ["Cell", "Column", "Layout", "Row", "Table", "Unit", "number", "signed", "with_spread"]

Unit = Literal["percent", "level", "seconds", "count", "number"]
Layout = Literal["comparison", "document"]

# Percent of fractions as in the paper; the sign is left out, as a heading or a legend has it.
_FORMATS: dict[Unit, str] = {
    "percent": ".2%",
    "level": ".3f",
    "seconds": ".3g",
    "count": ",.0f",
    "number": ".2f",
}


def number(value: float, unit: Unit) -> str:
    """A number as it is shown.

    Args:
        value: The number; a fraction for percent.
        unit: "percent", "level" (a height or distance in the tree), "seconds", "count" or "number".

    Example:
        >>> number(0.98765, "percent"), number(1.25, "level"), number(12345, "count")
        ('98.77', '1.250', '12,345')
    """
    return format(value, _FORMATS[unit]).rstrip("%")


def signed(value: float, digits: int) -> str:
    """A difference with its sign; what rounds to zero has none.

    Example:
        >>> signed(1.25, 1), signed(-0.04, 1), signed(-0.04, 2)
        ('+1.2', '0.0', '-0.04')
    """
    text = f"{value:+.{digits}f}"
    return text if float(text) else text[1:]


def with_spread(mean: float | None, std: float | None, unit: Unit) -> str:
    """Mean (std) as the paper's tables have it; the mean alone for a single seed, "-" without one.

    Example:
        >>> with_spread(0.9385, 0.0005, "percent"), with_spread(2.5, None, "seconds")
        ('93.85 (0.05)', '2.5')
    """
    if mean is None:
        return "-"
    return number(mean, unit) if std is None else f"{number(mean, unit)} ({number(std, unit)})"


@dataclass(frozen=True)
class Cell:
    """A number with its spread and the published one, or a text.

    Attributes:
        mean: Mean over seeds; None where it is undefined or was not measured.
        std: Standard deviation over seeds, None for a single one.
        unit: What the number counts; None for a text.
        published: The paper's number in the same setup.
        best: Whether no comparable cell of the column shows a better one.
        label: The text, or an integer that is one; None is shown as "-".
        against: The difference to the run without a tree, with its interval; None where it is not known.

    Example:
        >>> Cell(0.75, None, "percent").text, Cell(label="flat").text, Cell().text
        ('75.00', 'flat', '-')
    """

    mean: float | None = None
    std: float | None = None
    unit: Unit | None = None
    published: Published | None = None
    best: bool = False
    label: str | int | None = None
    against: Interval | None = None

    @property
    def text(self) -> str:
        """Mean and deviation, or the text, as they are shown."""
        if self.unit is None:
            return "-" if self.label is None else str(self.label)
        return with_spread(self.mean, self.std, self.unit)

    @property
    def published_text(self) -> str:
        """The published number as it is shown; empty without one."""
        if self.published is None or self.unit is None:
            return ""
        return with_spread(self.published.value, self.published.std, self.unit)


@dataclass(frozen=True)
class Column:
    """A column.

    Attributes:
        name: Its heading; for a metric the abbreviation.
        key: Its key in `results.json`, which CSV has; the name where it is empty.
        title: A description in words.
        higher_is_better: Which way is better, None where neither is.
        tree: The tree whose level it is about, where there are several; empty for any.
    """

    name: str
    key: str = ""
    title: str = ""
    higher_is_better: bool | None = None
    tree: str = ""

    @property
    def heading(self) -> str:
        """The name, with an arrow to where it is better."""
        arrow = {None: "", True: " ↑", False: " ↓"}[self.higher_is_better]
        return self.name + f" ({self.tree})" * bool(self.tree) + arrow


@dataclass(frozen=True)
class Row:
    """A row; one about a run says which.

    Attributes:
        cells: One for each column.
        name: What the run is called.
        data: Name of its data set, with the folder where others have the same name.
        objective: Name of its objective.
        scale: Whether it has the paper's size or one for a laptop.
        seeds: Its seeds.
    """

    cells: tuple[Cell, ...]
    name: str = ""
    data: str = ""
    objective: str = ""
    scale: str = ""
    seeds: tuple[int, ...] = ()


@dataclass(frozen=True)
class Table:
    """Cells by rows and columns, with one writer for each kind of output.

    Attributes:
        columns: The columns.
        rows: The rows.
        notes: Remarks below it.
        title: What it shows.
        layout: "comparison" of runs: their names come first, published numbers are in brackets in the cell
            and a legend explains the signs. "document": published numbers are in a column of their own,
            and their known errors in numbered remarks.
        units: Sentence of the legend about units.

    Example:
        >>> cell = Cell(0.75, None, "percent", Published(0.7, None, "tab:one", "a misprint"))
        >>> print(Table.from_rows(["objective", "Acc"], [["flat", cell]], title="Accuracy").to_terminal())
        Accuracy
        <BLANKLINE>
        objective    Acc      paper
        flat       75.00  70.00 [1]
        <BLANKLINE>
        [1] a misprint
    """

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    title: str = ""
    layout: Layout = "document"
    units: str = ""

    @classmethod
    def from_rows(
        cls,
        columns: Sequence[str | Column],
        rows: Iterable[Sequence[Cell | str | int | None]],
        *,
        title: str = "",
        notes: Sequence[str] = (),
    ) -> Table:
        """The table of a document or a command, from cells and plain texts.

        Args:
            columns: Headings, or columns.
            rows: A cell for each column.
            title: What it shows.
            notes: Remarks below it.

        Example:
            >>> print(Table.from_rows(["data", "classes"], [["digits", 10], ["cifar100", 100]]).to_terminal())
            data      classes
            digits         10
            cifar100      100
        """
        heads = tuple(column if isinstance(column, Column) else Column(column) for column in columns)
        made = (tuple(cell if isinstance(cell, Cell) else Cell(label=cell) for cell in row) for row in rows)
        return cls(heads, tuple(Row(cells) for cells in made), tuple(notes), title)

    @property
    def has_published(self) -> bool:
        """Whether the paper has any of these numbers."""
        return any(cell.published for row in self.rows for cell in row.cells)

    def select(self, places: Sequence[int]) -> Table:
        """The same rows with some of the columns."""
        columns = tuple(self.columns[place] for place in places)
        rows = (replace(row, cells=tuple(row.cells[place] for place in places)) for row in self.rows)
        return replace(self, columns=columns, rows=tuple(rows))

    def to_terminal(self, width: int | None = None) -> str:
        """As text, in blocks of columns that fit a width; None for a single block."""
        return formats.terminal(self, width)

    def to_markdown(self) -> str:
        """As a Markdown table, best values bold."""
        return formats.markdown(self)

    def to_csv(self) -> str:
        """As CSV, in full precision, with columns of their own for deviations and published numbers."""
        return formats.comma_separated(self)

    def to_columns(self) -> dict[str, list[object]]:
        """The columns of `to_csv` as lists, which `pandas.DataFrame` and `polars.DataFrame` take.

        Example:
            >>> table = Table.from_rows(["distance", "cost"], [["l2", "low"], ["emd", "high"]])
            >>> table.to_columns()
            {'distance': ['l2', 'emd'], 'cost': ['low', 'high']}
        """
        return formats.named_columns(self)

    def to_json(self) -> str:
        """As JSON, in full precision, with the difference to the run without a tree."""
        return formats.json_text(self)

    def to_latex(self) -> str:
        """As a LaTeX tabular that needs the package booktabs, best values bold."""
        return formats.latex(self)

    def to_html(self, kind: str = "") -> str:
        """As an HTML table element without legend and notes, best values marked by a star.

        Args:
            kind: Its class, for a style sheet.
        """
        return formats.html(self, kind)
