"""Observations that are not of runs: the study of synthetic clouds, times of batches, sizes of data sets.

And the correlations over all objectives of an item, which are of many runs at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cophenet.paper.distances import VARIANTS
from cophenet.paper.fits import fit_line, growth_exponent
from cophenet.paper.observations import Condition, Observation, Observations
from cophenet.paper.published import printed
from cophenet.recipes import load_recipe

__all__ = ["batch_time", "correlations", "data_sizes", "synthetic"]

# Printed sizes are rounded; of fewer samples than that a part of the data is not here.
_WHOLE = 0.98
_FEWEST_POINTS = 4
# As in the paper: an outlier, which would decide the fit alone.
_OUTLIER = "rank"


def synthetic(study: Mapping[str, Any]) -> Observations:
    """Observations of `synthetic_study`; the seed is the number of the repeat.

    For every distance: "seconds@<n>", "power" of n that they grow with and "best-power" of the best repeats,
    "times-fastft" its time over that of FastFT at the largest n of both. By kind of clouds:
    "error/<kind>@<n>" against EMD, and at the largest n "abs-error/<kind>", "over-l2/<kind>" its value over
    that of l2, "from-l2/<kind>" how far that is from one, and "gap-l2/<kind>" the difference of both errors.
    """
    names = {variant.label: variant.name for variant in VARIANTS}
    labels = dict.fromkeys((*study["times"], *(name for kind in study["errors"].values() for name in kind)))
    conditions = {label: Condition("", "", names.get(label, label)) for label in labels}
    rows = []
    for label, condition in conditions.items():
        numbers = {**_growth(study["times"], label), **_errors(study["errors"], label)}
        for metric, values in numbers.items():
            rows += [Observation(condition, seed, metric, value) for seed, value in enumerate(values)]
        power = study["times"].get(label, {}).get("exponent")
        if power is not None:
            rows.append(Observation(condition, None, "best-power", power))
    return Observations(tuple(conditions.values()), tuple(rows))


def _growth(times: Mapping[str, Any], label: str) -> dict[str, list[float]]:
    entry, fast = times.get(label), times.get("FastFT")
    if entry is None:
        return {}
    numbers = {f"seconds@{n}": s for n, s in zip(entry["sizes"], entry["seconds"], strict=True)}
    if len(entry["sizes"]) > 1:
        repeats = zip(*entry["seconds"], strict=True)
        numbers["power"] = [growth_exponent(entry["sizes"], seconds) for seconds in repeats]
    common = set(entry["sizes"]) & set(fast["sizes"] if fast else ())
    if fast and common:
        own, other = (one["seconds"][one["sizes"].index(max(common))] for one in (entry, fast))
        numbers["times-fastft"] = [a / b for a, b in zip(own, other, strict=True)]
    return numbers


def _errors(errors: Mapping[str, Any], label: str) -> dict[str, list[float]]:
    numbers: dict[str, list[float]] = {}
    for kind, entries in errors.items():
        if label not in entries or not entries[label]["values"]:
            continue
        if label != "EMD":
            pairs = zip(entries[label]["sizes"], entries[label]["values"], strict=True)
            numbers |= {f"error/{kind}@{n}": values for n, values in pairs}
        # Under EMD the study has the exact value, whose own error is zero.
        own, l2 = (_last(entries, name) for name in (label, "l2"))
        numbers[f"abs-error/{kind}"] = [abs(error) for error in own]
        if l2:
            # An error is value / EMD - 1, so that two values have the ratio of their errors plus one.
            ratios = [(1 + a) / (1 + b) for a, b in zip(own, l2, strict=True)]
            numbers[f"over-l2/{kind}"] = ratios
            numbers[f"from-l2/{kind}"] = [abs(ratio - 1) for ratio in ratios]
            numbers[f"gap-l2/{kind}"] = [abs(a - b) for a, b in zip(own, l2, strict=True)]
    return numbers


def _last(entries: Mapping[str, Any], label: str) -> list[float]:
    values = entries[label]["values"][-1] if label in entries else []
    return [0.0 for _ in values] if label == "EMD" else list(values)


def batch_time(study: Mapping[str, Any]) -> Observations:
    """Observations of `time_steps`: "seconds_per_batch", and "times-l2" the time over that with l2."""
    conditions, rows = [], []
    l2 = study["seconds"].get("l2")
    for name, seconds in study["seconds"].items():
        objective = "bures-dense" if name == "bures, dense" else name
        # The paper timed updates on CIFAR-100.
        condition = Condition("", "cifar100", objective, comparable=True)
        conditions.append(condition)
        rows += [Observation(condition, seed, "seconds_per_batch", s) for seed, s in enumerate(seconds)]
        if l2:
            ratios = (own / other for own, other in zip(seconds, l2, strict=True))
            rows += [Observation(condition, seed, "times-l2", ratio) for seed, ratio in enumerate(ratios)]
    return Observations(tuple(conditions), tuple(rows))


def data_sizes(
    recipes: Sequence[str], scale: Any, data_dir: Path | None, tell: Callable[[str], None]
) -> Observations:
    """Samples and classes of the data sets that are there, and "<count>/of-printed" by the paper's table."""
    conditions, rows = [], []
    for recipe in recipes:
        source = load_recipe(recipe, scale).data.create_source()
        condition = Condition(recipe, source.name, "", comparable=True)
        conditions.append(condition)
        missing = [need for need in source.requirements(data_dir) if not need.found]
        if missing:
            tell(f"left out: data {source.name!r} is missing: {_in_folder(missing[0].path, data_dir)}")
            continue
        data = source.load(data_dir)
        counts = {f"samples/{part}": len(data.samples(part)) for part in ("train", "test")}
        for domain in ("source", "target"):
            counts[f"classes/{domain}"] = data.samples("test", domain).tree.num_classes
        rows += [Observation(condition, None, *pair) for pair in _counted(source.name, counts)]
    return Observations(tuple(conditions), tuple(rows))


