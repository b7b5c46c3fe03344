"""Markdown pages made from documents: the claims, an overview of results, and each item."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from cophenet.paper import claims
from cophenet.paper.documents import Document, read_document
from cophenet.paper.expressions import Claim, Comparison, Criterion, value
from cophenet.paper.figures import item_figures
from cophenet.paper.items import find_items, item_names
from cophenet.paper.observations import Condition, Observations
from cophenet.paper.plan import recipe_label
from cophenet.paper.proofs import PROOFS, Proof
from cophenet.paper.published import TRANSFER, is_transfer
from cophenet.paper.tables import item_tables
from cophenet.paper.verdicts import SEEDS_NEEDED, Judgement, RegimeVerdict, judge, judge_claim
from cophenet.recipes.recipe import Scale
from cophenet.report import Table
from cophenet.report.published_numbers import published_tables
from cophenet.report.table import with_spread

__all__ = ["claims_page", "evidence", "item_page", "results_page"]

# Data sets that a laptop trains on in minutes; the others have large images, or too many images.
_ON_A_LAPTOP = ("cifar10", "cifar100")
_SHOWN = 4


def _read_documents(folder: Path) -> list[Document]:
    """Read the documents of all items in a folder and in its subfolders named after a scale.

    Args:
        folder: Output folder of the items.

    Example:
        >>> _read_documents(Path("/nowhere"))
        []
    """
    places = [folder, *(folder / scale for scale in get_args(Scale))]
    read = (read_document(place, name) for place in places for name in item_names())
    return [document for document in read if document is not None]


def evidence(claim: Claim, documents: Sequence[Document]) -> Observations:
    """Observations that decide a claim: those of its item, and of others in regimes that it lacks."""
    own, others = (_joined(d for d in documents if (d.item == claim.item) == its) for its in (True, False))
    more = others.at({*filter(None, others.regimes)} - {*own.regimes})
    # Only on data sets of the item: on others, most of the conditions that a claim names are not planned.
    (item,) = find_items((claim.item,))
    conditions = (c for c in more.conditions if c.recipe in item.recipes)
    rows = (row for row in more.rows if row.condition.recipe in item.recipes)
    return own.extended(rows, conditions)


def _joined(documents: Iterable[Document]) -> Observations:
    """The observations of several documents as one table."""
    tables = [document.observations for document in documents]
    return Observations(
        tuple(condition for table in tables for condition in table.conditions),
        tuple(row for table in tables for row in table.rows),
    )


def claims_page(folder: Path) -> str:
    """The page of claims, judged by the observations of items.

    Args:
        folder: Output folder of the items.

    Example:
        >>> "FastFT takes time linear in n." in claims_page(Path("/nowhere"))
        True
    """
    documents = _read_documents(folder)
    columns = ("claim", "in the paper", "checked by", "measured", "verdict")
    rows = [[proof.text, proof.where, _tests(proof), proof.reason, proof.verdict] for proof in PROOFS]
    rows += [[claim.text, claim.where, claim.item, *_judged(claim, documents)] for claim in claims.CLAIMS]
    lines = [claims.HEAD, Table.from_rows(columns, rows).to_markdown(markup=True)]
    lines += ["", "## Published cells that contradict another table, or themselves", ""]
    for table in published_tables().values():
        cells = (cell for row in table.rows for cell in row.values.values())
        for note in dict.fromkeys(cell.note for cell in cells if cell.note):
            lines.append(f"- {table.label}: {note}")
    return "\n".join([*lines, ""])


def _tests(proof: Proof) -> str:
    """The tests of a proof, as pytest names them."""
    return "; ".join(f"`{path}::{', '.join(names)}`" for path, names in proof.tests.items())


def _judged(claim: Claim, documents: Sequence[Document]) -> tuple[str, str]:
    """The measured numbers and the verdicts, in words."""
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
    """The deciding comparisons with their numbers; if there are many, also their number by verdict."""
    total = sum(judgement.counts.values())
    texts = "; ".join(judgement.texts[:shown])
    if total <= shown:
        return texts or "no number"
    words = {"holds": "hold", "does not hold": "do not hold"}
    counts = ", ".join(f"{n} {words.get(verdict, verdict)}" for verdict, n in judgement.counts.items() if n)
    return f"of {total} comparisons {counts}" + (f"; {texts}" if texts else "")


def _coverage(claim: Claim, verdict: RegimeVerdict) -> str:
    """Which data sets of a claim were judged, and what remains; "" if nothing does."""
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


# Written by hand, and never changed here.
_INTRODUCTION = "reading.md"
# Items with a figure that compares objectives by purpose, the most complete first.
_PICTURES = ("pareto", "objectives", "scatter", "coarse")
# What a user may want, and the metric that shows it on the trained classes.
_PURPOSES = {
    "the right class": "{}/accuracy/fine",
    "the right coarse class": "{}/accuracy/coarse",
    "retrieval of the same class": "{}/map/fine",
    "retrieval of the same coarse class": "{}/map/coarse",
    "the same among classes never seen": "target/map/coarse",
    "the tree in the features (CPCC by l2)": "cpcc/l2",
    "the tree in unit vectors (CPCC by FastFT)": "cpcc/fastft-unit",
}


def results_page(folder: Path) -> str:
    """The start page: what holds, what does not, what to use, and links to everything.

    It begins with the content of `reading.md`, if that exists: so the page can be written again at any time
    without losing the text written by hand.

    Args:
        folder: Output folder of the items.

    Example:
        >>> print(results_page(Path("/nowhere")).splitlines()[0])
        # The paper, reproduced
    """
    documents = _read_documents(folder)
    judged = [
        (claim, one) for claim in claims.CLAIMS for one in judge_claim(claim, evidence(claim, documents))
    ]
    there = {d.item: d for d in reversed(documents) if d.observations.rows}
    parts = ["# The paper, reproduced\n"]
    introduction = folder / _INTRODUCTION
    if introduction.is_file():
        parts.append(introduction.read_text(encoding="utf-8").rstrip() + "\n")
    for verdict, heading in (("holds", "What holds"), ("does not hold", "What does not hold")):
        chosen = [(claim, one) for claim, one in judged if one.judgement.verdict == verdict]
        if chosen:
            lines = [_claim_line(claim, one) for claim, one in chosen]
            items = [name for name, _ in Counter(claim.item for claim, _ in chosen).most_common()]
            items.sort(key=lambda name: name in there and not there[name].runs)  # networks before times
            parts.append("\n".join([f"## {heading}", "", *lines, "", *_picture(items, there)]))
    if uses := _uses(documents):
        parts.append("\n".join(["## What to use", "", uses, "", *_picture(_PICTURES, there)]))
    open_claims = sum(one.judgement.verdict == "cannot be told" for _, one in judged)
    not_run = sum(all(claim is not known for known, _ in judged) for claim in claims.CLAIMS)
    proofs = [proof.verdict for proof in PROOFS]
    lines = [
        "## Details",
        "",
        f"- [All claims](claims.md) with numbers, intervals and reasons: {open_claims} verdicts cannot be "
        f"told, {not_run} claims were not measured; of {len(proofs)} that can be proved "
        f"{proofs.count('holds')} hold.",
        *(f"- [{_heading(d)}]({name}/README.md)" for name in item_names() if (d := there.get(name))),
    ]
    missing = ", ".join(f"`{name}`" for name in item_names() if name not in there)
    lines += ["", f"Not run: {missing}."] if missing else []
    return "\n".join([*parts, *lines, ""])


def _claim_line(claim: Claim, one: RegimeVerdict) -> str:
    where = ", ".join(filter(None, (*one.data, one.regime)))
    texts = one.judgement.texts
    more = f" (and {len(texts) - 1} more)" if len(texts) > 1 else ""
    return f"- **{claim.text}** {f'{where}: ' if where else ''}{texts[0] if texts else ''}{more}"


def _picture(names: Sequence[str], there: dict[str, Document]) -> list[str]:
    """Lines with a figure of the first of some items that has one; empty if none has."""
    for document in (there[name] for name in names if name in there):
        for figure in item_figures(document):
            return [f"![{_heading(document)}]({document.item}/{figure}.svg)", ""]
    return []


def _compared(documents: Sequence[Document]) -> Iterator[tuple[str, Observations, list[Condition]]]:
    """Yield name, observations and conditions of every recipe that several objectives were trained on.

    Of several regimes, the one with the most objectives is used; conditions with settings are left out.
    """
    table = _joined(documents)
    for recipe in filter(None, table.recipes):
        groups: dict[str, dict[tuple[Any, ...], Condition]] = {}
        for c in table.plain(measured=True):
            if c.recipe == recipe and not c.setting:
                groups.setdefault(c.regime, {})[c.key] = c
        regime = max(groups, key=lambda name: len(groups[name]), default=None)
        if regime is not None and len(groups[regime]) > 1:
            yield recipe, table.at([regime]), list(groups[regime].values())


def _uses(documents: Sequence[Document]) -> str:
    """A table of the best objective for each purpose and data set, with all that are as good within noise."""
    columns = {}
    for recipe, table, conditions in _compared(documents):
        columns[recipe_label(recipe)] = [_best(table, conditions, metric) for metric in _PURPOSES.values()]
    if not columns:
        return ""
    rows = [[purpose, *cells] for purpose, *cells in zip(_PURPOSES, *columns.values(), strict=True)]
    notes = [
        "Highest mean over seeds, then what is as good within noise; "
        f"with {SEEDS_NEEDED} seeds or more where some objective has so many."
    ]
    names = ["you want", *columns]
    return Table.from_rows(names, rows, title="The best objectives", notes=notes).to_markdown()


def _best(table: Observations, conditions: Sequence[Condition], purpose: str) -> str:
    names = (purpose.format(domain) for domain in ("source", "full"))
    metric = next((name for name in names if any(table.summary(c, name) for c in conditions)), purpose)
    known = {c: s for c in conditions if (s := table.summary(c, metric)) and s["mean"] is not None}
    enough = {c: s for c, s in known.items() if len(s["values"]) >= SEEDS_NEEDED}
    ranked = sorted(enough or known, key=lambda c: -known[c]["mean"])
    if not ranked:
        return "-"
    best, *others = ranked
    as_good = []
    for other in others if enough else ():
        judgement = judge(value(best.objective, metric) > value(other.objective, metric), table, best.recipe)
        if judgement is not None and judgement.verdict != "holds":
            as_good.append(other.label)
    shown = with_spread(known[best]["mean"], known[best]["std"], "percent")
    count = len(known[best]["values"])
    seeds = "" if enough else f", {count} {'seed' if count == 1 else 'seeds'}"
    return f"{best.label} {shown}{seeds}" + (f"; {', '.join(as_good)}" if as_good else "")


def _heading(document: Document) -> str:
    return document.title[:1].upper() + document.title[1:]


def item_page(document: Document) -> str:
    """The page of an item: how it was made, its figures and tables.

    Args:
        document: Its document.
    """
    where = ", ".join(f"`{label}`" for label in document.paper) or "beyond the paper"
    lines = [f"# {_heading(document)}", "", f"`{document.command}`; {where}. {_runs(document)}".rstrip(), ""]
    for sentence in document.setup.values():
        lines += [sentence, ""]
    for figure in item_figures(document):
        lines += [f"![{_heading(document)}: {figure}]({figure}.svg)", ""]
    lines += [f"{table.to_markdown()}\n" for table in item_tables(document).values() if table.rows]
    return "\n".join([*lines, "[All items](../README.md), [claims](../claims.md)", ""])


def _runs(document: Document) -> str:
    """The number of runs behind a document, and why others were left out."""
    number = len(document.runs)
    text = f"{number} {'run' if number == 1 else 'runs'}." if number else ""
    missing = document.missing.values()
    reasons = {reason: sum(known == reason for known in missing) for reason in missing}
    left_out = [f"{count} left out: {reason}." for reason, count in reasons.items()]
    return " ".join([text, *left_out]).strip()
