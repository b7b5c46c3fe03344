"""The pages of what was reproduced, in Markdown, made from documents: what it means, and each item."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cophenet.paper import claims
from cophenet.paper.claims_page import evidence, read_documents
from cophenet.paper.documents import Document
from cophenet.paper.expressions import Claim, value
from cophenet.paper.figures import item_figures
from cophenet.paper.items import item_names
from cophenet.paper.judge import RegimeVerdict, judge, judge_claim
from cophenet.paper.observations import Condition, Observations
from cophenet.paper.plan import recipe_label
from cophenet.paper.proofs import PROOFS
from cophenet.paper.tables import item_tables
from cophenet.report import Table
from cophenet.report.table import with_spread

__all__ = ["item_page", "results_page"]

# Written by hand, and left as it is.
_INTRODUCTION = "reading.md"
# Items with a picture of what objectives give for what, the fullest first.
_PICTURES = ("pareto", "objectives", "scatter", "coarse")
# What somebody may want, by the metric that shows it.
_PURPOSES = {
    "the right class": "source/accuracy/fine",
    "the right coarse class": "source/accuracy/coarse",
    "retrieval of the same class": "source/map/fine",
    "retrieval of the same coarse class": "source/map/coarse",
    "the same among classes never seen": "target/map/coarse",
    "the tree in the features (CPCC by l2)": "cpcc/l2",
}
_SEEDS = 3


def results_page(folder: Path) -> str:
    """The page that a reader sees first: what holds, what does not, what to use, and links to everything.

    Begins with what is written in `reading.md`, if that is there: numbers can so be written again at any time
    without the loss of what is said about them.

    Args:
        folder: Where items were written to.

    Example:
        >>> print(results_page(Path("/nowhere")).splitlines()[0])
        # The paper, reproduced
    """
    documents = read_documents(folder)
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
            parts.append("\n".join([f"## {heading}", "", *lines, "", *_picture(items, there)]))
    if uses := _uses(documents):
        parts.append("\n".join(["## What to use", "", uses, "", *_picture(_PICTURES, there)]))
    open_claims = sum(one.judgement.verdict == "cannot be told" for _, one in judged)
    not_run = sum(all(claim is not known for known, _ in judged) for claim in claims.CLAIMS)
    proved = sum(proof.verdict == "holds" for proof in PROOFS)
    lines = [
        "## Details",
        "",
        f"- [All claims](claims.md) with numbers, intervals and reasons: {open_claims} verdicts cannot be "
        f"told, {not_run} claims were not measured; of {len(PROOFS)} that can be proved {proved} hold.",
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
    """A figure of the first of some items that has one."""
    for document in (there[name] for name in names if name in there):
        for figure in item_figures(document):
            return [f"![{_heading(document)}]({document.item}/{figure}.svg)", ""]
    return []


def _compared(documents: Sequence[Document]) -> Iterator[tuple[str, Observations, list[Condition]]]:
    """For every recipe that several objectives were trained on: its name, what was measured, the objectives.

    Of several scales that with the most objectives; objectives as the recipe has them.
    """
    table = Observations()
    for document in documents:
        table = table.extended(document.observations.rows, document.observations.conditions)
    for recipe in filter(None, table.recipes):
        groups: dict[str, dict[tuple[Any, ...], Condition]] = {}
        for c in table.plain(measured=True):
            if c.recipe == recipe and not c.setting:
                groups.setdefault(c.regime, {})[c.key] = c
        regime = max(groups, key=lambda name: len(groups[name]), default=None)
        if regime is not None and len(groups[regime]) > 1:
            yield recipe, table.at([regime]), list(groups[regime].values())


def _uses(documents: Sequence[Document]) -> str:
    """What is best for which purpose on each data set, with all that is as good within noise."""
    columns = {}
    for recipe, table, conditions in _compared(documents):
        columns[recipe_label(recipe)] = [_best(table, conditions, metric) for metric in _PURPOSES.values()]
    if not columns:
        return ""
    rows = [[purpose, *cells] for purpose, *cells in zip(_PURPOSES, *columns.values(), strict=True)]
    notes = [
        f"Highest mean over seeds, then what is as good within noise; with {_SEEDS} seeds or more where some "
        "objective has so many."
    ]
    names = ["you want", *columns]
    return Table.from_rows(names, rows, title="The best objectives", notes=notes).to_markdown()


def _best(table: Observations, conditions: Sequence[Condition], metric: str) -> str:
    known = {c: s for c in conditions if (s := table.summary(c, metric)) and s["mean"] is not None}
    enough = {c: s for c, s in known.items() if len(s["values"]) >= _SEEDS}
    ranked = sorted(enough or known, key=lambda c: -known[c]["mean"])
    if not ranked:
        return "-"
    best, *others = ranked
    as_good = []
    for other in others if enough else ():
        found = judge(value(best.objective, metric) > value(other.objective, metric), table, best.recipe)
        if found is not None and found.verdict != "holds":
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
        document: What is known of it.
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
    """How many runs it rests on, and why others are not there."""
    number = len(document.runs)
    text = f"{number} {'run' if number == 1 else 'runs'}." if number else ""
    missing = document.missing.values()
    reasons = {reason: sum(known == reason for known in missing) for reason in missing}
    left_out = [f"{count} left out: {reason}." for reason, count in reasons.items()]
    return " ".join([text, *left_out]).strip()