def _counted(data: str, counts: Mapping[str, int]) -> Iterator[tuple[str, float, str]]:
    for metric, count in counts.items():
        yield metric, count, ""
        paper = printed(data, None, metric)
        if paper is not None:
            share = count / paper.value
            part = f"a part of the data is here ({metric} {count:,} of {paper.value:,.0f})"
            yield f"{metric}/of-printed", share, part * (share < _WHOLE)


def _in_folder(path: Path, folder: Path | None) -> Path:
    """A path without the folder of the data, which is nobody else's business."""
    if folder is not None and path.is_relative_to(folder):
        return path.relative_to(folder)
    return Path(path.name) if path.is_absolute() else path


def correlations(observations: Observations) -> Observations:
    """The table with "correlation/<cpcc>/<level>": Pearson's r over objectives, for seeds that all have.

    Of CPCC by l2 and by the distance trained with, and of the means of coarse and fine metrics.
    """
    conditions, rows = [], []
    for recipe in observations.recipes:
        wanted = [c for c in observations.plain() if c.recipe == recipe and c.objective != _OUTLIER]
        there = [c for c in wanted if observations.measured(c)]
        condition = Condition(recipe, there[0].data if there else "", "")
        conditions.append(condition)
        lacking = f"{len(there)} of {len(wanted)} objectives were run" * (len(there) < len(wanted))
        for cpcc in ("cpcc/l2", "cpcc/own"):
            for level in ("coarse", "fine"):
                columns = [[observations.values(c, m) for c in there] for m in (cpcc, f"mean/{level}")]
                for seed, (x, y) in _by_seed(*columns):
                    r = fit_line(x, y).correlation
                    rows.append(Observation(condition, seed, f"correlation/{cpcc}/{level}", r, lacking))
    return observations.extended(rows, conditions)


def _by_seed(
    first: Sequence[Mapping[int | None, float | None]], second: Sequence[Mapping[int | None, float | None]]
) -> Iterator[tuple[int | None, tuple[list[float], list[float]]]]:
    """Points of every seed that all have, where they are enough for a line."""
    if len(first) < _FEWEST_POINTS:
        return
    common = set.intersection(*(set(values) for values in (*first, *second)))
    for seed in sorted(common, key=lambda seed: -1 if seed is None else seed):
        pairs = [(a[seed], b[seed]) for a, b in zip(first, second, strict=True)]
        known = [(x, y) for x, y in pairs if x is not None and y is not None]
        x, y = [x for x, _ in known], [y for _, y in known]
        if len(known) >= _FEWEST_POINTS and len(set(x)) > 1 and len(set(y)) > 1:
            yield seed, (x, y)
