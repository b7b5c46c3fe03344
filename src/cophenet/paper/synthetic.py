"""The paper's synthetic study: time against samples, dimension and classes, and error against EMD."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cophenet._common.checks import check_choice, check_number, check_whole
from cophenet._common.processes import torch_threads
from cophenet.paper.fits import growth_exponent
from cophenet.paper.observations import Condition, Observation, Observations
from cophenet.paper.timing import VARIANTS, DistanceVariant, best_seconds, busy
from cophenet.paper.variants import MODE_BY_MODE
from cophenet.transport.quadtree import quadtree_cells
from cophenet.tree import Hierarchy

__all__ = ["CLOUDS", "StudySettings", "draw_clouds", "synthetic_observations", "synthetic_study"]

_PAIR = Hierarchy.from_paths([("first",), ("second",)])
Problem = tuple[Tensor, Tensor, Hierarchy]
_FIRST_CALLS = 64
# Metric of a growth exponent -> part of the study that it is fitted to; and the entry of a missing distance.
_POWERS = {"power": "times", "power-d": "widths", "power-k": "classes"}
_NOTHING: Mapping[str, Any] = {"sizes": [], "seconds": []}
# Names of distances by the labels under which earlier versions stored them.
_FORMER_LABELS = {
    "FastFT": "fastft",
    "FastFT, principal order": "fastft-principal",
    "SWD": "swd",
    "FT": "ft",
    "TWD": "twd",
    "Sinkhorn, reg 10": "sinkhorn",
    "EMD": "emd",
    "EMD by POT": "emd-pot",
    "Bures": "bures",
    "Bures, dense": "bures-dense",
}
# Means of the modes of both clouds, in every coordinate; all modes have standard deviation one.
CLOUDS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "gaussian": ((1.0,), (4.0,)),
    "mixture": ((0.0, 5.0), (2.0, 3.0)),
    MODE_BY_MODE: ((0.0, 5.0), (2.0, 3.0)),
}


@dataclass(frozen=True)
class StudySettings:
    """Size of the study; the defaults are those of the paper.

    Attributes:
        width: Dimension of the features, d.
        repeats: Number of repeats of every measurement, each with new clouds.
        sizes: Samples of each cloud, for the times.
        error_sizes: Samples of each cloud, for the errors.
        widths: Dimensions of two clouds, for the times.
        classes: Numbers of clouds, for the times.
        fixed: Samples of each cloud where the dimension or the number of clouds varies.
        budget: Seconds that all repeats of a distance may take at one size: measuring stops before the size
            where they would take longer, by the growth so far.
        seed: Seed of the clouds.
    """

    width: int = 128
    repeats: int = 10
    sizes: tuple[int, ...] = tuple(1 << power for power in range(5, 18))
    error_sizes: tuple[int, ...] = (32, 64, 128, 256, 512, 1024)
    widths: tuple[int, ...] = tuple(1 << power for power in range(7, 14))
    classes: tuple[int, ...] = tuple(1 << power for power in range(1, 8))
    fixed: int = 32
    budget: float = 40.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the settings."""
        check_whole("width", self.width, 1)
        check_whole("repeats", self.repeats, 1)
        check_number("budget", self.budget, least=False)


