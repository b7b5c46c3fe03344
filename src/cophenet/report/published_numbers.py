"""The numbers of the paper as data, for comparison with measured ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

__all__ = ["Published", "PublishedRow", "PublishedTable", "published", "published_tables"]

_FILE = Path(__file__).with_suffix(".json")


@dataclass(frozen=True)
class Published:
    """A cell of a table in the paper.

    Attributes:
        value: The mean; where the paper prints percent, a fraction, as in `results.json`.
        std: Standard deviation over three seeds, None where the paper gives none.
        source: Label of the table in the paper.
        note: A known error of the cell; None if there is none.
    """

    value: float
    std: float | None
    source: str
    note: str | None = None


@dataclass(frozen=True)
class PublishedRow:
    """A row of a table in the paper.

    Attributes:
        data: Name of the data set; "breeds" is the mean of its four settings.
        objective: Name of the objective; None if the row is about the data alone.
        setting: What differs from the main setup, such as `{"flow_weights": "inverse"}`.
        values: Cells by metric key.
    """

    data: str
    objective: str | None
    setting: Mapping[str, str | int]
    values: Mapping[str, Published]


@dataclass(frozen=True)
class PublishedTable:
    """A table of the paper.

    Attributes:
        label: Its label in the paper.
        title: What it shows.
        unit: "percent" as printed (values here are fractions), "seconds" or "count".
        rows: Its rows.
    """

    label: str
    title: str
    unit: str
    rows: tuple[PublishedRow, ...]


@cache
def published_tables() -> Mapping[str, PublishedTable]:
    """All numeric tables of the paper by label, those with standard deviations first.

    Example:
        >>> tables = published_tables()
        >>> tables["tab:ot-wallclock"].rows[2].values["seconds_per_epoch"].value
        85.21
    """
    document = json.loads(_FILE.read_text(encoding="utf-8"))
    tables = {}
    for table in document["tables"]:
        rows = tuple(_row(row, table) for row in table["rows"])
        tables[table["label"]] = PublishedTable(table["label"], table["title"], table["unit"], rows)
    return MappingProxyType(tables)


def published(data: str, objective: str, key: str) -> Published | None:
    """The paper's number for a metric in its main setup.

    Args:
        data: Name of a data set.
        objective: Name of an objective.
        key: A key of `results.json`.

    Returns:
        The cell of the most detailed table, None if the paper has none.

    Example:
        >>> cell = published("cifar100", "fastft", "source/cpcc/fastft")
        >>> cell.value, cell.std, cell.source
        (0.9385, 0.0005, 'tab:testcpcc')
        >>> published("digits", "fastft", "source/cpcc/fastft") is None
        True
    """
    return _main_cells().get((data, objective, key))


@cache
def _main_cells() -> Mapping[tuple[str, str | None, str], Published]:
    cells: dict[tuple[str, str | None, str], Published] = {}
    for table in published_tables().values():
        for row in table.rows:
            if not row.setting:
                for key, cell in row.values.items():
                    cells.setdefault((row.data, row.objective, key), cell)
    return MappingProxyType(cells)


def _row(row: Mapping[str, Any], table: Mapping[str, Any]) -> PublishedRow:
    # Rounded, so that 93.85 percent becomes exactly 0.9385.
    scale = 0.01 if table["unit"] == "percent" else 1.0
    values = {}
    for key, (mean, std) in row["values"].items():
        spread = None if std is None else round(std * scale, 6)
        values[key] = Published(round(mean * scale, 6), spread, table["label"], _note(row, key, table))
    return PublishedRow(
        row["data"], row["objective"], MappingProxyType(row["setting"]), MappingProxyType(values)
    )


def _note(row: Mapping[str, Any], key: str, table: Mapping[str, Any]) -> str | None:
    for note in table["notes"]:
        applies = any(all(row[name] == value for name, value in rows.items()) for rows in note["rows"])
        if applies and key in note["keys"]:
            return str(note["text"])
    return None
