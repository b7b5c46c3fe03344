"""What verdicts on claims are made of: numbers with their spread over seeds, and differences between them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = [
    "ALL_CPCC",
    "OT",
    "Document",
    "Gap",
    "Judged",
    "Number",
    "by_data",
    "by_name",
    "gap",
    "number",
    "percent",
    "rows_of",
    "settle",
]

Document = Mapping[str, Any]
OT = ("FastFT", "EMD", "Sinkhorn", "SWD")
ALL_CPCC = ("l2", *OT)
# What two single runs may differ by without saying anything: a point, or for times a share of the larger one.
_POINT = 0.01
_TIME_SHARE = 0.05


@dataclass(frozen=True)
class Judged:
    """What was found of a claim.

    Attributes:
        measured: The numbers, in a few words.
        holds: Whether they agree with the claim.
        close: Whether what decides it is smaller than the noise.
        data: The data sets it rests on; empty where the claim is about one data set or none.
    """

    measured: str
    holds: bool
    close: bool = False
    data: tuple[str, ...] = ()


@dataclass(frozen=True)
class Number:
    """A mean over seeds.

    Attributes:
        mean: The mean.
        std: Standard deviation over seeds; None for a single one.
        seeds: How many.
        unit: As in the cell of a table.
    """

    mean: float
    std: float | None = None
    seeds: int = 1
    unit: str = "percent"

    def __str__(self) -> str:
        """As it is shown: mean ± standard deviation."""
        if self.unit == "percent":
            spread = "" if self.std is None else f" ± {percent(self.std)}"
            return percent(self.mean) + spread
        return f"{self.mean:.3g}" + ("" if self.std is None else f" ± {self.std:.2g}")


@dataclass(frozen=True)
class Gap:
    """How far a number is above what it has to exceed.

    Attributes:
        size: The difference of the means, less the margin that is asked for.
        noise: The standard error of the difference.
        seeds: The seeds of both sides.
    """

    size: float
    noise: float
    seeds: tuple[int, int]


def percent(value: float) -> str:
    """A fraction as percent."""
    return f"{100 * value:.1f}"


def number(cell: Any) -> Number | None:
    """The number in a cell of a table; None if nothing was measured.

    Example:
        >>> str(number({"mean": 0.5, "std": 0.01, "values": [0.49, 0.51], "unit": "percent"}))
        '50.0 ± 1.0'
    """
    if not isinstance(cell, Mapping) or cell["mean"] is None:
        return None
    return Number(cell["mean"], cell["std"], max(len(cell["values"]), 1), cell["unit"])


def gap(above: Number, below: Number, margin: float = 0.0) -> Gap:
    """How far one number is above another, and how sure that is.

    The noise is the standard error of the difference of two means. A side with one seed is given the standard
    deviation of the other; with one seed on both sides it is a point, or a twentieth of a time.

    Example:
        >>> gap(Number(0.75, 0.02, 4), Number(0.5, 0.02, 4)).noise < 0.02
        True
        >>> gap(Number(0.505), Number(0.5))
        Gap(size=0.0050000000000000044, noise=0.01, seeds=(1, 1))
    """
    spreads = [side.std for side in (above, below) if side.std is not None]
    if spreads:
        sides = ((side.std if side.std is not None else spreads[0], side.seeds) for side in (above, below))
        noise = math.sqrt(sum(std**2 / seeds for std, seeds in sides))
    elif above.unit == "percent":
        noise = _POINT
    else:
        noise = _TIME_SHARE * max(abs(above.mean), abs(below.mean))
    return Gap(above.mean - below.mean - margin, noise, (above.seeds, below.seeds))


def settle(measured: str, gaps: Sequence[Gap], data: Sequence[str] = ()) -> Judged | None:
    """A claim that asks for all these differences to be above zero; None without any.

    It holds within noise if one of the differences may be noise, and fails within noise if all of those that
    are not above zero may be.

    Example:
        >>> settle("a, b", [Gap(0.2, 0.01, (3, 3)), Gap(-0.005, 0.01, (3, 1))])
        Judged(measured='a, b; some of one seed', holds=False, close=True, data=())
    """
    if not gaps:
        return None
    failing = [entry for entry in gaps if entry.size <= 0]
    doubtful = [abs(entry.size) < entry.noise for entry in failing or gaps]
    single = [min(entry.seeds) == 1 for entry in gaps]
    note = "" if not any(single) else "; some of one seed"
    if all(max(entry.seeds) == 1 for entry in gaps):
        note = "; one seed"
    return Judged(
        measured + note, not failing, all(doubtful) if failing else any(doubtful), tuple(dict.fromkeys(data))
    )


def rows_of(document: Document, table: int = 0) -> list[dict[str, Any]]:
    """Rows of a table by column name."""
    found = document["tables"][table]
    return [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]


def by_name(document: Document, column: str) -> dict[str, Number]:
    """Objective -> the number in a column of the first table, where there is one."""
    found = {row["objective"]: number(row[column]) for row in rows_of(document)}
    return {name: value for name, value in found.items() if value is not None}


def by_data(rows: Sequence[Mapping[str, Any]], column: str, inner: str = "objective") -> dict[str, Any]:
    """Data set, or another outer column -> objective, or another inner column -> number.

    Example:
        >>> cell = {"mean": 0.5, "std": None, "values": [0.5], "unit": "percent"}
        >>> by_data([{"data": "digits", "objective": "l2", "CPCC": cell}], "CPCC")["digits"]["l2"].mean
        0.5
    """
    outer = "data" if inner == "objective" else "objective"
    found: dict[str, dict[str, Number]] = {}
    for row in rows:
        value = number(row[column])
        if value is not None:
            found.setdefault(row[outer], {})[row[inner]] = value
    return found
