"""Writing a reproduced item: its document as JSON, its tables as text, its figure as SVG and PNG."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cophenet._common.files import write_bytes, write_json, write_text
from cophenet.paper.tables import write_table

__all__ = ["checksum", "draw", "write_item"]

_DPI = 160


def checksum(figure: Mapping[str, Any]) -> str:
    """What stands in the files of a figure, so that it can be seen whether they are of its data.

    Args:
        figure: As for `draw`; the same from Python and from a JSON file.

    Example:
        >>> checksum({"kind": "heat", 1: (2, 3)}) == checksum({"1": [2, 3], "kind": "heat"})
        True
    """
    plain = json.loads(json.dumps(figure))
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def draw(figure: Mapping[str, Any]) -> dict[str, bytes]:
    """A figure as files, by their ending; each says in its description of which data it is.

    Args:
        figure: "kind" and the data of that kind, as the functions of `paper_charts` and `paper_maps` take it.
    """
    import matplotlib

    from cophenet.paper import charts as paper_charts
    from cophenet.paper import maps as paper_maps

    kinds = {
        "lines": paper_charts.lines_figure,
        "dots": paper_charts.dots_figure,
        "scatter": paper_charts.scatter_figure,
        "matrices": paper_maps.matrices_figure,
        "clouds": paper_maps.clouds_figure,
        "heat": paper_maps.heat_figure,
    }
    drawn = kinds[figure["kind"]](figure)
    files = {}
    with matplotlib.rc_context({"svg.hashsalt": "cophenet", "svg.fonttype": "path"}):
        for ending, metadata in (("svg", {"Date": None}), ("png", {"Software": None})):
            stream = io.BytesIO()
            about = {**metadata, "Description": checksum(figure)}
            drawn.savefig(stream, format=ending, dpi=_DPI, facecolor="white", metadata=about)
            files[ending] = stream.getvalue()
    return files


def write_item(document: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write all files of an item.

    Args:
        document: "item", "title", "tables", "figures" by name, and whatever else belongs to it.
        folder: Where to; made if needed.

    Returns:
        The files, the JSON first.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / f"{document['item']}.json"]
    write_json(written[0], document)
    for table in document["tables"]:
        for ending, text in write_table(table).items():
            written.append(folder / f"{table['name']}.{ending}")
            write_text(written[-1], text)
    for name, figure in document["figures"].items():
        for ending, content in draw(figure).items():
            written.append(folder / f"{name}.{ending}")
            write_bytes(written[-1], content)
    return written
