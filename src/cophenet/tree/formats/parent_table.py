"""Tables of nodes with their parents, as of GBIF and NCBI: columns id, parent id, name, and perhaps rank.

A node without a parent, or that is its own, is the root; several of them get a root above them. Nodes without
others below are the classes, in the order of the file. Ranks become the names of the levels where each level
has one rank of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from cophenet._common.limits import NODES
from cophenet.tree.formats.columns import parse_columns
from cophenet.tree.parts import DEFAULT_ROOT, Parts, too_many_nodes

IDS = ("id", "taxonid", "taxon_id", "taxid", "tax_id", "node_id", "key", "code")
PARENTS = (
    "parent",
    "parent_id",
    "parentid",
    "parentnameusageid",
    "parent_taxid",
    "parent_tax_id",
    "parent_key",
    "parentkey",
    "parent_code",
)
NAMES = ("name", "canonicalname", "scientificname", "scientific_name", "label", "title")
RANKS = ("rank", "taxonrank", "level")


def parse(text: str) -> Parts:
    """Read one node per row."""
    table = parse_columns(text)
    ids, above, names = table.need("id", IDS), table.need("parent id", PARENTS), table.need("name", NAMES)
    if len(ids) > NODES.value:
        raise too_many_nodes(NODES.value)
    place: dict[str, int] = {}
    for node, (key, line) in enumerate(zip(ids, table.lines, strict=True)):
        if not key or place.setdefault(key, node) != node:
            raise ValueError(f"line {line}: the id {key!r:.50} {'is given twice' if key else 'is empty'}")
    parents: list[int] = []
    for key, parent, line in zip(ids, above, table.lines, strict=True):
        if parent and parent not in place:
            raise ValueError(f"line {line}: the parent {parent!r:.50} of {key!r:.50} is not in the table")
        parents.append(place[parent] if parent and parent != key else -1)
    lines, called, ranks = table.lines, list(names), table.find(RANKS)
    if parents.count(-1) > 1:
        parents = [*(parent if parent >= 0 else len(ids) for parent in parents), -1]
        called, lines = [*called, DEFAULT_ROOT], [*lines, lines[0]]
        ranks = None if ranks is None else [*ranks, ""]
    levels = None if ranks is None else _level_names(parents, ranks)
    return Parts(parents, called, None, None, levels, lines)


def _level_names(parents: Sequence[int], ranks: Sequence[str]) -> list[str] | None:
    """The ranks from below the root down, if all nodes of a depth have one rank that no other depth has."""
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(parents):
        children.setdefault(parent, []).append(node)
    names: dict[str, None] = {}
    nodes = [child for root in children.get(-1, []) for child in children.get(root, [])]
    while nodes:
        found = {ranks[node] for node in nodes}
        if len(found) > 1 or "" in found or found <= names.keys():
            return None
        names[ranks[nodes[0]]] = None
        nodes = [child for node in nodes for child in children.get(node, [])]
    return list(names) or None
