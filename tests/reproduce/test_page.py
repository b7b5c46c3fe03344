"""The page of all items, from made-up runs."""

from cophenet.report.paper_item import write_item
from cophenet.reproduce.items import find_items
from cophenet.reproduce.make import reproduce
from cophenet.reproduce.page import results_page
from cophenet.reproduce.runs import Settings, arm_runs

from .written import write_runs


def test_the_page_has_every_item_and_keeps_the_reading(tmp_path):
    settings = Settings("laptop", ("digits",), (0,))
    items = find_items(("baselines", "rank"))
    write_runs([arm for item in items for arm in arm_runs(item, settings)], tmp_path / "runs")
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
    assert "2 runs." in page
    assert page.index("fifteen objectives\n") < page.index("Flat against the rank loss\n")


def test_what_is_missing_is_counted_by_its_reason(tmp_path):
    document = {
        "item": "rank",
        "title": "flat against rank",
        "paper": [],
        "scale": "paper",
        "settings": ["epochs=3", "batch_size=64"],
        "runs": ["a/seed0"],
        "missing": {"b/seed0": "no data", "b/seed1": "no data", "c/seed0": "not finished"},
        "tables": [],
        "figures": {},
    }
    write_item(document, tmp_path / "rank")
    page = results_page(tmp_path)
    command = "`cophenet reproduce rank --scale paper --set epochs=3 --set batch_size=64`"
    expected = f"{command}; beyond the paper. 1 run. "
    assert expected + "2 left out: no data. 1 left out: not finished." in page
