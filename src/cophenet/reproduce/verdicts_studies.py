"""Verdicts on claims about ablations and the time of epochs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cophenet.reproduce.verdicts import Document, Gap, Judged, Number, by_data, gap, number, rows_of, settle

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

_COMPARABLE = 0.02
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
    cpcc, fine = _spreads(document, "CPCC", _STEADY), _spreads(document, "FineAcc", _COMPARABLE)
    if not cpcc[1] or not fine[1]:
        return None
    text = f"CPCC {', '.join(cpcc[0])}, within ten points asked for; fine accuracy {', '.join(fine[0])}, "
    return settle(f"{text}within two", [*cpcc[1], *fine[1]])


def accuracy_steady(document: Document) -> Judged | None:
    """Fine and coarse accuracy within two points over the weights."""
    fine, coarse = (_spreads(document, column, _COMPARABLE) for column in ("FineAcc", "CoarseAcc"))
    text = f"fine {', '.join(fine[0])}; coarse {', '.join(coarse[0])}; within two points asked for"
    return settle(text, [*fine[1], *coarse[1]])


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
    return settle(_changes(pairs), [gap(a, b) for a, b in pairs.values()])


def distance_collapses(document: Document) -> Judged | None:
    """CPCC with distance weights below half of that with uniform ones."""
    pairs = _pairs(document, "uniform", "distance")
    gaps = [gap(a, b, a.mean / 2) for a, b in pairs.values()]
    return settle(f"CPCC {_changes(pairs)}; less than half asked for", gaps)


def flow_trade(document: Document) -> Judged | None:
    """A scheme above uniform in target metrics on average, and below it in source metrics."""
    rows = {(row["objective"], row["weights"]): row for row in rows_of(document)}
    texts, right = [], []
    for name in dict.fromkeys(objective for objective, _ in rows):
        changes = {
            scheme: change
            for scheme in ("distance", "inverse")
            if (change := _change(rows.get((name, scheme)), rows.get((name, "uniform")))) is not None
        }
        texts += [f"{name} {s}: target {t:+.1f}, source {o:+.1f}" for s, (t, o) in changes.items()]
        if changes:
            right.append(any(target > 0 > source for target, source in changes.values()))
    text = "mean change in points, " + "; ".join(texts)
    return Judged(text, all(right)) if right else None


def _change(row: Mapping[str, Any] | None, base: Mapping[str, Any] | None) -> tuple[float, float] | None:
    """Mean change of the target and of the source metrics, in points."""
    if row is None or base is None:
        return None
    changes: dict[str, list[float]] = {"t": [], "s": []}
    for name, cell in row.items():
        mine, other = number(cell), number(base[name])
        if mine and other and name.partition(" ")[0] in ("fine", "coarse"):
            changes[name.partition(" ")[2][0]].append(100 * (mine.mean - other.mean))
    if not changes["t"] or not changes["s"]:
        return None
    return float(np.mean(changes["t"])), float(np.mean(changes["s"]))


def _panels(document: Document) -> list[tuple[str, str, np.ndarray[Any, Any], Sequence[int]]]:
    """Objective, setting, matrix and cuts of every distance matrix."""
    figures = (figure for figure in document["figures"].values() if figure["kind"] == "matrices")
    return [
        (row["name"], panel["title"], np.array(panel["matrix"], dtype=float), panel["cuts"])
        for figure in figures
        for row in figure["rows"]
        for panel in row["panels"]
    ]


def blocks_seen(document: Document) -> Judged | None:
    """Distances inside the blocks of the coarsest level against those outside."""
    texts, ratios = [], []
    for name, setting, matrix, cuts in _panels(document):
        group = np.searchsorted(cuts, np.arange(len(matrix)), side="right")
        same = group[:, None] == group[None, :]
        inside = np.nanmean(matrix[same & ~np.eye(len(matrix), dtype=bool)])
        ratios.append(float(inside / np.nanmean(matrix[~same])))
        texts.append(f"{name} {setting} {ratios[-1]:.2f}")
    text = f"distances inside blocks over those outside: {', '.join(texts)}; {_BLOCK} or less asked for"
    return Judged(text, max(ratios) <= _BLOCK) if ratios else None


def block_darkens(document: Document) -> Judged | None:
    """Distances inside the first block over the mean of all, growing with the weight."""
    shares: dict[str, list[float]] = {}
    for name, _, matrix, cuts in _panels(document):
        block = matrix[: cuts[0], : cuts[0]]
        inside = block[~np.eye(len(block), dtype=bool)]
        shares.setdefault(name, []).append(float(np.nanmean(inside) / np.nanmean(matrix)))
    whole = {name: values for name, values in shares.items() if len(values) == 3}
    text = "; ".join(f"{name} {', '.join(f'{v:.2f}' for v in values)}" for name, values in whole.items())
    holds = all(values == sorted(values) for values in whole.values())
    return Judged(f"distances in its block over the mean, by weight: {text}", holds) if whole else None


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
    return found and Judged(
        f"{found.measured}; a tenth more is allowed", found.holds, found.close, found.data
    )


def memory_helps(document: Document) -> Judged | None:
    """TestCPCC with and without a memory at every batch size."""
    cells = {(r["objective"], r["batch size"], r["memory"]): number(r["TestCPCC"]) for r in rows_of(document)}
    texts, gaps = [], []
    for (name, size, memory), value in cells.items():
        without = cells.get((name, size, "0"))
        if memory != "0" and value and without:
            texts.append(f"{name} at {size}: {without} to {value}")
            gaps.append(gap(value, without))
    return settle(", ".join(texts), gaps)
