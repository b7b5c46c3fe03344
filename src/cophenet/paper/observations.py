"""Observations: whatever was measured for an item as one table, a row for each number.

Tables, figures and verdicts are readers of it. It is made from `results.json` files here and nowhere else;
studies add their rows (`features`, `synthetic`, `timing`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cophenet.evaluation.keys import metric_of, split_key
from cophenet.evaluation.results import summary
from cophenet.metrics.cards import metric_cards
from cophenet.paper.plan import VariantRuns
from cophenet.paper.queue import different_settings, state_of
from cophenet.paper.variants import BREEDS, PAPER_DATA, Setting, label_of
from cophenet.recipes import Recipe, load_recipe
from cophenet.report.setups import compare_setup
from cophenet.runs import Run
from cophenet.transport import distance_names

if TYPE_CHECKING:
    from cophenet.recipes.settings import Scale
    from cophenet.report.table import Unit

__all__ = [
    "Condition",
    "Observation",
    "Observations",
    "coarse_level",
    "mean_metric",
    "metric_average",
    "observed_names",
    "read_runs",
    "run_metrics",
    "unit_of",
    "with_breeds",
]

Results = Mapping[str, Any]
_SIDES = ("source", "target")
# Units of the metrics that studies add, by their first part; others are in the unit of the metric's card.
_UNITS: dict[str, Unit] = {
    "seconds": "seconds",
    "seconds_per_epoch": "seconds",
    "seconds_per_batch": "seconds",
    "power": "number",
    "best-power": "number",
    "components": "number",
    "components-null": "number",
    "components/unconverged": "count",
    "times-fastft": "number",
    "times-l2": "number",
    "over-l2": "number",
    "correlation": "number",
    "blocks": "number",
    "samples": "count",
    "classes": "count",
    "threads": "count",
}
# What means of several metrics are of, as far as a run has them.
_MEANS = {
    level: [f"{side}/{metric}/{level}" for metric in ("accuracy", "map") for side in _SIDES]
    for level in ("fine", "coarse")
} | {
    side: [f"{side}/{metric}/{level}" for metric in ("accuracy", "map") for level in ("fine", "coarse")]
    for side in _SIDES
}


@dataclass(frozen=True, eq=False)
class Condition:
    """What a number is measured under: a variant on a data set.

    Attributes:
        recipe: Name of the recipe; of studies without runs, "".
        data: Name of the data set.
        objective: Name of the objective; in studies of distances, of the distance.
        setting: What is changed, by name.
        control: Whether the tree was shuffled.
        comparable: Whether a number of the paper means the same: data, tree and objective are those of the
            library's recipe, but for what the setting names.
        batch_size: Of the training.
    """

    recipe: str
    data: str
    objective: str
    setting: Setting = field(default_factory=dict)
    control: bool = False
    comparable: bool = False
    batch_size: int = 0

    @property
    def label(self) -> str:
        """The paper's name of the objective."""
        return label_of(self.objective)

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells it from others."""
        return self.recipe, self.objective, tuple(sorted(self.setting.items())), self.control


@dataclass(frozen=True)
class Observation:
    """A number that was measured: a row of the table.

    Attributes:
        condition: Data set, objective, setting, and whether it is a control.
        seed: Of the run, or the number of the repetition; None for what does not vary, such as a count.
        metric: Its key. As in `results.json`, with "fine" and "coarse" for the names of those levels, and
            "cpcc/own" (by the distance trained with, else l2) and "cpcc/l2" for CPCC on the trained classes.
        value: The number; None where it is undefined.
        doubt: Why no claim can be judged by it, such as too few samples; usually "".
    """

    condition: Condition
    seed: int | None
    metric: str
    value: float | None
    doubt: str = ""


@dataclass(frozen=True, eq=False)
class Observations:
    """The table, with the conditions that were to be measured, whether they were or not.

    Attributes:
        conditions: In the order of the item.
        rows: What was measured.

    Example:
        >>> flat = Condition("digits", "digits", "flat")
        >>> table = Observations((flat,), tuple(Observation(flat, s, "cpcc/l2", 0.25 * s) for s in (1, 2)))
        >>> table.values(flat, "cpcc/l2"), table.summary(flat, "cpcc/l2")["mean"]
        ({1: 0.25, 2: 0.5}, 0.375)
        >>> table.find("digits", "flat") is flat, table.find("digits", "emd")
        (True, None)
    """

    conditions: tuple[Condition, ...] = ()
    rows: tuple[Observation, ...] = ()

    @cached_property
    def _index(self) -> dict[tuple[Any, ...], dict[str, dict[int | None, Observation]]]:
        index: dict[tuple[Any, ...], dict[str, dict[int | None, Observation]]] = {}
        for row in self.rows:
            index.setdefault(row.condition.key, {}).setdefault(row.metric, {})[row.seed] = row
        return index

    @cached_property
    def _conditions(self) -> dict[tuple[Any, ...], Condition]:
        return {condition.key: condition for condition in self.conditions}

    def select(self, condition: Condition, metric: str) -> dict[int | None, Observation]:
        """Rows of a metric by seed."""
        return self._index.get(condition.key, {}).get(metric, {})

    def values(self, condition: Condition, metric: str) -> dict[int | None, float | None]:
        """Values of a metric by seed."""
        return {seed: row.value for seed, row in self.select(condition, metric).items()}

    def summary(self, condition: Condition | None, metric: str) -> dict[str, Any] | None:
        """Mean, standard deviation and values over seeds; None if nothing was measured."""
        values = {} if condition is None else self.values(condition, metric)
        return summary(list(values.values())) if values else None

    def series(self, condition: Condition, metric: str) -> dict[int, dict[str, Any]]:
        """Summaries of "<metric>@<number>", such as epochs or sizes, by the number.

        Example:
            >>> emd = Condition("", "", "emd")
            >>> rows = [Observation(emd, 0, f"seconds@{n}", n / 8) for n in (8, 16)]
            >>> {n: s["mean"] for n, s in Observations((emd,), tuple(rows)).series(emd, "seconds").items()}
            {8: 1.0, 16: 2.0}
        """
        parts = ((name, name.rpartition("@")) for name in self._index.get(condition.key, {}))
        named = {int(number): name for name, (start, _, number) in parts if start == metric}
        return {
            number: summary(list(self.values(condition, name).values())) for number, name in named.items()
        }

    def find(
        self, recipe: str, objective: str, setting: Setting | None = None, *, control: bool = False
    ) -> Condition | None:
        """A condition, if it was to be measured."""
        return self._conditions.get(Condition(recipe, "", objective, setting or {}, control).key)

    def control_of(self, condition: Condition) -> Condition | None:
        """What differs from a condition in the shuffled tree alone."""
        return self._conditions.get(replace(condition, control=True).key)

    def measured(self, condition: Condition) -> bool:
        """Whether anything is known of a condition."""
        return condition.key in self._index

    def seeds(self, condition: Condition) -> list[int | None]:
        """Seeds of the runs of a condition."""
        return list(
            dict.fromkeys(seed for rows in self._index.get(condition.key, {}).values() for seed in rows)
        )

    def plain(self, *, measured: bool = False) -> list[Condition]:
        """Conditions of an objective with the true tree; all, or the measured ones."""
        chosen = (c for c in self.conditions if c.objective and not c.control)
        return [c for c in chosen if self.measured(c) or not measured]

    @property
    def recipes(self) -> list[str]:
        """Names of the recipes of which something was measured."""
        return list(dict.fromkeys(c.recipe for c in self.conditions if self.measured(c)))

    def extended(self, rows: Iterable[Observation], conditions: Iterable[Condition] = ()) -> Observations:
        """The table with more rows."""
        return Observations((*self.conditions, *conditions), (*self.rows, *rows))

    def to_json(self) -> list[dict[str, Any]]:
        """Plain data: every condition with its values by seed and metric."""
        return [{**asdict(condition), "seeds": self._by_seed(condition)} for condition in self.conditions]

    def _by_seed(self, condition: Condition) -> list[dict[str, Any]]:
        entries = []
        for seed in self.seeds(condition):
            rows = [by[seed] for by in self._index[condition.key].values() if seed in by]
            doubts = {row.metric: row.doubt for row in rows if row.doubt}
            entries.append(
                {"seed": seed, "values": {row.metric: row.value for row in rows}, "doubts": doubts}
            )
        return entries

    @classmethod
    def from_json(cls, entries: Sequence[Mapping[str, Any]]) -> Observations:
        """The table that `to_json` gave.

        Example:
            >>> table = Observations((Condition("digits", "digits", "flat", {"batch_size": 8}),))
            >>> Observations.from_json(table.to_json()).conditions[0].setting
            {'batch_size': 8}
        """
        conditions, rows = [], []
        for entry in entries:
            condition = Condition(**{name: value for name, value in entry.items() if name != "seeds"})
            conditions.append(condition)
            for run in entry["seeds"]:
                rows += [
                    Observation(condition, run["seed"], metric, value, run["doubts"].get(metric, ""))
                    for metric, value in run["values"].items()
                ]
        return cls(tuple(conditions), tuple(rows))


def unit_of(metric: str) -> Unit:
    """What the numbers of a metric count.

    Example:
        >>> unit_of("seconds_per_epoch"), unit_of("cpcc/own"), unit_of("power"), unit_of("source/map/fine")
        ('seconds', 'percent', 'number', 'percent')
    """
    name = metric.partition("@")[0]
    for known in (name, name.partition("/")[0]):
        if known in _UNITS:
            return _UNITS[known]
    card = metric_cards().get(metric_of(metric))
    return "percent" if card is None or card.percent else "level"


def read_runs(planned: Sequence[VariantRuns], folder: Path) -> Observations:
    """What finished runs have measured; a folder with other settings counts as not there.

    Args:
        planned: The runs of an item.
        folder: Where runs are stored.
    """
    conditions, rows = [], []
    for runs in planned:
        condition = _condition(runs)
        conditions.append(condition)
        for seed, results in _finished(runs, folder):
            rows += [Observation(condition, seed, *pair) for pair in run_metrics(results).items()]
    return Observations(tuple(conditions), tuple(rows))


def _finished(runs: VariantRuns, folder: Path) -> Iterator[tuple[int, Results]]:
    for seed in runs.seeds:
        path = runs.path(folder, seed)
        results = Run(path).results if state_of(path) == "done" else None
        if results is not None and not different_settings(path, runs.of_seed(seed)):
            yield seed, results


def _condition(runs: VariantRuns) -> Condition:
    recipe, variant = runs.recipe, runs.variant
    return Condition(
        runs.recipe_name,
        recipe.data.name,
        variant.objective,
        dict(variant.setting),
        variant.control,
        _comparable(runs),
        recipe.batch_size,
    )


def _comparable(runs: VariantRuns) -> bool:
    recipe, variant = runs.recipe, runs.variant
    if recipe.data.name not in PAPER_DATA:
        return False
    return _meaning(recipe) == _own_meaning(
        recipe.data.name, recipe.scale, variant.objective, variant.overrides
    )


def _meaning(recipe: Recipe) -> tuple[str, ...]:
    """How data, tree and objective differ from those of the library's recipe."""
    about = {"data": recipe.data.name, "objective": recipe.objective.name, "scale": recipe.scale}
    return compare_setup({**about, "recipe": recipe.model_dump(mode="json")}).other


