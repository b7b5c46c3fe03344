"""Contents of `results.json`: the numbers of one seed, or of several with mean and standard deviation."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from cophenet._common.checks import with_reasons
from cophenet.evaluation.keys import key_order, metric_of
from cophenet.metrics.cards import Card, EvaluationData, Missing

if TYPE_CHECKING:
    from cophenet.runs import Run

__all__ = ["FORMAT", "Numbers", "run_results", "seed_results", "summary"]

FORMAT = 1


class Numbers:
    """The numbers of a run, in the order in which they were computed.

    Attributes:
        values: Key -> number; None if it is undefined or cannot be computed.
        missing: Key -> why the number is None.
    """

    def __init__(self) -> None:
        self.values: dict[str, float | None] = {}
        self.missing: dict[str, str] = {}

    def measure(self, card: Card, data: EvaluationData) -> None:
        """Compute and add the numbers of a metric; NaN becomes None, with the reason given in its warning.

        Raises:
            ValueError: If the name of a number does not begin with the key of the metric.
        """
        measured, reasons = with_reasons(partial(card.measure, data))
        undefined = "; ".join(reasons) or "not finite"
        for name, number in measured.items():
            key = f"{data.domain}/{name}"
            if metric_of(key) != card.key:
                raise ValueError(f"names of metric {card.key!r} must begin with its key, got {name!r}")
            if isinstance(number, Missing):
                self._add(key, None, number.reason)
            else:
                self._add(key, float(number), undefined)

    def add_missing(self, card: Card, domain: str, levels: Sequence[str], why: Missing) -> None:
        """Add the numbers of a metric as missing; for a metric by level, one for each level."""
        details = [f"/{level}" for level in levels] if card.by == "level" else [""]
        for detail in details:
            self._add(f"{domain}/{card.key}{detail}", None, why.reason)

    def _add(self, key: str, value: float | None, reason: str) -> None:
        finite = value is not None and math.isfinite(value)
        self.values[key] = value if finite else None
        if not finite:
            self.missing[key] = reason


def summary(values: Sequence[float | None]) -> dict[str, Any]:
    """Mean, standard deviation (n - 1) and the values themselves.

    The mean is None if any value is None, because it would be over other seeds than the rest of a table; the
    standard deviation is also None for a single value.

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
    """Create the document of a run of one seed."""
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
        "kept": [kept] if (kept := info.get("kept")) else [],
        "samples": dict(samples),
        "metrics": {key: summary([numbers.values[key]]) for key in sorted(numbers.values, key=key_order)},
        "missing": dict(numbers.missing),
    }


def run_results(run: Run, parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Combine the documents of several seeds; values that all share are copied from the first."""
    first = parts[0]
    keys = sorted(dict.fromkeys(key for part in parts for key in part["metrics"]), key=key_order)
    seconds = [part["seconds_per_epoch"] for part in parts]
    return {
        **_about(run),
        "seeds": [seed for part in parts for seed in part["seeds"]],
        **{name: first[name] for name in ("levels", "versions", "threads")},
        "seconds_per_epoch": summary(seconds)["mean"],
        "epochs": max(part["epochs"] for part in parts),
        "kept": [kept for part in parts for kept in part.get("kept", [])],
        "samples": first["samples"],
        "metrics": {
            key: summary([part["metrics"].get(key, {}).get("mean") for part in parts]) for key in keys
        },
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


def _reason(parts: Sequence[dict[str, Any]], key: str) -> str:
    """Why a number is missing, and in which seeds if not in all."""
    reasons: dict[str, list[str]] = {}
    for part in parts:
        if key in part["missing"]:
            reasons.setdefault(part["missing"][key], []).append(str(part["seeds"][0]))
    if len(reasons) == 1 and sum(map(len, reasons.values())) == len(parts):
        return next(iter(reasons))
    return "; ".join(f"seed {', '.join(seeds)}: {reason}" for reason, seeds in reasons.items())
