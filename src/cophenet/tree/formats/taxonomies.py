"""Read-only taxonomy formats of other programs: lists of paths, and tables that begin with a header.

Leaves are the classes, in the order of the file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from cophenet.tree.build import parts_from_paths
from cophenet.tree.formats.table import read_rows
from cophenet.tree.parts import DEFAULT_ROOT, Parts

_NUMBER = re.compile(r"\d+ - ")
_IDS = ("id", "taxonid", "taxon_id", "taxid", "tax_id", "node_id", "key", "code")
_PARENTS = (
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
_NAMES = ("name", "canonicalname", "scientificname", "scientific_name", "label", "title")
_RANK = ("rank", "taxonrank", "level")
_DARWIN_CORE = (
    "kingdom",
    "phylum",
    "class",
    "order",
    "superfamily",
    "family",
    "subfamily",
    "tribe",
    "subtribe",
    "genus",
    "subgenus",
    "species",
)
_CODES = ("code", "id", "commodity_code", "unspsc", "hs_code", "naics")
_CODE_NAMES = ("name", "title", "description", "label")
# Limit on the length of a code, because every prefix is looked up.
_LONGEST = 100


def parse_google(text: str) -> Parts:
    """Read Google's product taxonomy or similar: ``1 - Animals > Pets > Cats``, with or without numbers.

    Every line is a category with its ancestors; the numbers are dropped. Lines that start with ``#``
    are comments.
    """
    paths: list[tuple[str, ...]] = []
    lines: list[int] = []
    numbered: bool | None = None
    for line, content in enumerate(text.split("\n"), start=1):
        stripped = content.strip()
        if not stripped or stripped.startswith("#"):
            continue
        number = _NUMBER.match(stripped)
        numbered = number is not None if numbered is None else numbered
        if numbered and number is None:
            raise ValueError(f"line {line}: expected 'number - A > B > C', got {stripped!r:.200}")
        path = stripped[number.end() :] if numbered and number else stripped
        paths.append(tuple(step.strip() for step in path.split(" > ")))
        lines.append(line)
    return parts_from_paths(paths, lines=lines, groups=True)


def parse_parents(text: str) -> Parts:
    """Read a table of nodes, as from GBIF and NCBI: columns id, parent id, name, and optionally rank.

    A node without a parent, or that is its own parent, is a root; several roots get a common root above them.
    Ranks become level names if each level has exactly one rank, which no other level has.
    """
    table = _parse_columns(text)
    ids, above, names = table.need("id", _IDS), table.need("parent id", _PARENTS), table.need("name", _NAMES)
    place: dict[str, int] = {}
    for node, (key, line) in enumerate(zip(ids, table.lines, strict=True)):
        if not key or place.setdefault(key, node) != node:
            raise ValueError(f"line {line}: the id {key!r:.50} {'is given twice' if key else 'is empty'}")
    parents: list[int] = []
    for key, parent, line in zip(ids, above, table.lines, strict=True):
        if parent and parent not in place:
            raise ValueError(f"line {line}: the parent {parent!r:.50} of {key!r:.50} is not in the table")
        parents.append(place[parent] if parent and parent != key else -1)
    lines, called, ranks = table.lines, list(names), table.find(_RANK)
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


def parse_darwin_core(text: str) -> Parts:
    """Read Darwin Core: a table with columns kingdom, phylum, class, order, family, genus and species.

    Rows are taxa or observations: equal rows are one class, and a row that stops above others (an animal of
    which only the genus is known) is an inner node. Other columns are ignored. Without a column species, a
    species is named by genus and ``specificEpithet``. Terms: https://dwc.tdwg.org/terms/#taxon
    """
    table = _parse_columns(text)
    cells = dict(table.cells)
    if "species" not in cells and "genus" in cells and "specificepithet" in cells:
        both = zip(cells["genus"], cells["specificepithet"], strict=True)
        cells["species"] = [f"{genus} {epithet}" if epithet else "" for genus, epithet in both]
    ranks = [rank for rank in _DARWIN_CORE if any(cells.get(rank, ()))]
    if not ranks:
        raise ValueError(
            f"line 1: no column with names of {', '.join(_DARWIN_CORE)}; got {list(cells)!r:.200}"
        )
    paths: dict[tuple[str, ...], int] = {}
    for row, line in zip(zip(*(cells[rank] for rank in ranks), strict=True), table.lines, strict=True):
        path = row[: row.index("")] if "" in row else row
        if not path or any(row[len(path) :]):
            empty = ranks[len(path)]
            raise ValueError(
                f"line {line}: {empty} is empty above other ranks; fill it in, or leave {empty} out"
            )
        paths.setdefault(path, line)
    deepest = max(map(len, paths), default=0)
    lines = list(paths.values())
    return parts_from_paths(paths, level_names=ranks[:deepest], lines=lines, groups=True)


def parse_codes(text: str) -> Parts:
    """Read codes whose prefixes are groups (UNSPSC, HS, NAICS, ICD-10): columns code and optionally name.

    The parent of a code is the longest other code that it begins with. Where all codes are numbers of one
    length, pairs of zeros at their ends are padding: 43210000 is above 43211500. Nodes are named by the
    column of names, or by their codes if there is none.
    """
    table = _parse_columns(text)
    codes = table.need("code", _CODES)
    names = table.find(_CODE_NAMES) or codes
    padded = len({len(code) for code in codes}) == 1 and all(code.isdecimal() for code in codes)
    place: dict[str, int] = {}
    for node, (code, line) in enumerate(zip(codes, table.lines, strict=True), start=1):
        if not 0 < len(code) <= _LONGEST:
            raise ValueError(f"line {line}: a code must have 1 to {_LONGEST} signs (limit), got {code!r:.50}")
        if place.setdefault(_without_padding(code) if padded else code, node) != node:
            raise ValueError(f"line {line}: the code {code!r} is given twice")
    parents = [-1]
    for code in place:
        beginnings = (code[:length] for length in range(len(code) - 1, 0, -1))
        parents.append(next((place[start] for start in beginnings if start in place), 0))
    return Parts(parents, [DEFAULT_ROOT, *names], lines=[1, *table.lines])


def _without_padding(code: str) -> str:
    while len(code) > 2 and code.endswith("00"):
        code = code[:-2]
    return code


@dataclass(frozen=True)
class _Columns:
    """A table with a header that names the columns, separated by tabs or commas.

    Attributes:
        cells: The cells of each column, by its name in the header in lower case.
        lines: Line of each row, for messages.
    """

    cells: dict[str, list[str]]
    lines: list[int]

    def find(self, names: Sequence[str]) -> list[str] | None:
        """Return the first of the named columns that exists, else None."""
        return next((self.cells[name] for name in names if name in self.cells), None)

    def need(self, what: str, names: Sequence[str]) -> list[str]:
        """Return the first of the named columns that exists; raise ValueError if there is none."""
        column = self.find(names)
        if column is None:
            given = f"the table has {list(self.cells)!r:.200}"
            raise ValueError(f"line 1: no column for the {what}: one of {', '.join(names)}; {given}")
        return column


def _parse_columns(text: str) -> _Columns:
    """Read a table; if it is separated by tabs, quotes are ordinary characters, as in GBIF tables."""
    tabs = "\t" in text.partition("\n")[0]
    rows, lines = read_rows(text, "\t" if tabs else ",", quotes=not tabs)
    if not rows:
        raise ValueError("the table is empty: it must begin with a header")
    header = [name.strip().lower() for name in rows[0]]
    if len(set(header)) < len(header):
        raise ValueError(f"line {lines[0]}: two columns have the same name: {header!r:.200}")
    for row, line in zip(rows, lines, strict=True):
        if len(row) != len(header):
            raise ValueError(f"line {line}: {len(row)} cells in a table of {len(header)} columns")
    cells = {name: [row[place].strip() for row in rows[1:]] for place, name in enumerate(header)}
    return _Columns(cells, lines[1:])
