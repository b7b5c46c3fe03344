"""Verdicts on claims about features: modes of classes, maps, orders of Fast FlowTree."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from cophenet.paper.variants import BREEDS
from cophenet.paper.verdicts import (
    OT,
    Document,
    Judged,
    Number,
    gap,
    number,
    part_of,
    rows_of,
    settle,
    settle_most,
)

__all__ = ["breeds_least", "clearer_groups", "modes_with_all", "principal_closer", "several_modes"]


_ONE = Number(1.0, unit="number")
# Ten components are the most that are tried.
_LIMIT = 9.5


def _below_limit(judged: Judged | None, values: Iterable[Number]) -> Judged | None:
    """Nothing is decided where the criterion takes as many components as it may."""
    if judged is None or all(value.mean < _LIMIT for value in values):
        return judged
    told = f"{judged.measured}; at most ten are tried, and at that limit samples are too few to tell"
    return replace(judged, measured=told, close=True)


def several_modes(document: Document) -> Judged | None:
    """Mean components above one with l2, by the paper's way, on most data sets."""
    rows = [row for row in rows_of(document) if row["objective"] == "l2" and number(row["diagonal"])]
    texts = [
        f"{row['data']}: {number(row['diagonal'])} (full covariance {number(row['full, PCA(32)'])})"
        for row in rows
    ]
    gaps = {row["data"]: gap(value, _ONE) for row in rows if (value := number(row["diagonal"]))}
    known = [value for row in rows if (value := number(row["diagonal"]))]
    return _below_limit(settle_most("; ".join(texts), gaps), known)


def modes_with_all(document: Document) -> Judged | None:
    """Mean components above one with every OT objective."""
    rows = [row for row in rows_of(document) if row["objective"] in OT]
    known = {row["objective"]: value for row in rows if (value := number(row["diagonal"]))}
    text = ", ".join(f"{name} {value}" for name, value in known.items())
    judged = settle(text, [gap(value, _ONE) for value in known.values()], part=part_of(known, OT))
    return _below_limit(judged, known.values())


def breeds_least(document: Document) -> Judged | None:
    """Components on each BREEDS setting below those of every other data set."""
    values = {
        row["data"]: value
        for row in rows_of(document)
        if row["objective"] == "l2" and (value := number(row["diagonal"]))
    }
    few = {name: value for name, value in values.items() if name in BREEDS}
    many = {name: value for name, value in values.items() if name not in BREEDS}
    if not few or not many:
        return None
    text = ", ".join(f"{name} {value}" for name, value in values.items())
    gaps = [gap(more, less) for more in many.values() for less in few.values()]
    return settle(text, gaps, list(values))


def clearer_groups(document: Document) -> Judged | None:
    """Share of the variance in the plane that is between coarse groups, of l2 and of EMD."""
    shares = {}
    for panel in document["figures"]["umap"]["panels"]:
        points, group = np.array(panel["points"]), np.array(panel["group"])
        inside = sum(((points[group == g] - points[group == g].mean(0)) ** 2).sum() for g in np.unique(group))
        shares[panel["title"].partition("-CPCC")[0]] = Number(
            float(1 - inside / ((points - points.mean(0)) ** 2).sum())
        )
    if not {"l2", "EMD"} <= set(shares):
        return None
    text = f"variance of the map between coarse classes: l2 {shares['l2']} %, EMD {shares['EMD']} %"
    return settle(text, [gap(shares["l2"], shares["EMD"])])


def principal_closer(document: Document) -> Judged | None:
    """Errors against EMD on the features of every run."""
    pairs = [
        tuple(Number(study[f"{order} order"]["error"]) for order in ("batch", "principal"))
        for study in document["studies"].values()
    ]
    means = [Number(float(np.mean([pair[side].mean for pair in pairs]))) for side in (0, 1)] if pairs else []
    text = "mean error {} % in batch order, {} % in principal order".format(*means) if means else ""
    return settle(text, [gap(batch, principal) for batch, principal in pairs])
