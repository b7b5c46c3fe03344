"""Darwin Core: a table with columns kingdom, phylum, class, order, family, genus and species.

Rows are taxa or observations: equal ones are one class, and one that stops above others (an animal of which
only the genus is known) is an inner node. Other columns are passed over. A species without a column of its
own is called by genus and ``specificEpithet``. Terms: https://dwc.tdwg.org/terms/#taxon
"""

from __future__ import annotations

from cophenet.tree.build import parts_from_paths
from cophenet.tree.formats.columns import parse_columns
from cophenet.tree.parts import Parts

RANKS = (
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


def parse(text: str) -> Parts:
    """Read the ranks that are there, from coarse to fine."""
    table = parse_columns(text)
    cells = dict(table.cells)
    if "species" not in cells and "genus" in cells and "specificepithet" in cells:
        both = zip(cells["genus"], cells["specificepithet"], strict=True)
        cells["species"] = [f"{genus} {epithet}" if epithet else "" for genus, epithet in both]
    ranks = [rank for rank in RANKS if any(cells.get(rank, ()))]
    if not ranks:
        raise ValueError(f"line 1: no column with names of {', '.join(RANKS)}; got {list(cells)!r:.200}")
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
