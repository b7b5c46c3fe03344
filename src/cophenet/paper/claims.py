"""The page of what the paper claims, the item or test that checks each claim, and what was found."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cophenet.paper.claim import Claim
from cophenet.paper.claims_measured import MEASURED
from cophenet.paper.claims_proved import PROVED
from cophenet.paper.documents import read_document
from cophenet.paper.verdicts import Judged
from cophenet.report.published_numbers import published_tables

__all__ = ["CLAIMS", "claims_page"]

CLAIMS: tuple[Claim, ...] = (*PROVED, *MEASURED)
# Data sets that a laptop trains on in minutes; the others have large images, or too many.
_ON_A_LAPTOP = ("cifar10", "cifar100")

_HOW = """\
Verdicts are **holds**, **does not**, **not run yet** (with the command that measures it) and **needs a
GPU**. They are about the scale that is named beside the numbers; a smaller network trained for fewer
epochs decides nothing about the paper's own. Proofs name their tests.

Numbers are means over seeds, with ± the standard deviation where there are several. A verdict is *within
noise* if what decides it is smaller than two standard errors of the difference of the two means. A side of
one seed is taken to spread as the other; with one seed on both sides two points decide nothing, nor a tenth
of a time or of a number of modes. Where a claim asks for several differences at once, it holds within noise
if one of them may be noise, and fails within noise if all those that fail may be. A correlation r over n
objectives may be noise below two over the root of n. Powers of n, ratios of times, sizes of data and blocks
of distance matrices have no spread here: in verdicts on them noise is not judged, but by a margin where one
stands beside the numbers.

*So far*, and how many objectives, is said where some that the claim is about have not been run; where it says
that runs are missing, some are there, but not those that the claim compares.

Thresholds are ours, as the paper has none, and stand beside the numbers. That a power of n from 0.75 to
1.25 counts as linear was settled after first pilots of the time study were seen.

TestCPCC of an OT objective is by its own distance, as in the paper. Flat and the other baselines have none:
the paper measures them by l2. Where they are compared, the verdict is by l2 on both sides, and what it is by
the distances trained with is said beside.
"""


def claims_page(folder: Path) -> str:
    """The page of claims, filled from the documents of items.

    Args:
        folder: Where items were written to.

    Example:
        >>> "FastFT takes time linear in n." in claims_page(Path("/nowhere"))
        True
    """
    lines = ["# Claims of the paper, and what was found", "", _HOW]
    lines.append("| claim | in the paper | checked by | measured | verdict |")
    lines.append("|:--|:--|:--|:--|:--|")
    for claim in CLAIMS:
        measured, verdict = _judge(claim, folder)
        lines.append(f"| {claim.text} | {claim.where} | {_checked_by(claim)} | {measured} | {verdict} |")
    lines += ["", "## Published cells that contradict another table, or themselves", ""]
    for table in published_tables().values():
        cells = (cell for row in table.rows for cell in row.values.values())
        for note in dict.fromkeys(cell.note for cell in cells if cell.note):
            lines.append(f"- {table.label}: {note}")
    return "\n".join([*lines, ""])


def _checked_by(claim: Claim) -> str:
    if claim.proved is None:
        return claim.source
    return "; ".join(f"`{part}`" for part in claim.source.split("; "))


def _judge(claim: Claim, folder: Path) -> tuple[str, str]:
    """What was measured, and the verdict."""
    if claim.proved is not None:
        return claim.proved[1], claim.proved[0]
    document = read_document(folder, claim.source)
    judged = claim.check(document) if document and claim.check else None
    if document is None or judged is None:
        if claim.gpu == "all":
            return "-", "needs a GPU"
        missing = "; runs are missing" if document and document.get("runs") else ""
        return f"`cophenet reproduce {claim.source}`{missing}", "not run yet"
    coverage = _coverage(claim, judged, document["scale"])
    return f"{judged.measured} ({_setting(document)})", _word(judged) + coverage


def _word(judged: Judged) -> str:
    """The verdict without the data sets."""
    if judged.holds is None:
        return f"not run yet: {judged.part}"
    word = "holds" if judged.holds else "does not"
    # What contradicts a claim mostly stays, whatever is run later.
    far = " so far" if judged.part and judged.holds else ""
    return (
        word + far + (f", {judged.part}" if judged.part else "") + (", within noise" if judged.close else "")
    )


def _setting(document: Mapping[str, Any]) -> str:
    """The recipes of the runs, as far as there are any, the scale, and what was set otherwise."""
    scale = document["scale"]
    recipes = dict.fromkeys(run.partition(f"-{scale}-")[0] for run in document.get("runs", ()))
    return ", ".join([*recipes, f"{scale} scale", *document.get("settings", ())])


def _coverage(claim: Claim, judged: Judged, scale: str) -> str:
    """On which of the data sets that a claim is about; what is left."""
    if claim.gpu and claim.gpu != "all" and scale != "paper":
        return f"; the rest ({claim.gpu}) needs a GPU"
    known = [name for name in claim.data if name in judged.data]
    if len(known) == len(claim.data):
        return ""
    on = ", on" if judged.part or judged.close else " on"
    if not known:
        return f"{on} {', '.join(judged.data)}"
    left = [name for name in claim.data if name not in known and name in _ON_A_LAPTOP]
    text = f"{on} {len(known)} of {len(claim.data)} data sets"
    if left:
        text += f"; {', '.join(left)} not run yet"
    if len(known) + len(left) < len(claim.data):
        text += "; the rest needs a GPU"
    return text
