"""Text with one edge per line: ``parent child [weight]``, names with spaces as JSON strings."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from cophenet.tree.build import parts_from_edges
from cophenet.tree.formats.notes import dump_notes, parse_note
from cophenet.tree.parts import Parts

if TYPE_CHECKING:
    from cophenet.tree.hierarchy import Hierarchy

_FIELD = re.compile(r'\s*("[^"\\]*(?:\\.[^"\\]*)*"|[^\s"]\S*)(?=\s|$)')
_PLAIN = re.compile(r'[^\s"#]\S*')


def parse(text: str) -> Parts:
    """Read edges; a line that starts with ``#`` is a comment or a note."""
    edges: list[tuple[Any, ...]] = []
    lines: list[int] = []
    notes: dict[str, list[str]] = {}
    for number, content in enumerate(text.split("\n"), start=1):
        stripped = content.strip()
        if stripped.startswith("#"):
            note = parse_note(stripped[1:], number)
            if note is not None:
                notes[note[0]] = note[1]
        elif stripped:
            edges.append(_edge(stripped, number))
            lines.append(number)
    return parts_from_edges(edges, notes.get("classes"), level_names=notes.get("level_names"), lines=lines)


def _edge(content: str, number: int) -> tuple[Any, ...]:
    fields: list[str] = []
    end = 0
    while end < len(content):
        match = _FIELD.match(content, end)
        if match is None:
            raise ValueError(f"line {number}: unfinished quotes in {content!r:.200}")
        fields.append(match[1])
        end = match.end()
    if len(fields) not in (2, 3):
        hint = "; put names with spaces in double quotes" if len(fields) > 3 else ""
        raise ValueError(f"line {number}: expected 'parent child [weight]', got {len(fields)} fields{hint}")
    names = [_unquoted(field, number) for field in fields[:2]]
    return tuple(names) if len(fields) == 2 else (*names, _weight(fields[2], number))


def _weight(field: str, number: int) -> float:
    try:
        return float(field)
    except ValueError:
        raise ValueError(f"line {number}: the weight must be a number, got {field!r}") from None


def _unquoted(field: str, number: int) -> str:
    if not field.startswith('"'):
        return field
    try:
        return str(json.loads(field))
    except json.JSONDecodeError as error:
        raise ValueError(f"line {number}: wrong escape in {field}: {error.msg}") from None


def _quoted(name: str) -> str:
    return name if _PLAIN.fullmatch(name) and name.isprintable() else json.dumps(name, ensure_ascii=False)


def dump(tree: Hierarchy) -> str:
    """Write edges, parents first; names must be unique, because they identify the nodes in this format."""
    name, count = Counter(tree.names).most_common(1)[0]
    if count > 1:
        raise ValueError(
            f"edges cannot hold {count} nodes called {name!r}: there a node is known by its name; "
            "use json, yaml, csv, tsv or newick"
        )
    names = [_quoted(name) for name in tree.names]
    rows = [f"# {note}" for note in dump_notes(tree)]
    weights = tree.edge_weights.tolist()
    for node, parent in enumerate(tree.parents.tolist()):
        if node:
            weight = "" if weights[node] == 1 else f" {weights[node]!r}"
            rows.append(f"{names[parent]} {names[node]}{weight}")
    return "\n".join(rows) + "\n"
