"""Verdicts on claims: one rule decides whether a criterion over observations holds.

A claim requires comparisons, such as `value("fastft", "cpcc/own") > value("flat", "cpcc/own") + 0.1`. Each is
judged on every data set by the differences of its two sides, paired over seeds. With d the mean and s the
standard deviation of n differences, the 95 % interval of Student's t is

    d ± t(0.975, n - 1) s / sqrt(n)

If it is above zero, the comparison holds; if it is below zero, the comparison does not hold; otherwise it
cannot be told. It cannot be told either with fewer than three seeds, from networks below half of the paper's
accuracy or trained for very few steps, from times of a busy machine, or from numbers that are marked as
doubtful, for example because of too few samples. A backbone pretrained on ImageNet has learned the classes of
BREEDS, and decides nothing about them.

Scales, and frozen and fine-tuned backbones (`Condition.regime`), are judged separately.

`report.noise` has the same interval for a user's runs, with the noise of their test samples as its least
width. Observations have no test samples: three seeds are needed, not two. Counts decide without a width.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from cophenet.evaluation.intervals import mean_interval
from cophenet.paper.expressions import AnyOf, Comparison, Criterion, Expression, Term, shown
from cophenet.paper.observations import STEADY, Condition, Observations, observed_unit, with_breeds
from cophenet.paper.plan import recipe_label
from cophenet.paper.published import printed
from cophenet.paper.variants import BREEDS

if TYPE_CHECKING:
    from cophenet.paper.claims import Claim

__all__ = ["SEEDS_NEEDED", "Judgement", "RegimeVerdict", "Verdict", "judge", "judge_claim", "most"]

Verdict = Literal["holds", "does not hold", "cannot be told"]
# The least number of seeds that may decide.
SEEDS_NEEDED = 3
_ENOUGH = 0.5
_STEPS = 100
_ACCURACIES = ("source/accuracy/fine", "full/accuracy/fine")


@dataclass(frozen=True)
class Judgement:
    """A verdict with its reasons.

    Attributes:
        verdict: One of three.
        reasons: Why it cannot be told; empty otherwise.
        texts: The comparisons behind it with their numbers; deciding ones come first.
        counts: Number of comparisons by verdict.
    """

    verdict: Verdict
    reasons: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    counts: Mapping[Verdict, int] = field(default_factory=dict)


def judge(
    criterion: Criterion, observations: Observations, recipe: str, *, untrained: bool = False
) -> Judgement | None:
    """Judge a criterion on a data set.

    Args:
        criterion: The criterion of a claim.
        observations: The observations.
        recipe: The data set, by its recipe; "" for studies without one.
        untrained: Whether networks that have hardly learned can decide it, as for times.

    Returns:
        The judgement; None if the criterion does not apply, as none of it is planned on the data set.

    Example:
        >>> from cophenet.paper.expressions import value
        >>> from cophenet.paper.observations import Observation
        >>> flat, emd = (Condition("digits", "digits", name) for name in ("flat", "emd"))
        >>> numbers = [(flat, s, "cpcc/l2", 0.2 + s / 50) for s in range(3)]
        >>> numbers += [(emd, s, "cpcc/l2", 0.8 - s / 50) for s in range(3)]
        >>> table = Observations((flat, emd), tuple(Observation(*row) for row in numbers))
        >>> judge(value("emd", "cpcc/l2") > value("flat", "cpcc/l2") + 0.1, table, "digits").verdict
        'holds'
    """
    if isinstance(criterion, Comparison):
        return _compare(criterion, observations, recipe, untrained)
    parts = [judge(part, observations, recipe, untrained=untrained) for part in criterion.parts]
    known = [part for part in parts if part is not None]
    return _combine(known, max if isinstance(criterion, AnyOf) else min) if known else None


_ORDER: tuple[Verdict, ...] = ("does not hold", "cannot be told", "holds")


def _combine(parts: Sequence[Judgement], choose: Callable[[Iterable[int]], int] = min) -> Judgement:
    """Combine several judgements into one: by default, that all hold.

    Example:
        >>> _combine([Judgement("holds"), Judgement("cannot be told", ("1 seed",))]).verdict
        'cannot be told'
    """
    verdict = _ORDER[choose(_ORDER.index(part.verdict) for part in parts)]
    deciding = [part for part in parts if part.verdict == verdict]
    others = [part for part in parts if part.verdict != verdict]
    reasons = dict.fromkeys(reason for part in deciding for reason in part.reasons)
    counts = {v: sum(part.counts.get(v, 0) for part in parts) for v in _ORDER}
    texts = tuple(text for part in (*deciding, *others) for text in part.texts)
    return Judgement(verdict, tuple(reasons) if verdict == "cannot be told" else (), texts, counts)


def most(parts: Sequence[Judgement]) -> Judgement:
    """Combine several judgements into one: that more than half hold.

    Example:
        >>> held, lost = Judgement("holds"), Judgement("does not hold")
        >>> most([held, held, lost]).verdict, most([held, lost]).verdict
        ('holds', 'does not hold')
    """
    verdicts = [part.verdict for part in parts]
    held, lost = 2 * verdicts.count("holds") > len(parts), 2 * verdicts.count("does not hold") >= len(parts)
    verdict: Verdict = "holds" if held else "does not hold" if lost else "cannot be told"
    reasons = dict.fromkeys(reason for part in parts for reason in part.reasons if not (held or lost))
    return replace(_combine(parts), verdict=verdict, reasons=tuple(reasons))


@dataclass(frozen=True)
class RegimeVerdict:
    """The verdict on a claim in one regime.

    Attributes:
        regime: Name of the regime, see `Condition.regime`; "" for studies without runs.
        scale: Size of the experiments.
        judgement: The verdict with its reasons.
        data: The data sets behind it.
        pretrained: Whether training started from ImageNet weights.
    """

    regime: str
    scale: str
    judgement: Judgement
    data: tuple[str, ...]
    pretrained: bool


def judge_claim(claim: Claim, observations: Observations) -> list[RegimeVerdict]:
    """Judge a claim on every measured data set, separately in each regime.

    Args:
        claim: The claim.
        observations: The observations.

    Returns:
        A verdict for each regime; empty if nothing that it is about was measured.
    """
    verdicts = []
    for regime in observations.regimes:
        table = observations.at([regime])
        if parts := _judge_data(claim, table):
            together = (most if claim.most else _combine)(list(parts.values()))
            data = tuple(recipe_label(recipe) for recipe in parts if recipe)
            scale, pretrained = table.conditions[0].scale, bool(table.conditions[0].pretrained)
            verdicts.append(RegimeVerdict(regime, scale, together, data, pretrained))
    return verdicts


def _judge_data(claim: Claim, observations: Observations) -> dict[str, Judgement]:
    """A judgement for each data set of a regime."""
    table = with_breeds(observations) if "breeds" in claim.data else observations
    recipes = [""] if claim.across else table.recipes
    if "breeds" in claim.data:
        data = {c.recipe: c.data for c in table.conditions}
        recipes = [recipe for recipe in recipes if data[recipe] not in BREEDS]
    parts = {}
    for recipe in recipes:
        part = judge(claim.requires, table, recipe, untrained=claim.untrained)
        # A claim across data sets is left out if nothing of it was measured.
        if part is not None and (part.texts or not claim.across):
            several = len(recipes) > 1 and bool(recipe)
            texts = tuple(f"{recipe_label(recipe)}: {text}" for text in part.texts) if several else part.texts
            parts[recipe] = replace(part, texts=texts)
    return parts


@dataclass(frozen=True)
class _Series:
    """The numbers of a term by seed, with its conditions and problems."""

    conditions: tuple[Condition, ...]
    values: Mapping[int | None, float]
    problems: tuple[str, ...] = ()


def _compare(
    comparison: Comparison, observations: Observations, recipe: str, untrained: bool
) -> Judgement | None:
    """Judge one comparison; None if it does not apply."""
    series: dict[Term, _Series] = {}
    for _, term in comparison.terms:
        one = _series(term, observations, term.recipe or recipe)
        if one is None:
            return None
        series[term] = one
    problems = dict.fromkeys(problem for one in series.values() for problem in one.problems)
    sides = [_side(side, series) for side in (comparison.above, comparison.below)]
    seeds = [s for s in sides[0] if s in sides[1]] if all(sides) else []
    if not problems and None not in seeds and len(seeds) < SEEDS_NEEDED:
        problems[f"{len(seeds)} {'seed' if len(seeds) == 1 else 'seeds'}, {SEEDS_NEEDED} are needed"] = None
    if not untrained:
        conditions = dict.fromkeys(c for one in series.values() for c in one.conditions)
        problems |= dict.fromkeys(filter(None, (_unfit(observations, c) for c in conditions)))
    differences = [sides[0][seed] - sides[1][seed] for seed in seeds]
    _, low, high = mean_interval(differences, comparison.floor)
    verdict: Verdict = "holds" if low > 0 else "does not hold" if high < 0 else "cannot be told"
    if not problems and verdict == "cannot be told":
        problems["within noise"] = None
    if problems:
        verdict = "cannot be told"
    texts = (_described(comparison, sides, seeds, (low, high)),) if seeds else ()
    return Judgement(verdict, tuple(problems), texts, {verdict: 1})


def _series(term: Term, observations: Observations, recipe: str) -> _Series | None:
    named = (
        observations.find(recipe, name, dict(term.setting), control=term.control) for name in term.objectives
    )
    wanted = [condition for condition in named if condition is not None]
    there = [condition for condition in wanted if observations.measured(condition)]
    rows = {condition: observations.select(condition, term.metric) for condition in there}
    if not wanted or (there and not any(rows.values())):
        return None
    problems = [f"{c.name} not run" for c in wanted if c not in there]
    problems += [f"{c.name} has no {term.metric}" for c in there if not rows[c]]
    for condition, by_seed in rows.items():
        problems += [row.doubt for row in by_seed.values() if row.doubt]
        problems += [
            f"{term.metric} of {condition.name} is undefined"
            for row in by_seed.values()
            if row.value is None or math.isnan(row.value)
        ]
        problems += _busy(observations, condition, term.metric)
    columns = [{seed: row.value for seed, row in by.items() if row.value is not None} for by in rows.values()]
    columns = [column for column in columns if column]
    if term.best and columns:
        columns = [max(columns, key=lambda column: statistics.fmean(column.values()))]
    common = [s for s in columns[0] if all(s in column for column in columns)] if columns else []
    means = {seed: statistics.fmean(column[seed] for column in columns) for seed in common}
    return _Series(tuple(there), means, tuple(dict.fromkeys(problems)))


def _busy(observations: Observations, condition: Condition, metric: str) -> list[str]:
    """The problem that times vary too much; empty for other metrics and steady times."""
    spread = observations.summary(condition, metric) if observed_unit(metric) == "seconds" else None
    if not spread or spread["std"] is None or spread["std"] <= STEADY * spread["mean"]:
        return []
    share = 100 * spread["std"] / spread["mean"]
    return [f"times of {condition.name} vary by {share:.0f} %: the machine was busy"]


def _unfit(observations: Observations, condition: Condition) -> str:
    """Why a network cannot decide claims; "" if it can, or if nothing is known against it."""
    if condition.pretrained and condition.data in (*BREEDS, "breeds"):
        return "the backbone has learned the classes of BREEDS, source and target, from ImageNet"
    steps = observations.summary(condition, "steps")
    if steps and steps["mean"] < _STEPS:
        return f"{condition.name} was trained for {steps['mean']:.0f} steps, {_STEPS} are needed"
    for metric in _ACCURACIES:
        reached = observations.summary(condition, metric)
        own = printed(condition.data, condition.objective, metric, condition.setting)
        paper = own or printed(condition.data, "flat", metric)
        if paper and reached and reached["mean"] is not None and reached["mean"] < _ENOUGH * paper.value:
            return (
                f"fine accuracy of {condition.name} is {100 * reached['mean']:.1f} %, "
                f"below half of the paper's {100 * paper.value:.1f} %"
            )
    return ""


def _side(side: Expression, series: Mapping[Term, _Series]) -> dict[int | None, float]:
    """Values of one side of a comparison by seed; a constant has every seed of the other side."""
    columns = [(factor, series[term].values) for factor, term in side.terms]
    if not columns:
        seeds = dict.fromkeys(seed for one in series.values() for seed in one.values)
        return dict.fromkeys(seeds, side.constant)
    common = [seed for seed in columns[0][1] if all(seed in values for _, values in columns)]
    return {seed: side.constant + sum(factor * values[seed] for factor, values in columns) for seed in common}


def _described(
    comparison: Comparison,
    sides: Sequence[Mapping[int | None, float]],
    seeds: Sequence[int | None],
    interval: tuple[float, float],
) -> str:
    """A comparison with the means of its sides, their difference and its interval."""
    metric = comparison.terms[0][1].metric
    unit = observed_unit(metric)
    means = [statistics.fmean(side[seed] for seed in seeds) for side in sides]
    named = [
        expression.text(unit) if not expression.terms else f"{expression.text(unit)}: {shown(mean, unit)}"
        for expression, mean in zip((comparison.above, comparison.below), means, strict=True)
    ]
    low, high = (shown(end, unit, "+") for end in interval)
    difference = shown(means[0] - means[1], unit, "+")
    exact = None in seeds or len(seeds) < 2
    return f"{metric}, {named[0]} against {named[1]}; {difference}{'' if exact else f' [{low}, {high}]'}"
