"""Verdicts on claims about runs: TestCPCC, baselines, scatter, rank, the control, sizes of data sets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from cophenet.paper.verdicts import (
    ALL_CPCC,
    COMPARABLE,
    OT,
    OTHERS,
    Document,
    Gap,
    Judged,
    Number,
    average,
    by_data,
    by_name,
    gap,
    number,
    part_of,
    rows_of,
    settle,
    settle_most,
)

__all__ = [
    "above_baselines",
    "above_flat",
    "baselines_like_flat",
    "data_sizes",
    "opposite_trends",
    "ot_best",
    "rank_worse",
    "tree_helps",
]

_FAR = 0.1
_FEWEST_POINTS = 4
# As in the paper, the fits are without Rank.
_FITTED = tuple(name for name in (*ALL_CPCC, "Flat", *OTHERS) if name != "Rank")


def _top(values: Mapping[str, Number]) -> str:
    return max(values, key=lambda name: values[name].mean)


def _low(values: Mapping[str, Number]) -> str:
    return min(values, key=lambda name: values[name].mean)


def _of(values: Mapping[str, Number], names: Sequence[str]) -> dict[str, Number]:
    return {name: values[name] for name in names if name in values}


def _common(groups: Sequence[Mapping[str, Number]], names: Sequence[str]) -> list[str]:
    """The names that are in every group."""
    return [name for name in names if all(name in group for group in groups)]


def _lowest_own(own: Mapping[str, Number]) -> str:
    """The lowest CPCC by the distance trained with, in words; nothing if none is known."""
    mine = _of(own, ALL_CPCC)
    return f"; by their own distances the lowest is {_low(mine)} {mine[_low(mine)]}" if mine else ""


def above_flat(document: Document) -> Judged | None:
    """Every CPCC objective at least ten points above Flat on every data set, by the same distance."""
    rows = rows_of(document)
    own = by_data(rows, "TestCPCC")
    texts, gaps, found = [], [], {}
    for name, values in by_data(rows, "by l2").items():
        trained = _of(values, ALL_CPCC)
        if "Flat" in values and trained:
            low = _low(trained)
            texts.append(
                f"{name}: by l2, which decides, Flat {values['Flat']}, lowest CPCC objective {low} "
                f"{trained[low]}{_lowest_own(own.get(name, {}))}"
            )
            gaps += [gap(value, values["Flat"], _FAR) for value in trained.values()]
            found[name] = trained
    part = part_of(_common(list(found.values()), ALL_CPCC), ALL_CPCC)
    far = f"ten points more count as far above, as in {sum(g.size > 0 for g in gaps)} of {len(gaps)}"
    return settle(f"{'; '.join(texts)}; {far}", gaps, list(found), part)


def ot_best(document: Document) -> Judged | None:
    """The best OT objective against l2 on each data set, each by its own distance as in the paper."""
    rows = rows_of(document)
    by_l2 = by_data(rows, "by l2")
    texts, found, groups = [], {}, []
    for data, values in by_data(rows, "TestCPCC").items():
        ours = _of(values, OT)
        if "l2" in values and ours:
            best, same = _top(ours), _of(by_l2.get(data, {}), ALL_CPCC)
            also = f", by l2 alone {_top(same)} is best" if same else ""
            texts.append(f"{data}: {best} {ours[best]}, l2 {values['l2']}{also}")
            found[data] = gap(ours[best], values["l2"])
            groups.append(ours)
    right = sum(entry.size > 0 for entry in found.values())
    text = f"{right} of {len(found)} data sets, each by its own distance ({'; '.join(texts)}); chance favours"
    return settle_most(
        f"{text} the best of several over a single one", found, part_of(_common(groups, OT), OT)
    )


def above_baselines(document: Document) -> Judged | None:
    """The CPCC of every CPCC objective against that of every other one, both by l2."""
    values, own = by_name(document, "by l2"), by_name(document, "TestCPCC")
    ours = _of(values, ALL_CPCC)
    rest = {name: value for name, value in values.items() if name not in ALL_CPCC}
    if not ours or not rest:
        return None
    low, high = _low(ours), _top(rest)
    text = f"by l2, which decides: lowest {low} {ours[low]}, highest other {high} {rest[high]}"
    gaps = [gap(mine, other) for mine in ours.values() for other in rest.values()]
    return settle(text + _lowest_own(own), gaps, part=part_of(values, (*ALL_CPCC, "Flat", *OTHERS)))


def opposite_trends(document: Document) -> Judged | None:
    """Signs of the correlations by l2; below two over the root of the number of points they may be noise."""
    fits = document["fits"]
    texts = []
    for how in ("by l2", "own distance"):
        pair = [fits.get(f"{level} metrics, {how}") for level in ("coarse", "fine")]
        if all(fit and fit["points"] >= _FEWEST_POINTS for fit in pair):
            coarse, fine = pair
            decides = " (decides)" if how == "by l2" else ""
            texts.append(
                f"{how}{decides}: r = {coarse['correlation']:.2f} with coarse, "
                f"{fine['correlation']:.2f} with fine, n = {min(coarse['points'], fine['points'])}"
            )
        if how == "by l2" and not texts:
            return None
    found = [(fits["coarse metrics, by l2"], 1), (fits["fine metrics, by l2"], -1)]
    gaps = [Gap(sign * fit["correlation"], 2 / math.sqrt(fit["points"])) for fit, sign in found]
    fewest, expected = min(fit["points"] for fit, _ in found), len(_FITTED)
    part = f"{fewest} of {expected} objectives" if fewest < expected else ""
    return settle("; ".join(texts), gaps, part=part)


def baselines_like_flat(document: Document) -> Judged | None:
    """Every other objective below the mean of the CPCC ones in coarse metrics, above it in fine ones."""
    coarse, fine = (by_name(document, f"mean {level}") for level in ("coarse", "fine"))
    others = [name for name in coarse if name in fine and name not in (*ALL_CPCC, "Flat", "Rank")]
    if not others or not _of(coarse, ALL_CPCC) or not _of(fine, ALL_CPCC):
        return None
    middle_coarse, middle_fine = (average(list(_of(v, ALL_CPCC).values())) for v in (coarse, fine))
    gaps = [gap(middle_coarse, coarse[name]) for name in others]
    gaps += [gap(fine[name], middle_fine) for name in others]
    odd = [n for n, g in zip([*others, *others], gaps, strict=True) if g.size <= 0]
    text = f"mean of CPCC objectives: coarse {middle_coarse}, fine {middle_fine}; "
    text += f"{len(others) - len(set(odd))} of {len(others)} others are below in coarse and above in fine"
    text += f", not {', '.join(dict.fromkeys(odd))}" if odd else ""
    expected = [name for name in _FITTED if name != "Flat"]
    return settle(text, gaps, part=part_of(_common([coarse, fine], expected), expected))


def rank_worse(document: Document) -> Judged | None:
    """All metrics of both."""
    rows: dict[str, dict[str, Any]] = {row["objective"]: row for row in rows_of(document)}
    if not {"Flat", "Rank"} <= set(rows):
        return None
    pairs = {name: (number(cell), number(rows["Rank"][name])) for name, cell in rows["Flat"].items()}
    gaps = {name: gap(flat, rank) for name, (flat, rank) in pairs.items() if flat and rank}
    better = [
        f"{name}: Flat {pairs[name][0]}, Rank {pairs[name][1]}" for name in gaps if gaps[name].size <= 0
    ]
    text = f"in {len(gaps) - len(better)} of {len(gaps)} metrics"
    return settle(text + (f", not in {'; '.join(better)}" if better else ""), list(gaps.values()))


def tree_helps(document: Document) -> Judged | None:
    """Coarse retrieval with the tree and with a shuffled one."""
    found = document["tables"][0]
    place = found["columns"].index("coarse sMAP")
    pairs = {row[0]: (number(row[place]), number(row[place + 1])) for row in found["rows"]}
    known = {name: (a, b) for name, (a, b) in pairs.items() if a and b}
    text = ", ".join(f"{name} {a} against {b}" for name, (a, b) in known.items())
    gaps = [gap(a, b) for a, b in known.values()]
    return settle(f"coarse sMAP: {text}", gaps, part=part_of(known, ALL_CPCC))


def data_sizes(document: Document) -> Judged | None:
    """Counted samples within two percent of the printed sizes, which are rounded.

    Of fewer samples it cannot be told whether the table is wrong or data is left out: they are taken for a
    part of the data, which decides nothing.
    """
    rows, texts, whole = rows_of(document), [], {}
    for row in rows:
        sizes = {part: _sizes(row[part]) for part in ("train", "test")}
        known = {part: pair for part, pair in sizes.items() if pair}
        less = {part: pair for part, pair in known.items() if pair[0] / pair[1] < 1 - COMPARABLE}
        if less:
            shown = ", ".join(
                f"{part} {counted:,.0f} of {printed:,.0f}" for part, (counted, printed) in less.items()
            )
            texts.append(f"{row['data']}: a part of the data is here ({shown})")
        elif known:
            shown = ", ".join(f"{part} {counted:,.0f}" for part, (counted, _) in known.items())
            texts.append(f"{row['data']}: {shown}")
            whole[row["data"]] = all(abs(a / b - 1) < COMPARABLE for a, b in known.values())
    text = f"{'; '.join(texts)}; two percent allowed"
    if not whole:
        return Judged(text, None, part="whole data is needed") if texts else None
    names = [row["data"] for row in rows]
    return Judged(text, all(whole.values()), part=part_of(whole, names, "data sets"))


def _sizes(cell: Mapping[str, Any] | None) -> tuple[float, float] | None:
    """Counted and printed, where both are known."""
    if not cell or cell["mean"] is None or not cell["paper"]:
        return None
    return cell["mean"], cell["paper"]["value"]
