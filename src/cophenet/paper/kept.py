"""What a document that is written must not lose, and what it must not tell."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from cophenet._common.files import read_json
from cophenet.paper.documents import FORMAT, document_path, unread
from cophenet.paper.page import command_of
from cophenet.paper.queue import Queue

__all__ = ["keep_what_is_lost", "without_folders"]

Document = dict[str, Any]
# An absolute path up to its last part; slashes inside of words and addresses are no such.
_FOLDERS = re.compile(r"(?<![\w/:.~-])/(?:[^\s/'\"]+/)+")
_MADE_WITH = ("scale", "recipes", "seeds", "settings")


def without_folders(text: str) -> str:
    """Text that is shown to others: of a path only the last part.

    Example:
        >>> without_folders("cannot read /home/me/data/train.bin: 3/4 of it")
        'cannot read train.bin: 3/4 of it'
    """
    return _FOLDERS.sub("", text)


def keep_what_is_lost(document: Document, queue: Queue, output: Path) -> Document:
    """The document to write: the one that is there if it rests on what is not, else the new one.

    Args:
        document: The new one.
        queue: What runs there are.
        output: Where items are written to.

    Raises:
        ValueError: If the one that is there must be kept but cannot be drawn, or was made with other settings
            while new ones were asked for.
    """
    path = document_path(output, document["item"])
    if not path.is_file():
        return document
    known = read_json(path)
    problem = unread(output).get(path)
    if known.get("format") != FORMAT:
        raise ValueError(f"{path} {problem}: move it away, or give another -o")
    lost = _lost(document, known, queue)
    if not lost:
        return document
    if problem:
        raise ValueError(f"{path} {problem}, and {lost}: move it away, or give another -o")
    if not queue.only_finished and any(known[key] != document[key] for key in _MADE_WITH):
        raise ValueError(f"{path} is of `{command_of(known)}`, and {lost}: give another -o")
    queue.tell(f"{document['item']}: drawn from its document; {lost}")
    return known


def _lost(document: Document, known: Document, queue: Queue) -> str:
    """What would be lost with a document; nothing if it may be replaced."""
    report = queue.report
    failing = {*report.lacking, *report.failed}
    runs = [
        name
        for name in known.get("runs", ())
        if name in failing or not (queue.folder / name / "results.json").is_file()
    ]
    if runs and (queue.only_finished or len(document["runs"]) < len(known["runs"])):
        return f"{len(runs)} of its runs {'is' if len(runs) == 1 else 'are'} not in {queue.folder}"
    # Sizes of data sets are counted without runs, and again each time.
    counted = not document["runs"] and "study" not in document
    return "not all of its data is here" if counted and _numbers(document) < _numbers(known) else ""


def _numbers(document: Document) -> int:
    """How many measured numbers tables have."""
    cells = (cell for table in document.get("tables", ()) for row in table["rows"] for cell in row)
    return sum(isinstance(cell, dict) and cell["mean"] is not None for cell in cells)
