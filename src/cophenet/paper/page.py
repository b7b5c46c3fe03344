"""The two pages of what was reproduced, in Markdown, made from the documents of items: results and claims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cophenet.paper import claims
from cophenet.paper.claims import Claim
from cophenet.paper.documents import Document, read_document
from cophenet.paper.figures import item_figures
from cophenet.paper.items import item_names
from cophenet.paper.judge import Judgement, judge_claim
from cophenet.paper.proofs import PROOFS
from cophenet.paper.tables import item_tables
from cophenet.report.published_numbers import published_tables

__all__ = ["claims_page", "results_page"]

# Data sets that a laptop trains on in minutes; the others have large images, or too many.
_ON_A_LAPTOP = ("cifar10", "cifar100")
_SHOWN = 4
# Written by hand, and left as it is.
_INTRODUCTION = "reading.md"


def results_page(folder: Path) -> str:
    """The page: what is written in `reading.md`, if that is there, then every item with tables and figures.

    The numbers can so be written again at any time without the loss of what is said about them.

    Args:
        folder: Where items were written to; figures are linked from there.

    Example:
        >>> print(results_page(Path("/nowhere")).splitlines()[0])
        # The paper, reproduced
    """
    read = ((name, read_document(folder, name)) for name in item_names())
    documents = {name: document for name, document in read if document is not None}
    introduction = folder / _INTRODUCTION
    parts = ["# The paper, reproduced\n"]
    if introduction.is_file():
        parts.append(introduction.read_text(encoding="utf-8").rstrip() + "\n")
    links = [f"- [{_heading(document)}](#{name})" for name, document in documents.items()]
    parts.append(
        "\n".join(["## Contents", "", "- [Claims of the paper, and what was found](claims.md)", *links, ""])
    )
    parts += [_section(name, document) for name, document in documents.items()]
    return "\n".join(parts)


def _heading(document: Document) -> str:
    return document.title[:1].upper() + document.title[1:]


def _section(name: str, document: Document) -> str:
    where = ", ".join(f"`{label}`" for label in document.paper) or "beyond the paper"
    lines = [f'## <a id="{name}"></a>{_heading(document)}', ""]
    lines += [f"`{document.command}`; {where}. {_runs(document)}".rstrip(), ""]
    for sentence in document.setup:
        lines += [sentence, ""]
    for figure in item_figures(document):
        lines += [f"![{_heading(document)}: {figure}]({name}/{figure}.svg)", ""]
    lines += [f"{table.to_markdown()}\n" for table in item_tables(document).values() if table.rows]
    return "\n".join(lines)


def _runs(document: Document) -> str:
    """How many runs it rests on, and why others are not there."""
    number = len(document.runs)
    text = f"{number} {'run' if number == 1 else 'runs'}." if number else ""
    missing = document.missing.values()
    reasons = {reason: sum(known == reason for known in missing) for reason in missing}
    left_out = [f"{count} left out: {reason}." for reason, count in reasons.items()]
    return " ".join([text, *left_out]).strip()


_HOW = """\
Verdicts are **holds**, **does not hold** and **cannot be told**, with the reason. They are about the scale
that is named beside the numbers; a smaller network trained for fewer epochs decides nothing about the paper's
own. Proofs name their tests.

Claims are judged by differences that are paired over seeds, or over the repetitions of a study without runs.
In brackets stands the 95 % interval of their mean (Student's t): above zero a comparison holds, below zero it
does not, otherwise it cannot be told (*within noise*). Neither can it with fewer than three seeds, by
networks below half of the paper's fine accuracy, by statistics that have too few samples, or where runs are
missing. A claim that asks for several comparisons holds if all do, and does not hold if one does not. Counts
have no noise. Correlations over 14 objectives and powers of n are never told apart below 0.53 and 0.1.

Thresholds are ours, as the paper has none, and stand beside the numbers. That a power of n from 0.75 to
1.25 counts as linear was settled after first pilots of the time study were seen.

TestCPCC of an OT objective is by its own distance, as in the paper (`cpcc/own`). Flat and the other baselines
have none: the paper measures them by l2. Where they are compared, the verdict is by l2 on both sides
(`cpcc/l2`), and what it is by the distances trained with is said beside.
"""


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
    documents = {name: read_document(folder, name) for name in item_names()}
    for claim in claims.CLAIMS:
        measured, verdict = _judged(claim, documents[claim.item])
        lines.append(f"| {claim.text} | {claim.where} | {claim.item} | {measured} | {verdict} |")
    lines += ["", "## Published cells that contradict another table, or themselves", ""]
    for table in published_tables().values():
        cells = (cell for row in table.rows for cell in row.values.values())
        for note in dict.fromkeys(cell.note for cell in cells if cell.note):
            lines.append(f"- {table.label}: {note}")
    return "\n".join([*lines, ""])


def _judged(claim: Claim, document: Document | None) -> tuple[str, str]:
    """What was measured, and the verdict in words."""
    judged = None if document is None else judge_claim(claim, document.observations)
    if document is None or judged is None:
        if claim.gpu == "all":
            return "-", "cannot be told: needs a GPU"
        return f"`cophenet reproduce {claim.item}`", "cannot be told: not run yet"
    judgement, data = judged
    parts = [_numbers(judgement)]
    for label, criterion in claim.also_shown.items():
        beside = judge_claim(replace(claim, requires=criterion), document.observations)
        if beside is not None:
            parts.append(f"beside, {label}: {_numbers(beside[0], 1)}")
    reasons = judgement.reasons[:_SHOWN]
    why = f": {'; '.join(reasons)}" if reasons else ""
    setting = ", ".join([*data, f"{document.scale} scale", *document.settings])
    return f"{'. '.join(parts)} ({setting})", judgement.verdict + why + _coverage(claim, data, document.scale)


def _numbers(judgement: Judgement, shown: int = _SHOWN) -> str:
    """The comparisons that decide with their numbers; of many, how many have which verdict."""
    total = sum(judgement.counts.values())
    texts = "; ".join(judgement.texts[:shown])
    if total <= shown:
        return texts or "no number"
    words = {"holds": "hold", "does not hold": "do not hold"}
    counts = ", ".join(f"{n} {words.get(verdict, verdict)}" for verdict, n in judgement.counts.items() if n)
    return f"of {total} comparisons {counts}" + (f"; {texts}" if texts else "")


def _coverage(claim: Claim, data: Sequence[str], scale: str) -> str:
    """On which of the data sets that a claim is about; what is left."""
    if claim.gpu and claim.gpu != "all" and scale != "paper":
        return f"; the rest ({claim.gpu}) needs a GPU"
    known = [name for name in claim.data if name in data]
    if len(known) == len(claim.data):
        return ""
    if not known:
        return f" (on {', '.join(data)})"
    left = [name for name in claim.data if name not in known and name in _ON_A_LAPTOP]
    text = f" (on {len(known)} of {len(claim.data)} data sets"
    if left:
        text += f"; {', '.join(left)} not run yet"
    if len(known) + len(left) < len(claim.data):
        text += "; the rest needs a GPU"
    return f"{text})"
