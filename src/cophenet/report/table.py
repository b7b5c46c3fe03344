"""Tables of numbers, as printed by commands and shown in documents and reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from cophenet.evaluation.intervals import Interval
from cophenet.evaluation.keys import metric_of
from cophenet.metrics.cards import metric_cards
from cophenet.report import formats
from cophenet.report.published_numbers import Published

__all__ = [
    "Cell",
    "Column",
    "Layout",
    "Row",
    "Table",
    "Unit",
    "number",
    "signed",
    "signed_ends",
    "unit_of",
    "with_spread",
]

Unit = Literal["percent", "fraction", "level", "seconds", "count", "number"]
Layout = Literal["comparison", "document"]

# Percent is without the sign, which is in a heading or legend.
_FORMATS: dict[Unit, str] = {
    "percent": ".2%",
    "fraction": ".4f",
    "level": ".3f",
    "seconds": ".3g",
    "count": ",.0f",
    "number": ".2f",
}


def number(value: float, unit: Unit) -> str:
    """Format a number for display.

    Args:
        value: The number; a fraction for percent.
        unit: "percent" (as in the paper), "fraction", "level" (a height or distance in the tree, or any other
            metric that is not percent), "seconds", "count" or "number".

    Example:
        >>> number(0.98765, "percent"), number(1.25, "level"), number(12345, "count")
        ('98.77', '1.250', '12,345')
    """
    return format(value, _FORMATS[unit]).rstrip("%")


def signed(value: float, digits: int) -> str:
    """Format a difference with its sign; a value that rounds to zero has none.

    Example:
        >>> signed(1.25, 1), signed(-0.04, 1), signed(-0.04, 2)
        ('+1.2', '0.0', '-0.04')
    """
    text = f"{value:+.{digits}f}"
    return text if float(text) else text[1:]


def with_spread(mean: float | None, std: float | None, unit: Unit) -> str:
    """Format as "mean (std)", as in the paper's tables; without `std` the mean alone, without `mean` "-".

    Example:
        >>> with_spread(0.9385, 0.0005, "percent"), with_spread(2.5, None, "seconds")
        ('93.85 (0.05)', '2.5')
    """
    if mean is None:
        return "-"
    return number(mean, unit) if std is None else f"{number(mean, unit)} ({number(std, unit)})"


def signed_ends(gap: Interval, unit: Unit) -> list[str]:
    """Format a difference and the ends of its interval with their signs.

    Example:
        >>> signed_ends(Interval(0.012, -0.004, 0.028), "percent"), signed_ends(Interval(1, 1, 1), "level")
        (['+1.2', '-0.4', '+2.8'], ['+1.00', '+1.00', '+1.00'])
    """
    scale, digits = (100, 1) if unit == "percent" else (1, 2)
    return [signed(scale * end, digits) for end in gap]


def unit_of(key: str) -> Unit:
    """The unit of a key of `results.json`; other keys are of fractions, shown as percent.

    Example:
        >>> unit_of("source/accuracy/fine"), unit_of("source/severity"), unit_of("cpcc/own")
        ('percent', 'level', 'percent')
    """
    card = metric_cards().get(metric_of(key))
    return "percent" if card is None or card.percent else "level"


@dataclass(frozen=True)
class Cell:
    """A number with its standard deviation and the published number, or a text.

    Attributes:
        mean: Mean over seeds; None where it is undefined or was not measured.
        std: Standard deviation over seeds, None for a single one.
        unit: Unit of the number; None for a text.
        published: The paper's number in the same setup.
        best: Whether it is better than all comparable cells of the column by more than noise.
        label: The text, or an integer shown as text; None is shown as "-".
        against: The difference to the run without a tree, with its interval; None if it is unknown.

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
        """Mean and standard deviation, or the label, as text."""
        if self.unit is None:
            return "-" if self.label is None else str(self.label)
        return with_spread(self.mean, self.std, self.unit)

    @property
    def published_text(self) -> str:
        """The published number as text; empty without one."""
        if self.published is None or self.unit is None:
            return ""
        return with_spread(self.published.value, self.published.std, self.unit)


@dataclass(frozen=True)
class Column:
    """A column.

    Attributes:
        name: Its heading; for a metric the abbreviation.
        key: Its key in `results.json`, used as the heading in CSV; if empty, the name is used.
        title: A description in words.
        higher_is_better: Whether higher values are better; None if neither higher nor lower is.
        tree: Label of the tree whose level it is about, if runs have several trees; else empty.
    """

    name: str
    key: str = ""
    title: str = ""
    higher_is_better: bool | None = None
    tree: str = ""

    @property
    def heading(self) -> str:
        """The name, with an arrow up if higher is better or down if lower is better."""
        arrow = {None: "", True: " ↑", False: " ↓"}[self.higher_is_better]
        return self.name + f" ({self.tree})" * bool(self.tree) + arrow


@dataclass(frozen=True)
class Row:
    """A row; if it is about a run, with a description of the run.

    Attributes:
        cells: One for each column.
        name: Name of the run.
        data: Label of its data set, with the folder if others have the same name.
        objective: Name of its objective.
        scale: Scale of its recipe: that of the paper or one for a laptop.
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
    """A table of cells, with one method for each output format.

    Attributes:
        columns: The columns.
        rows: The rows.
        notes: Remarks below it.
        title: What it shows.
        layout: "comparison" of runs: their names come first, published numbers are in brackets in the cell
            and a legend explains the signs. "document": published numbers are in a separate column, and their
            known errors in numbered remarks.
        units: The part of the legend about units.

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
        """Make a table for a document or a command from cells and plain texts.

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
        """Format as plain text, in blocks of columns that fit a width; None for a single block."""
        return formats.terminal(self, width)

    def to_markdown(self, *, markup: bool = False) -> str:
        r"""Format as a Markdown table, best values bold.

        Args:
            markup: Whether the texts of cells are Markdown, which stays as it is.

        Example:
            >>> print(Table.from_rows(["call"], [["`f(a | b)`"]]).to_markdown(markup=True))
            | call |
            |:--|
            | `f(a \| b)` |
        """
        return formats.markdown(self, markup=markup)

    def to_csv(self) -> str:
        """Format as CSV, in full precision, with separate columns for deviations and published numbers."""
        return formats.comma_separated(self)

    def to_columns(self) -> dict[str, list[object]]:
        """The columns of `to_csv` as lists, which `pandas.DataFrame` and `polars.DataFrame` accept.

        Example:
            >>> table = Table.from_rows(["distance", "cost"], [["l2", "low"], ["emd", "high"]])
            >>> table.to_columns()
            {'distance': ['l2', 'emd'], 'cost': ['low', 'high']}
        """
        return formats.named_columns(self)

    def to_json(self) -> str:
        """Format as JSON, in full precision, with the difference to the run without a tree."""
        return formats.json_text(self)

    def to_latex(self) -> str:
        """Format as a LaTeX tabular that needs the package booktabs, best values bold."""
        return formats.latex(self)

    def to_html(self, kind: str = "") -> str:
        """Format as an HTML table element without legend and notes, best values marked by a star.

        Args:
            kind: CSS class of the element; empty for none.
        """
        return formats.html(self, kind)
