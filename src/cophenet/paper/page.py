"""One page of all that was reproduced, in Markdown, made from the documents of items alone."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cophenet.paper.documents import read_document
from cophenet.paper.items import item_names
from cophenet.paper.tables import read_table

__all__ = ["command_of", "results_page"]

READING = "reading.md"


def results_page(folder: Path) -> str:
    """The page: what is written in `reading.md`, if that is there, then every item with tables and figures.

    The numbers can so be written again at any time without the loss of what is said about them.

    Args:
        folder: Where items were written to; figures are linked from there.

    Example:
        >>> print(results_page(Path("/nowhere")).splitlines()[0])
        # The paper, reproduced
    """
    found = ((name, read_document(folder, name)) for name in item_names())
    documents = {name: document for name, document in found if document is not None}
    reading = folder / READING
    parts = ["# The paper, reproduced\n"]
    if reading.is_file():
        parts.append(reading.read_text(encoding="utf-8").rstrip() + "\n")
    links = [f"- [{_heading(document)}](#{name})" for name, document in documents.items()]
    parts.append(
        "\n".join(["## Contents", "", "- [Claims of the paper, and what was found](claims.md)", *links, ""])
    )
    parts += [_section(name, document) for name, document in documents.items()]
    return "\n".join(parts)


def command_of(document: Mapping[str, Any]) -> str:
    """The command that makes an item as its document has it.

    Example:
        >>> made = {"item": "rank", "scale": "laptop", "recipes": ["digits"], "seeds": [7]}
        >>> command_of({**made, "settings": ["schedule={every: 2}"]})
        "cophenet reproduce rank --scale laptop --recipe digits --seeds 7, --set 'schedule={every: 2}'"
    """
    words = ["cophenet", "reproduce", document["item"], "--scale", document["scale"]]
    for recipe in document["recipes"]:
        words += ["--recipe", recipe]
    if document["seeds"]:
        # The comma makes a single one a list, not a number of seeds.
        words += ["--seeds", ",".join(map(str, document["seeds"])) + "," * (len(document["seeds"]) == 1)]
    for setting in document["settings"]:
        words += ["--set", setting]
    return shlex.join(words)


def _heading(document: Mapping[str, Any]) -> str:
    title: str = document["title"]
    return title[:1].upper() + title[1:]


def _section(name: str, document: Mapping[str, Any]) -> str:
    where = ", ".join(f"`{label}`" for label in document["paper"]) or "beyond the paper"
    lines = [f'## <a id="{name}"></a>{_heading(document)}', ""]
    lines += [f"`{command_of(document)}`; {where}. {_runs(document)}".rstrip(), ""]
    for sentence in document["setup"]:
        lines += [sentence, ""]
    for figure in document["figures"]:
        lines += [f"![{_heading(document)}: {figure}]({name}/{figure}.svg)", ""]
    lines += [f"{read_table(table).to_markdown()}\n" for table in document["tables"] if table["rows"]]
    return "\n".join(lines)


def _runs(document: Mapping[str, Any]) -> str:
    """How many runs it rests on, and why others are not there."""
    number = len(document["runs"])
    text = f"{number} {'run' if number == 1 else 'runs'}." if number else ""
    missing = document["missing"].values()
    reasons = {reason: sum(known == reason for known in missing) for reason in missing}
    told = [f"{count} left out: {reason}." for reason, count in reasons.items()]
    return " ".join([text, *told]).strip()
