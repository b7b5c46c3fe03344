"""A claim, and what it asks for: expressions over observations, as data.

`value("fastft", "cpcc/own") > value("flat", "cpcc/own") + 0.1` is a comparison; `AllOf` and `AnyOf` put
several together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, TypeAlias

from cophenet.paper.observations import unit_of
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
    """A metric of an objective, or of several taken together.

    Attributes:
        metric: As in `Observation`.
        objectives: Names of objectives; those that are not trained on a data set are left out there.
        setting: What is changed, as pairs of name and value.
        control: Whether of the shuffled tree.
        recipe: The data set; "" for the one that is judged.
        best: Whether of several objectives that with the highest mean counts, instead of their mean.
    """

    metric: str
    objectives: tuple[str, ...]
    setting: tuple[tuple[str, Any], ...] = ()
    control: bool = False
    recipe: str = ""
    best: bool = False

    def __str__(self) -> str:
        """As it is called in a verdict."""
        names = [label_of(name) or "measured" for name in self.objectives]
        joined = f"{'best' if self.best else 'mean'} of {', '.join(names)}" if len(names) > 1 else names[0]
        more = (setting_text(dict(self.setting)), "shuffled tree" * self.control, self.recipe)
        return ", ".join(filter(None, (joined, *more)))


@dataclass(frozen=True)
class Expression:
    """A sum of terms, each times a factor, and of a constant.

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
        """The comparison that asks for this side to be above the other."""
        return Comparison(self, _expression(other))

    def __lt__(self, other: Expression | float) -> Comparison:
        """The comparison that asks for this side to be below the other."""
        return Comparison(_expression(other), self)

    def text(self, unit: Unit) -> str:
        """As it is called in a verdict, a constant in the unit of the metric."""
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
    """A metric of an objective, to be compared."""
    return Expression(((1.0, Term(metric, (objective,), tuple((setting or {}).items()), control, recipe)),))


def average_of(objectives: Sequence[str], metric: str) -> Expression:
    """The mean of a metric over several objectives, for every seed."""
    return Expression(((1.0, Term(metric, tuple(objectives))),))


def best_of(objectives: Sequence[str], metric: str) -> Expression:
    """The metric of that one of several objectives which has the highest mean over seeds."""
    return Expression(((1.0, Term(metric, tuple(objectives), best=True)),))


@dataclass(frozen=True)
class Comparison:
    """That one expression is above another.

    Attributes:
        above: The side that has to be the larger one.
        below: The other side.
        floor: A difference that may be nothing however often it is seen; half of the interval is at least it.
    """

    above: Expression
    below: Expression
    floor: float = 0.0

    def __str__(self) -> str:
        """In words, with the metrics."""
        metrics = dict.fromkeys(term.metric for _, term in (*self.above.terms, *self.below.terms))
        unit = unit_of(next(iter(metrics), ""))
        return f"{self.above.text(unit)} above {self.below.text(unit)} ({', '.join(metrics)})"

    @property
    def terms(self) -> tuple[tuple[float, Term], ...]:
        """All terms of the difference."""
        return (self.above - self.below).terms

    def with_floor(self, floor: float) -> Comparison:
        """The same, with another floor."""
        return replace(self, floor=floor)


class _Several:
    def __init__(self, parts: Iterable[Criterion]) -> None:
        """From any iterable."""
        self.parts = tuple(parts)


class AllOf(_Several):
    """That all of several criteria hold."""


class AnyOf(_Several):
    """That at least one of several criteria holds."""


Criterion: TypeAlias = Comparison | AllOf | AnyOf


def each_above(names: Iterable[str], other: str, metrics: Sequence[str], margin: float = 0.0) -> AllOf:
    """Each objective above another one by a margin, in every metric."""
    return AllOf(value(name, m) > value(other, m) + margin for name in names for m in metrics)


def chain(names: Sequence[str], metric: str, setting: Mapping[str, Any] | None = None) -> AllOf:
    """Each objective above the next one."""
    return AllOf(value(a, metric, setting) > value(b, metric, setting) for a, b in pairwise(names))


def near(expression: Expression, number: float, limit: float) -> AllOf:
    """An expression closer to a number than a limit."""
    return AllOf([expression > number - limit, expression < number + limit])


@dataclass(frozen=True)
class Claim:
    """A claim of the paper.

    Attributes:
        text: What is claimed, in our words.
        where: Its place in the paper; "-" for what is beyond it.
        item: Name of the item whose observations decide.
        requires: What must hold on every data set of the item.
        data: The data sets that it is about, if about several.
        most: Whether most of the data sets are enough.
        across: Whether it compares data sets with each other, and so is judged once.
        untrained: Whether it can be told by networks that have hardly learned, as times can.
        gpu: What of it a laptop cannot measure, if anything; "all" for the whole.
        also_shown: What is shown too and decides nothing, by what it is.
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
    """A number in its unit; with the sign "+" also above zero.

    Example:
        >>> shown(0.123, "percent"), shown(0.123, "seconds", "+")
        ('12.3', '+0.123')
    """
    return f"{100 * number:{sign}.1f}" if unit == "percent" else f"{number:{sign}.3g}"
