"""Whether the measured numbers of an item's document agree with a claim; None where they are not there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Judged"]

Document = Mapping[str, Any]
_OT = ("FastFT", "EMD", "Sinkhorn", "SWD")
_CPCC = ("l2", *_OT)


@dataclass(frozen=True)
class Judged:
    """What was found of a claim.

    Attributes:
        measured: The numbers, in a few words.
        holds: Whether they agree with the claim.
    """

    measured: str
    holds: bool


def _mean(cell: Any) -> float | None:
    return cell["mean"] if isinstance(cell, Mapping) else None


def _rows(document: Document, table: int = 0) -> list[dict[str, Any]]:
    """Rows of a table by column name."""
    found = document["tables"][table]
    return [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _by_data(rows: Sequence[Mapping[str, Any]], column: str) -> dict[str, dict[str, float]]:
    """Data set -> objective -> number."""
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        value = _mean(row[column])
        if value is not None:
            found.setdefault(row["data"], {})[row["objective"]] = value
    return found


def _exponent(document: Document, name: str) -> float | None:
    value: float | None = document["study"]["times"].get(name, {}).get("exponent")
    return value


def linear_fastft(document: Document) -> Judged | None:
    """An exponent of about one."""
    power = _exponent(document, "FastFT")
    return None if power is None else Judged(f"n to the power {power:.2f}", 0.75 <= power <= 1.25)


def steep_emd(document: Document) -> Judged | None:
    """An exponent above two."""
    power = _exponent(document, "EMD")
    return None if power is None else Judged(f"n to the power {power:.2f}", power > 2)


def faster_than_sinkhorn(document: Document) -> Judged | None:
    """Mean seconds at the largest size that both were timed at."""
    ours, other = (document["study"]["times"].get(name) for name in ("FastFT", "Sinkhorn, reg 10"))
    sizes = sorted(set(ours["sizes"]) & set(other["sizes"])) if ours and other else []
    if not sizes:
        return None
    fast, slow = (entry["mean"][entry["sizes"].index(sizes[-1])] for entry in (ours, other))
    return Judged(f"{slow / fast:.0f} times faster at n = {sizes[-1]}", fast < slow)


def _errors(document: Document, kind: str) -> dict[str, float]:
    """Mean error of every distance at the largest size."""
    entries = document["study"]["errors"].get(kind, {})
    return {name: entry["mean"][-1] for name, entry in entries.items() if name != "EMD" and entry["mean"]}


def closer_than_sinkhorn(document: Document) -> Judged | None:
    """Errors on mixtures, samples in random order and mode by mode."""
    names = ("FastFT", "Sinkhorn, reg 10")
    random, sorted_ = (_errors(document, kind) for kind in ("mixture", "mixture, mode by mode"))
    if not all(name in errors for name in names for errors in (random, sorted_)):
        return None
    texts = [
        f"{order}: FastFT {_percent(errors[names[0]])} %, Sinkhorn {_percent(errors[names[1]])} %"
        for order, errors in (("random order", random), ("mode by mode", sorted_))
    ]
    return Judged("error, " + "; ".join(texts), abs(random[names[0]]) < abs(random[names[1]]))


def gaussian_agreement(document: Document) -> Judged | None:
    """All but SWD within a tenth of EMD, SWD not."""
    errors = _errors(document, "gaussian")
    if "SWD" not in errors:
        return None
    others = max(abs(value) for name, value in errors.items() if name != "SWD")
    text = f"largest error {_percent(others)} %, of SWD {_percent(abs(errors['SWD']))} %"
    return Judged(text, others < 0.1 < abs(errors["SWD"]))


def swd_like_l2(document: Document) -> Judged | None:
    """SWD nearer to l2 than to EMD."""
    errors = _errors(document, "mixture")
    if not {"SWD", "l2"} <= set(errors):
        return None
    text = f"against EMD: SWD {_percent(errors['SWD'])} %, l2 {_percent(errors['l2'])} %"
    return Judged(text, abs(errors["SWD"] - errors["l2"]) < abs(errors["SWD"]))


def above_flat(document: Document) -> Judged | None:
    """Every CPCC objective at least ten points above Flat, on every data set."""
    texts, gains = [], []
    for data, values in _by_data(_rows(document), "TestCPCC").items():
        trained = [values[name] for name in _CPCC if name in values]
        if "Flat" in values and trained:
            texts.append(f"{data}: Flat {_percent(values['Flat'])}, others from {_percent(min(trained))}")
            gains.append(min(trained) - values["Flat"])
    return Judged("; ".join(texts), min(gains) > 0.1) if gains else None


def ot_best(document: Document) -> Judged | None:
    """The best objective of each data set."""
    best = {
        data: max(values, key=lambda name: values[name])
        for data, values in _by_data(_rows(document), "TestCPCC").items()
        if "l2" in values and any(name in values for name in _OT)
    }
    if not best:
        return None
    right = sum(name in _OT for name in best.values())
    text = ", ".join(f"{data}: {name}" for data, name in best.items())
    return Judged(f"{right} of {len(best)} data sets ({text})", 2 * right > len(best))


def _against(document: Document, rival: str) -> Judged | None:
    """The best OT objective against another one, in every metric of every data set."""
    rows = _rows(document, 1)
    metrics = [name for name in document["tables"][1]["columns"] if name[1:] in ("Acc", "MAP")]
    wins, losses = 0, []
    for metric in metrics:
        for data, values in _by_data(rows, metric).items():
            ours = [values[name] for name in _OT if name in values]
            if rival not in values or not ours:
                continue
            if max(ours) > values[rival]:
                wins += 1
            else:
                losses.append(f"{data} {metric}")
    if not wins and not losses:
        return None
    text = f"the best OT distance is above {rival} in {wins} of {wins + len(losses)} metrics"
    return Judged(text + (f", not in {', '.join(losses)}" if losses else ""), not losses)


def fine_over_l2(document: Document) -> Judged | None:
    """Fine metrics against l2."""
    return _against(document, "l2")


def coarse_over_flat(document: Document) -> Judged | None:
    """Coarse metrics against Flat."""
    return _against(document, "Flat")


def several_modes(document: Document) -> Judged | None:
    """Mean components above one with l2, by the paper's way, on most data sets."""
    rows = [row for row in _rows(document) if row["objective"] == "l2" and _mean(row["diagonal"]) is not None]
    if not rows:
        return None
    texts = [
        f"{row['data']}: {_mean(row['diagonal']):.2f} (full covariance {_mean(row['full, PCA(32)']):.2f})"
        for row in rows
    ]
    above = sum((_mean(row["diagonal"]) or 0) > 1 for row in rows)
    return Judged("; ".join(texts), 2 * above > len(rows))


