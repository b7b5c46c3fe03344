"""The page of all items, from made-up runs."""

import json
import re
from pathlib import Path

import pytest

from cophenet.paper.documents import Document, write_document
from cophenet.paper.items import find_items
from cophenet.paper.page import claims_page, item_page, results_page
from cophenet.paper.pipeline import reproduce
from cophenet.paper.plan import Settings, plan_runs

from .written import observed, write_runs

pytestmark = pytest.mark.usefixtures("undrawn")

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
    assert "[All claims](claims.md)" in page
    links = (
        "[CPCC of fifteen objectives](baselines/README.md)",
        "[Flat against the rank loss](rank/README.md)",
    )
    assert page.index(links[0]) < page.index(links[1])
    assert "Not run: `data`, `testcpcc`, " in page
    for name in ("baselines", "rank"):
        own = (output / name / "README.md").read_text()
        assert f"]({name}.svg)" in own
        assert (output / name / f"{name}.svg").is_file()
        assert (output / name / f"{name}.md").read_text() in own
    assert "3 runs." in (output / "rank/README.md").read_text()


def test_what_is_missing_is_counted_by_its_reason():
    missing = {"b/seed0": "no data", "b/seed1": "no data", "c/seed0": "not finished"}
    made = {"scale": "paper", "recipes": ("digits",), "seeds": (4,)}
    settings = ("epochs=3", "schedule={every: 2}")
    found = Document(
        "rank",
        runs=("a/seed0",),
        missing=missing,
        setup={"digits": "digits: mlp."},
        settings=settings,
        **made,
    )
    page = item_page(found)
    options = "--scale paper --recipe digits --seeds 4, --set epochs=3 --set 'schedule={every: 2}'"
    expected = f"`cophenet reproduce rank {options}`; beyond the paper. 1 run. "
    assert f"{expected}2 left out: no data. 1 left out: not finished.\n\ndigits: mlp.\n" in page


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{}", "has format None, this version reads 3"),
        (json.dumps({**RANK, "format": 1}), "has format 1, this version reads 3"),
        (json.dumps({k: v for k, v in RANK.items() if k != "settings"}), "lacks settings"),
        (json.dumps({**RANK, "x": 1, "y": 2}), "has x, y, which this version does not know"),
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
    assert "`shuffled`" in page
    assert "(rank/README.md)" not in page
    assert (tmp_path / "out/claims.md").read_text().startswith("# Claims")


def test_nothing_names_a_folder_of_a_machine():
    results = Path(__file__).resolve().parents[2] / "docs" / "results"
    assert sorted(results.glob("*/*.json"))
    for path in results.rglob("*"):
        if path.suffix in (".json", ".md", ".csv", ".tex", ".svg"):
            assert not re.search(r"/(home|tmp|work|Users|root)/", path.read_text()), path


def test_the_page_leads_with_what_holds_and_what_to_use(tmp_path):
    numbers = {"flat": (0.67, 0.57, 0.30), "l2": (0.80, 0.58, 0.61), "fastft": (0.79, 0.59, 0.62)}
    metrics = ("source/map/coarse", "source/map/fine", "cpcc/l2")
    rows = [
        ("cifar100", name, metric, tuple(number + seed / 1000 for seed in range(3)), {"pretrained": "frozen"})
        for name, values in numbers.items()
        for metric, number in zip(metrics, values, strict=True)
    ]
    found = observed(*rows)
    write_document(Document("testcpcc", title="TestCPCC", observations=found), tmp_path)
    write_document(Document("fine", title="fine metrics", observations=found), tmp_path)
    write_document(Document("scatter", title="CPCC against means", observations=found), tmp_path)
    page = results_page(tmp_path)
    holds, others = page.split("## What does not hold")
    assert (
        "- **CPCC training embeds the tree: TestCPCC far above Flat's.** cifar100, laptop scale, frozen "
        in holds
    )
    assert "OT-CPCC is better than l2-CPCC on fine tasks" in holds
    assert "Flat is the upper bound of fine metrics" in others
    assert "![TestCPCC](testcpcc/testcpcc.svg)" in page
    uses = others.split("## What to use")[1]
    assert "| retrieval of the same coarse class | l2 80.10 (0.10) |" in uses
    assert "| retrieval of the same class | FastFT 59.10 (0.10) |" in uses
    assert "![CPCC against means](scatter/scatter.svg)" in uses


def test_data_that_an_item_is_not_about_decides_nothing_of_its_claims(tmp_path):
    numbers = {"flat": (0.2, 0.21, 0.22), "l2": (0.6, 0.61, 0.62)}
    rows = [
        ("cifar100", name, "cpcc/l2", by_seed, {"pretrained": "frozen"}) for name, by_seed in numbers.items()
    ]
    write_document(Document("testcpcc", observations=observed(*rows)), tmp_path)
    rows = [("glosses", name, "cpcc/l2", by_seed) for name, by_seed in numbers.items()]
    write_document(Document("objectives", observations=observed(*rows)), tmp_path)
    (line,) = [line for line in claims_page(tmp_path).splitlines() if "| CPCC training embeds" in line]
    assert "glosses" not in line
    assert "holds" in line


def test_documents_of_other_scales_are_judged_beside(tmp_path):
    for scale, emd in (("laptop", 0.5), ("scratch", 0.1)):
        options = {"scale": scale}
        found = observed(
            ("cifar100", "flat", "cpcc/l2", (0.2, 0.21, 0.22), options),
            ("cifar100", "emd", "cpcc/l2", (emd, emd, emd), options),
        )
        folder = tmp_path if scale == "laptop" else tmp_path / scale
        write_document(Document("testcpcc", scale=scale, observations=found), folder)
    (line,) = (x for x in claims_page(tmp_path).splitlines() if x.startswith("| CPCC training embeds"))
    verdicts = line.split(" | ")[4].removesuffix(" |").split("<br>")
    assert [text.partition(" (")[0] for text in verdicts] == [
        "laptop scale: holds",
        "scratch scale: does not hold",
    ]
