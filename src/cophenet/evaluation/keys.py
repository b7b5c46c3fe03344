"""The keys of `results.json`: title, unit and better direction of each, from the cards of the metrics.

A key is `<domain>/<metric>` or `<domain>/<metric>/<detail>`, where the detail is a level of the tree or a
class distance: `source/accuracy/fine`, `source/cpcc/l2`, `source/hierarchical-distance@5`.
"""

from __future__ import annotations

from dataclasses import dataclass

from cophenet.metrics.cards import Card, Group, metric_cards

__all__ = ["DOMAINS", "MetricInfo", "key_order", "metric_info", "metric_of", "split_key"]

DOMAINS = ("source", "target", "full")


@dataclass(frozen=True)
class MetricInfo:
    """Description of the number behind a key.

    Attributes:
        title: A description, for a heading.
        short: The paper's abbreviation if it has one, for a column.
        higher_is_better: Whether higher values are better.
        percent: Whether it is a fraction, shown as percent.
        in_levels: Whether it counts levels of the tree.
        group: The metrics it shares a table with in a report.
        family: The title without the detail: the same for all levels or class distances.
    """

    title: str
    short: str
    higher_is_better: bool
    percent: bool
    in_levels: bool
    group: Group
    family: str


def split_key(key: str) -> tuple[str, str, str]:
    """Domain, metric and detail of a key; "" for missing parts.

    Example:
        >>> split_key("source/hierarchical-distance@5"), split_key("source/accuracy/fine")
        (('source', 'hierarchical-distance@5', ''), ('source', 'accuracy', 'fine'))
    """
    domain, _, rest = key.partition("/")
    metric, _, detail = rest.partition("/")
    return domain, metric, detail


def metric_of(key: str) -> str:
    """The metric of a key, without "@" and number.

    Example:
        >>> metric_of("source/hierarchical-distance@5"), metric_of("source/accuracy/fine")
        ('hierarchical-distance', 'accuracy')
    """
    return split_key(key)[1].partition("@")[0]


def metric_info(key: str) -> MetricInfo:
    """Describe a key of `results.json`.

    Raises:
        ValueError: If there is no such key.

    Example:
        >>> info = metric_info("target/accuracy/coarse")
        >>> info.title, info.short, info.higher_is_better, info.percent
        ('coarse accuracy, target test', 'coarse tAcc', True, True)
        >>> metric_info("source/hierarchical-distance@5").short
        'sHD@5'
        >>> metric_info("source/cpcc/fastft").title
        'CPCC by fastft, source test'
        >>> info.family
        'accuracy, target test'
    """
    card = _card(key)
    domain, name, detail = split_key(key)
    number = name.removeprefix(card.key)
    title, short = card.title + number, card.short + number
    family = f"{title}, {domain} test"
    if card.by == "distance":
        title, short = f"{title} by {detail}", f"{short} {detail}"
    else:
        short = ("" if domain == "full" else domain[0]) + short
        title, short = (f"{detail} {title}", f"{detail} {short}") if detail else (title, short)
    title = f"{title}, {domain} test"
    return MetricInfo(title, short, card.higher_is_better, card.percent, card.in_levels, card.group, family)


def key_order(key: str) -> tuple[int, str, int]:
    """Sort key for the order of tables: by metric, then by domain; equal for keys that differ in the detail.

    Raises:
        ValueError: If there is no such key.

    Example:
        >>> sorted(["source/cpcc/l2", "target/accuracy/fine", "source/accuracy/fine"], key=key_order)
        ['source/accuracy/fine', 'target/accuracy/fine', 'source/cpcc/l2']
    """
    card = _card(key)
    return card.order, card.key, DOMAINS.index(key.partition("/")[0])


def _card(key: str) -> Card:
    cards = metric_cards()
    if key.partition("/")[0] not in DOMAINS or metric_of(key) not in cards:
        shape = "DOMAIN/METRIC or DOMAIN/METRIC/DETAIL"
        raise ValueError(f"key must be {shape} with a metric of {', '.join(cards)}, got {key!r}")
    return cards[metric_of(key)]