def ordered(document: Document) -> Judged | None:
    """FastFT above EMD above l2 at every setting."""
    rows = {row["objective"]: row for row in _rows(document)}
    if not {"FastFT", "EMD", "l2"} <= set(rows):
        return None
    right, total = 0, 0
    for setting in document["tables"][0]["columns"][1:]:
        values = [_mean(rows[name][setting]) for name in ("FastFT", "EMD", "l2")]
        if None not in values:
            total += 1
            right += values == sorted(values, reverse=True)  # type: ignore[type-var]
    return Judged(f"in {right} of {total} settings", right == total) if total else None


def above_baselines(document: Document) -> Judged | None:
    """The lowest CPCC of a CPCC objective against the highest of another one."""
    values = {row["objective"]: _mean(row["TestCPCC"]) for row in _rows(document)}
    ours = {name: value for name, value in values.items() if name in _CPCC and value is not None}
    rest = {name: value for name, value in values.items() if name not in _CPCC and value is not None}
    if not ours or not rest:
        return None
    low, high = min(ours, key=lambda n: ours[n]), max(rest, key=lambda n: rest[n])
    text = f"lowest {low} {_percent(ours[low])}, highest other {high} {_percent(rest[high])}"
    return Judged(text, ours[low] > rest[high])


def opposite_trends(document: Document) -> Judged | None:
    """Signs of the correlations."""
    fits = document["fits"]
    if not all(fits.get(name) for name in ("coarse metrics", "fine metrics")):
        return None
    coarse, fine = (fits[name]["correlation"] for name in ("coarse metrics", "fine metrics"))
    return Judged(f"r = {coarse:.2f} with coarse, {fine:.2f} with fine", coarse > 0 > fine)


def rank_worse(document: Document) -> Judged | None:
    """All metrics of both."""
    rows = {row["objective"]: row for row in _rows(document)}
    if not {"Flat", "Rank"} <= set(rows):
        return None
    names = document["tables"][0]["columns"][1:]
    pairs = [(_mean(rows["Rank"][name]), _mean(rows["Flat"][name])) for name in names]
    known = [(a, b) for a, b in pairs if a is not None and b is not None]
    worse = sum(a < b for a, b in known)
    return Judged(f"in {worse} of {len(known)} metrics", worse == len(known)) if known else None


