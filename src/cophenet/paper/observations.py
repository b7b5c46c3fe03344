"""Observations: all measurements of an item as one table, with a row for each number.

Tables, figures and verdicts read this table. `run_observations` makes it from `results.json` files; studies
add their rows (`measurements`, `synthetic`, `timing`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from cophenet.evaluation.results import summary
from cophenet.paper.variants import BREEDS, Setting, label_of, setting_text
from cophenet.report.table import Unit, unit_of

__all__ = ["STEADY", "Condition", "Observation", "Observations", "observed_unit", "with_breeds"]

Pretrained = Literal["", "frozen", "fine-tuned"]
# Units of the metrics that studies add, by the first part of the key; others have the unit of their card.
_UNITS: dict[str, Unit] = {
    **dict.fromkeys(("seconds", "seconds_per_epoch", "seconds_per_batch"), "seconds"),
    **dict.fromkeys(("power", "best-power", "power-d", "power-k", "correlation", "blocks"), "number"),
    **dict.fromkeys(("components", "components-null", "times-fastft", "times-l2", "over-l2"), "number"),
    **dict.fromkeys(("components/unconverged", "samples", "classes", "threads", "steps"), "count"),
}
# Repetitions on an idle machine differ by a tenth of their mean, which the interval accounts for; a larger
# deviation than this share means that the load changed meanwhile, which the interval does not account for.
STEADY = 0.2


@dataclass(frozen=True, eq=False)
class Condition:
    """The condition of a measurement: a variant on a data set.

    Attributes:
        recipe: Name of the recipe; "" in studies without runs.
        data: Name of the data set.
        objective: Name of the objective; in studies of distances, of the distance.
        setting: The changed settings by name.
        control: Whether the tree was shuffled.
        comparable: Whether numbers of the paper are comparable: data, tree and objective are those of the
            library's recipe, except for the setting.
        batch_size: Batch size of the training.
        scale: Size of the experiment; "" in studies without runs.
        pretrained: How a backbone pretrained on ImageNet is used; "" if there is none.
        differs: Why it is not comparable, in words.
    """

    recipe: str
    data: str
    objective: str
    setting: Setting = field(default_factory=dict)
    control: bool = False
    comparable: bool = False
    batch_size: int = 0
    scale: str = ""
    pretrained: Pretrained = ""
    differs: str = ""

    @property
    def label(self) -> str:
        """The paper's name of the objective."""
        return label_of(self.objective)

    @property
    def name(self) -> str:
        """Objective, setting and whether it is a control, in words."""
        parts = (self.label, setting_text(self.setting), "shuffled tree" * self.control)
        return ", ".join(filter(None, parts))

    @cached_property
    def regime(self) -> str:
        """The regime, in which claims are judged separately: the scale, and the use of a pretrained backbone.

        Example:
            >>> Condition("cifar10", "cifar10", "l2", scale="laptop", pretrained="frozen").regime
            'laptop scale, frozen backbone'
        """
        words = (self.scale and f"{self.scale} scale", self.pretrained and f"{self.pretrained} backbone")
        return ", ".join(filter(None, words))

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """Identifies the condition."""
        return *self.place, self.regime

    @cached_property
    def place(self) -> tuple[Any, ...]:
        """Identifies the condition within its regime."""
        return self.recipe, self.objective, tuple(sorted(self.setting.items())), self.control


@dataclass(frozen=True)
class Observation:
    """A measured number: a row of the table.

    Attributes:
        condition: Data set, objective, setting, and whether it is a control.
        seed: Seed of the run, or number of the repetition; None for numbers that do not vary, such as counts.
        metric: Its key: as in `results.json`, with "fine" and "coarse" for the names of those levels, and
            "cpcc/own" (by the distance trained with, else l2) and "cpcc/l2" for CPCC on the trained classes.
        value: The number; None if it is undefined.
        doubt: Why claims cannot be judged by it, such as too few samples; usually "".
    """

    condition: Condition
    seed: int | None
    metric: str
    value: float | None
    doubt: str = ""