@cache
def _own_meaning(data: str, scale: Scale, objective: str, overrides: tuple[str, ...]) -> tuple[str, ...]:
    """What a variant itself changes in the library's recipe."""
    return _meaning(load_recipe(data, scale, (f"objective.name={objective}", *overrides)))


def observed_names(key: str, objective: str | None, levels: Sequence[str]) -> list[str]:
    """What `Observation` calls a key of `results.json` or of a published table.

    Args:
        key: As `split_key` reads it.
        objective: Name of the objective that was trained.
        levels: Names of the tree's levels, the classes last.

    Example:
        >>> observed_names("source/map/digit", "emd", ["shape", "digit"])
        ['source/map/fine']
        >>> observed_names("source/cpcc/emd", "emd", ["shape", "digit"])
        ['cpcc/emd', 'cpcc/own']
    """
    domain, metric, detail = split_key(key)
    if metric.startswith("cpcc"):
        own = objective if objective in distance_names() else "l2"
        return [f"{metric}/{detail}", *([f"{metric}/own"] if detail == own else [])]
    if not levels:
        return [key]
    roles = (("fine", levels[-1]), ("coarse", coarse_level(levels)))
    names = [role for role, level in roles if level == detail] or [detail]
    return ["/".join(filter(None, (domain, metric, name))) for name in names]


