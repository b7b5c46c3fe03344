"""The page of claims, in Markdown: every claim of the paper with what was measured and the verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

from cophenet.paper import claims
from cophenet.paper.documents import Document, read_document
from cophenet.paper.expressions import Claim, Comparison, Criterion
from cophenet.paper.items import item_names
from cophenet.paper.judge import Judgement, RegimeVerdict, judge_claim
from cophenet.paper.observations import Observations
from cophenet.paper.proofs import PROOFS
from cophenet.paper.published import TRANSFER, is_transfer
from cophenet.recipes.settings import Scale
from cophenet.report.published_numbers import published_tables

__all__ = ["claims_page", "evidence", "read_documents"]

# Data sets that a laptop trains on in minutes; the others have large images, or too many.
_ON_A_LAPTOP = ("cifar10", "cifar100")
_SHOWN = 4
_HOW = """\
Verdicts are **holds**, **does not hold** and **cannot be told**, with the reason. They are about the scale
that is named beside the numbers, each judged by itself; a smaller network trained for fewer epochs decides
nothing about the paper's own. Proofs name their tests.

Claims are judged by differences that are paired over seeds, or over the repetitions of a study without runs.
In brackets stands the 95 % interval of their mean (Student's t): above zero a comparison holds, below zero it
does not, otherwise it cannot be told (*within noise*). Neither can it with fewer than three seeds, by
networks below half of the paper's fine accuracy or trained for fewer than 100 steps, by statistics that have
too few samples, by times that vary by more than a tenth, or where runs are missing. A claim that asks for
several comparisons holds if all do, and does not hold if one does not. Counts have no noise. Correlations
over 14 objectives and powers of n are never told apart below 0.53 and 0.1. A backbone from ImageNet has
learned the classes of BREEDS with their labels: it decides nothing about them.

Thresholds are ours, as the paper has none, and stand beside the numbers. That a power of n from 0.75 to
1.25 counts as linear was settled after first pilots of the time study were seen.

TestCPCC of an OT objective is by its own distance, as in the paper (`cpcc/own`). Flat and the other baselines
have none: the paper measures them by l2. Where they are compared, the verdict is by l2 on both sides
(`cpcc/l2`), and what it is by the distances trained with is said beside.
"""


def read_documents(folder: Path) -> list[Document]:
    """The documents of all items, and those in folders below that have the name of a scale.

    Args:
        folder: Where items were written to.

    Example:
        >>> read_documents(Path("/nowhere"))
        []
    """
    places = [folder, *(folder / scale for scale in get_args(Scale))]
    read = (read_document(place, name) for place in places for name in item_names())
    return [document for document in read if document is not None]


def evidence(claim: Claim, documents: Sequence[Document]) -> Observations:
    """What decides a claim: the observations of its item, and of others at scales that it lacks."""
    tables: dict[bool, Observations] = {True: Observations(), False: Observations()}
    for document in documents:
        own = document.item == claim.item
        tables[own] = tables[own].extended(document.observations.rows, document.observations.conditions)
    known = tables[True].regimes
    more = tables[False].at(regime for regime in tables[False].regimes if regime and regime not in known)
    return tables[True].extended(more.rows, more.conditions)


def claims_page(folder: Path) -> str:
    """The page of claims, judged by the observations of items.

    Args:
        folder: Where items were written to.

    Example:
        >>> "FastFT takes time linear in n." in claims_page(Path("/nowhere"))
        True
    """
    lines = ["# Claims of the paper, and what was found", "", _HOW]
    lines.append("| claim | in the paper | checked by | measured | verdict |")
    lines.append("|:--|:--|:--|:--|:--|")
    for proof in PROOFS:
        tests = "; ".join(f"`{test}`" for test in proof.tests)
        lines.append(f"| {proof.text} | {proof.where} | {tests} | {proof.reason} | {proof.verdict} |")
    documents = read_documents(folder)
    for claim in claims.CLAIMS:
        measured, verdict = _judged(claim, documents)
        lines.append(f"| {claim.text} | {claim.where} | {claim.item} | {measured} | {verdict} |")
    lines += ["", "## Published cells that contradict another table, or themselves", ""]
    for table in published_tables().values():
        cells = (cell for row in table.rows for cell in row.values.values())
        for note in dict.fromkeys(cell.note for cell in cells if cell.note):
            lines.append(f"- {table.label}: {note}")
    return "\n".join([*lines, ""])


def _judged(claim: Claim, documents: Sequence[Document]) -> tuple[str, str]:
    """What was measured, and the verdicts in words."""
    observations = evidence(claim, documents)
    verdicts = judge_claim(claim, observations)
    if not verdicts:
        if claim.gpu == "all":
            return "-", "cannot be told: needs a GPU"
        return f"`cophenet reproduce {claim.item}`", "cannot be told: not run yet"
    beside = {
        label: {one.regime: one.judgement for one in judge_claim(replace(claim, requires=rule), observations)}
        for label, rule in claim.also_shown.items()
    }
    measured, words = [], []
    for one in verdicts:
        parts = [_numbers(one.judgement)]
        for label, judgements in beside.items():
            if one.regime in judgements:
                parts.append(f"beside, {label}: {_numbers(judgements[one.regime], 1)}")
        settings = {s for d in documents if d.item == claim.item and d.scale == one.scale for s in d.settings}
        setting = ", ".join(filter(None, [*one.data, one.regime, *sorted(settings)]))
        note = f" {TRANSFER}" if one.pretrained and any(map(is_transfer, _metrics(claim.requires))) else ""
        measured.append(f"{'. '.join(parts)}{f' ({setting})' if setting else ''}{note}")
        reasons = one.judgement.reasons[:_SHOWN]
        why = f": {'; '.join(reasons)}" if reasons else ""
        of = f"{one.regime}: " if len(verdicts) > 1 else ""
        words.append(f"{of}{one.judgement.verdict}{why}{_coverage(claim, one)}")
    return "<br>".join(measured), "<br>".join(words)


def _metrics(criterion: Criterion) -> Iterator[str]:
    if isinstance(criterion, Comparison):
        yield from (term.metric for _, term in criterion.terms)
    else:
        for part in criterion.parts:
            yield from _metrics(part)


def _numbers(judgement: Judgement, shown: int = _SHOWN) -> str:
    """The comparisons that decide with their numbers; of many, how many have which verdict."""
    total = sum(judgement.counts.values())
    texts = "; ".join(judgement.texts[:shown])
    if total <= shown:
        return texts or "no number"
    words = {"holds": "hold", "does not hold": "do not hold"}
    counts = ", ".join(f"{n} {words.get(verdict, verdict)}" for verdict, n in judgement.counts.items() if n)
    return f"of {total} comparisons {counts}" + (f"; {texts}" if texts else "")


def _coverage(claim: Claim, verdict: RegimeVerdict) -> str:
    """On which of the data sets that a claim is about; what is left."""
    if claim.gpu and claim.gpu != "all" and verdict.scale != "paper":
        return f"; the rest ({claim.gpu}) needs a GPU"
    known = [name for name in claim.data if name in verdict.data]
    if len(known) == len(claim.data):
        return ""
    if not known:
        return f" (on {', '.join(verdict.data)})"
    left = [name for name in claim.data if name not in known and name in _ON_A_LAPTOP]
    text = f" (on {len(known)} of {len(claim.data)} data sets"
    if left:
        text += f"; {', '.join(left)} not run yet"
    if len(known) + len(left) < len(claim.data):
        text += "; the rest needs a GPU"
    return f"{text})"
