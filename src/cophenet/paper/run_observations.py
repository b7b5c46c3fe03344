"""Observations of runs; the only module that converts `results.json` files to observations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cophenet.evaluation.keys import split_key
from cophenet.evaluation.results import summary
from cophenet.models.registry import PRETRAINED
from cophenet.paper.observations import Condition, Observation, Observations
from cophenet.paper.plan import VariantRuns
from cophenet.paper.queue import different_settings, state_of
from cophenet.paper.variants import PAPER_DATA
from cophenet.recipes import Recipe, load_recipe
from cophenet.report.comparability import compare_setup
from cophenet.runs import Run
from cophenet.transport import distance_names

if TYPE_CHECKING:
    from cophenet.recipes.recipe import Scale

__all__ = ["mean_of_level_metrics", "mean_over_seeds", "observed_names", "read_runs"]

Results = Mapping[str, Any]
_SIDES = ("source", "target")


def _wanted(level: str, sides: Sequence[str] = _SIDES) -> list[str]:
    """Keys of the accuracies and precisions of a level."""
    return [f"{side}/{metric}/{level}" for metric in ("accuracy", "map") for side in sides]


# The metrics that means are over, as far as the runs of a condition have them.
_MEANS = {level: _wanted(level) for level in ("fine", "coarse")} | {
    side: [*_wanted("fine", (side,)), *_wanted("coarse", (side,))] for side in _SIDES
}


def read_runs(planned: Sequence[VariantRuns], folder: Path) -> Observations:
    """Observations of finished runs; a folder with other settings counts as missing.

    Args:
        planned: The runs of an item.
        folder: Folder of the runs.
    """
    conditions, rows = [], []
    for runs in planned:
        condition = _condition(runs)
        conditions.append(condition)
        by_seed = {}
        for seed in runs.seeds:
            path = runs.path(folder, seed)
            run = Run(path)
            results = run.results if state_of(path) == "done" else None
            if results is not None and not different_settings(path, runs.of_seed(seed)):
                by_seed[seed] = {**_run_metrics(results), **_steps(run)}
        for seed, numbers in by_seed.items():
            rows += [Observation(condition, seed, *pair) for pair in numbers.items()]
        for name, wanted in _MEANS.items():
            for seed, mean in zip(by_seed, _means([*by_seed.values()], wanted), strict=True):
                if mean is not None:
                    rows.append(Observation(condition, seed, f"mean/{name}", mean))
    return Observations(tuple(conditions), tuple(rows))


def _steps(run: Run) -> dict[str, float]:
    """Number of weight updates in training, as a metric; empty if it is unknown."""
    count = run.info.get("samples", {}).get("train", {}).get("count")
    if count is None:
        return {}
    return {"steps": float(run.recipe.epochs * math.ceil(count / run.recipe.batch_size))}


def _condition(runs: VariantRuns) -> Condition:
    recipe, variant = runs.recipe, runs.variant
    differs = _differs(runs)
    # At the paper's scale, such weights are part of the paper's setup.
    pretrained = recipe.scale != "paper" and recipe.model.weights == PRETRAINED
    return Condition(
        runs.recipe_name,
        recipe.data.name,
        variant.objective,
        dict(variant.setting),
        variant.control,
        not differs,
        recipe.batch_size,
        recipe.scale,
        ("frozen" if recipe.model.frozen else "fine-tuned") if pretrained else "",
        differs,
    )


def _differs(runs: VariantRuns) -> str:
    """Why numbers of the paper are not comparable, by data, tree and objective; "" if they may be."""
    recipe, variant = runs.recipe, runs.variant
    if recipe.data.name not in PAPER_DATA:
        return f"the paper has no {recipe.data.name}"
    own = _own_meaning(recipe.data.name, recipe.scale, variant.objective, variant.overrides)
    here = _meaning(recipe)
    changed = [text for text in here if text not in own]
    return "; ".join(changed) if changed or here == own else "another row of it is trained"


def _meaning(recipe: Recipe) -> tuple[str, ...]:
    """How data, tree and objective differ from those of the library's recipe."""
    about = {"data": recipe.data.name, "objective": recipe.objective.name, "scale": recipe.scale}
    return compare_setup({**about, "recipe": recipe.model_dump(mode="json")}).other