def run_metrics(results: Results) -> dict[str, float | None]:
    """Numbers of a run of one seed by metric, as `Observation` names them.

    Args:
        results: The content of its `results.json`.

    Example:
        >>> numbers = {"source/accuracy/digit": {"values": [0.75]}, "source/cpcc/l2": {"values": [0.5]}}
        >>> list(run_metrics({"metrics": numbers, "levels": ["shape", "digit"], "objective": "flat"}))
        ['source/accuracy/fine', 'cpcc/l2', 'cpcc/own', 'mean/fine', 'mean/source']
    """
    numbers: dict[str, float | None] = {}
    for key, number in results["metrics"].items():
        names = observed_names(key, results["objective"], results["levels"])
        numbers |= dict.fromkeys(names, number["values"][0])
    for name, wanted in _MEANS.items():
        values = [numbers[key] for key in wanted if key in numbers]
        if values and None not in values:
            numbers[f"mean/{name}"] = math.fsum(v for v in values if v is not None) / len(values)
    for key in ("seconds_per_epoch", "threads"):
        if results.get(key) is not None:
            numbers[key] = results[key]
    return numbers


def with_breeds(observations: Observations) -> Observations:
    """The table with the mean over the four BREEDS settings, for variants that all four have.

    The mean is taken for every seed that all have, so that a spread is that over seeds, as for other data.
    """
    groups: dict[tuple[Any, ...], list[Condition]] = {}
    for condition in observations.conditions:
        if condition.data in BREEDS:
            groups.setdefault(condition.key[1:], []).append(condition)
    conditions, rows = [], []
    for members in groups.values():
        if {member.data for member in members} != set(BREEDS):
            continue
        pooled = replace(
            members[0], recipe="breeds", data="breeds", comparable=all(m.comparable for m in members)
        )
        conditions.append(pooled)
        tables = [observations._index.get(member.key, {}) for member in members]
        for metric in (name for name in tables[0] if all(name in table for table in tables)):
            common = set.intersection(*(set(table[metric]) for table in tables))
            for seed in (seed for seed in tables[0][metric] if seed in common):
                mean = summary([table[metric][seed].value for table in tables])["mean"]
                rows.append(Observation(pooled, seed, metric, mean))
    return observations.extended(rows, conditions)