def draw_clouds(kind: str, size: int, width: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw two clouds of equal size.

    Modes have equal shares. Samples are in random order, except in "mixture, mode by mode", where those of
    the lower mode come first in both clouds: an order that happens to favour a greedy plan.

    Args:
        kind: One of `CLOUDS`.
        size: Samples of each cloud, n.
        width: Their dimension, d.
        generator: Source of randomness.

    Returns:
        (2n, d) float32 features and (2n,) labels 0 and 1.

    Raises:
        ValueError: If the kind is unknown or a number too small.

    Example:
        >>> z, y = draw_clouds("gaussian", 500, 8, torch.Generator().manual_seed(0))
        >>> z.shape, [round(z[y == c].mean().item()) for c in (0, 1)]
        (torch.Size([1000, 8]), [1, 4])
    """
    check_choice("kind", kind, CLOUDS)
    check_whole("size", size, 1)
    check_whole("width", width, 1)
    clouds = []
    for means in CLOUDS[kind]:
        mode = torch.arange(size) * len(means) // size
        if kind != MODE_BY_MODE:
            mode = mode[torch.randperm(size, generator=generator)]
        clouds.append(torch.tensor(means)[mode, None] + torch.randn(size, width, generator=generator))
    return torch.cat(clouds), torch.arange(2).repeat_interleave(size)


def synthetic_study(
    settings: StudySettings | None = None,
    variants: tuple[DistanceVariant, ...] = VARIANTS,
    tell: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Time every distance on pairs of random clouds, and compare its values with the exact EMD.

    Args:
        settings: Sizes and repeats; None for the paper's.
        variants: The distances.
        tell: Called with a line about every step.

    Returns:
        "settings"; "times": by `DistanceVariant.name`, "sizes" with the "seconds" of every repeat, their
        "mean" and "best", and the "exponent" of the growth of the best time with the size (None with fewer
        than two sizes);
        "widths" and "classes": the same by d and by k instead of the size; "build": for each repeat, the
        share of FlowTree's time for building its tree, at the largest of its sizes, if any; "errors": by kind
        of clouds and name, "sizes" with the "values" of value / EMD - 1 of every repeat, their "mean" and
        "std", and under "emd" the exact value.

    Example:
        >>> tiny = StudySettings(4, 2, sizes=(8, 16), error_sizes=(8,), widths=(4, 8), classes=(2, 4))
        >>> study = synthetic_study(tiny, (DistanceVariant("l2"), DistanceVariant("fastft")))
        >>> sorted(study["times"]), study["times"]["fastft"]["sizes"]
        (['fastft', 'l2'], [8, 16])
        >>> min(study["errors"]["mixture"]["fastft"]["mean"]) >= 0  # at least the exact EMD
        True
    """
    settings = settings or StudySettings()
    draws: dict[str, tuple[tuple[int, ...], Callable[[int, torch.Generator], Problem]]] = {
        "times": (settings.sizes, lambda n, g: (*draw_clouds("gaussian", n, settings.width, g), _PAIR)),
        "widths": (settings.widths, lambda d, g: (*draw_clouds("gaussian", settings.fixed, d, g), _PAIR)),
        "classes": (settings.classes, lambda k, g: _draw_classes(k, settings, g)),
    }
    study: dict[str, Any] = {"settings": asdict(settings)}
    with torch_threads(1), torch.no_grad():  # one thread, so that times grow with the work alone
        for what, (sizes, draw) in draws.items():
            study[what] = {}
            for variant in variants:
                possible = [size for size in sizes if what != "times" or size <= variant.largest]
                study[what][variant.name] = _times(variant, settings, possible, draw)
                measured = study[what][variant.name]["sizes"]
                reached = f"up to {measured[-1]}" if measured else "not measured, every size is too large"
                tell(f"time of {variant.label}: {what} {reached}")
        study["build"] = _build_shares(settings, [v for v in variants if v.distance == "ft"])
        study["errors"] = {}
        for kind in CLOUDS:
            study["errors"][kind] = _errors(kind, variants, settings)
            tell(f"error on clouds of kind {kind}")
    return study


def _draw_classes(count: int, settings: StudySettings, generator: torch.Generator) -> Problem:
    """Draw several classes of few samples each, around random means."""
    labels = torch.arange(count).repeat_interleave(settings.fixed)
    means = torch.randn(count, settings.width, generator=generator)
    features = means[labels] + torch.randn(len(labels), settings.width, generator=generator)
    return features, labels, Hierarchy.from_paths([(str(label),) for label in range(count)])


def _times(
    variant: DistanceVariant,
    settings: StudySettings,
    possible: Sequence[int],
    draw: Callable[[int, torch.Generator], Problem],
) -> dict[str, Any]:
    """Measure seconds by size, as far as the budget allows."""
    generator = torch.Generator().manual_seed(settings.seed)
    sizes: list[int] = []
    seconds: list[list[float]] = []
    bests: list[float] = []
    # The first call may compile or load something.
    _seconds(variant, (*draw_clouds("gaussian", _FIRST_CALLS, settings.width, generator), _PAIR))
    for size in possible:
        if bests and _expected(sizes, bests, size) * settings.repeats > settings.budget:
            break
        problems = (draw(size, generator) for _ in range(settings.repeats))
        sizes.append(size)
        seconds.append([_seconds(variant, problem) for problem in problems])
        bests.append(min(seconds[-1]))
    exponent = growth_exponent(sizes, bests) if len(sizes) > 1 else None
    means = [sum(repeats) / len(repeats) for repeats in seconds]
    return {"sizes": sizes, "seconds": seconds, "mean": means, "best": bests, "exponent": exponent}


def _expected(sizes: list[int], bests: list[float], size: int) -> float:
    """Expected seconds at the next size, by the growth between the last two."""
    power = growth_exponent(sizes, bests, last=2) if len(sizes) > 1 else 1.0
    return bests[-1] * float((size / sizes[-1]) ** max(power, 1.0))


def _seconds(variant: DistanceVariant, problem: Problem) -> float:
    return best_seconds(lambda: variant.measure(*problem))


def _build_shares(settings: StudySettings, flow_trees: Sequence[DistanceVariant]) -> list[float]:
    """The share of FlowTree's time for building its tree, for every repeat."""
    generator = torch.Generator().manual_seed(settings.seed)
    shares = []
    for variant in flow_trees:
        possible = [n for n in settings.sizes if n <= variant.largest]
        for size in sorted(possible)[-1:] * settings.repeats:
            features, labels = draw_clouds("gaussian", size, settings.width, generator)
            total = _seconds(variant, (features, labels, _PAIR))
            points, shift = features.double().numpy(), np.zeros(settings.width)
            shares.append(best_seconds(partial(quadtree_cells, points, shift)) / total)
    return shares


def _errors(kind: str, variants: tuple[DistanceVariant, ...], settings: StudySettings) -> dict[str, Any]:
    exact = DistanceVariant("emd")
    # Left out: the dense form has the values of Bures, and POT's solver those of EMD.
    compared = [v for v in variants if v.distance not in ("", "emd")]
    errors: dict[str, Any] = {
        v.name: {"sizes": [], "values": [], "mean": [], "std": []} for v in (exact, *compared)
    }
    generator = torch.Generator().manual_seed(settings.seed)
    for size in settings.error_sizes:
        clouds = [draw_clouds(kind, size, settings.width, generator) for _ in range(settings.repeats)]
        best = torch.cat([exact.measure(z, y, _PAIR) for z, y in clouds]).double()
        _add(errors[exact.name], size, best)
        for variant in compared:
            values = torch.cat([variant.measure(z, y, _PAIR) for z, y in clouds]).double()
            _add(errors[variant.name], size, values / best - 1)
    return errors


def _add(entry: dict[str, list[Any]], size: int, values: Tensor) -> None:
    entry["sizes"].append(size)
    entry["values"].append(values.tolist())
    entry["mean"].append(values.mean().item())
    entry["std"].append(values.std(correction=0).item())


def synthetic_observations(study: Mapping[str, Any]) -> Observations:
    """Observations of `synthetic_study`; the seed is the number of the repeat.

    For every distance: "seconds@<n>"; "power", the exponent of their growth with n, and "best-power", that of
    the best repeats; "power-d" and "power-k", the exponents for the dimension and the number of classes;
    "times-fastft", its time divided by that of FastFT at the largest n of both; and for FlowTree
    "build-share". By kind of clouds: "error/<kind>@<n>" against EMD, and at the largest n "abs-error/<kind>",
    "over-l2/<kind>", its value divided by that of l2, "from-l2/<kind>", the difference of this ratio from
    one, and "gap-l2/<kind>", the difference of both errors.
    """
    parts = {part: _by_name(study[part]) for part in _POWERS.values()}
    times = parts["times"]
    errors = {kind: _by_name(entries) for kind, entries in study["errors"].items()}
    names = dict.fromkeys((*times, *(name for entries in errors.values() for name in entries)))
    conditions = {name: Condition("", "", name) for name in names}
    rows = []
    for name, condition in conditions.items():
        numbers, doubts = _compared(errors, name), {}
        for metric, part in _POWERS.items():
            entry = parts[part].get(name, _NOTHING)
            numbers[metric], doubts[metric] = _powers(entry), busy(entry["seconds"][-4:])
        entry, fast = (times.get(each, _NOTHING) for each in (name, "fastft"))
        numbers |= {f"seconds@{n}": s for n, s in zip(entry["sizes"], entry["seconds"], strict=True)}
        if common := set(entry["sizes"]) & set(fast["sizes"]):
            own, other = (one["seconds"][one["sizes"].index(max(common))] for one in (entry, fast))
            numbers["times-fastft"] = [a / b for a, b in zip(own, other, strict=True)]
            doubts["times-fastft"] = doubts["power"] or busy(fast["seconds"][-4:])
        if name == "ft":
            numbers["build-share"] = study["build"]
        for metric, values in numbers.items():
            doubt = doubts.get(metric, "")
            rows += [Observation(condition, seed, metric, value, doubt) for seed, value in enumerate(values)]
        power = entry.get("exponent")
        if power is not None:
            rows.append(Observation(condition, None, "best-power", power))
    return Observations(tuple(conditions.values()), tuple(rows))


def _by_name(entries: Mapping[str, Any]) -> dict[str, Any]:
    """Entries of a study by the names of distances, also if an earlier version stored them by label."""
    return {_FORMER_LABELS.get(key, key): entry for key, entry in entries.items()}


def _powers(entry: Mapping[str, Any]) -> list[float]:
    """The exponent of the growth of time with size, for every repeat; empty with fewer than two sizes."""
    if len(entry["sizes"]) < 2:
        return []
    return [growth_exponent(entry["sizes"], seconds) for seconds in zip(*entry["seconds"], strict=True)]


def _compared(errors: Mapping[str, Any], name: str) -> dict[str, list[float]]:
    numbers: dict[str, list[float]] = {}
    for kind, entries in errors.items():
        if name not in entries or not entries[name]["values"]:
            continue
        if name != "emd":
            pairs = zip(entries[name]["sizes"], entries[name]["values"], strict=True)
            numbers |= {f"error/{kind}@{n}": values for n, values in pairs}
        own, l2 = (_last_errors(entries, each) for each in (name, "l2"))
        numbers[f"abs-error/{kind}"] = [abs(error) for error in own]
        if l2:
            # An error is value / EMD - 1, so the ratio of two values is that of their errors plus one.
            ratios = [(1 + a) / (1 + b) for a, b in zip(own, l2, strict=True)]
            numbers[f"over-l2/{kind}"] = ratios
            numbers[f"from-l2/{kind}"] = [abs(ratio - 1) for ratio in ratios]
            numbers[f"gap-l2/{kind}"] = [abs(a - b) for a, b in zip(own, l2, strict=True)]
    return numbers


def _last_errors(entries: Mapping[str, Any], name: str) -> list[float]:
    """Errors at the largest size; zero for EMD, for which the study holds the exact values instead."""
    values = entries[name]["values"][-1] if name in entries else []
    return [0.0 for _ in values] if name == "emd" else list(values)
