"""Verdicts on claims about time and error of distances, from the synthetic study and the time of batches."""

from __future__ import annotations

import math
from itertools import pairwise

from cophenet.paper.verdicts import Document, Gap, Judged, Number, gap, number, percent, rows_of, settle

__all__ = [
    "bures_cost",
    "closer_than_sinkhorn",
    "emd_slower_than_l2",
    "faster_than_sinkhorn",
    "fastest",
    "gaussian_agreement",
    "l2_scales_better",
    "linear_fastft",
    "mixture_differs",
    "steep_emd",
    "swd_like_l2",
    "within_bounds",
]

_SINKHORN = "Sinkhorn, reg 10"
# Powers of n in the paper's table of complexities, logarithms left out.
_BOUNDS = {"l2": 1, "FastFT": 1, "SWD": 1, "FT": 1, "TWD": 2, _SINKHORN: 2, "EMD": 3}
_SLACK = 0.25
# Powers of n that differ by less may be the same.
_SAME_POWER = 0.1
# No approximation of a distance here is called close beyond this share of it.
_CLOSE = 0.1
_PROHIBITIVE = 100


def _power(document: Document, name: str) -> float | None:
    value: float | None = document["study"]["times"].get(name, {}).get("exponent")
    return value


def linear_fastft(document: Document) -> Judged | None:
    """A power of about one."""
    power = _power(document, "FastFT")
    if power is None:
        return None
    text = f"n to the power {power:.2f}; {1 - _SLACK} to {1 + _SLACK} counts as linear"
    return Judged(text, abs(power - 1) <= _SLACK)


def steep_emd(document: Document) -> Judged | None:
    """A power above two."""
    power = _power(document, "EMD")
    return None if power is None else Judged(f"n to the power {power:.2f}, above 2 asked for", power > 2)


def within_bounds(document: Document) -> Judged | None:
    """No distance grows faster than the table of complexities has it."""
    powers = {name: power for name in _BOUNDS if (power := _power(document, name)) is not None}
    if not powers:
        return None
    text = ", ".join(f"{name} {power:.2f} (at most {_BOUNDS[name]})" for name, power in powers.items())
    holds = all(power <= _BOUNDS[name] + _SLACK for name, power in powers.items())
    return Judged(f"powers of n: {text}; {_SLACK} more is allowed", holds)


def _seconds(document: Document, *names: str, of: str = "mean") -> tuple[int, list[float]] | None:
    """Mean or best seconds at the largest size that all were timed at."""
    entries = [document["study"]["times"].get(name) for name in names]
    if not all(entries):
        return None
    sizes = set.intersection(*(set(entry["sizes"]) for entry in entries))
    if not sizes:
        return None
    size = max(sizes)
    return size, [entry[of][entry["sizes"].index(size)] for entry in entries]


def faster_than_sinkhorn(document: Document) -> Judged | None:
    """Mean seconds of both."""
    found = _seconds(document, "FastFT", _SINKHORN)
    if found is None:
        return None
    size, (fast, slow) = found
    return Judged(f"{slow / fast:.0f} times faster at n = {size}", fast < slow)


def fastest(document: Document) -> Judged | None:
    """Mean seconds of every OT distance against FastFT's."""
    texts, right = [], []
    for name in ("SWD", "FT", "TWD", _SINKHORN, "EMD"):
        found = _seconds(document, "FastFT", name)
        if found is not None:
            size, (fast, slow) = found
            texts.append(f"{name} takes {slow / fast:.0f} times as long at n = {size}")
            right.append(fast < slow)
    return Judged(", ".join(texts), all(right)) if right else None


def l2_scales_better(document: Document) -> Judged | None:
    """The powers of both, which rest on the best times; the best times themselves beside."""
    found = _seconds(document, "l2", "FastFT", of="best")
    powers = [_power(document, name) for name in ("l2", "FastFT")]
    if found is None or powers[0] is None or powers[1] is None:
        return None
    size, (l2, fast) = found
    text = (
        f"powers of n: l2 {powers[0]:.2f}, FastFT {powers[1]:.2f}, which decide; less than {_SAME_POWER} "
        f"apart counts as noise; best times at n = {size}: l2 {l2:.3f} s, FastFT {fast:.3f} s"
    )
    return settle(text, [Gap(powers[1] - powers[0], _SAME_POWER)])


def _errors(document: Document, kind: str) -> dict[str, Number]:
    """Error of every distance at the largest size, over the repeats."""
    entries = document["study"]["errors"].get(kind, {})
    repeats = document["study"]["settings"]["repeats"]
    return {
        name: Number(entry["mean"][-1], entry["std"][-1] if repeats > 1 else None, repeats)
        for name, entry in entries.items()
        if name != "EMD" and entry["mean"]
    }


def _size(found: Number) -> Number:
    return Number(abs(found.mean), found.std, found.seeds)


