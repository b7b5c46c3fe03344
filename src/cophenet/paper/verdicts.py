"""What verdicts on claims are made of: numbers with their spread over seeds, and differences between them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cophenet.paper.variants import BASELINES, DISTANCES, label_of

__all__ = [
    "ALL_CPCC",
    "COMPARABLE",
    "OT",
    "OTHERS",
    "Document",
    "Gap",
    "Judged",
    "Number",
    "average",
    "by_data",
    "by_name",
    "gap",
    "number",
    "part_of",
    "percent",
    "rows_of",
    "settle",
    "settle_most",
]

Document = Mapping[str, Any]
ALL_CPCC = tuple(label_of(name) for name in DISTANCES)
OT = tuple(name for name in ALL_CPCC if name != "l2")
# The other hierarchical objectives.
OTHERS = tuple(label_of(name) for name in BASELINES)
# What counts as comparable: two points of a metric, two percent of a size.
COMPARABLE = 0.02
# A difference of fewer standard errors may be noise.
_ERRORS = 2
# In place of the standard error of the difference of two single runs: a point, or for other units a share of
# the larger number.
_POINT = 0.01
_SHARE = 0.05


@dataclass(frozen=True)
class Judged:
    """What was found of a claim.

    Attributes:
        measured: The numbers, in a few words.
        holds: Whether they agree with the claim; None if that cannot be told.
        close: Whether what decides it may be noise.
        data: The data sets it rests on; empty where the claim is about one data set or none.
        part: On how much of what the claim is about it rests, "" for all; or what is needed to tell.
    """

    measured: str
    holds: bool | None
    close: bool = False
    data: tuple[str, ...] = ()
    part: str = ""


@dataclass(frozen=True)
class Number:
    """A mean over seeds.

    Attributes:
        mean: The mean.
        std: Standard deviation over seeds; None for a single one.
        seeds: How many.
        unit: As in the cell of a table.
        values: Those of the seeds, where they are known.
    """

    mean: float
    std: float | None = None
    seeds: int = 1
    unit: str = "percent"
    values: tuple[float, ...] = ()

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
        noise: What it may be by chance: two standard errors of the difference.
        seeds: The seeds of both sides; empty where it is not of means over seeds.
    """

    size: float
    noise: float
    seeds: tuple[int, ...] = ()


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
    values = tuple(cell["values"])
    return Number(cell["mean"], cell["std"], max(len(values), 1), cell["unit"], values)


def average(numbers: Sequence[Number]) -> Number:
    """The mean of several numbers, for every seed, then over seeds.

    Where they have other numbers of seeds it is the mean of the means, with the spread of independent ones.

    Example:
        >>> pair = [Number(0.5, 0.1, 2, values=(0.4, 0.6)), Number(0.7, 0.1, 2, values=(0.8, 0.6))]
        >>> str(average(pair))
        '60.0 ± 0.0'
    """
    columns = [entry.values for entry in numbers]
    mean = statistics.fmean(entry.mean for entry in numbers)
    unit = numbers[0].unit
    if len({len(values) for values in columns}) == 1 and len(columns[0]) > 1:
        values = tuple(statistics.fmean(seed) for seed in zip(*columns, strict=True))
        return Number(mean, statistics.stdev(values), len(values), unit, values)
    known = [entry.std**2 / entry.seeds for entry in numbers if entry.std is not None]
    if not known:
        return Number(mean, None, 1, unit)
    # A single run is taken to spread as the others.
    spread = statistics.fmean(entry.std**2 for entry in numbers if entry.std is not None)
    total = sum(known) + spread * (len(numbers) - len(known))
    seeds = min(entry.seeds for entry in numbers)
    return Number(mean, math.sqrt(total * seeds) / len(numbers), seeds, unit)


def part_of(known: Iterable[str], expected: Sequence[str], what: str = "objectives") -> str:
    """How many of the names that a claim is about are there; "" if all are.

    Example:
        >>> part_of(["l2", "Flat"], ["l2", "EMD"]), part_of(["l2"], ["l2"])
        ('1 of 2 objectives', '')
    """
    there = set(known) & set(expected)
    return "" if len(there) == len(expected) else f"{len(there)} of {len(expected)} {what}"


def gap(above: Number, below: Number, margin: float = 0.0) -> Gap:
    """How far one number is above another, and how sure that is.

    The noise is two standard errors of the difference of two means. A side with one seed is given the
    standard deviation of the other; with one seed on both sides it is two points, or a tenth of a time.

    Example:
        >>> round(gap(Number(0.75, 0.03, 9), Number(0.5, 0.04, 16)).noise, 6)
        0.028284
        >>> gap(Number(0.75), Number(0.5))
        Gap(size=0.25, noise=0.02, seeds=(1, 1))
    """
    spreads = [side.std for side in (above, below) if side.std is not None]
    if spreads:
        sides = ((side.std if side.std is not None else spreads[0], side.seeds) for side in (above, below))
        error = math.sqrt(sum(std**2 / seeds for std, seeds in sides))
    elif above.unit == "percent":
        error = _POINT
    else:
        error = _SHARE * max(abs(above.mean), abs(below.mean))
    return Gap(above.mean - below.mean - margin, _ERRORS * error, (above.seeds, below.seeds))


def settle(measured: str, gaps: Sequence[Gap], data: Sequence[str] = (), part: str = "") -> Judged | None:
    """A claim that asks for all these differences to be above zero; None without any.

    It holds within noise if one of the differences may be noise, and fails within noise if all of those that
    are not above zero may be.

    Example:
        >>> settle("a, b", [Gap(0.2, 0.01, (3, 3)), Gap(-0.005, 0.01, (3, 1))])
        Judged(measured='a, b; some of one seed', holds=False, close=True, data=(), part='')
    """
    if not gaps:
        return None
    failing = [entry for entry in gaps if entry.size <= 0]
    doubtful = [abs(entry.size) < entry.noise for entry in failing or gaps]
    close = all(doubtful) if failing else any(doubtful)
    return Judged(measured + _of_one_seed(gaps), not failing, close, tuple(dict.fromkeys(data)), part)


def _of_one_seed(gaps: Sequence[Gap]) -> str:
    sides = [entry.seeds for entry in gaps if entry.seeds]
    if not any(min(seeds) == 1 for seeds in sides):
        return ""
    return "; one seed" if all(max(seeds) == 1 for seeds in sides) else "; some of one seed"


def settle_most(measured: str, gaps: Mapping[str, Gap], part: str = "") -> Judged | None:
    """A claim that asks for most of these differences, by data set, to be above zero; None without any.

    It is within noise if so many of those that decide may be noise that it could be otherwise.

    Example:
        >>> sure, doubtful = Gap(0.2, 0.01, (3, 3)), Gap(0.005, 0.01, (3, 3))
        >>> found = settle_most("x", {"a": sure, "b": sure, "c": doubtful})
        >>> found.holds, found.close, settle_most("x", {"a": sure, "b": doubtful}).close
        (True, False, True)
    """
    if not gaps:
        return None
    right = sum(entry.size > 0 for entry in gaps.values())
    holds = 2 * right > len(gaps)
    flips = sum(abs(e.size) < e.noise for e in gaps.values() if (e.size > 0) == holds)
    close = (2 * (right - flips) <= len(gaps)) if holds else (2 * (right + flips) > len(gaps))
    settled = settle(measured, list(gaps.values()), list(gaps), part)
    return settled and replace(settled, holds=holds, close=close)


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
