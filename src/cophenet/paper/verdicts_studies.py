"""Verdicts on claims about ablations and the time of epochs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from cophenet.paper.verdicts import (
    COMPARABLE,
    Document,
    Gap,
    Judged,
    Number,
    average,
    by_data,
    gap,
    number,
    part_of,
    rows_of,
    settle,
)

__all__ = [
    "accuracy_steady",
    "batches_matter",
    "block_darkens",
    "blocks_seen",
    "depth_steady",
    "distance_collapses",
    "epoch_like_l2",
    "epoch_over_emd",
    "epoch_over_others",
    "flow_trade",
    "memory_helps",
    "ordered",
    "weights_drop",
]

# The objectives of the studies of trees, flow weights and memory, and the batch sizes of the last.
_STUDIED = ("FastFT", "EMD")
_BATCHES = ("64", "128", "512")
_STEADY = 0.1
# A block is seen if its distances are this share of the others or less.
_BLOCK = 0.8
_LITTLE_SLOWER = 1.1


def _curves(document: Document) -> dict[str, dict[str, Number]]:
    """Setting -> objective -> number, of the settings that FastFT, EMD and l2 all have."""
    found: dict[str, dict[str, Number]] = {}
    for row in rows_of(document):
        for setting in document["tables"][0]["columns"][1:]:
            value = number(row[setting])
            if value is not None:
                found.setdefault(setting, {})[row["objective"]] = value
    whole = (setting for setting in document["tables"][0]["columns"][1:] if setting in found)
    return {setting: found[setting] for setting in whole if {"FastFT", "EMD", "l2"} <= set(found[setting])}


def ordered(document: Document) -> Judged | None:
    """FastFT above EMD above l2 at every setting."""
    curves = _curves(document)
    texts, gaps, right = [], [], 0
    for setting, values in curves.items():
        texts.append(f"{setting}: FastFT {values['FastFT']}, EMD {values['EMD']}, l2 {values['l2']}")
        steps = [gap(values["FastFT"], values["EMD"]), gap(values["EMD"], values["l2"])]
        right += all(step.size > 0 for step in steps)
        gaps += steps
    text = f"in {right} of {len(curves)} settings, each by its own distance ({'; '.join(texts)})"
    return settle(text, gaps)


def batches_matter(document: Document) -> Judged | None:
    """What FastFT and EMD have above l2 at the largest batch against the smallest."""
    curves = _curves(document)
    if len(curves) < 2:
        return None
    sizes = sorted(curves, key=int)
    texts, gaps = [], []
    for name in ("FastFT", "EMD"):
        small, large = (gap(curves[size][name], curves[size]["l2"]) for size in (sizes[0], sizes[-1]))
        texts.append(f"{name} {100 * small.size:+.1f} and {100 * large.size:+.1f}")
        noise = float(np.hypot(small.noise, large.noise))
        gaps.append(Gap(large.size - small.size, noise, small.seeds))
    return settle(f"points above l2 at {sizes[0]} and at {sizes[-1]}: {', '.join(texts)}", gaps)


def _setups(document: Document, column: str) -> dict[str, dict[str, Number]]:
    found: dict[str, dict[str, Number]] = by_data(
        rows_of(document), column, inner=document["tables"][0]["columns"][1]
    )
    return found


def _ends(values: Mapping[str, Number]) -> tuple[Number, Number]:
    ordered_ = sorted(values.values(), key=lambda value: value.mean)
    return ordered_[0], ordered_[-1]


def _spreads(document: Document, column: str, limit: float) -> tuple[list[str], list[Gap]]:
    """How much a column differs between the settings of an objective, against what it may."""
    texts, gaps = [], []
    for name, values in _setups(document, column).items():
        if len(values) == 3:
            low, high = _ends(values)
            texts.append(f"{name} {low} to {high}")
            gaps.append(gap(low, high, -limit))
    return texts, gaps


def depth_steady(document: Document) -> Judged | None:
    """CPCC within ten points and fine accuracy within two over the depths."""
    cpcc, fine = _spreads(document, "CPCC", _STEADY), _spreads(document, "FineAcc", COMPARABLE)
    if not cpcc[1] or not fine[1]:
        return None
    text = f"CPCC {', '.join(cpcc[0])}, within ten points asked for; fine accuracy {', '.join(fine[0])}, "
    return settle(f"{text}within two", [*cpcc[1], *fine[1]], part=_studied(document, "CPCC", "FineAcc"))


def accuracy_steady(document: Document) -> Judged | None:
    """Fine and coarse accuracy within two points over the weights."""
    fine, coarse = (_spreads(document, column, COMPARABLE) for column in ("FineAcc", "CoarseAcc"))
    text = f"fine {', '.join(fine[0])}; coarse {', '.join(coarse[0])}; within two points asked for"
    return settle(text, [*fine[1], *coarse[1]], part=_studied(document, "FineAcc", "CoarseAcc"))


def _studied(document: Document, *columns: str) -> str:
    """How many of the objectives have numbers at all three settings."""
    whole = [
        {name for name, values in _setups(document, column).items() if len(values) == 3} for column in columns
    ]
    return part_of(set.intersection(*whole), _STUDIED)


def _pairs(document: Document, first: str, second: str) -> dict[str, tuple[Number, Number]]:
    return {
        name: (values[first], values[second])
        for name, values in _setups(document, "CPCC").items()
        if {first, second} <= set(values)
    }


def _changes(pairs: Mapping[str, tuple[Number, Number]]) -> str:
    return ", ".join(f"{name} {a} to {b}" for name, (a, b) in pairs.items())


def weights_drop(document: Document) -> Judged | None:
    """CPCC at weight 4 against weight 1."""
    pairs = _pairs(document, "weight 1x", "weight 4x")
    return settle(_changes(pairs), [gap(a, b) for a, b in pairs.values()], part=part_of(pairs, _STUDIED))


def distance_collapses(document: Document) -> Judged | None:
    """CPCC with distance weights below half of that with uniform ones."""
    pairs = _pairs(document, "uniform", "distance")
    gaps = [gap(a, b, a.mean / 2) for a, b in pairs.values()]
    return settle(f"CPCC {_changes(pairs)}; less than half asked for", gaps, part=part_of(pairs, _STUDIED))


def flow_trade(document: Document) -> Judged | None:
    """With every objective a scheme above uniform in the mean target metric, below it in the source one."""
    rows = {(row["objective"], row["weights"]): row for row in rows_of(document)}
    texts: list[str] = []
    gaps: list[Gap] = []
    known = []
    for name in dict.fromkeys(objective for objective, _ in rows):
        changes = {
            scheme: change
            for scheme in ("distance", "inverse")
            if (change := _change(rows.get((name, scheme)), rows.get((name, "uniform")))) is not None
        }
        texts += [
            f"{name} {scheme}: target {100 * target.size:+.1f}, source {-100 * source.size:+.1f}"
            for scheme, (target, source) in changes.items()
        ]
        if changes:
            gaps += max(changes.values(), key=lambda change: min(entry.size for entry in change))
            known.append(name)
    return settle(f"mean change in points, {'; '.join(texts)}", gaps, part=part_of(known, _STUDIED))


def _change(row: Mapping[str, Any] | None, base: Mapping[str, Any] | None) -> tuple[Gap, Gap] | None:
    """What the target metrics gain and the source metrics lose on average."""
    if row is None or base is None:
        return None
    pairs: dict[str, list[tuple[Number, Number]]] = {"t": [], "s": []}
    for name, cell in row.items():
        ours, other = number(cell), number(base[name])
        if ours and other and name.partition(" ")[0] in ("fine", "coarse"):
            pairs[name.partition(" ")[2][0]].append((ours, other))
    if not pairs["t"] or not pairs["s"]:
        return None
    changed, plain = ({k: average([pair[side] for pair in pairs[k]]) for k in pairs} for side in (0, 1))
    return gap(changed["t"], plain["t"]), gap(plain["s"], changed["s"])


def _panels(document: Document) -> list[tuple[str, dict[str, Any], np.ndarray[Any, Any]]]:
    """Objective, panel and matrix of every distance matrix."""
    figures = (figure for figure in document["figures"].values() if figure["kind"] == "matrices")
    return [
        (row["name"], panel, np.array(panel["matrix"], dtype=float))
        for figure in figures
        for row in figure["rows"]
        for panel in row["panels"]
    ]


def blocks_seen(document: Document) -> Judged | None:
    """At every level, distances inside its blocks against those between blocks of the next higher one."""
    texts, ratios = [], []
    for name, panel, matrix in _panels(document):
        found = _block_ratios(matrix, panel["levels"])
        texts.append(f"{name} {panel['title']} {', '.join(f'{ratio:.2f}' for ratio in found)}")
        ratios += found
    text = "distances inside blocks over those outside, but in the same block of the next higher level, "
    text += f"coarsest level first: {'; '.join(texts)}; {_BLOCK} or less asked for; one seed"
    return Judged(text, all(ratio <= _BLOCK for ratio in ratios)) if ratios else None


def _block_ratios(matrix: np.ndarray[Any, Any], levels: Sequence[Sequence[int]]) -> list[float]:
    """Inside over outside for each level; levels without pairs of both kinds are left out."""
    above = np.ones(matrix.shape, dtype=bool)
    ratios = []
    for cuts in levels:
        group = np.searchsorted(cuts, np.arange(len(matrix)), side="right")
        same = group[:, None] == group[None, :]
        inside, outside = same & ~np.eye(len(matrix), dtype=bool), above & ~same
        if inside.any() and outside.any():
            ratios.append(float(np.nanmean(matrix[inside]) / np.nanmean(matrix[outside])))
        above = same
    return ratios


def block_darkens(document: Document) -> Judged | None:
    """Distances inside the first block over the mean of all, growing with the weight."""
    shares: dict[str, list[Number]] = {}
    for name, panel, matrix in _panels(document):
        size = panel["cuts"][0]
        block = matrix[:size, :size]
        inside = block[~np.eye(len(block), dtype=bool)]
        shares.setdefault(name, []).append(Number(float(np.nanmean(inside) / np.nanmean(matrix))))
    whole = {name: values for name, values in shares.items() if len(values) == 3}
    texts = [f"{name} {', '.join(str(value) for value in values)}" for name, values in whole.items()]
    gaps = [gap(after, before) for values in whole.values() for before, after in pairwise(values)]
    text = f"distances in its block in percent of the mean, by weight: {'; '.join(texts)}"
    return settle(text, gaps, part=part_of(whole, _STUDIED))


def _epochs(document: Document, rivals: Sequence[str], factor: float = 1.0) -> Judged | None:
    """Seconds of FastFT against those of others times a factor, on every data set."""
    texts, gaps, data = [], [], []
    for name, values in by_data(rows_of(document), "s per epoch").items():
        others = {rival: values[rival] for rival in rivals if rival in values}
        if "FastFT" in values and others:
            shown = ", ".join(f"{rival} {value} s" for rival, value in others.items())
            texts.append(f"{name}: FastFT {values['FastFT']} s, {shown}")
            gaps += [gap(v, values["FastFT"], (1 - factor) * v.mean) for v in others.values()]
            data.append(name)
    return settle("; ".join(texts), gaps, data)


def epoch_over_emd(document: Document) -> Judged | None:
    """FastFT against EMD."""
    return _epochs(document, ("EMD",))


def epoch_over_others(document: Document) -> Judged | None:
    """FastFT against the other approximations."""
    return _epochs(document, ("Sinkhorn", "SWD"))


def epoch_like_l2(document: Document) -> Judged | None:
    """FastFT at most a tenth slower than l2."""
    found = _epochs(document, ("l2",), _LITTLE_SLOWER)
    return found and replace(found, measured=f"{found.measured}; a tenth more is allowed")


def memory_helps(document: Document) -> Judged | None:
    """TestCPCC with and without a memory at every batch size."""
    cells = {(r["objective"], r["batch size"], r["memory"]): number(r["TestCPCC"]) for r in rows_of(document)}
    texts, gaps, known = [], [], []
    for (name, size, memory), value in cells.items():
        without = cells.get((name, size, "0"))
        if memory != "0" and value and without:
            texts.append(f"{name} at {size}: {without} to {value}")
            gaps.append(gap(value, without))
            known.append(f"{name} at {size}")
    expected = [f"{name} at {size}" for name in _STUDIED for size in _BATCHES]
    return settle(", ".join(texts), gaps, part=part_of(known, expected, "objectives and batch sizes"))