@dataclass(frozen=True, eq=False)
class Observations:
    """The table of measurements, with all planned conditions, measured or not.

    Attributes:
        conditions: The planned conditions, in the order of the item.
        rows: The measured numbers.

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

    @cached_property
    def _places(self) -> dict[tuple[Any, ...], Condition]:
        return {condition.place: condition for condition in reversed(self.conditions)}

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
        """Find a planned condition, in the first of several regimes; None if there is none."""
        return self._places.get(Condition(recipe, "", objective, setting or {}, control).place)

    def control_of(self, condition: Condition) -> Condition | None:
        """The control of a condition, which differs only in the shuffled tree; None if there is none."""
        return self._conditions.get(replace(condition, control=True).key)

    def measured(self, condition: Condition) -> bool:
        """Whether a condition has any measurements."""
        return condition.key in self._index

    def seeds(self, condition: Condition) -> list[int | None]:
        """Seeds of the runs of a condition."""
        metrics = self._index.get(condition.key, {}).values()
        return list(dict.fromkeys(seed for rows in metrics for seed in rows))

    def plain(self, *, measured: bool = False) -> list[Condition]:
        """Conditions of objectives with the true tree: all on measured recipes, or only measured ones."""
        recipes = set(self.recipes)
        chosen = (c for c in self.conditions if c.objective and not c.control and c.recipe in recipes)
        return [c for c in chosen if self.measured(c) or not measured]

    @property
    def recipes(self) -> list[str]:
        """Names of the recipes with measurements."""
        return list(dict.fromkeys(c.recipe for c in self.conditions if self.measured(c)))

    @property
    def regimes(self) -> list[str]:
        """The regimes with measurements."""
        return list(dict.fromkeys(c.regime for c in self.conditions if self.measured(c)))

    def at(self, regimes: Iterable[str]) -> Observations:
        """The part of the table in some regimes."""
        wanted = set(regimes)
        conditions = tuple(c for c in self.conditions if c.regime in wanted)
        return Observations(conditions, tuple(row for row in self.rows if row.condition.regime in wanted))

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
            values = {row.metric: row.value for row in rows}
            doubts = {row.metric: row.doubt for row in rows if row.doubt}
            entries.append({"seed": seed, "values": values, "doubts": doubts})
        return entries

    @classmethod
    def from_json(cls, entries: Sequence[Mapping[str, Any]]) -> Observations:
        """Make the table from the output of `to_json`.

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


def observed_unit(metric: str) -> Unit:
    """Unit of the observations of a metric: of one that studies add, or as in a report.

    Example:
        >>> observed_unit("seconds_per_epoch"), observed_unit("power"), observed_unit("source/map/fine")
        ('seconds', 'number', 'percent')
    """
    name = metric.partition("@")[0]
    for known in (name, name.partition("/")[0]):
        if known in _UNITS:
            return _UNITS[known]
    return unit_of(metric)


def with_breeds(observations: Observations) -> Observations:
    """Add the means over the four BREEDS settings, for variants that all four have.

    Means are computed for every seed that all four have, so that the spread is over seeds, as for other data;
    what is doubtful or not comparable in one of the four is so in their mean.
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
            members[0],
            recipe="breeds",
            data="breeds",
            comparable=all(m.comparable for m in members),
            differs=_joined(m.differs for m in members),
        )
        conditions.append(pooled)
        tables = [observations._index.get(member.key, {}) for member in members]
        for metric in (name for name in tables[0] if all(name in table for table in tables)):
            common = set.intersection(*(set(table[metric]) for table in tables))
            for seed in (seed for seed in tables[0][metric] if seed in common):
                pool = [table[metric][seed] for table in tables]
                mean, doubt = summary([row.value for row in pool])["mean"], _joined(row.doubt for row in pool)
                rows.append(Observation(pooled, seed, metric, mean, doubt))
    return observations.extended(rows, conditions)


def _joined(reasons: Iterable[str]) -> str:
    """All different reasons as one text; "" if there are none."""
    return "; ".join(dict.fromkeys(filter(None, reasons)))