@cache
def _own_meaning(data: str, scale: Scale, objective: str, overrides: tuple[str, ...]) -> tuple[str, ...]:
    """How data, tree and objective of a variant itself differ from those of the library's recipe."""
    return _meaning(load_recipe(data, scale, (f"objective.name={objective}", *overrides)))


def observed_names(key: str, objective: str | None, levels: Sequence[str]) -> list[str]:
    """Metric names in `Observation` for a key of `results.json` or of a published table.

    Args:
        key: A key that `split_key` can read.
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
    roles = (("fine", levels[-1]), ("coarse", _coarse_level(levels)))
    names = [role for role, level in roles if level == detail] or [detail]
    return ["/".join(filter(None, (domain, metric, name))) for name in names]


def _run_metrics(results: Results) -> dict[str, float | None]:
    """Numbers of a single-seed run, by metric name in `Observation`.

    Args:
        results: The content of its `results.json`.

    Example:
        >>> numbers = {"source/accuracy/digit": {"values": [0.75]}, "source/cpcc/l2": {"values": [0.5]}}
        >>> list(_run_metrics({"metrics": numbers, "levels": ["shape", "digit"], "objective": "flat"}))
        ['source/accuracy/fine', 'cpcc/l2', 'cpcc/own']
    """
    numbers: dict[str, float | None] = {}
    for key, number in results["metrics"].items():
        names = observed_names(key, results["objective"], results["levels"])
        numbers |= dict.fromkeys(names, number["values"][0])
    for key in ("seconds_per_epoch", "threads"):
        if results.get(key) is not None:
            numbers[key] = results[key]
    return numbers


def mean_over_seeds(results: Sequence[Results], key: str) -> dict[str, Any] | None:
    """Summarize a metric over runs that differ in their seed.

    Args:
        results: Contents of their `results.json`.
        key: A metric's key.

    Returns:
        "mean", "std" (None for one seed) and "values"; None if no run has the metric.

    Example:
        >>> runs = [{"metrics": {"source/cpcc/l2": {"values": [v]}}} for v in (0.5, 0.75, 1.0)]
        >>> mean_over_seeds(runs, "source/cpcc/l2")
        {'mean': 0.75, 'std': 0.25, 'values': [0.5, 0.75, 1.0]}
    """
    values = [value for result in results for value in result["metrics"].get(key, {}).get("values", ())]
    return summary(values) if values else None


def _coarse_level(levels: Sequence[str]) -> str:
    """Name of the coarse level: the one named "coarse" above the classes, else the coarsest.

    Example:
        >>> _coarse_level(["coarser", "coarse", "fine"]), _coarse_level(["shape", "digit"])
        ('coarse', 'shape')
        >>> _coarse_level(["coarser", "coarse"])
        'coarser'
    """
    return "coarse" if "coarse" in levels[:-1] else str(levels[0])


def mean_of_level_metrics(results: Sequence[Results], level: str) -> dict[str, Any] | None:
    """Summarize over seeds the mean of a level's accuracies and precisions on source and target classes.

    Metrics that no run has are left out. A seed that lacks a metric of another one, or whose value is
    undefined, has no mean, because that would be over different metrics.

    Args:
        results: Contents of `results.json` of runs that differ in their seed.
        level: Name of a level of the tree.

    Example:
        >>> numbers = {"source/accuracy/fine": {"values": [0.75]}, "source/map/fine": {"values": [0.5]}}
        >>> mean_of_level_metrics([{"metrics": numbers}], "fine")["mean"]
        0.625
    """
    wanted = _wanted(level)
    metrics = [result["metrics"] for result in results]
    runs = [{key: numbers[key]["values"][0] for key in wanted if key in numbers} for numbers in metrics]
    return summary(_means(runs, wanted)) if runs else None


def _means(runs: Sequence[Mapping[str, float | None]], wanted: Sequence[str]) -> list[float | None]:
    """The mean of some metrics in each run; None in a run without a value of one that any of them has."""
    there = [key for key in wanted if any(key in numbers for numbers in runs)]
    return [summary([numbers.get(key) for key in there])["mean"] if there else None for numbers in runs]
