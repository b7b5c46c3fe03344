"""One page of all that was reproduced, in Markdown, made from the documents of items alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cophenet.report.paper_tables import table_markdown
from cophenet.reproduce.items import ITEMS
from cophenet.training.files import read_json

__all__ = ["results_page"]

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
    documents = {}
    for item in ITEMS:
        path = folder / item.name / f"{item.name}.json"
        if path.is_file():
            documents[item.name] = read_json(path)
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


def _heading(document: Mapping[str, Any]) -> str:
    title: str = document["title"]
    return title[:1].upper() + title[1:]


def _section(name: str, document: Mapping[str, Any]) -> str:
    where = ", ".join(f"`{label}`" for label in document["paper"]) or "beyond the paper"
    lines = [f'## <a id="{name}"></a>{_heading(document)}', ""]
    changed = "".join(f" --set {setting}" for setting in document["settings"])
    command = f"cophenet reproduce {name} --scale {document['scale']}{changed}"
    lines += [f"`{command}`; {where}. {_runs(document)}", ""]
    for figure in document["figures"]:
        lines += [f"![{_heading(document)}: {figure}]({name}/{figure}.svg)", ""]
    lines += [table_markdown(table) for table in document["tables"] if table["rows"]]
    return "\n".join(lines)


def _runs(document: Mapping[str, Any]) -> str:
    """How many runs it rests on, and why others are not there."""
    number = len(document["runs"])
    text = f"{number} {'run' if number == 1 else 'runs'}." if number else ""
    missing = document["missing"].values()
    reasons = {reason: sum(known == reason for known in missing) for reason in missing}
    told = [f"{count} left out: {reason}." for reason, count in reasons.items()]
    return " ".join([text, *told]).strip()
