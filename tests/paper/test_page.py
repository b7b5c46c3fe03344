"""The page of all items, from made-up runs."""

import json
import re
from pathlib import Path

import pytest

from cophenet.paper.documents import Document, write_document
from cophenet.paper.items import find_items
from cophenet.paper.page import results_page
from cophenet.paper.pipeline import reproduce
from cophenet.paper.plan import Settings, plan_runs

from .written import write_runs

RANK = Document("rank").to_json()


def test_the_page_has_every_item_and_keeps_the_reading(tmp_path):
    settings = Settings("laptop", ("digits",), (0,))
    items = find_items(("baselines", "rank"))
    write_runs([runs for item in items for runs in plan_runs(item, settings)], tmp_path / "runs")
    output = tmp_path / "results"
    output.mkdir()
    (output / "reading.md").write_text("What was found: **nothing**.\n")
    reproduce(
        ["rank", "baselines"],
        tmp_path / "runs",
        output,
        settings=settings,
        only_finished=True,
        tell=lambda _: None,
    )
    page = (output / "README.md").read_text()
    assert page.startswith("# The paper, reproduced\n\nWhat was found: **nothing**.\n")
    assert "[Claims of the paper, and what was found](claims.md)" in page
    for link in ("[CPCC of fifteen objectives](#baselines)", '<a id="baselines"></a>CPCC of fifteen'):
        assert link in page
    for file in ("baselines/baselines.svg", "rank/rank.svg"):
        assert f"]({file})" in page
        assert (output / file).is_file()
    assert (output / "rank/rank.md").read_text() in page
    assert "3 runs." in page
    assert page.index("fifteen objectives\n") < page.index("Flat against the rank loss\n")


def test_what_is_missing_is_counted_by_its_reason(tmp_path):
    missing = {"b/seed0": "no data", "b/seed1": "no data", "c/seed0": "not finished"}
    made = {"scale": "paper", "recipes": ("digits",), "seeds": (4,)}
    settings = ("epochs=3", "schedule={every: 2}")
    found = Document(
        "rank", runs=("a/seed0",), missing=missing, setup=("digits: mlp.",), settings=settings, **made
    )
    write_document(found, tmp_path)
    page = results_page(tmp_path)
    options = "--scale paper --recipe digits --seeds 4, --set epochs=3 --set 'schedule={every: 2}'"
    expected = f"`cophenet reproduce rank {options}`; beyond the paper. 1 run. "
    assert f"{expected}2 left out: no data. 1 left out: not finished.\n\ndigits: mlp.\n" in page


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{}", "has format None, this version reads 2"),
        (json.dumps({**RANK, "format": 1}), "has format 1, this version reads 2"),
        (json.dumps({k: v for k, v in RANK.items() if k != "settings"}), "lacks settings"),
        (json.dumps(Document("fine").to_json()), "is of item 'fine'"),
        ("<html>", "is no JSON document"),
    ],
)
def test_a_foreign_document_is_told_and_the_pages_are_made_without_it(tmp_path, content, why):
    (tmp_path / "out/rank").mkdir(parents=True)
    (tmp_path / "out/rank/rank.json").write_text(content)
    lines = []
    settings = Settings("laptop", ("digits",))
    outcome = reproduce(
        ["shuffled"],
        tmp_path / "runs",
        tmp_path / "out",
        settings=settings,
        only_finished=True,
        tell=lines.append,
    )
    assert outcome.failed == {}
    assert f"left out of the page: {tmp_path}/out/rank/rank.json {why}" in lines
    page = (tmp_path / "out/README.md").read_text()
    assert "(#shuffled)" in page
    assert "(#rank)" not in page
    assert (tmp_path / "out/claims.md").read_text().startswith("# Claims")


def test_nothing_names_a_folder_of_a_machine():
    results = Path(__file__).resolve().parents[2] / "docs" / "results"
    assert sorted(results.glob("*/*.json"))
    for path in results.rglob("*"):
        if path.suffix in (".json", ".md", ".csv", ".tex", ".svg"):
            assert not re.search(r"/(home|tmp|work|Users|root)/", path.read_text()), path
