"""A summary in a few sentences: does the tree help, at what, by how much, and at what cost?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from cophenet.evaluation.intervals import Interval
from cophenet.evaluation.keys import metric_info
from cophenet.metrics.cards import metric_cards
from cophenet.report.comparison import reference
from cophenet.report.noise import Measured, difference
from cophenet.report.table import signed_ends, unit_of

if TYPE_CHECKING:
    from cophenet.tree import Hierarchy

__all__ = [
    "Answer",
    "Command",
    "Detail",
    "EvaluatedRun",
    "Finding",
    "answer",
    "aspects",
    "find_gaps",
    "new_class_aspects",
    "recommend",
]

Verdict = Literal["helps", "does not help", "cannot be told", ""]


class Detail(str):
    """A sentence that belongs to the one before it, shown indented.

    Args:
        text: The sentence.

    Example:
        >>> sentences = ["Perhaps misplaced in the tree:", Detail("whale, nearer to cow than to cod")]
        >>> [isinstance(sentence, Detail) for sentence in sentences]
        [False, True]
    """

    __slots__ = ()

    def __new__(cls, text: str) -> Detail:
        """Create it from its text."""
        return super().__new__(cls, text)


class Command(str):
    """A command line among sentences, shown as it is typed.

    Args:
        text: The command line.

    Example:
        >>> Command("cophenet train digits").split()
        ['cophenet', 'train', 'digits']
    """

    __slots__ = ()

    def __new__(cls, text: str) -> Command:
        """Create it from its text."""
        return super().__new__(cls, text)


@dataclass(frozen=True, eq=False)
class EvaluatedRun:
    """An evaluated run, input of `answer`.

    Attributes:
        name: Name of the run.
        measured: Its metrics.
        control: Whether it was trained on a shuffled tree.
    """

    name: str
    measured: Measured
    control: bool = False

    @property
    def objective(self) -> str:
        """Name of the objective of the run."""
        return str(self.measured.results["objective"])


@dataclass(frozen=True)
class Finding:
    """The difference between two runs in one metric.

    Attributes:
        about: Name of the metric in words.
        key: Key of the metric.
        gap: The difference with its interval.
        better: 1 if better by more than noise, -1 if worse by more than noise, else 0.
    """

    about: str
    key: str
    gap: Interval
    better: int

    @property
    def text(self) -> str:
        """The difference in words."""
        info = metric_info(self.key)
        mean, low, high = signed_ends(self.gap, unit_of(self.key))
        unit = " points" if info.percent else " levels" if info.in_levels else ""
        noise = f"[{low}, {high}]" if self.gap.known else "(noise not known)"
        return f"{self.about} {mean}{unit} {noise}"


@dataclass(frozen=True)
class Answer:
    """Conclusion from runs on the same data and tree.

    Attributes:
        verdict: Whether the tree helps; empty if nothing could be compared.
        sentences: The conclusion in sentences.
        chosen: Name of the recommended run; empty if none is better than the run without a tree.
    """

    verdict: Verdict
    sentences: tuple[str, ...]
    chosen: str = ""


def aspects(domain: str, tree: Hierarchy) -> dict[str, str]:
    """Metrics that decide whether a tree helps: key -> name in words.

    The accuracy of classes comes first, then the metrics with a headline on their card: those by level, then
    those of the whole tree.

    Args:
        domain: Domain of the classes that were trained on.
        tree: Tree of these classes; its headline levels represent all levels above the classes.
    """
    coarse = tree.headline_levels()
    named = {f"{domain}/accuracy/{tree.level_names[-1]}": "accuracy of classes"}
    cards = [card for card in metric_cards().values() if card.headline]
    for card in cards:
        if card.by == "level":
            levels = coarse[: card.headline_levels]
            named |= {f"{domain}/{card.key}/{level}": card.headline.format(level) for level in levels}
    named |= {f"{domain}/{card.key}": card.headline for card in cards if card.by is None}
    return named | (new_class_aspects(tree) if domain == "source" else {})


def new_class_aspects(tree: Hierarchy) -> dict[str, str]:
    """Like `aspects`, for classes that were not trained on."""
    named = {f"target/accuracy/{tree.level_names[-1]}": "new classes from one example each"}
    for level in tree.headline_levels()[-1:]:
        named[f"target/accuracy/{level}"] = "new classes put under the right known group"
    return named


def find_gaps(one: Measured, other: Measured, named: Mapping[str, str]) -> list[Finding]:
    """The differences between two runs in all metrics for which an interval can be computed.

    Args:
        one: A run.
        other: The run it is compared with.
        named: Keys and names of metrics, as returned by `aspects`.
    """
    findings = []
    for key, about in named.items():
        gap = difference(one, other, key)
        if gap is not None:
            sign = gap.sign if metric_info(key).higher_is_better else -gap.sign
            findings.append(Finding(about, key, gap, sign))
    return findings


def recommend(
    candidates: Sequence[EvaluatedRun], flat: EvaluatedRun, named: Mapping[str, str]
) -> EvaluatedRun | None:
    """The run with the largest number of metrics better than Flat, minus those that are worse.

    Args:
        candidates: Runs with the unshuffled tree.
        flat: The run without a tree.
        named: Keys and names of metrics, as returned by `aspects`.

    Returns:
        The run; None if no run is better in more metrics than it is worse in.
    """

    def rank(candidate: EvaluatedRun) -> tuple[int, float]:
        gaps = find_gaps(candidate.measured, flat.measured, named)
        sizes = (
            gap.gap.mean * (1 if metric_info(gap.key).higher_is_better else -1)
            for gap in gaps
            if metric_info(gap.key).percent
        )
        return sum(gap.better for gap in gaps), sum(sizes)

    best = max(candidates, key=rank, default=None)
    return None if best is None or rank(best)[0] <= 0 else best


def answer(candidates: Sequence[EvaluatedRun], named: Mapping[str, str], guess: Mapping[str, Any]) -> Answer:
    """Summarize runs on the same data and tree: does the tree help?

    Args:
        candidates: The evaluated runs.
        named: Keys and names of the metrics that decide, as returned by `aspects`.
        guess: The accuracy of guessing classes, the last entry of `level_chances`.
    """
    finest = next(iter(named))
    guessing = (
        f"Guessing is right for {guess['chance']:.1%} of the samples, "
        f"always answering the largest class for {guess['majority']:.1%}."
    )
    place = reference([one.measured.results for one in candidates])
    trained = [one for one in candidates if one.objective != "flat" and not one.control]
    if place is None or not trained:
        best = max(candidates, key=lambda one: one.measured.results["metrics"][finest]["mean"] or 0)
        lacking = "without a tree (objective flat)" if place is None else "with the tree"
        reached = best.measured.results["metrics"][finest]["mean"] or 0
        said = f"{best.name} reaches {reached:.1%} {named[finest]}."
        if len(candidates) > 1:
            said = f"The highest {named[finest]} is {reached:.1%}, of {best.name}."
        return Answer("", (said, guessing, f"There is no run {lacking} to tell what the tree gives."))
    flat = candidates[place]
    reached = flat.measured.results["metrics"][finest]["mean"] or 0
    base = f"Flat reaches {reached:.1%} {named[finest]}. {guessing}"
    if not any(find_gaps(one.measured, flat.measured, named) for one in trained):
        why = "the runs share no two seeds, and have no saved features"
        return Answer("cannot be told", (f"It cannot be told whether the tree helps: {why}.", base))
    chosen = recommend(trained, flat, named)
    if chosen is None:
        return Answer("does not help", (*_no_gain(trained, flat, named), base))
    return _gained(chosen, flat, _control(chosen, candidates), named, base)


def _gained(
    chosen: EvaluatedRun,
    flat: EvaluatedRun,
    control: EvaluatedRun | None,
    named: Mapping[str, str],
    base: str,
) -> Answer:
    """The answer if a run is better than Flat: whether the tree is the reason, and at what cost."""
    gaps = find_gaps(chosen.measured, flat.measured, named)
    better = f"{chosen.name} against Flat is better at: {_texts(gaps, 1)}."
    sentences = ["The tree helps here.", better]
    price = "; ".join(filter(None, (_texts(gaps, -1), _slower(chosen.measured, flat.measured))))
    sentences.append(f"The price: {price}." if price else "There is no price: it is worse at nothing.")
    if noise := _texts(gaps, 0):
        sentences.append(f"No more than noise: {noise}.")
    if control is None:
        return Answer("helps", (*sentences, base), chosen.name)
    gained = {gap.key: gap.about for gap in gaps if gap.better == 1}
    found = find_gaps(chosen.measured, control.measured, gained)
    if real := _texts(found, 1):
        sentences.append(f"It is this tree: against {control.name}, with a shuffled one, {real}.")
        if others := ", ".join(gap.about for gap in found if gap.better != 1):
            sentences.append(f"Not the tree's own, since the shuffled one is as good at it: {others}.")
        return Answer("helps", (*sentences, base), chosen.name)
    instead = f"It is not the tree that helps here: with a shuffled one, {control.name} is as good."
    return Answer("does not help", (instead, *sentences[1:], base), chosen.name)


def _control(chosen: EvaluatedRun, candidates: Sequence[EvaluatedRun]) -> EvaluatedRun | None:
    """The run with a shuffled tree to compare with, preferably with the same objective; None without one."""
    controls = [one for one in candidates if one.control]
    same = [one for one in controls if one.objective == chosen.objective]
    return next(iter(same or controls), None)


def _texts(gaps: Iterable[Finding], better: int) -> str:
    return "; ".join(gap.text for gap in gaps if gap.better == better)


def _no_gain(trained: Sequence[EvaluatedRun], flat: EvaluatedRun, named: Mapping[str, str]) -> list[str]:
    sentences = [
        "The tree does not help here: no run with it is better than Flat in more respects than it is worse, "
        "by more than noise."
    ]
    for one in trained[:5]:
        gaps = find_gaps(one.measured, flat.measured, named)
        said = {1: "better at", -1: "worse at", 0: "no more than noise:"}
        parts = [f"{words} {texts}" for sign, words in said.items() if (texts := _texts(gaps, sign))]
        sentences.append(f"{one.name} against Flat: {'; '.join(parts)}.")
    return sentences


def _slower(one: Measured, other: Measured) -> str:
    """How much longer an epoch takes, in words; empty if it is less than a tenth."""
    mine, others = _best_epoch(one), _best_epoch(other)
    if not mine or not others or mine < 1.1 * others:
        return ""
    return f"an epoch takes {mine / others:.1f} times as long"


def _best_epoch(measured: Measured) -> float | None:
    """Seconds of the shortest epoch over all seeds: the value least affected by other load on the machine."""
    if measured.run is None:
        return measured.results.get("seconds_per_epoch")
    return min((s for part in measured.run.parts for s in part.info["seconds_per_epoch"] if s), default=None)
