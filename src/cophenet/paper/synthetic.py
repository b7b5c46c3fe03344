"""The paper's synthetic study: time against the number of samples, and error against the exact EMD."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from cophenet._common.checks import check_choice, check_number, check_whole
from cophenet._common.threads import torch_threads
from cophenet.paper.distances import VARIANTS, DistanceVariant
from cophenet.paper.fits import growth_exponent
from cophenet.tree import Hierarchy

__all__ = ["CLOUDS", "StudySettings", "draw_clouds", "synthetic_study"]

_PAIR = Hierarchy.from_paths([("first",), ("second",)])
_FIRST_CALLS = 64
# Means of the modes of either cloud, in every coordinate; all have deviation one.
CLOUDS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "gaussian": ((1.0,), (4.0,)),
    "mixture": ((0.0, 5.0), (2.0, 3.0)),
    "mixture, mode by mode": ((0.0, 5.0), (2.0, 3.0)),
}


@dataclass(frozen=True)
class StudySettings:
    """How large the study is; as it stands, the paper's.

    Attributes:
        width: Dimension of the features, d.
        repeats: New clouds for every measurement.
        sizes: Samples of each cloud, for the times.
        error_sizes: Samples of each cloud, for the errors.
        budget: Seconds that a distance may take at one size: it stops before the size where, by its growth
            so far, all repeats would take longer.
        seed: Of the clouds.
    """

    width: int = 128
    repeats: int = 10
    sizes: tuple[int, ...] = tuple(1 << power for power in range(5, 18))
    error_sizes: tuple[int, ...] = (32, 64, 128, 256, 512, 1024)
    budget: float = 40.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse sizes that are none."""
        check_whole("width", self.width, 1)
        check_whole("repeats", self.repeats, 1)
        check_number("budget", self.budget, least=False)


def draw_clouds(kind: str, size: int, width: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Two clouds of one size.

    Modes have equal shares. Samples come in random order, except in "mixture, mode by mode", where those of
    the lower mode come first in both clouds: an order that happens to suit a greedy plan.

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
        if kind != "mixture, mode by mode":
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
        tell: Gets a line about every step.

    Returns:
        "settings"; "times": by label, "sizes" with the "seconds" of every repeat, their "mean" and "best",
        and the "exponent" of the size that the best time grows with (None with fewer than two sizes);
        "errors": by kind of clouds and label, "sizes" with the "values" of value / EMD - 1 of every repeat,
        their "mean" and "std", and under "EMD" the exact value.

    Example:
        >>> tiny = StudySettings(width=4, repeats=2, sizes=(8, 16), error_sizes=(8,))
        >>> study = synthetic_study(tiny, (DistanceVariant("l2", "l2"), DistanceVariant("FastFT", "fastft")))
        >>> sorted(study["times"]), study["times"]["FastFT"]["sizes"]
        (['FastFT', 'l2'], [8, 16])
        >>> min(study["errors"]["mixture"]["FastFT"]["mean"]) >= 0  # at least the exact EMD
        True
    """
    settings = settings or StudySettings()
    with torch_threads(1), torch.no_grad():  # so that the growth of time shows the work alone
        times = {}
        for variant in variants:
            times[variant.label] = _times(variant, settings)
            reached = times[variant.label]["sizes"][-1]
            tell(f"time of {variant.label}: up to n = {reached}")
        errors = {}
        for kind in CLOUDS:
            errors[kind] = _errors(kind, variants, settings)
            tell(f"error on clouds of kind {kind}")
    return {"settings": asdict(settings), "times": times, "errors": errors}


def _times(variant: DistanceVariant, settings: StudySettings) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(settings.seed)
    sizes: list[int] = []
    seconds: list[list[float]] = []
    bests: list[float] = []
    # The first call may compile or load something.
    _seconds(variant, *draw_clouds("gaussian", _FIRST_CALLS, settings.width, generator))
    for size in (size for size in settings.sizes if size <= variant.largest):
        if bests and _expected(sizes, bests, size) * settings.repeats > settings.budget:
            break
        clouds = (draw_clouds("gaussian", size, settings.width, generator) for _ in range(settings.repeats))
        sizes.append(size)
        seconds.append([_seconds(variant, *cloud) for cloud in clouds])
        bests.append(min(seconds[-1]))
    exponent = growth_exponent(sizes, bests) if len(sizes) > 1 else None
    means = [sum(repeats) / len(repeats) for repeats in seconds]
    return {"sizes": sizes, "seconds": seconds, "mean": means, "best": bests, "exponent": exponent}


def _expected(sizes: list[int], bests: list[float], size: int) -> float:
    """Seconds at the next size, by the growth from the last two."""
    power = growth_exponent(sizes, bests, last=2) if len(sizes) > 1 else 1.0
    return bests[-1] * float((size / sizes[-1]) ** max(power, 1.0))


def _seconds(variant: DistanceVariant, features: Tensor, labels: Tensor) -> float:
    start = time.perf_counter()
    variant.measure(features, labels, _PAIR)
    return time.perf_counter() - start


def _errors(kind: str, variants: tuple[DistanceVariant, ...], settings: StudySettings) -> dict[str, Any]:
    exact = DistanceVariant("EMD", "emd")
    # The dense form gives the value of Bures, and POT's solver that of the other.
    compared = [v for v in variants if v.distance not in ("", "emd")]
    errors: dict[str, Any] = {
        v.label: {"sizes": [], "values": [], "mean": [], "std": []} for v in (exact, *compared)
    }
    generator = torch.Generator().manual_seed(settings.seed)
    for size in settings.error_sizes:
        clouds = [draw_clouds(kind, size, settings.width, generator) for _ in range(settings.repeats)]
        best = torch.cat([exact.measure(z, y, _PAIR) for z, y in clouds]).double()
        _add(errors["EMD"], size, best)
        for variant in compared:
            values = torch.cat([variant.measure(z, y, _PAIR) for z, y in clouds]).double()
            _add(errors[variant.label], size, values / best - 1)
    return errors


def _add(entry: dict[str, list[Any]], size: int, values: Tensor) -> None:
    entry["sizes"].append(size)
    entry["values"].append(values.tolist())
    entry["mean"].append(values.mean().item())
    entry["std"].append(values.std(correction=0).item())
