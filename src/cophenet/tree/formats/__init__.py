"""File formats of trees: functions that convert between text and the parts of a tree."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cophenet._common.checks import check_choice
from cophenet._common.files import write_text
from cophenet._common.limits import read_text, reading
from cophenet.tree.formats import document, edges, newick, skos, table, taxonomies
from cophenet.tree.parts import Parts

if TYPE_CHECKING:
    from cophenet.tree.hierarchy import Hierarchy


class Format(NamedTuple):
    """How a format is recognized, read and written."""

    extensions: tuple[str, ...]
    parse: Callable[..., Parts]
    dump: Callable[[Hierarchy], str] | None


FORMATS = {
    "json": Format((".json",), document.parse_json, document.dump_json),
    "yaml": Format((".yaml", ".yml"), document.parse_yaml, document.dump_yaml),
    "csv": Format((".csv",), table.parse_csv, table.dump_csv),
    "tsv": Format((".tsv",), table.parse_tsv, table.dump_tsv),
    "edges": Format((".edges", ".txt"), edges.parse, edges.dump),
    "newick": Format((".newick", ".nwk", ".tree"), newick.parse, newick.dump),
    # Read-only formats of other programs; those without an extension are selected by name.
    "google": Format((), taxonomies.parse_google, None),
    "parents": Format((), taxonomies.parse_parents, None),
    "darwin-core": Format((), taxonomies.parse_darwin_core, None),
    "codes": Format((), taxonomies.parse_codes, None),
    "skos": Format((".ttl", ".jsonld"), skos.parse, None),
}


def _format_name(path: Path, format: str | None) -> str:
    if format is not None:
        check_choice("format", format, tuple(FORMATS))
        return format
    for name, known in FORMATS.items():
        if path.suffix.lower() in known.extensions:
            return name
    known_formats = ", ".join(FORMATS)
    raise ValueError(f"path {str(path)!r} has no known extension: say its format, one of {known_formats}")


def read_tree(
    path: str | os.PathLike[str], format: str | None, header: bool | None, make: type[Hierarchy]
) -> Hierarchy:
    """Read a file and make its tree; every error names the file."""
    path = Path(path)
    name = _format_name(path, format)
    parse = FORMATS[name].parse
    if header is not None:
        if name not in ("csv", "tsv"):
            raise ValueError(f"header is for csv and tsv files only, the format is {name!r}")
        parse = partial(parse, header=header)
    with reading(path, f"a tree in {name}"):
        return make(parse(read_text(path)))


def write_tree(tree: Hierarchy, path: str | os.PathLike[str], format: str | None) -> None:
    """Write a tree to a file, replacing it."""
    path = Path(path)
    name = _format_name(path, format)
    dump = FORMATS[name].dump
    if dump is None:
        written = tuple(other for other, known in FORMATS.items() if known.dump is not None)
        raise ValueError(f"format {name!r} can only be read; to write, it must be one of {written}")
    write_text(path, dump(tree))
