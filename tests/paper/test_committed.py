"""What stands in docs/results is what its JSON documents give."""

import json
import re
from pathlib import Path

import pytest
from PIL import Image

from cophenet.paper.claims import claims_page
from cophenet.paper.documents import unread
from cophenet.paper.item import checksum
from cophenet.paper.page import results_page
from cophenet.paper.tables import write_table

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"
DOCUMENTS = sorted(RESULTS.glob("*/*.json"))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_tables_and_figures_are_those_of_the_document(path):
    document = json.loads(path.read_text())
    files = {path}
    for table in document["tables"]:
        texts = write_table(table)
        assert set(texts) == {"md", "csv", "tex"}
        for ending, text in texts.items():
            files.add(path.parent / f"{table['name']}.{ending}")
            assert (path.parent / f"{table['name']}.{ending}").read_text() == text
    for name, figure in document["figures"].items():
        svg, png = (path.parent / f"{name}.{ending}" for ending in ("svg", "png"))
        files |= {svg, png}
        # Not the bytes of the drawing: another version of matplotlib may draw otherwise.
        assert f"<dc:description>{checksum(figure)}</dc:description>" in "".join(svg.read_text().split())
        with Image.open(png) as picture:
            assert picture.info["Description"] == checksum(figure)
    assert set(path.parent.iterdir()) == files


def test_the_pages_are_those_of_the_documents():
    assert DOCUMENTS
    assert unread(RESULTS) == {}
    assert (RESULTS / "claims.md").read_text() == claims_page(RESULTS)
    assert (RESULTS / "README.md").read_text() == results_page(RESULTS)


def test_nothing_names_a_folder_of_a_machine():
    for path in RESULTS.rglob("*"):
        if path.suffix in (".json", ".md", ".csv", ".tex", ".svg"):
            assert not re.search(r"/(home|tmp|work|Users|root)/", path.read_text()), path
