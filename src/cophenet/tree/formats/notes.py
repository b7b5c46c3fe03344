"""Notes in the comments of text formats: label order and level names, if these are not the defaults."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from cophenet._common.files import parse_json
from cophenet.tree.parts import default_level_names

if TYPE_CHECKING:
    from cophenet.tree.hierarchy import Hierarchy

NOTES = ("classes", "level_names")


def dump_notes(tree: Hierarchy) -> Iterator[str]:
    """Notes ``name: "a", "b"``: classes if not in tree order, level names if not the default ones."""
    if not (np.diff(tree.leaves) > 0).all():
        yield _note("classes", tree.classes)
    if tree.level_names != default_level_names(tree.height):
        yield _note("level_names", tree.level_names)


def _note(key: str, names: tuple[str, ...]) -> str:
    # Brackets are escaped because they end a comment in Newick.
    text = ", ".join(json.dumps(name, ensure_ascii=False) for name in names)
    return f"{key}: {text.replace('[', chr(92) + 'u005b').replace(']', chr(92) + 'u005d')}"


def parse_note(comment: str, line: int) -> tuple[str, list[str]] | None:
    """Key and names of a note, or None for any other comment."""
    key, colon, text = comment.strip().partition(":")
    if not colon or key not in NOTES:
        return None
    try:
        names = parse_json(f"[{text}]")
    except json.JSONDecodeError:
        raise ValueError(
            f"line {line}: the note {key!r} must list names in double quotes, got {text.strip()!r}"
        ) from None
    return key, names
