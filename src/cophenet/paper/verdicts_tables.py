"""Verdicts on claims about the tables of fine and coarse generalisation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cophenet.paper.verdicts import (
    ALL_CPCC,
    COMPARABLE,
    OT,
    Document,
    Gap,
    Judged,
    Number,
    average,
    by_data,
    gap,
    part_of,
    rows_of,
    settle,
)

__all__ = ["coarse_over_flat", "competitive", "emd_separates", "fine_over_l2", "flat_bounds", "l2_bounds"]


@dataclass(frozen=True)
class _Compared:
    """A comparison in one metric.

    Attributes:
        text: The numbers.
        gaps: What all have to be above zero.
        names: The objectives that it rests on.
    """

    text: str
    gaps: tuple[Gap, ...]
    names: tuple[str, ...]


_Compare = Callable[[Mapping[str, Number]], "_Compared | None"]


def _metrics(document: Document) -> list[str]:
    return [name for name in document["tables"][1]["columns"] if name[1:] in ("Acc", "MAP")]


def _every_metric(
    document: Document, compare: _Compare, text: str, expected: Sequence[str] = ()
) -> Judged | None:
    """A comparison in every metric of every data set; expected are the objectives that it is about."""
    rows = rows_of(document, 1)
    found: dict[str, tuple[str, _Compared]] = {}
    for metric in _metrics(document):
        for name, values in by_data(rows, metric).items():
            compared = compare(values)
            if compared is not None:
                found[f"{name} {metric}"] = name, compared
    lost = [
        f"{where}: {compared.text}"
        for where, (_, compared) in found.items()
        if any(entry.size <= 0 for entry in compared.gaps)
    ]
    won = f"{text} in {len(found) - len(lost)} of {len(found)} metrics"
    there = [name for name in expected if all(name in compared.names for _, compared in found.values())]
    return settle(
        won + (f", not in {'; '.join(lost)}" if lost else ""),
        [entry for _, compared in found.values() for entry in compared.gaps],
        [name for name, _ in found.values()],
        part_of(there, expected),
    )


def _of(values: Mapping[str, Number], names: Sequence[str]) -> dict[str, Number]:
    return {name: values[name] for name in names if name in values}


def _mean_over(rival: str) -> _Compare:
    """The mean of the OT objectives, as the best of them would be above by chance alone."""

    def compare(values: Mapping[str, Number]) -> _Compared | None:
        ours = _of(values, OT)
        if rival not in values or not ours:
            return None
        mean = average(list(ours.values()))
        best, worst = (choose(ours, key=lambda name: ours[name].mean) for choose in (max, min))
        text = f"mean {mean}, best {best} {ours[best]}, worst {worst} {ours[worst]}, {rival} {values[rival]}"
        return _Compared(text, (gap(mean, values[rival]),), tuple(ours))

    return compare


def _each_over(document: Document, rival: str) -> str:
    """In how many metrics each OT objective alone is above another one, the best first."""
    counts: dict[str, tuple[int, int]] = {}
    rows = rows_of(document, 1)
    for name in OT:
        pairs = [
            (values[name].mean, values[rival].mean)
            for metric in _metrics(document)
            for values in by_data(rows, metric).values()
            if name in values and rival in values
        ]
        if pairs:
            counts[name] = sum(a > b for a, b in pairs), len(pairs)
    ordered = sorted(counts, key=lambda name: -counts[name][0] / counts[name][1])
    return ", ".join(f"{name} {counts[name][0]} of {counts[name][1]}" for name in ordered)


def _over(document: Document, rival: str) -> Judged | None:
    alone = f"each alone is above {rival} in: {_each_over(document, rival)}"
    text = f"{alone}; their mean, which decides, is above it"
    return _every_metric(document, _mean_over(rival), text, OT)


def fine_over_l2(document: Document) -> Judged | None:
    """Fine metrics against l2."""
    return _over(document, "l2")


def coarse_over_flat(document: Document) -> Judged | None:
    """Coarse metrics against Flat."""
    return _over(document, "Flat")


def competitive(document: Document) -> Judged | None:
    """FastFT at most two points below EMD."""

    def compare(values: Mapping[str, Number]) -> _Compared | None:
        if not {"FastFT", "EMD"} <= set(values):
            return None
        fast, exact = values["FastFT"], values["EMD"]
        return _Compared(f"FastFT {fast}, EMD {exact}", (gap(fast, exact, -COMPARABLE),), ())

    return _every_metric(document, compare, "FastFT is at most two points below EMD")


def emd_separates(document: Document) -> Judged | None:
    """Fine metrics of EMD against those of l2."""

    def compare(values: Mapping[str, Number]) -> _Compared | None:
        if not {"EMD", "l2"} <= set(values):
            return None
        exact, l2 = values["EMD"], values["l2"]
        return _Compared(f"EMD {exact}, l2 {l2}", (gap(exact, l2),), ())

    return _every_metric(document, compare, "EMD is above l2")


def _bounds(document: Document, bound: str, rivals: Sequence[str]) -> Judged | None:
    def compare(values: Mapping[str, Number]) -> _Compared | None:
        others = _of(values, rivals)
        if bound not in values or not others:
            return None
        best = max(others, key=lambda name: others[name].mean)
        gaps = tuple(gap(values[bound], other) for other in others.values())
        return _Compared(f"{bound} {values[bound]}, {best} {others[best]}", gaps, tuple(others))

    return _every_metric(document, compare, f"{bound} is above all others", rivals)


def flat_bounds(document: Document) -> Judged | None:
    """Flat above every CPCC objective."""
    return _bounds(document, "Flat", ALL_CPCC)


def l2_bounds(document: Document) -> Judged | None:
    """L2 above every OT objective."""
    return _bounds(document, "l2", OT)
