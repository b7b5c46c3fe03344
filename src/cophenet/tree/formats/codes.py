"""Codes whose beginnings are the groups, as of UNSPSC, HS, NAICS or ICD-10: columns code and, perhaps, name.

The parent of a code is the longest other code that it begins with. Where all codes are numbers of one length,
pairs of zeros at their ends are padding: 43210000 is above 43211500. Codes without others below are the
classes, in the order of the file, called by their names, or by the codes where there are none.
"""

from __future__ import annotations

from cophenet._common.limits import NODES
from cophenet.tree.formats.columns import parse_columns
from cophenet.tree.parts import DEFAULT_ROOT, Parts, too_many_nodes

CODES = ("code", "id", "commodity_code", "unspsc", "hs_code", "naics")
NAMES = ("name", "title", "description", "label")
# Every beginning of a code is looked up.
_LONGEST = 100


def parse(text: str) -> Parts:
    """Read one code per row."""
    table = parse_columns(text)
    codes = table.need("code", CODES)
    names = table.find(NAMES) or codes
    if len(codes) >= NODES.value:
        raise too_many_nodes(NODES.value)
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