def mean_metric(results: Sequence[Results], key: str) -> dict[str, Any] | None:
    """A metric over runs that differ in their seed.

    Args:
        results: Contents of their `results.json`.
        key: A metric's key.

    Returns:
        "mean", "std" (None for one seed) and "values"; None if no run knows the metric.

    Example:
        >>> runs = [{"metrics": {"source/cpcc/l2": {"values": [v]}}} for v in (0.5, 0.75, 1.0)]
        >>> mean_metric(runs, "source/cpcc/l2")
        {'mean': 0.75, 'std': 0.25, 'values': [0.5, 0.75, 1.0]}
    """
    values = [value for result in results for value in result["metrics"].get(key, {}).get("values", ())]
    return summary(values) if values else None


def coarse_level(levels: Sequence[str]) -> str:
    """Name of the level that tables call coarse: the one of that name, else the coarsest.

    Example:
        >>> coarse_level(["coarser", "coarse", "fine"]), coarse_level(["shape", "digit"])
        ('coarse', 'shape')
    """
    return "coarse" if "coarse" in levels else str(levels[0])


def metric_average(results: Sequence[Results], level: str) -> dict[str, Any] | None:
    """The mean of a level's accuracies and precisions on both sides of the split, for every seed.

    A seed that lacks one of the numbers has no mean, for it would be of other things.

    Args:
        results: Contents of `results.json` of runs that differ in their seed.
        level: Name of a level of the tree.

    Example:
        >>> numbers = {"source/accuracy/fine": {"values": [0.75]}, "source/map/fine": {"values": [0.5]}}
        >>> metric_average([{"metrics": numbers}], "fine")["mean"]
        0.625
    """
    wanted = [f"{side}/{metric}/{level}" for metric in ("accuracy", "map") for side in _SIDES]
    averages = []
    for result in results:
        values = [result["metrics"][key]["values"][0] for key in wanted if key in result["metrics"]]
        whole = bool(values) and None not in values
        averages.append(math.fsum(values) / len(values) if whole else None)
    return summary(averages) if averages else None
