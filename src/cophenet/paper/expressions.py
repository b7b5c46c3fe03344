"""Claims and their criteria: expressions over observations, as data.

`value("fastft", "cpcc/own") > value("flat", "cpcc/own") + 0.1` is a comparison; `AllOf` and `AnyOf` combine
several.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, TypeAlias

from cophenet.paper.observations import observed_unit
from cophenet.paper.variants import label_of, setting_text
from cophenet.report.table import Unit

__all__ = [
    "AllOf",
    "AnyOf",
    "Claim",
    "Comparison",
    "Criterion",
    "Expression",
    "Term",
    "average_of",
    "best_of",
    "chain",
    "each_above",
    "near",
    "shown",
    "value",
]


@dataclass(frozen=True)
class Term:
    """A metric of an objective, or of several objectives combined.

    Attributes:
        metric: Its key, as in `Observation`.
        objectives: Names of objectives; those that are not trained on a data set are left out there.
        setting: The changed settings, as pairs of name and value.
        control: Whether it is that of the control with a shuffled tree.
        recipe: The data set; "" for the one that is judged.
        best: Whether to use the objective with the highest mean, instead of the mean over objectives.
    """

    metric: str
    objectives: tuple[str, ...]
    setting: tuple[tuple[str, Any], ...] = ()
    control: bool = False
    recipe: str = ""
    best: bool = False

    def __str__(self) -> str:
        """The text in verdicts."""
        names = [label_of(name) or "measured" for name in self.objectives]
        joined = f"{'best' if self.best else 'mean'} of {', '.join(names)}" if len(names) > 1 else names[0]
        more = (setting_text(dict(self.setting)), "shuffled tree" * self.control, self.recipe)
        return ", ".join(filter(None, (joined, *more)))


@dataclass(frozen=True)
class Expression:
    """A weighted sum of terms plus a constant.

    Example:
        >>> print(2 * value("emd", "cpcc/own") + 0.1 > value("l2", "cpcc/own"))
        2 x EMD + 10.0 above l2 (cpcc/own)
    """

    terms: tuple[tuple[float, Term], ...] = ()
    constant: float = 0.0

    def __add__(self, other: Expression | float) -> Expression:
        """The sum with another expression or a number."""
        more = _expression(other)
        return Expression((*self.terms, *more.terms), self.constant + more.constant)

    def __mul__(self, factor: float) -> Expression:
        """The expression times a number."""
        return Expression(tuple((factor * f, term) for f, term in self.terms), factor * self.constant)

    __rmul__ = __mul__

    def __sub__(self, other: Expression | float) -> Expression:
        """The difference from another expression or a number."""
        return self + _expression(other) * -1.0

    def __gt__(self, other: Expression | float) -> Comparison:
        """The comparison that requires this side to be above the other."""
        return Comparison(self, _expression(other))

    def __lt__(self, other: Expression | float) -> Comparison:
        """The comparison that requires this side to be below the other."""
        return Comparison(_expression(other), self)

    def text(self, unit: Unit) -> str:
        """The text in verdicts, with constants in the unit of the metric."""
        parts = [f"{'' if factor == 1 else f'{factor:g} x '}{term}" for factor, term in self.terms]
        if self.constant or not parts:
            parts.append(shown(self.constant, unit))
        return " + ".join(parts).replace("+ -", "- ")


def _expression(value: Expression | float) -> Expression:
    return value if isinstance(value, Expression) else Expression(constant=float(value))


def value(
    objective: str,
    metric: str,
    setting: Mapping[str, Any] | None = None,
    *,
    control: bool = False,
    recipe: str = "",
) -> Expression:
    """The expression of a metric of an objective."""
    return Expression(((1.0, Term(metric, (objective,), tuple((setting or {}).items()), control, recipe)),))


def average_of(objectives: Sequence[str], metric: str) -> Expression:
    """The expression of the mean of a metric over several objectives, for every seed."""
    return Expression(((1.0, Term(metric, tuple(objectives))),))


def best_of(objectives: Sequence[str], metric: str) -> Expression:
    """The expression of the metric of the objective with the highest mean over seeds, among several."""
    return Expression(((1.0, Term(metric, tuple(objectives), best=True)),))


@dataclass(frozen=True)
class Comparison:
    """The criterion that one expression is above another.

    Attributes:
        above: The side that must be larger.
        below: The other side.
        floor: Least half-width of the interval: smaller differences never decide, however often measured.
    """

    above: Expression
    below: Expression
    floor: float = 0.0

    def __str__(self) -> str:
        """The comparison in words, with the metrics."""
        metrics = dict.fromkeys(term.metric for _, term in (*self.above.terms, *self.below.terms))
        unit = observed_unit(next(iter(metrics), ""))
        return f"{self.above.text(unit)} above {self.below.text(unit)} ({', '.join(metrics)})"

    @property
    def terms(self) -> tuple[tuple[float, Term], ...]:
        """All terms of the difference."""
        return (self.above - self.below).terms

    def with_floor(self, floor: float) -> Comparison:
        """The same comparison with another floor."""
        return replace(self, floor=floor)


class _Several:
    def __init__(self, parts: Iterable[Criterion]) -> None:
        """Store the criteria."""
        self.parts = tuple(parts)


class AllOf(_Several):
    """The criterion that all of several criteria hold."""


class AnyOf(_Several):
    """The criterion that at least one of several criteria holds."""


Criterion: TypeAlias = Comparison | AllOf | AnyOf


def each_above(names: Iterable[str], other: str, metrics: Sequence[str], margin: float = 0.0) -> AllOf:
    """The criterion that each objective is above another one by a margin, in every metric."""
    return AllOf(value(name, m) > value(other, m) + margin for name in names for m in metrics)


def chain(names: Sequence[str], metric: str, setting: Mapping[str, Any] | None = None) -> AllOf:
    """The criterion that each objective is above the next one."""
    return AllOf(value(a, metric, setting) > value(b, metric, setting) for a, b in pairwise(names))


def near(expression: Expression, number: float, limit: float) -> AllOf:
    """The criterion that an expression differs from a number by less than a limit."""
    return AllOf([expression > number - limit, expression < number + limit])


@dataclass(frozen=True)
class Claim:
    """A claim of the paper.

    Attributes:
        text: What is claimed, in our words.
        where: Its place in the paper; "-" for claims beyond it.
        item: Name of the item whose observations decide.
        requires: The criterion that must hold on every data set of the item.
        data: The data sets that it is about, if there are several.
        most: Whether it is enough that the criterion holds on most of the data sets.
        across: Whether it compares data sets with each other, and so is judged once.
        untrained: Whether networks that have hardly learned can decide it, as for times.
        gpu: The part that a laptop cannot measure, if any; "all" for the whole claim.
        also_shown: Other criteria that are shown but decide nothing, by label.
    """

    text: str
    where: str
    item: str
    requires: Criterion
    data: tuple[str, ...] = ()
    most: bool = False
    across: bool = False
    untrained: bool = False
    gpu: str = ""
    also_shown: Mapping[str, Criterion] = field(default_factory=dict)


def shown(number: float, unit: Unit, sign: str = "") -> str:
    """Format a number in its unit; with `sign` "+", positive numbers have a sign too.

    Example:
        >>> shown(0.123, "percent"), shown(0.123, "seconds", "+")
        ('12.3', '+0.123')
    """
    return f"{100 * number:{sign}.1f}" if unit == "percent" else f"{number:{sign}.3g}"