def _setups(document: Document, column: str) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for row in _rows(document):
        value = _mean(row[column])
        if value is not None:
            found.setdefault(row["objective"], {})[row[document["tables"][0]["columns"][1]]] = value
    return found


def depth_steady(document: Document) -> Judged | None:
    """CPCC within ten points and fine accuracy within two of the plain tree's."""
    cpcc, fine = _setups(document, "CPCC"), _setups(document, "FineAcc")
    whole = [name for name in cpcc if len(cpcc[name]) == 3 and len(fine.get(name, {})) == 3]
    if not whole:
        return None
    spread = max(max(cpcc[name].values()) - min(cpcc[name].values()) for name in whole)
    change = max(max(fine[name].values()) - min(fine[name].values()) for name in whole)
    text = f"CPCC differs by {_percent(spread)} points, fine accuracy by {_percent(change)}"
    return Judged(text, spread < 0.1 and change < 0.02)


def weights_drop(document: Document) -> Judged | None:
    """CPCC at weight 4 against weight 1."""
    pairs = {
        name: (values["weight 1x"], values["weight 4x"])
        for name, values in _setups(document, "CPCC").items()
        if {"weight 1x", "weight 4x"} <= set(values)
    }
    text = ", ".join(f"{n} {_percent(a)} to {_percent(b)}" for n, (a, b) in pairs.items())
    return Judged(text, all(b < a for a, b in pairs.values())) if pairs else None


def distance_collapses(document: Document) -> Judged | None:
    """CPCC with distance weights below half of that with uniform ones."""
    pairs = {
        name: (values["uniform"], values["distance"])
        for name, values in _setups(document, "CPCC").items()
        if {"uniform", "distance"} <= set(values)
    }
    text = ", ".join(f"{n} {_percent(a)} to {_percent(b)}" for n, (a, b) in pairs.items())
    return Judged(text, all(b < a / 2 for a, b in pairs.values())) if pairs else None


def epoch_times(document: Document) -> Judged | None:
    """Seconds of both on every data set."""
    texts, right = [], []
    for data, values in _by_data(_rows(document), "s per epoch").items():
        if {"FastFT", "EMD"} <= set(values):
            texts.append(f"{data}: FastFT {values['FastFT']:.1f} s, EMD {values['EMD']:.1f} s")
            right.append(values["FastFT"] < values["EMD"])
    return Judged("; ".join(texts), all(right)) if right else None


def bures_cost(document: Document) -> Judged | None:
    """Times as long as l2, in both forms; the claim is about what has to be paid, so by the cheaper one."""
    values = {row["distance"]: _mean(row["s per batch"]) for row in _rows(document)}
    l2, cheap, dense = (values.get(name) for name in ("l2", "Bures", "Bures, dense"))
    if not l2 or cheap is None or dense is None:
        return None
    text = f"{cheap / l2:.0f} times l2 by the nuclear norm, {dense / l2:,.0f} times by square roots"
    return Judged(text, cheap / l2 > 100)


def tree_helps(document: Document) -> Judged | None:
    """Coarse retrieval with the tree and with a shuffled one."""
    found = document["tables"][0]
    place = found["columns"].index("coarse sMAP")
    pairs = {row[0]: (_mean(row[place]), _mean(row[place + 1])) for row in found["rows"]}
    known = {name: (a, b) for name, (a, b) in pairs.items() if a is not None and b is not None}
    text = ", ".join(f"{n} {_percent(a)} against {_percent(b)}" for n, (a, b) in known.items())
    return Judged(f"coarse sMAP: {text}", all(a > b for a, b in known.values())) if known else None


def principal_closer(document: Document) -> Judged | None:
    """Errors against EMD on the features of every run."""
    pairs = [
        (study["batch order"]["error"], study["principal order"]["error"])
        for study in document["studies"].values()
    ]
    if not pairs:
        return None
    batch, principal = (sum(values) / len(values) for values in zip(*pairs, strict=True))
    text = f"mean error {_percent(batch)} % in batch order, {_percent(principal)} % in principal order"
    return Judged(text, all(b < a for a, b in pairs))
