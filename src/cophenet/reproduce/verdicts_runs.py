"""Verdicts on claims about the main tables: TestCPCC, fine and coarse metrics, baselines, the control."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cophenet.reproduce.verdicts import (
    ALL_CPCC,
    OT,
    Document,
    Gap,
    Judged,
    Number,
    by_data,
    by_name,
    gap,
    number,
    rows_of,
    settle,
)

__all__ = [
    "above_baselines",
    "above_flat",
    "baselines_like_flat",
    "coarse_over_flat",
    "competitive",
    "data_sizes",
    "emd_separates",
    "fine_over_l2",
    "flat_bounds",
    "l2_bounds",
    "opposite_trends",
    "ot_best",
    "rank_worse",
    "tree_helps",
]

_FAR = 0.1
_COMPARABLE = 0.02


def _top(values: Mapping[str, Number]) -> str:
    return max(values, key=lambda name: values[name].mean)


def _low(values: Mapping[str, Number]) -> str:
    return min(values, key=lambda name: values[name].mean)


def _of(values: Mapping[str, Number], names: Sequence[str]) -> dict[str, Number]:
    return {name: values[name] for name in names if name in values}


def above_flat(document: Document) -> Judged | None:
    """Every CPCC objective at least ten points above Flat on every data set, by the same distance."""
    rows = rows_of(document)
    own = by_data(rows, "TestCPCC")
    texts, gaps, data = [], [], []
    for name, values in by_data(rows, "by l2").items():
        trained = _of(values, ALL_CPCC)
        if "Flat" in values and trained:
            low, mine = _low(trained), _of(own[name], ALL_CPCC)
            texts.append(
                f"{name}: by l2, which decides, Flat {values['Flat']}, CPCC objectives from {trained[low]} "
                f"({low}); by their own distances from {mine[_low(mine)]} ({_low(mine)})"
            )
            gaps += [gap(value, values["Flat"], _FAR) for value in trained.values()]
            data.append(name)
    return settle("; ".join(texts) + "; ten points more count as far above", gaps, data)


def ot_best(document: Document) -> Judged | None:
    """The best OT objective against l2 on each data set, each by its own distance as in the paper."""
    rows = rows_of(document)
    by_l2 = by_data(rows, "by l2")
    texts, found = [], {}
    for data, values in by_data(rows, "TestCPCC").items():
        ours = _of(values, OT)
        if "l2" in values and ours:
            best, same = _top(ours), _of(by_l2.get(data, {}), ALL_CPCC)
            also = f", by l2 alone {_top(same)} is best" if same else ""
            texts.append(f"{data}: {best} {ours[best]}, l2 {values['l2']}{also}")
            found[data] = gap(ours[best], values["l2"])
    if not found:
        return None
    right = [data for data, entry in found.items() if entry.size > 0]
    holds = 2 * len(right) > len(found)
    # What decides: the data sets on the winning side.
    decisive = [entry for entry in found.values() if (entry.size > 0) == holds]
    text = f"{len(right)} of {len(found)} data sets, each by its own distance ({'; '.join(texts)})"
    settled = settle(text, decisive, list(found))
    return settled and Judged(settled.measured, holds, settled.close, settled.data)


def _metrics(document: Document) -> list[str]:
    return [name for name in document["tables"][1]["columns"] if name[1:] in ("Acc", "MAP")]


Compare = Callable[[dict[str, Number]], "tuple[str, Gap] | None"]


def _every_metric(document: Document, compare: Compare, text: str) -> Judged | None:
    """A comparison in every metric of every data set."""
    rows = rows_of(document, 1)
    gaps, data, lost = [], [], []
    for metric in _metrics(document):
        for name, values in by_data(rows, metric).items():
            found = compare(values)
            if found is not None:
                gaps.append(found[1])
                data.append(name)
                if found[1].size <= 0:
                    lost.append(f"{name} {metric}: {found[0]}")
    won = f"{text} in {len(gaps) - len(lost)} of {len(gaps)} metrics"
    return settle(won + (f", not in {'; '.join(lost)}" if lost else ""), gaps, data)


def _best_over(rival: str) -> Compare:
    def compare(values: dict[str, Number]) -> tuple[str, Gap] | None:
        ours = _of(values, OT)
        if rival not in values or not ours:
            return None
        best = _top(ours)
        return f"{best} {ours[best]}, {rival} {values[rival]}", gap(ours[best], values[rival])

    return compare


def _each_over(document: Document, rival: str) -> str:
    """In how many metrics each OT objective alone is above another one."""
    texts = []
    rows = rows_of(document, 1)
    for name in OT:
        pairs = [
            (values[name].mean, values[rival].mean)
            for metric in _metrics(document)
            for values in by_data(rows, metric).values()
            if name in values and rival in values
        ]
        if pairs:
            texts.append(f"{name} {sum(a > b for a, b in pairs)} of {len(pairs)}")
    return ", ".join(texts)


def _over(document: Document, rival: str) -> Judged | None:
    text = f"each alone is above {rival} in: {_each_over(document, rival)}; the best of them, which decides,"
    return _every_metric(document, _best_over(rival), text)


def fine_over_l2(document: Document) -> Judged | None:
    """Fine metrics against l2."""
    return _over(document, "l2")


def coarse_over_flat(document: Document) -> Judged | None:
    """Coarse metrics against Flat."""
    return _over(document, "Flat")


def competitive(document: Document) -> Judged | None:
    """FastFT at most two points below EMD."""

    def compare(values: dict[str, Number]) -> tuple[str, Gap] | None:
        if not {"FastFT", "EMD"} <= set(values):
            return None
        fast, exact = values["FastFT"], values["EMD"]
        return f"FastFT {fast}, EMD {exact}", gap(fast, exact, -_COMPARABLE)

    return _every_metric(document, compare, "FastFT is at most two points below EMD")


def emd_separates(document: Document) -> Judged | None:
    """Fine metrics of EMD against those of l2."""

    def compare(values: dict[str, Number]) -> tuple[str, Gap] | None:
        if not {"EMD", "l2"} <= set(values):
            return None
        return f"EMD {values['EMD']}, l2 {values['l2']}", gap(values["EMD"], values["l2"])

    return _every_metric(document, compare, "EMD is above l2")


def _bounds(document: Document, bound: str, rivals: Sequence[str]) -> Judged | None:
    def compare(values: dict[str, Number]) -> tuple[str, Gap] | None:
        others = _of(values, rivals)
        if bound not in values or not others:
            return None
        best = _top(others)
        return f"{bound} {values[bound]}, {best} {others[best]}", gap(values[bound], others[best])

    return _every_metric(document, compare, f"{bound} is above all others")


def flat_bounds(document: Document) -> Judged | None:
    """Flat above every CPCC objective."""
    return _bounds(document, "Flat", ALL_CPCC)


def l2_bounds(document: Document) -> Judged | None:
    """L2 above every OT objective."""
    return _bounds(document, "l2", OT)


def above_baselines(document: Document) -> Judged | None:
    """The lowest CPCC of a CPCC objective against the highest of another one, both by l2."""
    values, own = by_name(document, "by l2"), by_name(document, "TestCPCC")
    ours = _of(values, ALL_CPCC)
    rest = {name: value for name, value in values.items() if name not in ALL_CPCC}
    if not ours or not rest:
        return None
    mine = _of(own, ALL_CPCC)
    low, high = _low(ours), _top(rest)
    text = f"by l2, which decides: lowest {low} {ours[low]}, highest other {high} {rest[high]}; by their own "
    text += f"distances the lowest is {_low(mine)} {mine[_low(mine)]}"
    return settle(text, [gap(ours[low], rest[high])])


def opposite_trends(document: Document) -> Judged | None:
    """Signs of the correlations."""
    fits = document["fits"]
    if not all(fits.get(name) for name in ("coarse metrics", "fine metrics")):
        return None
    coarse, fine = (fits[name]["correlation"] for name in ("coarse metrics", "fine metrics"))
    return Judged(f"r = {coarse:.2f} with coarse, {fine:.2f} with fine", coarse > 0 > fine)


def baselines_like_flat(document: Document) -> Judged | None:
    """Every other objective below the mean of the CPCC ones in coarse metrics, above it in fine ones."""
    coarse, fine = (by_name(document, f"mean {level}") for level in ("coarse", "fine"))
    others = [name for name in coarse if name in fine and name not in (*ALL_CPCC, "Flat", "Rank")]
    if not others or not _of(coarse, ALL_CPCC) or not _of(fine, ALL_CPCC):
        return None
    middle_coarse, middle_fine = (_middle(_of(values, ALL_CPCC)) for values in (coarse, fine))
    gaps = [gap(middle_coarse, coarse[name]) for name in others]
    gaps += [gap(fine[name], middle_fine) for name in others]
    odd = [n for n, g in zip([*others, *others], gaps, strict=True) if g.size <= 0]
    text = f"mean of CPCC objectives: coarse {middle_coarse}, fine {middle_fine}; "
    text += f"{len(others) - len(set(odd))} of {len(others)} others are below in coarse and above in fine"
    text += f", not {', '.join(dict.fromkeys(odd))}" if odd else ""
    return settle(text, gaps)


def _middle(values: Mapping[str, Number]) -> Number:
    """Mean of several objectives, with the mean of their spreads."""
    spreads = [value.std for value in values.values() if value.std is not None]
    mean = sum(value.mean for value in values.values()) / len(values)
    seeds = min(value.seeds for value in values.values())
    return Number(mean, sum(spreads) / len(spreads) if spreads else None, seeds)


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
    return settle(f"coarse sMAP: {text}", [gap(a, b) for a, b in known.values()])


def data_sizes(document: Document) -> Judged | None:
    """Counted samples within two percent of the printed sizes, which are rounded."""
    rows, texts, right = rows_of(document), [], []
    for row in rows:
        for part in ("train", "test"):
            cell = row[part]
            if cell and cell["mean"] is not None and cell["paper"]:
                texts.append(f"{row['data']} {part} {cell['mean']:,.0f}")
                right.append(abs(cell["mean"] / cell["paper"]["value"] - 1) < _COMPARABLE)
    text = f"{len(right) // 2} of {len(rows)} data sets are there: {', '.join(texts)}; two percent allowed"
    return Judged(text, all(right)) if right else None
