"""The keys of `results.json`: how they are made, and what each is called, counted in and hoped for.

A key is `<domain>/<metric>` or `<domain>/<metric>/<detail>`, where the detail is a level of the tree or a
class distance: `source/accuracy/fine`, `source/cpcc/l2`, `source/hierarchical-distance@5`.
"""

from __future__ import annotations

from dataclasses import dataclass

from cophenet._common.checks import check_choice

__all__ = ["DOMAINS", "METRICS", "MetricInfo", "describe", "key_order", "metric_key"]

DOMAINS = ("source", "target", "full")


@dataclass(frozen=True)
class MetricInfo:
    """What a reader must know of a number.

    Attributes:
        title: A description, for a heading.
        short: The paper's abbreviation where it has one, for a column.
        higher_is_better: Which way is better.
        percent: Whether it is a fraction, shown as percent.
    """

    title: str
    short: str
    higher_is_better: bool
    percent: bool


# What stands in a key -> title, abbreviation, whether higher is better, whether it is shown as percent.
_METRICS = {
    "accuracy": ("accuracy", "Acc", True, True),
    "map": ("mean average precision", "MAP", True, True),
    "cpcc": ("CPCC", "CPCC", True, True),
    "cpcc-orders": ("spread of CPCC over sample orders", "CPCC ±", False, True),
    "cpcc-trained-tree": ("CPCC with the shuffled tree it was trained on", "CPCC shuffled", True, True),
    "severity": ("mistake severity", "Sev", False, False),
    "hierarchical-distance": ("hierarchical distance", "HD", False, False),
    "calibration": ("calibration error", "ECE", False, True),
}
METRICS = tuple(_METRICS)
_CPCC = ("cpcc", "cpcc-orders", "cpcc-trained-tree")


def metric_key(domain: str, metric: str, detail: str | None = None) -> str:
    """The key of a number.

    Example:
        >>> metric_key("source", "accuracy", "fine"), metric_key("source", "severity")
        ('source/accuracy/fine', 'source/severity')
    """
    check_choice("domain", domain, DOMAINS)
    check_choice("metric", metric.partition("@")[0], METRICS)
    return f"{domain}/{metric}" if detail is None else f"{domain}/{metric}/{detail}"


def describe(key: str) -> MetricInfo:
    """What a key of `results.json` stands for.

    Raises:
        ValueError: If there is no such key.

    Example:
        >>> info = describe("target/accuracy/coarse")
        >>> info.title, info.short, info.higher_is_better, info.percent
        ('coarse accuracy, target test', 'coarse tAcc', True, True)
        >>> describe("source/hierarchical-distance@5").short
        'sHD@5'
        >>> describe("source/cpcc/fastft").title
        'CPCC by fastft, source test'
    """
    domain, _, rest = key.partition("/")
    name, _, detail = rest.partition("/")
    metric, at, k = name.partition("@")
    if domain not in DOMAINS or metric not in _METRICS:
        shape = "DOMAIN/METRIC or DOMAIN/METRIC/DETAIL"
        raise ValueError(f"key must be {shape} with a metric of {', '.join(METRICS)}, got {key!r}")
    title, short, higher, percent = _METRICS[metric]
    title, short = title + at + k, short + at + k
    initial = "" if domain == "full" else domain[0]
    if metric in _CPCC:
        title, short = f"{title} by {detail}", f"{short} {detail}"
    else:
        short = initial + short
    if detail and metric not in _CPCC:
        title, short = f"{detail} {title}", f"{detail} {short}"
    return MetricInfo(f"{title}, {domain} test", short, higher, percent)


def key_order(key: str) -> tuple[int, int]:
    """Sorts keys as tables have them: by metric, then by domain; keys that differ in the detail are equal.

    Example:
        >>> sorted(["source/cpcc/l2", "target/accuracy/fine", "source/accuracy/fine"], key=key_order)
        ['source/accuracy/fine', 'target/accuracy/fine', 'source/cpcc/l2']
    """
    domain, metric = key.split("/")[:2]
    return METRICS.index(metric.partition("@")[0]), DOMAINS.index(domain)
