"""What `results.json` holds: of one seed, and of several with mean and standard deviation."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cophenet.evaluation.keys import key_order

if TYPE_CHECKING:
    from cophenet.evaluation.numbers import Numbers
    from cophenet.runs import Run

__all__ = ["FORMAT", "run_results", "seed_results", "summary"]

FORMAT = 1


def summary(values: Sequence[float | None]) -> dict[str, Any]:
    """Mean, standard deviation (n - 1) and the values themselves.

    The mean is None if any value is, as it would be of other seeds than the rest of a table; the standard
    deviation also for a single value.

    Example:
        >>> summary([0.5, 0.75, 1.0])
        {'mean': 0.75, 'std': 0.25, 'values': [0.5, 0.75, 1.0]}
        >>> summary([0.5])
        {'mean': 0.5, 'std': None, 'values': [0.5]}
    """
    known = [value for value in values if value is not None]
    whole = len(known) == len(values)
    return {
        "mean": statistics.fmean(known) if whole else None,
        "std": statistics.stdev(known) if whole and len(known) > 1 else None,
        "values": list(values),
    }


def seed_results(
    run: Run, levels: Sequence[str], samples: Mapping[str, int], numbers: Numbers
) -> dict[str, Any]:
    """The document of a run of one seed."""
    info = run.info
    seconds = info["seconds_per_epoch"]
    return {
        **_about(run),
        "seeds": [run.seed],
        "levels": list(levels),
        "versions": info["versions"],
        "threads": info["threads"],
        "seconds_per_epoch": statistics.fmean(seconds) if seconds else None,
        "epochs": len(seconds),
        "samples": dict(samples),
        "metrics": {key: summary([numbers.values[key]]) for key in sorted(numbers.values, key=key_order)},
        "missing": dict(numbers.missing),
    }


def run_results(run: Run, parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The document above those of several seeds; what is the same in all is that of the first."""
    first = parts[0]
    keys = sorted(dict.fromkeys(key for part in parts for key in part["metrics"]), key=key_order)
    seconds = [part["seconds_per_epoch"] for part in parts]
    return {
        **_about(run),
        "seeds": [seed for part in parts for seed in part["seeds"]],
        **{name: first[name] for name in ("levels", "versions", "threads")},
        "seconds_per_epoch": summary(seconds)["mean"],
        **{name: first[name] for name in ("epochs", "samples")},
        "metrics": {key: summary([_value(part, key) for part in parts]) for key in keys},
        "missing": {key: reason for key in keys if (reason := _reason(parts, key))},
    }


def _about(run: Run) -> dict[str, Any]:
    recipe = run.recipe
    return {
        "format": FORMAT,
        "name": run.name,
        "recipe_name": recipe.name,
        "scale": recipe.scale,
        "data": recipe.data.name,
        "objective": recipe.objective.name,
        "recipe": recipe.model_dump(mode="json"),
    }


def _value(part: Mapping[str, Any], key: str) -> float | None:
    value: float | None = part["metrics"].get(key, {"mean": None})["mean"]
    return value


def _reason(parts: Sequence[dict[str, Any]], key: str) -> str:
    """Why a number is missing, and in which seeds if not in all."""
    reasons: dict[str, list[str]] = {}
    for part in parts:
        if key in part["missing"]:
            reasons.setdefault(part["missing"][key], []).append(str(part["seeds"][0]))
    if len(reasons) == 1 and sum(map(len, reasons.values())) == len(parts):
        return next(iter(reasons))
    return "; ".join(f"seed {', '.join(seeds)}: {reason}" for reason, seeds in reasons.items())