def closer_than_sinkhorn(document: Document) -> Judged | None:
    """Errors on mixtures, samples in random order and mode by mode; random order decides."""
    random, sorted_ = (_errors(document, kind) for kind in ("mixture", "mixture, mode by mode"))
    if not all(name in errors for name in ("FastFT", _SINKHORN) for errors in (random, sorted_)):
        return None
    texts = [
        f"{order}: FastFT {errors['FastFT']} %, Sinkhorn {errors[_SINKHORN]} %"
        for order, errors in (("random order, which decides", random), ("mode by mode", sorted_))
    ]
    gaps = [gap(_size(random[_SINKHORN]), _size(random["FastFT"]))]
    return settle("error, " + "; ".join(texts), gaps)


def gaussian_agreement(document: Document) -> Judged | None:
    """All but SWD within a tenth of l2, SWD not; EMD's own difference and errors against it beside."""
    errors = _errors(document, "gaussian")
    if not {"SWD", "l2"} <= set(errors):
        return None
    # Errors are against EMD, whose own is zero.
    exact = Number(0.0, 0.0, errors["l2"].seeds)
    values = {name: error for name, error in {**errors, "EMD": exact}.items() if name != "l2"}
    apart = {name: _apart(error, errors["l2"]) for name, error in values.items()}
    far = max((name for name in apart if name != "SWD"), key=lambda name: apart[name].mean)
    worst = max((name for name in errors if name != "SWD"), key=lambda name: abs(errors[name].mean))
    text = (
        f"against l2, which decides: at most {apart[far]} % ({far}), EMD {apart['EMD']} %, "
        f"SWD {apart['SWD']} %; {percent(_CLOSE)} % counts as close; "
        f"against EMD: at most {_size(errors[worst])} % ({worst})"
    )
    limit = Number(_CLOSE, 0.0, exact.seeds)
    gaps = [gap(limit, value) for name, value in apart.items() if name != "SWD"]
    return settle(text, [*gaps, gap(apart["SWD"], limit)])


def _apart(one: Number, other: Number) -> Number:
    """How far a distance is from another one, as a share of that; from the errors of both against EMD."""
    # An error is value / EMD - 1, so that two values have the ratio of their errors plus one.
    ratio = (1 + one.mean) / (1 + other.mean)
    spread = None
    if one.std is not None and other.std is not None:
        spread = math.hypot(one.std, ratio * other.std) / (1 + other.mean)
    return Number(abs(ratio - 1), spread, one.seeds)


def mixture_differs(document: Document) -> Judged | None:
    """All but SWD at least twice l2 on mixtures."""
    errors = _errors(document, "mixture")
    if "l2" not in errors:
        return None
    ratios = {
        name: (1 + entry.mean) / (1 + errors["l2"].mean)
        for name, entry in errors.items()
        if name not in ("l2", "SWD")
    }
    low = min(ratios, key=lambda name: ratios[name])
    text = f"all are at least {ratios[low]:.0f} times l2 ({low} the least); twice is asked for"
    return Judged(text, ratios[low] > 2)


def swd_like_l2(document: Document) -> Judged | None:
    """SWD nearer to l2 than to EMD."""
    errors = _errors(document, "mixture")
    if not {"SWD", "l2"} <= set(errors):
        return None
    swd, l2 = errors["SWD"], errors["l2"]
    apart = Number(abs(swd.mean - l2.mean), _spread(swd, l2), swd.seeds)
    return settle(f"error against EMD: SWD {swd} %, l2 {l2} %", [gap(_size(swd), apart)])


def _spread(one: Number, other: Number) -> float | None:
    """Standard deviation of a difference."""
    if one.std is None or other.std is None:
        return None
    return float((one.std**2 + other.std**2) ** 0.5)


def _batches(document: Document) -> dict[str, Number]:
    found = {row["distance"]: number(row["s per batch"]) for row in rows_of(document)}
    return {name: value for name, value in found.items() if value is not None}


def bures_cost(document: Document) -> Judged | None:
    """Times as long as l2, in both forms; the claim is about what has to be paid, so by the cheaper one."""
    found = _batches(document)
    if not {"l2", "Bures", "Bures, dense"} <= set(found) or not found["l2"].mean:
        return None
    cheap, dense = (found[name].mean / found["l2"].mean for name in ("Bures", "Bures, dense"))
    text = (
        f"{cheap:.0f} times l2 by the nuclear norm, which decides, {dense:,.0f} times by square roots; "
        f"{_PROHIBITIVE} times counts as prohibitive"
    )
    return Judged(text, cheap > _PROHIBITIVE)


def emd_slower_than_l2(document: Document) -> Judged | None:
    """Seconds of the regularizer: dense Bures above EMD above l2."""
    found = _batches(document)
    names = ("Bures, dense", "EMD", "l2")
    if not set(names) <= set(found):
        return None
    gaps = [gap(found[a], found[b]) for a, b in pairwise(names)]
    return settle(", ".join(f"{name} {found[name]} s" for name in names), gaps)
