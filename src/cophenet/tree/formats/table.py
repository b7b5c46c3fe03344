"""CSV and TSV: a header with the level names, then one path per class in label order.

Weights other than 1 are in additional columns, named ``weight:`` and the level name. Files written by this
module begin with a line ``# root: "name"``; for other files the caller must say whether there is a header.
A name that a spreadsheet would run as a formula, such as ``=1+1``, is written with an apostrophe in front,
which is removed on reading.
"""

from __future__ import annotations

import csv
import io
import json
from functools import partial
from typing import TYPE_CHECKING

from cophenet._common.csv_cells import from_cell, to_cell
from cophenet._common.files import parse_json
from cophenet.tree.build import parts_from_paths
from cophenet.tree.parts import DEFAULT_ROOT, Parts

if TYPE_CHECKING:
    from cophenet.tree.hierarchy import Hierarchy

_ROOT = "# root: "
# Limit on the cells of a table, which has classes times levels of them.
_CELLS = 1_000_000_000


def _parse(text: str, header: bool | None = None, *, sep: str) -> Parts:
    root, skipped = DEFAULT_ROOT, 0
    if text.startswith(_ROOT):
        first, _, text = text.partition("\n")
        root, skipped = _parse_root(first), 1
        header = True if header is None else header
    rows, lines = read_rows(text, sep, skipped)
    if header is None and rows:
        first_row = f"line {lines[0]}: {rows[0]!r} may be a header or a class"
        how = "on the command line `cophenet tree convert FILE tree.yaml --header` or `--no-header`"
        raise ValueError(f"{first_row}: say header=True or header=False ({how})")
    level_names: list[str] | None = None
    weighted = False
    if header:
        if not rows:
            raise ValueError("the tree is empty: the file has no header and no classes")
        level_names, weighted = _parse_header([from_cell(cell) for cell in rows.pop(0)])
        lines.pop(0)
    width = len(level_names) if level_names else max(map(len, rows), default=0)
    paths, weights = [], []
    for row, line in zip(rows, lines, strict=True):
        if len(row) > (2 * width if weighted else width):
            raise ValueError(f"line {line}: {len(row)} cells in a table with {width} levels")
        path = _path(row[:width], line)
        paths.append(path)
        weights.append(_row_weights(row[width:], len(path), line) if weighted else [1.0] * len(path))
    return parts_from_paths(paths, root=root, level_names=level_names, weights=weights, lines=lines)


def read_rows(
    text: str, sep: str, skipped: int = 0, *, quotes: bool = True
) -> tuple[list[list[str]], list[int]]:
    """Return the non-blank rows and the line on which each begins, counting ``skipped`` lines before."""
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=sep,
        quoting=csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE,
        strict=True,
    )
    rows, lines = [], []
    start = skipped + 1
    try:
        for row in reader:
            if row:
                rows.append(row)
                lines.append(start)
            start = skipped + reader.line_num + 1
    except csv.Error as error:
        raise ValueError(f"line {skipped + reader.line_num}: malformed row: {error}") from None
    return rows, lines


def _parse_root(first: str) -> str:
    try:
        root = parse_json(first[len(_ROOT) :])
    except ValueError:
        root = None
    if not isinstance(root, str):
        raise ValueError(f"line 1: the root must be named in double quotes, got {first!r}")
    return root


def _parse_header(cells: list[str]) -> tuple[list[str], bool]:
    half = len(cells) // 2
    if half and cells[half:] == [f"weight:{name}" for name in cells[:half]]:
        return cells[:half], True
    return cells, False


def _path(cells: list[str], line: int) -> list[str]:
    path = [from_cell(cell) for cell in cells]
    while path and not path[-1]:
        path.pop()
    if not all(path) or not path:
        raise ValueError(f"line {line}: an empty name inside a path: {cells!r}")
    return path


def _row_weights(cells: list[str], count: int, line: int) -> list[float]:
    if any(cells[count:]):
        raise ValueError(f"line {line}: more weights than names")
    try:
        return [float(cell) for cell in (cells + [""] * count)[:count]]
    except ValueError:
        raise ValueError(f"line {line}: weights must be numbers, one for each name, got {cells!r}") from None


def _dump(tree: Hierarchy, sep: str) -> str:
    if tree.num_classes * tree.height > _CELLS:
        size = f"{tree.num_classes:,} classes and {tree.height:,} levels"
        raise ValueError(
            f"a table of {size} has more than {_CELLS:,} cells (limit); use json, edges or newick"
        )
    header = list(tree.level_names)
    # Level names that happen to look like weight columns need real weight columns.
    weighted = bool((tree.edge_weights[1:] != 1).any()) or _parse_header(header)[1]
    rows = [header + [f"weight:{name}" for name in header if weighted]]
    parents, edge_weights = tree.parents.tolist(), tree.edge_weights.tolist()
    for leaf in tree.leaves.tolist():
        names, weights = [], []
        node = leaf
        while node > 0:
            names.append(tree.names[node])
            weights.append(repr(edge_weights[node]))
            node = parents[node]
        padding = [""] * (tree.height - len(names))
        rows.append(names[::-1] + padding + (weights[::-1] + padding if weighted else []))
    first = _ROOT + json.dumps(tree.names[0], ensure_ascii=False)
    lines = [sep.join(_quoted(str(to_cell(cell)), sep) for cell in row) for row in rows]
    return "\n".join([first, *lines]) + "\n"


# Not by `csv.writer`, which does not quote a leading "#": readers that skip the first line as a comment
# (pandas with `comment="#"`) would skip such a name as well.
def _quoted(cell: str, sep: str) -> str:
    if cell.isprintable() and not cell.startswith("#") and '"' not in cell and sep not in cell:
        return cell
    doubled = cell.replace('"', '""')
    return f'"{doubled}"'


parse_csv = partial(_parse, sep=",")
parse_tsv = partial(_parse, sep="\t")
dump_csv = partial(_dump, sep=",")
dump_tsv = partial(_dump, sep="\t")
