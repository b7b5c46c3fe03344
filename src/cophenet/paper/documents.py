"""Documents of items as they lie in an output folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cophenet._common.files import read_json
from cophenet.paper.items import item_names

__all__ = ["FORMAT", "document_path", "read_document", "read_study", "unread"]

FORMAT = 1
_KEYS = (
    "item",
    "title",
    "paper",
    "scale",
    "recipes",
    "seeds",
    "settings",
    "setup",
    "runs",
    "missing",
    "tables",
    "figures",
)


def document_path(folder: Path, name: str) -> Path:
    """Where the document of an item is.

    Example:
        >>> document_path(Path("results"), "rank").as_posix()
        'results/rank/rank.json'
    """
    return folder / name / f"{name}.json"


def read_document(folder: Path, name: str) -> dict[str, Any] | None:
    """The document of an item; None if there is none that this version understands.

    Args:
        folder: Where items were written to.
        name: Name of the item.

    Example:
        >>> read_document(Path("/nowhere"), "rank") is None
        True
    """
    path = document_path(folder, name)
    return read_json(path) if path.is_file() and not _problem(path, name) else None


def read_study(folder: Path, name: str) -> dict[str, Any] | None:
    """What was measured for an item that needs no runs; None if nothing was.

    Whatever else a document has or lacks: what was measured is not measured again.

    Raises:
        ValueError: If there is a document of another format.
    """
    path = document_path(folder, name)
    if not path.is_file():
        return None
    document = read_json(path)
    if document.get("format") != FORMAT:
        raise ValueError(f"{path} {_problem(path, name)}: move it away, or give another output")
    study: dict[str, Any] | None = document.get("study")
    return study


def unread(folder: Path) -> dict[Path, str]:
    """Files that lie where documents are and are none that this version understands, each with the reason.

    Args:
        folder: Where items were written to.

    Example:
        >>> unread(Path("/nowhere"))
        {}
    """
    paths = {name: document_path(folder, name) for name in item_names()}
    found = {path: _problem(path, name) for name, path in paths.items() if path.is_file()}
    return {path: problem for path, problem in found.items() if problem}


def _problem(path: Path, name: str) -> str:
    """What is wrong with a document; nothing if nothing is."""
    try:
        document = read_json(path)
    except ValueError:
        return "is no JSON document"
    if document.get("format") != FORMAT:
        return f"has format {document.get('format')!r}, this version reads {FORMAT}"
    lacking = [key for key in _KEYS if key not in document]
    if lacking:
        return f"lacks {', '.join(lacking)}"
    return "" if document["item"] == name else f"is of item {document['item']!r}"
